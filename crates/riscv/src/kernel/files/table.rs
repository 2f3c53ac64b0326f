//! Descriptors of a process, and the open files that they stand for.

use std::collections::BTreeMap;
use std::fs::File;

use super::{Errno, Result};
use crate::kernel::{Entry, Kind, Status, Stream};

/// Open files of a process, at most.
const MOST_FILES: usize = 1024;

pub(super) const WRITE_ONLY: u64 = 1;
pub(super) const READ_WRITE: u64 = 2;
pub(super) const APPEND: u64 = 0o2000;
pub(super) const NONBLOCK: u64 = 0o4000;
pub(super) const CLOEXEC: u64 = 0o200_0000;

/// Kinds of open files.
pub(super) enum Open {
    Input,
    Output(Stream),
    File(File),
    /// A text that the kernel has made up, and the place of the next byte.
    Text(Vec<u8>, usize),
    Null,
    Zero,
    Full,
    Random,
    /// A folder by its name without links, what is in it, and the place of the next entry.
    Folder(String, Vec<Entry>, usize),
}

/// An open file: descriptors that are copies share it.
pub(super) struct OpenFile {
    pub open: Open,
    /// Flags of `open` that `fcntl` shows.
    pub flags: u64,
    pub status: Status,
}

/// What a number of a process's descriptors stands for.
#[derive(Clone, Copy)]
pub(super) struct Descriptor {
    file: u32,
    pub close_on_exec: bool,
}

/// The descriptors of a process.
pub(super) struct Table {
    descriptors: Vec<Option<Descriptor>>,
    files: BTreeMap<u32, OpenFile>,
    last: u32,
}

/// The status of what is no file.
pub(super) const fn device(kind: Kind) -> Status {
    Status { kind, size: 0, inode: 1 }
}

impl Default for Table {
    fn default() -> Self {
        let mut table = Table { descriptors: Vec::new(), files: BTreeMap::new(), last: 0 };
        let streams = [Open::Input, Open::Output(Stream::Out), Open::Output(Stream::Err)];
        for open in streams {
            // There is room for three.
            let _ = table
                .add(OpenFile { open, flags: READ_WRITE, status: device(Kind::Device) }, false);
        }
        table
    }
}

impl Table {
    pub(super) fn slot(&mut self, descriptor: u64) -> Result<&mut Descriptor> {
        let slot = self.descriptors.get_mut(descriptor as u32 as usize);
        slot.and_then(Option::as_mut).ok_or(Errno::BADF)
    }

    pub(super) fn file(&mut self, descriptor: u64) -> Result<&mut OpenFile> {
        let number = self.slot(descriptor)?.file;
        self.files.get_mut(&number).ok_or(Errno::BADF)
    }

    pub(super) fn get(&mut self, descriptor: u64) -> Result<&mut Open> {
        Ok(&mut self.file(descriptor)?.open)
    }

    /// The lowest free descriptor from `lowest` on.
    fn free(&mut self, lowest: u64) -> Result<usize> {
        let lowest = usize::try_from(lowest).ok().filter(|&lowest| lowest < MOST_FILES);
        let lowest = lowest.ok_or(Errno::INVAL)?;
        let is_free = |at: &usize| self.descriptors.get(*at).is_none_or(Option::is_none);
        let free = (lowest..MOST_FILES).find(is_free).ok_or(Errno::MFILE)?;
        if free >= self.descriptors.len() {
            self.descriptors.resize(free + 1, None);
        }
        Ok(free)
    }

    /// A new open file; returns its descriptor.
    pub(super) fn add(&mut self, file: OpenFile, close_on_exec: bool) -> Result {
        let free = self.free(0)?;
        self.last += 1;
        self.files.insert(self.last, file);
        self.descriptors[free] = Some(Descriptor { file: self.last, close_on_exec });
        Ok(free as u64)
    }

    /// Another descriptor, `lowest` or above, of the same open file.
    pub(super) fn duplicate(&mut self, descriptor: u64, lowest: u64) -> Result {
        let file = self.slot(descriptor)?.file;
        let free = self.free(lowest)?;
        self.descriptors[free] = Some(Descriptor { file, close_on_exec: false });
        Ok(free as u64)
    }

    /// `dup3`.
    pub(super) fn replace(&mut self, descriptor: u64, by: u64, flags: u64) -> Result {
        let file = self.slot(descriptor)?.file;
        let (descriptor, by) = (descriptor as u32, by as u32);
        if descriptor == by || flags & !CLOEXEC != 0 {
            return Err(Errno::INVAL);
        }
        let at = by as usize;
        if at >= MOST_FILES {
            return Err(Errno::BADF);
        }
        let _ = self.close(by.into());
        if at >= self.descriptors.len() {
            self.descriptors.resize(at + 1, None);
        }
        self.descriptors[at] = Some(Descriptor { file, close_on_exec: flags & CLOEXEC != 0 });
        Ok(by.into())
    }

    pub(super) fn close(&mut self, descriptor: u64) -> Result<()> {
        let Descriptor { file, .. } = *self.slot(descriptor)?;
        self.descriptors[descriptor as u32 as usize] = None;
        let is_used = self.descriptors.iter().flatten().any(|other| other.file == file);
        if !is_used {
            self.files.remove(&file);
        }
        Ok(())
    }
}
