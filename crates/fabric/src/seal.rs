//! Sealed records: encrypted, authentic, in order.

use std::io;

/// Bytes before a record: its length.
const PREFIX_BYTES: usize = 2;

/// Bytes by which a record is longer than its contents.
const TAG_BYTES: usize = 16;

/// Longest contents of a record, which Noise bounds.
const MAX_PLAIN_BYTES: usize = 65_535 - TAG_BYTES;

/// Keys of one connection, both ways.
#[derive(Debug)]
pub struct Seal(snow::TransportState);

fn broken(error: snow::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("a record that is not authentic: {error}"))
}

impl Seal {
    pub(crate) fn new(keys: snow::TransportState) -> Seal {
        Seal(keys)
    }

    /// Appends `plain` as records. Without any bytes it is one empty record.
    ///
    /// # Errors
    /// The connection has had 2^64 records.
    pub fn seal(&mut self, plain: &[u8], wire: &mut Vec<u8>) -> io::Result<()> {
        let mut rest = plain;
        loop {
            let (now, later) = rest.split_at(rest.len().min(MAX_PLAIN_BYTES));
            let at = wire.len();
            wire.resize(at + PREFIX_BYTES + now.len() + TAG_BYTES, 0);
            let length =
                self.0.write_message(now, &mut wire[at + PREFIX_BYTES..]).map_err(broken)?;
            wire[at..at + PREFIX_BYTES].copy_from_slice(&(length as u16).to_le_bytes());
            rest = later;
            if rest.is_empty() {
                return Ok(());
            }
        }
    }

    /// Opens the next record of `wire`, appends its contents, and returns the bytes that it took; `None`: it is not
    /// whole.
    ///
    /// # Errors
    /// It was changed on its way, or comes from somebody else.
    pub fn open(&mut self, wire: &[u8], plain: &mut Vec<u8>) -> io::Result<Option<usize>> {
        let Some((prefix, rest)) = wire.split_first_chunk::<PREFIX_BYTES>() else {
            return Ok(None);
        };
        let length = usize::from(u16::from_le_bytes(*prefix));
        let Some(record) = rest.get(..length) else { return Ok(None) };
        let at = plain.len();
        plain.resize(at + length, 0);
        let opened = self.0.read_message(record, &mut plain[at..]);
        // Of a record that is not authentic nothing stays.
        plain.truncate(at + opened.as_ref().copied().unwrap_or(0));
        opened.map_err(broken)?;
        Ok(Some(PREFIX_BYTES + length))
    }
}
