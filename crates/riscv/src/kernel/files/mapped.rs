//! Files as shared mappings of them need them.

use std::os::unix::fs::FileExt;

use super::table::{APPEND, Open, OpenFile, READ_WRITE, WRITE_ONLY};
use super::{Context, Errno, Files, Result, number, transfer};
use crate::space::PAGE;

/// An open file that is about to be mapped.
#[derive(Clone, Copy, Debug)]
pub(in crate::kernel) struct Mapped {
    /// Its number among the open files.
    pub file: u32,
    /// Tells files apart.
    pub inode: u64,
    pub may_write: bool,
}

/// The part of a file with which a call is about.
#[derive(Clone, Copy, Debug)]
pub(in crate::kernel) struct Place {
    pub inode: u64,
    pub from: u64,
    pub to: u64,
    /// Where the call itself begins: a write behind the end of a file changes what is before it, too.
    pub begin: u64,
    /// Whether it reads there; otherwise it writes.
    pub reads: bool,
}

impl Files {
    /// The file of a descriptor that is about to be mapped from an offset on, to be written or not.
    pub(in crate::kernel) fn mapped(
        &mut self,
        descriptor: u64,
        offset: u64,
        writes: bool,
    ) -> Result<Mapped> {
        if offset % PAGE != 0 || offset > i64::MAX as u64 {
            return Err(Errno::INVAL);
        }
        let file = self.table.slot(descriptor)?.file;
        let OpenFile { open: Open::File(_), flags, status } = self.table.file(descriptor)? else {
            return Err(Errno::NODEV);
        };
        let may_write = *flags & 3 == READ_WRITE;
        if *flags & 3 == WRITE_ONLY || writes && !may_write {
            return Err(Errno::ACCES);
        }
        Ok(Mapped { file, inode: status.inode, may_write })
    }

    /// Keeps these files open, and closes others that no descriptor stands for.
    pub(in crate::kernel) fn keep(&mut self, files: Vec<u32>) {
        self.table.keep(files);
    }

    /// The length of a mapped file; `None` if it is none of the host's.
    pub(in crate::kernel) fn mapped_size(&mut self, file: u32) -> Result<Option<u64>> {
        match self.table.by_number(file) {
            Some(Open::File(file)) => Ok(Some(file.metadata()?.len())),
            _ => Ok(None),
        }
    }

    /// A part of a mapped file; zeros behind its end.
    pub(in crate::kernel) fn mapped_bytes(
        &mut self,
        file: u32,
        offset: u64,
        length: u64,
    ) -> Result<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(length).map_err(|_| Errno::NOMEM)?];
        let Some(Open::File(file)) = self.table.by_number(file) else { return Ok(bytes) };
        let there = file.metadata()?.len().saturating_sub(offset).min(length);
        file.read_exact_at(&mut bytes[..there as usize], offset)?;
        Ok(bytes)
    }

    /// Makes a part of a mapped file be these bytes.
    pub(in crate::kernel) fn update_mapped(
        &mut self,
        file: u32,
        offset: u64,
        bytes: &[u8],
    ) -> Result<()> {
        let theirs = self.mapped_bytes(file, offset, bytes.len() as u64)?;
        if let Some(Open::File(file)) = self.table.by_number(file)
            && theirs != bytes
        {
            file.write_all_at(bytes, offset)?;
        }
        Ok(())
    }

    /// The part of a file with which a call is about; `None` if it is none of the host's, or the call another one.
    pub(in crate::kernel) fn place(
        &mut self,
        number: u64,
        context: &mut Context<'_>,
    ) -> Option<Place> {
        let [descriptor, a1, a2, a3, ..] = context.args();
        let length = match number {
            number::READ | number::WRITE | number::PREAD64 | number::PWRITE64 => a2,
            number::READV | number::WRITEV | number::PREADV | number::PWRITEV => {
                let pieces = transfer::pieces(context, a1, a2).ok()?;
                pieces.iter().fold(0, |sum, &(_, length)| length.saturating_add(sum))
            }
            number::FTRUNCATE => u64::MAX,
            _ => return None,
        };
        let reads =
            matches!(number, number::READ | number::PREAD64 | number::READV | number::PREADV);
        let OpenFile { open: Open::File(file), flags, status } =
            self.table.file(descriptor).ok()?
        else {
            return None;
        };
        let size = file.metadata().ok()?.len();
        let from = match number {
            // A file that grows has zeros there, as the pages have.
            number::FTRUNCATE if a1 >= size => return None,
            number::FTRUNCATE => a1,
            number::PREAD64 | number::PWRITE64 | number::PREADV | number::PWRITEV => a3,
            _ if *flags & APPEND != 0 && !reads => size,
            _ => std::io::Seek::stream_position(&mut **file).ok()?,
        };
        // A write behind the end makes zeros before it.
        let first = if reads { from } else { from.min(size) };
        let to = from.saturating_add(length);
        Some(Place { inode: status.inode, from: first, to, begin: from, reads })
    }

    /// All of a file that a call has emptied as it opened it.
    pub(in crate::kernel) fn emptied(&mut self, descriptor: u64) -> Option<Place> {
        match self.table.file(descriptor).ok()? {
            OpenFile { open: Open::File(_), status, .. } => {
                let inode = status.inode;
                Some(Place { inode, from: 0, to: u64::MAX, begin: 0, reads: false })
            }
            _ => None,
        }
    }
}
