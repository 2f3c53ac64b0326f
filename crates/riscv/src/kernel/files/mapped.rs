//! Files as shared mappings of them need them.

use super::regular::Regular;
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

    fn mapped_file(&mut self, file: u32) -> Option<&mut Regular> {
        match &mut self.table.by_number(file).ok()?.open {
            Open::File(file) => Some(file),
            _ => None,
        }
    }

    /// The name of a file, absolute; `None` if it has none.
    pub(in crate::kernel) fn mapped_name(&mut self, file: u32) -> Option<String> {
        match &self.table.by_number(file).ok()?.open {
            Open::File(Regular::Disk(file)) => Some(file.name().to_owned()),
            _ => None,
        }
    }

    /// Keeps these files open, and closes others that nothing else uses. Returns whether any is closed.
    pub(in crate::kernel) fn keep(&mut self, files: Vec<u32>) -> bool {
        self.table.keep(files)
    }

    /// The length of a mapped file; `None` if it is none of the host's.
    pub(in crate::kernel) fn mapped_size(&mut self, file: u32) -> Result<Option<u64>> {
        match self.mapped_file(file) {
            Some(file) => Ok(Some(file.size_bytes()?)),
            _ => Ok(None),
        }
    }

    /// The first place of a mapped file from `at` on whose page is in no hole; `None` if there is none to the end.
    pub(in crate::kernel) fn mapped_data(&mut self, file: u32, at: u64) -> Result<Option<u64>> {
        let Some(file) = self.mapped_file(file) else { return Ok(None) };
        Ok(file.next_data(at)?.map(|data| at.max(data / PAGE * PAGE)))
    }

    /// A part of a mapped file; zeros behind its end.
    pub(in crate::kernel) fn mapped_bytes(
        &mut self,
        file: u32,
        offset: u64,
        length: u64,
    ) -> Result<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(length).map_err(|_| Errno::NOMEM)?];
        let Some(file) = self.mapped_file(file) else { return Ok(bytes) };
        let mut filled = 0;
        while filled < bytes.len() {
            match file.read_at(&mut bytes[filled..], offset + filled as u64)? {
                0 => break,
                count => filled += count,
            }
        }
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
        if let Some(file) = self.mapped_file(file)
            && theirs != bytes
        {
            // A mapping writes at its offset, even if the file was opened to append.
            let appends = file.set_append(false)?;
            let written = file.write_at(bytes, offset);
            file.set_append(appends)?;
            written?;
        }
        Ok(())
    }

    /// Parts of files that a call reads or writes. Those are left out that are none of a regular file.
    pub(in crate::kernel) fn places(
        &mut self,
        number: u64,
        context: &mut Context<'_>,
    ) -> Vec<Place> {
        let [a0, a1, a2, a3, a4, _] = context.args();
        let mut at = |offset: u64| if offset == 0 { None } else { context.read_u64(offset).ok() };
        let sides = match number {
            number::SENDFILE => [Some((a1, at(a2), a3, true)), Some((a0, None, a3, false))],
            number::COPY_FILE_RANGE | number::SPLICE => {
                [Some((a0, at(a1), a4, true)), Some((a2, at(a3), a4, false))]
            }
            number::READ | number::PREAD64 | number::WRITE | number::PWRITE64 => {
                let at = matches!(number, number::PREAD64 | number::PWRITE64).then_some(a3);
                [Some((a0, at, a2, matches!(number, number::READ | number::PREAD64))), None]
            }
            number::READV
            | number::WRITEV
            | number::PREADV
            | number::PWRITEV
            | number::PREADV2
            | number::PWRITEV2 => [self.vector_side(number, context), None],
            number::FALLOCATE if transfer::is_zeroing(a1) => {
                [Some((a0, Some(a2), a3, false)), None]
            }
            // Of bytes that were there nothing changes.
            number::FALLOCATE => [Some((a0, Some(u64::MAX), 0, false)), None],
            number::FTRUNCATE => [Some((a0, Some(a1), u64::MAX, false)), None],
            _ => return Vec::new(),
        };
        let sides = sides.into_iter().flatten();
        let appends = !matches!(number, number::FALLOCATE | number::FTRUNCATE);
        sides.filter_map(|side| self.place(context, side, appends)).collect()
    }

    /// The part of a file with which a call on pieces of memory is about.
    fn vector_side(
        &mut self,
        number: u64,
        context: &mut Context<'_>,
    ) -> Option<(u64, Option<u64>, u64, bool)> {
        let [descriptor, list, count, ..] = context.args();
        let pieces = transfer::pieces(context, list, count).ok()?;
        let length = pieces.iter().fold(0, |sum: u64, piece| sum.saturating_add(piece.1));
        let reads = matches!(number, number::READV | number::PREADV | number::PREADV2);
        let at = match transfer::goes_to_end(number, context) {
            true => self.meant(context, descriptor).ok().and_then(|file| self.size_bytes(file)),
            false => transfer::named_place(number, context),
        };
        Some((descriptor, at, length, reads))
    }

    /// The size of an open file that is a regular one.
    pub(super) fn size_bytes(&mut self, file: u32) -> Option<u64> {
        match &mut self.table.by_number(file).ok()?.open {
            Open::File(file) => file.size_bytes().ok(),
            _ => None,
        }
    }

    /// So many bytes of the file of a descriptor: from a place on, or from where it is; and whether they are read. A
    /// call that `appends` writes to the end of a file that is open for that.
    fn place(
        &mut self,
        context: &Context<'_>,
        (descriptor, at, length, reads): (u64, Option<u64>, u64, bool),
        appends: bool,
    ) -> Option<Place> {
        let file = self.meant(context, descriptor).ok()?;
        let OpenFile { open: Open::File(file), flags, status } = self.table.by_number(file).ok()?
        else {
            return None;
        };
        let size = file.size_bytes().ok()?;
        let from = match at {
            _ if *flags & APPEND != 0 && appends && !reads => size,
            Some(at) => at,
            None => file.position().ok()?,
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
