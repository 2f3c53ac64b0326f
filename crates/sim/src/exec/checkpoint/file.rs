//! The file of a checkpoint: a line that names it, lengths, a digest, and then the parts.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;

use sha2::{Digest, Sha256};

use super::Checkpoint;

/// The first line: the format and its version.
const NAME: &[u8] = b"rackmem checkpoint 9\n";

/// Parts of a file, at most: the head, the program and the memory of each node.
const MOST_PARTS: u64 = 2 + (1 << 16);

impl Checkpoint {
    /// Writes what a file of it has.
    ///
    /// # Errors
    /// Those of the file.
    pub fn write(&self, file: &mut dyn Write) -> io::Result<()> {
        let parts = [self.text.as_bytes(), &self.program];
        let parts: Vec<&[u8]> =
            parts.into_iter().chain(self.contents.iter().map(Vec::as_slice)).collect();
        let mut lengths = (parts.len() as u64).to_le_bytes().to_vec();
        lengths.extend(parts.iter().flat_map(|part| (part.len() as u64).to_le_bytes()));
        let mut digest = Sha256::new_with_prefix(&lengths);
        parts.iter().for_each(|part| digest.update(part));
        file.write_all(NAME)?;
        file.write_all(&lengths)?;
        file.write_all(&digest.finalize())?;
        parts.iter().try_for_each(|part| file.write_all(part))
    }

    /// Reads a file.
    ///
    /// # Errors
    /// It is not there, is no checkpoint, or is not as it was written.
    pub fn read(path: &Path) -> Result<Checkpoint, String> {
        Checkpoint::of_file(File::open(path).map_err(|error| error.to_string())?)
    }

    /// Reads a file that is open.
    ///
    /// # Errors
    /// It is no checkpoint, or is not as it was written.
    pub fn of_file(file: File) -> Result<Checkpoint, String> {
        let metadata = file.metadata().map_err(|error| error.to_string())?;
        // A pipe does not say how much there is.
        let size = if metadata.is_file() { metadata.len() } else { u64::MAX };
        read(&mut BufReader::new(file), size)
    }
}

/// From so many bytes.
fn read(file: &mut impl Read, size: u64) -> Result<Checkpoint, String> {
    let damaged = |_: io::Error| "is not whole: take the checkpoint again".to_owned();
    let mut name = [0; NAME.len()];
    let is_named = file.read_exact(&mut name).is_ok() && name.starts_with(b"rackmem checkpoint ");
    if !is_named {
        return Err("is no checkpoint of `rackmem sim exec --checkpoint`".to_owned());
    }
    if name != NAME {
        return Err("is a checkpoint of another version: take it again".to_owned());
    }
    let mut digest = Sha256::new();
    let count = read_length(file, &mut digest).map_err(damaged)?;
    if !(3..=MOST_PARTS).contains(&count) {
        return Err(damaged(io::ErrorKind::InvalidData.into()));
    }
    let lengths = (0..count).map(|_| read_length(file, &mut digest));
    let lengths = lengths.collect::<io::Result<Vec<u64>>>().map_err(damaged)?;
    let total = lengths.iter().try_fold(0, |sum: u64, &length| sum.checked_add(length));
    if total.is_none_or(|total| total > size) {
        return Err(damaged(io::ErrorKind::UnexpectedEof.into()));
    }
    let mut expected = [0; 32];
    file.read_exact(&mut expected).map_err(damaged)?;
    let mut parts = Vec::new();
    for length in lengths {
        let mut part = Vec::new();
        file.take(length).read_to_end(&mut part).map_err(damaged)?;
        if part.len() as u64 != length {
            return Err(damaged(io::ErrorKind::UnexpectedEof.into()));
        }
        digest.update(&part);
        parts.push(part);
    }
    if digest.finalize()[..] != expected {
        return Err(damaged(io::ErrorKind::InvalidData.into()));
    }
    let contents = parts.split_off(2);
    let program = parts.pop().unwrap_or_default();
    let head = String::from_utf8(parts.pop().unwrap_or_default());
    let head = head.map_err(|error| format!("head: {error}"));
    let read = head.and_then(|head| Checkpoint::read_from(head, program, contents));
    read.map_err(|wrong| format!("{wrong}; no checkpoint has that: take it again"))
}

fn read_length(file: &mut impl Read, digest: &mut Sha256) -> io::Result<u64> {
    let mut bytes = [0; 8];
    file.read_exact(&mut bytes)?;
    digest.update(bytes);
    Ok(u64::from_le_bytes(bytes))
}
