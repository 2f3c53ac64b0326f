//! [`Host`] on this machine: its standard streams and files.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Component, Path, PathBuf};

use crate::kernel::{Host, OpenMode, Stream};

/// Destination of a program's standard streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Output {
    /// To the standard streams of this process; warnings to its standard error.
    #[default]
    PassOn,
    /// Into the outcome. Standard input is empty then.
    Capture,
}

/// Standard streams and files of the process; time as the engine counts it.
pub struct LocalHost {
    /// The time that the program sees.
    pub now_ns: u64,
    /// Standard output, if it is captured.
    pub stdout: Vec<u8>,
    /// Standard error, if output is captured.
    pub stderr: Vec<u8>,
    /// Warnings so far, once each.
    pub warnings: Vec<String>,
    /// Names of the files that the program has looked for, to read and not write them, as it said them; and whether the
    /// file was there at first.
    pub inputs: BTreeMap<String, bool>,
    harts: usize,
    output: Output,
    folder: Option<PathBuf>,
}

impl LocalHost {
    /// A host for a program with `harts` harts. Relative names of files begin in `folder`, the only one
    /// in which files may be written. `None` is the current folder, in which nothing may be written.
    pub fn new(harts: usize, output: Output, folder: Option<PathBuf>) -> LocalHost {
        LocalHost {
            now_ns: 0,
            stdout: Vec::new(),
            stderr: Vec::new(),
            warnings: Vec::new(),
            inputs: BTreeMap::new(),
            harts: harts.max(1),
            output,
            folder,
        }
    }

    /// Whether a file may be written: only under the folder of the run.
    fn may_write(&self, path: &Path) -> bool {
        let climbs = path.components().any(|part| part == Component::ParentDir);
        match &self.folder {
            Some(folder) => !climbs && (path.is_relative() || path.starts_with(folder)),
            None => false,
        }
    }
}

impl Host for LocalHost {
    fn now_ns(&mut self) -> u64 {
        self.now_ns
    }

    fn output(&mut self, stream: Stream, bytes: &[u8]) -> io::Result<()> {
        match (self.output, stream) {
            (Output::Capture, Stream::Out) => self.stdout.extend_from_slice(bytes),
            (Output::Capture, Stream::Err) => self.stderr.extend_from_slice(bytes),
            (Output::PassOn, Stream::Out) => {
                let mut stdout = io::stdout().lock();
                stdout.write_all(bytes)?;
                stdout.flush()?;
            }
            (Output::PassOn, Stream::Err) => io::stderr().write_all(bytes)?,
        }
        Ok(())
    }

    fn input(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.output {
            Output::Capture => Ok(0),
            Output::PassOn => io::stdin().read(buffer),
        }
    }

    fn open(&mut self, name: &str, mode: OpenMode) -> io::Result<File> {
        let path = Path::new(name);
        if mode.write && !self.may_write(path) {
            self.warn(&format!(
                "{} is outside of the run's folder: it may not be written",
                path.display()
            ));
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        }
        let path = match &self.folder {
            Some(folder) => folder.join(path),
            None => path.to_owned(),
        };
        let file = OpenOptions::new()
            .read(mode.read)
            .write(mode.write && !mode.append)
            .append(mode.write && mode.append)
            .truncate(mode.write && mode.truncate && !mode.append)
            .create(mode.write && mode.create)
            .create_new(mode.write && mode.create_new)
            .open(path);
        if mode.read && !mode.write {
            self.inputs.entry(name.to_owned()).or_insert(file.is_ok());
        }
        file
    }

    fn harts(&self) -> usize {
        self.harts
    }

    fn warn(&mut self, message: &str) {
        if self.warnings.iter().any(|earlier| earlier == message) {
            return;
        }
        if self.output == Output::PassOn {
            eprintln!("warning: {message}");
        }
        self.warnings.push(message.to_owned());
    }
}
