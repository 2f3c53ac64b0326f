//! Reading and writing.

use std::io::{Read, SeekFrom};

use super::names::AT_FDCWD;
use super::pipes::{read_event, write_event};
use super::polling::{IN, OUT};
use super::sockets::{Reading, Writing, scatter};
use super::table::{APPEND, NONBLOCK, Open, OpenFile};
use super::{Context, Errno, Files, Place, Process, Result, Way, number};
use crate::kernel::signals::{Info, SIGPIPE};
use crate::kernel::synthetic::Made;
use crate::kernel::{OpenMode, Opened, misc};
use crate::space::{PAGE, TOP};

/// The most that one call moves, as for Linux; buffers of the kernel need not be larger.
pub(super) const MOST_BYTES: u64 = 0x7fff_f000;

/// Bytes moved at once: the size of the kernel's buffer.
pub(super) const CHUNK: u64 = 1 << 20;

/// Bytes that an event counter or timer is read and written in.
const WORD: usize = 8;

/// `SEEK_CUR`.
const CURRENT: u64 = 1;

/// Pieces of `readv` and `writev`, at most (`IOV_MAX`).
const MOST_PIECES: u64 = 1024;

impl Files {
    pub(super) fn read(
        &mut self,
        context: &mut Context<'_>,
        descriptor: u64,
        pieces: &[(u64, u64)],
        at: Option<u64>,
    ) -> Result {
        self.transfer(context, descriptor, pieces, at, Way::Read)
    }

    pub(super) fn write(
        &mut self,
        context: &mut Context<'_>,
        descriptor: u64,
        pieces: &[(u64, u64)],
        at: Option<u64>,
    ) -> Result {
        self.transfer(context, descriptor, pieces, at, Way::Write)
    }

    /// Moves pieces of user memory one after the other, until one is not moved whole; from and to the place `at` of the
    /// file if it is given. An error counts only if nothing was moved before.
    fn transfer(
        &mut self,
        context: &mut Context<'_>,
        descriptor: u64,
        pieces: &[(u64, u64)],
        at: Option<u64>,
        way: Way,
    ) -> Result {
        let file = self.checked(context, descriptor, at, way)?;
        pieces.iter().try_for_each(|&piece| check_area(piece))?;
        self.check_length(file, pieces, way)?;
        let is_empty = pieces.len() > 1 && pieces.iter().all(|piece| piece.1 == 0);
        if matches!(self.table.by_number(file)?.open, Open::Folder(..)) && !is_empty {
            return Err(Errno::ISDIR);
        }
        if matches!(self.table.by_number(file)?.open, Open::Socket(_)) && at.is_none() {
            return match way {
                Way::Read if pieces.iter().all(|piece| piece.1 == 0) => Ok(0),
                Way::Read => self.read_socket(context, descriptor, pieces, Reading::default()),
                Way::Write => self.write_socket(context, descriptor, pieces, Writing::default()),
            };
        }
        if let (OpenFile { open: Open::Pipe(number), flags, .. }, None) =
            (self.table.by_number(file)?, at)
        {
            let pipe = (*number, *flags & NONBLOCK == 0);
            return match way {
                Way::Read => self.read_pieces(context, pipe, pieces),
                Way::Write => self.write_pieces(context, pipe, pieces),
            };
        }
        if matches!((&self.table.by_number(file)?.open, way), (Open::Event { .. }, Way::Read)) {
            return self.read_count(context, file, pieces);
        }
        let mut moved = 0;
        for &(start, length) in pieces {
            let length = length.min(MOST_BYTES - moved);
            let mut done = 0;
            while done < length {
                let wanted = (length - done).min(CHUNK);
                let place = (start.wrapping_add(done), wanted);
                let at = at.map(|at| at.saturating_add(moved + done));
                let step = match way {
                    Way::Read => self.read_step(context, file, place, at),
                    Way::Write => self.write_step(context, file, place, at),
                };
                let count = match step {
                    Ok(count) => count,
                    Err(errno) if moved + done == 0 => return Err(errno),
                    Err(_) => {
                        context.wait = None;
                        0
                    }
                };
                done += count;
                if count < wanted {
                    return Ok(moved + done);
                }
            }
            moved += done;
        }
        Ok(moved)
    }

    /// The open file of a descriptor that is about to be read or written, from the place `at` if it is given.
    fn checked(
        &mut self,
        context: &mut Context<'_>,
        descriptor: u64,
        at: Option<u64>,
        way: Way,
    ) -> Result<u32> {
        if at.is_some_and(|at| at > i64::MAX as u64) {
            return Err(Errno::INVAL);
        }
        let file = self.named(context, descriptor)?;
        let open = self.table.by_number(file)?;
        if at.is_some() && !open.open.has_places() && !matches!(open.open, Open::Folder(..)) {
            return Err(Errno::SPIPE);
        }
        if open.permits(way) { Ok(file) } else { Err(Errno::BADF) }
    }

    /// That a file which is read or written in words, or not at all, can do so with pieces of this length.
    fn check_length(&mut self, file: u32, pieces: &[(u64, u64)], way: Way) -> Result<()> {
        let is_short = matches!(pieces, [(_, length)] if *length < WORD as u64);
        match (&self.table.by_number(file)?.open, way) {
            _ if pieces.is_empty() => Ok(()),
            (Open::Event { .. }, _) | (Open::Timer(_), Way::Read) if is_short => Err(Errno::INVAL),
            (Open::Epoll(_), _) | (Open::Timer(_), Way::Write) => Err(Errno::INVAL),
            _ => Ok(()),
        }
    }

    /// `readv`, `writev` and their variants with a place, and with flags.
    pub(super) fn vectored(&mut self, context: &mut Context<'_>, number: u64) -> Result {
        let [descriptor, list, count, _, _, flags] = context.args();
        let (way, flags) = match number {
            number::READV | number::PREADV => (Way::Read, 0),
            number::WRITEV | number::PWRITEV => (Way::Write, 0),
            number::PREADV2 => (Way::Read, flags),
            _ => (Way::Write, flags),
        };
        let at = named_place(number, context);
        let file = self.checked(context, descriptor, at, way)?;
        let pieces = pieces(context, list, count)?;
        if pieces.iter().all(|piece| piece.1 == 0) {
            return Ok(0);
        }
        let added = added_flags(flags, way)?;
        let open = self.table.by_number(file)?;
        let before = open.flags;
        open.flags |= added;
        let result = self.transfer(context, descriptor, &pieces, at, way);
        self.table.by_number(file)?.flags = before;
        result
    }

    fn read_step(
        &mut self,
        context: &mut Context<'_>,
        file: u32,
        (to, length): (u64, u64),
        at: Option<u64>,
    ) -> Result {
        let mut buffer = vec![0; length as usize];
        let count = self.fetch(context, file, &mut buffer, at)?;
        let written = context.write_some(to, &buffer[..count]);
        let taken = written.unwrap_or(0);
        if taken == count || at.is_some() {
            return written.map(|taken| taken as u64);
        }
        let open = &self.table.by_number(file)?.open;
        if matches!(open, Open::Input) {
            return self.keep_input(&buffer[..count], taken);
        }
        if open.has_places() {
            self.seek(file, (taken as u64).wrapping_sub(count as u64), CURRENT)?;
        }
        written.map(|taken| taken as u64)
    }

    /// Keeps bytes of standard input of which `taken` have a place in user memory. As of a pipe on Linux, whole pages
    /// are moved.
    fn keep_input(&mut self, bytes: &[u8], taken: usize) -> Result {
        let moved = taken - taken % PAGE as usize;
        for &byte in bytes[moved..].iter().rev() {
            self.input.push_front(byte);
        }
        if moved > 0 { Ok(moved as u64) } else { Err(Errno::FAULT) }
    }

    /// Reads an event counter into pieces of user memory, which have room for it together.
    fn read_count(
        &mut self,
        context: &mut Context<'_>,
        file: u32,
        pieces: &[(u64, u64)],
    ) -> Result {
        let mut word = [0; 8];
        let room = pieces.iter().fold(0, |sum: u64, piece| sum.saturating_add(piece.1));
        if room < word.len() as u64 {
            return Err(Errno::INVAL);
        }
        self.fetch(context, file, &mut word, None)?;
        scatter(context, pieces, &word)?;
        Ok(word.len() as u64)
    }

    /// Reads into a buffer of the kernel, from the place `at` of a file if it is given.
    pub(super) fn fetch(
        &mut self,
        context: &mut Context<'_>,
        file: u32,
        buffer: &mut [u8],
        at: Option<u64>,
    ) -> Result<usize> {
        let OpenFile { open, flags, .. } = self.table.by_number(file)?;
        let waits = *flags & NONBLOCK == 0;
        Ok(match (open, at) {
            (Open::File(file), None) => file.read(buffer)?,
            (Open::File(file), Some(at)) => file.read_at(buffer, at)?,
            (Open::Text(text, next), _) => {
                let from = at.map_or(*next, |at| at as usize).min(text.len());
                let count = buffer.len().min(text.len() - from);
                buffer[..count].copy_from_slice(&text[from..from + count]);
                *next = if at.is_none() { from + count } else { *next };
                count
            }
            (Open::Null, _) => 0,
            (Open::Zero | Open::Full, _) => buffer.len(),
            (Open::Random, _) => {
                misc::fill_random(&mut self.random, buffer);
                buffer.len()
            }
            (Open::Folder(..), _) => return Err(Errno::ISDIR),
            (Open::Path(_), _) => return Err(Errno::BADF),
            (_, Some(_)) => return Err(Errno::SPIPE),
            (Open::Input, _) if self.input.is_empty() => context.host.input(buffer)?,
            (Open::Input, _) => self.input.read(buffer)?,
            (Open::Output(_), _) => return Err(Errno::BADF),
            (Open::Event { count, one_by_one }, _) => {
                let count = read_event(context, (count, *one_by_one), waits, buffer)?;
                self.note_change(file, OUT);
                count
            }
            (Open::Timer(timer), _) => timer.read(context, waits, buffer)?,
            // Pipes and sockets are read straight into user memory.
            (Open::Pipe(_) | Open::Socket(_) | Open::Epoll(_), _) => return Err(Errno::INVAL),
        })
    }

    fn write_step(
        &mut self,
        context: &mut Context<'_>,
        file: u32,
        (from, length): (u64, u64),
        at: Option<u64>,
    ) -> Result {
        let mut buffer = vec![0; length as usize];
        let count = context.read_some(from, &mut buffer)?;
        let is_event = matches!(self.table.by_number(file)?.open, Open::Event { .. });
        if is_event && count < buffer.len().min(WORD) {
            return Err(Errno::FAULT);
        }
        self.put(context, file, &buffer[..count], at).map(|count| count as u64)
    }

    /// Writes from a buffer of the kernel, to the place `at` of a file if it is given.
    pub(super) fn put(
        &mut self,
        context: &mut Context<'_>,
        file: u32,
        buffer: &[u8],
        at: Option<u64>,
    ) -> Result<usize> {
        let is_in_memory =
            matches!(&self.table.by_number(file)?.open, Open::File(file) if file.is_in_memory());
        if is_in_memory && buffer.len() as u64 > self.room(context) {
            return Err(Errno::NOSPC);
        }
        let OpenFile { open, flags, .. } = self.table.by_number(file)?;
        let waits = *flags & NONBLOCK == 0;
        match (open, at) {
            (Open::File(to), None) => {
                if *flags & APPEND != 0 {
                    to.seek(SeekFrom::End(0))?;
                }
                to.write(buffer)?;
            }
            (Open::File(to), Some(at)) => {
                // As on Linux, a place means nothing where all is appended.
                let at = if *flags & APPEND != 0 { to.size_bytes()? } else { at };
                to.write_at(buffer, at)?;
            }
            (Open::Null | Open::Zero | Open::Random, _) => {}
            (Open::Full, _) => return Err(Errno::NOSPC),
            (Open::Text(..), _) => return Err(Errno::ACCES),
            (Open::Folder(..) | Open::Path(_), _) => return Err(Errno::BADF),
            (_, Some(_)) => return Err(Errno::SPIPE),
            (Open::Input, _) => return Err(Errno::BADF),
            (Open::Output(stream), _) => {
                let written = context.host.output(*stream, buffer).map_err(Errno::from);
                if written == Err(Errno::PIPE) {
                    context.raised = Some(Info::by_write(SIGPIPE));
                }
                written?;
            }
            (Open::Pipe(number), _) => {
                let pipe = (*number, waits);
                return self.write_pipe(context, pipe, buffer);
            }
            (&mut Open::Socket(number), _) => {
                let socket = (number, waits);
                return self.put_in_socket(context, socket, buffer, true);
            }
            (Open::Event { count, .. }, _) => {
                let count = write_event(context, count, waits, buffer)?;
                self.note_change(file, IN);
                return Ok(count);
            }
            (Open::Timer(_) | Open::Epoll(_), _) => return Err(Errno::INVAL),
        }
        Ok(buffer.len())
    }

    pub(super) fn seek(&mut self, file: u32, offset: u64, whence: u64) -> Result {
        const SET: u64 = 0;
        const END: u64 = 2;
        const DATA: u64 = 3;
        const HOLE: u64 = 4;
        let place = |from: u64| from.checked_add_signed(offset as i64).ok_or(Errno::INVAL);
        let open = &mut self.table.by_number(file)?.open;
        if whence as u32 as u64 > HOLE {
            return Err(Errno::INVAL);
        }
        match open {
            Open::File(file) => {
                let position = match whence {
                    SET if offset > i64::MAX as u64 => return Err(Errno::INVAL),
                    SET => SeekFrom::Start(offset),
                    CURRENT => SeekFrom::Current(offset as i64),
                    END => SeekFrom::End(offset as i64),
                    // Which parts are holes is the host's matter: all is data, up to the end.
                    DATA | HOLE => match file.size_bytes()? {
                        size if offset >= size => return Err(Errno::NXIO),
                        size => SeekFrom::Start(if whence == DATA { offset } else { size }),
                    },
                    _ => return Err(Errno::INVAL),
                };
                Ok(file.seek(position)?)
            }
            Open::Text(text, next) => {
                let to = match whence {
                    SET => offset,
                    CURRENT => place(*next as u64)?,
                    END => place(text.len() as u64)?,
                    _ => return Err(Errno::INVAL),
                };
                *next = usize::try_from(to).map_err(|_| Errno::INVAL)?;
                Ok(to)
            }
            Open::Folder(_, _, next) if whence == SET => {
                *next = usize::try_from(offset).map_err(|_| Errno::INVAL)?;
                Ok(offset)
            }
            Open::Null | Open::Zero | Open::Full | Open::Random => Ok(0),
            // As on Linux since 6.0: they have one place.
            Open::Event { .. } | Open::Timer(_) | Open::Epoll(_) => Ok(0),
            Open::Folder(_, _, next) if whence == CURRENT => {
                let to = place(*next as u64)?;
                *next = usize::try_from(to).map_err(|_| Errno::INVAL)?;
                Ok(to)
            }
            Open::Folder(..) => Err(Errno::INVAL),
            _ => Err(Errno::SPIPE),
        }
    }

    /// `ftruncate`.
    pub(super) fn truncate(&mut self, descriptor: u64, length: u64) -> Result {
        if length > i64::MAX as u64 {
            return Err(Errno::INVAL);
        }
        let file = self.table.file(descriptor)?;
        match &mut file.open {
            Open::File(_) if file.flags & 3 == 0 => Err(Errno::INVAL),
            Open::File(open) => {
                open.set_size(length)?;
                Ok(0)
            }
            _ => Err(Errno::INVAL),
        }
    }

    /// `truncate`.
    pub(super) fn truncate_named(
        &mut self,
        context: &mut Context<'_>,
        process: &Process<'_>,
    ) -> Result {
        let [path, length, ..] = context.args();
        if length > i64::MAX as u64 {
            return Err(Errno::INVAL);
        }
        let name = self.name(context, AT_FDCWD, path)?;
        match self.made(context, process, &name) {
            Some(Ok(Made::Descriptor(descriptor))) => {
                return self.truncate_open(context, descriptor, length);
            }
            Some(Ok(Made::Folder(_))) => return Err(Errno::ISDIR),
            Some(made) => return made.and(Err(Errno::INVAL)),
            None => {}
        }
        let mode = OpenMode { write: true, ..OpenMode::default() };
        let Opened::File(file, _) = context.host.open(&name, mode)? else {
            return Err(Errno::INVAL);
        };
        file.set_len(length)?;
        Ok(0)
    }

    /// What `truncate` has changed.
    pub(in crate::kernel) fn truncated(
        &mut self,
        context: &mut Context<'_>,
        process: &Process<'_>,
    ) -> Option<Place> {
        let [path, length, ..] = context.args();
        let name = self.name(context, AT_FDCWD, path).ok()?;
        let inode = match self.made(context, process, &name) {
            Some(Ok(Made::Descriptor(descriptor))) => {
                self.table.any_file(descriptor).ok()?.status.inode
            }
            Some(_) => return None,
            None => context.host.status(&name, true).ok()?.inode,
        };
        Some(Place { inode, from: length, to: u64::MAX, begin: length, reads: false })
    }

    /// `fallocate`: room, or zeros. Modes that move bytes are missing, as in some file systems.
    pub(super) fn allocate(
        &mut self,
        descriptor: u64,
        mode: u64,
        (begin, length): (u64, u64),
    ) -> Result {
        const PUNCH_HOLE: u32 = 2;
        const ZERO_RANGE: u32 = 0x10;
        let mode = mode as u32;
        let file = self.table.file(descriptor)?;
        if begin > i64::MAX as u64 || length == 0 || length > i64::MAX as u64 {
            return Err(Errno::INVAL);
        }
        let kinds = mode & !KEEP_SIZE;
        if !matches!(kinds, 0 | PUNCH_HOLE | ZERO_RANGE) || mode == PUNCH_HOLE {
            return Err(Errno::OPNOTSUPP);
        }
        if !file.permits(Way::Write) {
            return Err(Errno::BADF);
        }
        let open = match &mut file.open {
            Open::File(open) => open,
            Open::Pipe(_) => return Err(Errno::SPIPE),
            _ => return Err(Errno::NODEV),
        };
        let end = begin.checked_add(length).filter(|&end| end <= i64::MAX as u64);
        let end = end.ok_or(Errno::FBIG)?;
        let size = open.size_bytes()?;
        if kinds != 0 && begin < size {
            open.zero(begin, end.min(size))?;
        }
        if mode & KEEP_SIZE == 0 && size < end {
            open.set_size(end)?;
        }
        Ok(0)
    }
}

/// Mode of `fallocate`: the file does not grow.
const KEEP_SIZE: u32 = 1;

/// Whether a mode of `fallocate` makes bytes zero, and not room alone.
pub(super) const fn is_zeroing(mode: u64) -> bool {
    mode as u32 & !KEEP_SIZE != 0
}

/// Flags of `preadv2` and `pwritev2` (`linux/fs.h`).
mod rwf {
    pub const HIGH_PRIORITY: u32 = 1;
    pub const SYNC: u32 = 2 | 4;
    pub const NO_WAIT: u32 = 8;
    pub const APPEND: u32 = 16;
}

/// The flags that a call of `preadv2` or `pwritev2` adds to those of its open file. Written bytes need no flush, so
/// that some add nothing.
fn added_flags(flags: u64, way: Way) -> Result {
    let flags = flags as u32;
    if flags & !(rwf::HIGH_PRIORITY | rwf::SYNC | rwf::NO_WAIT | rwf::APPEND) != 0 {
        return Err(Errno::OPNOTSUPP);
    }
    let waits_not = if flags & rwf::NO_WAIT == 0 { 0 } else { NONBLOCK };
    let appends = if flags & rwf::APPEND == 0 || way == Way::Read { 0 } else { APPEND };
    Ok(waits_not | appends)
}

/// The place in the file that a call on pieces of memory names; `None` for that of the file.
pub(super) fn named_place(number: u64, context: &Context<'_>) -> Option<u64> {
    const HERE: u64 = u64::MAX;
    let place = context.args()[3];
    match number {
        number::PREADV | number::PWRITEV => Some(place),
        number::PREADV2 | number::PWRITEV2 if place != HERE => Some(place),
        _ => None,
    }
}

/// Whether a call writes to the end of the file, whatever place it names.
pub(super) fn goes_to_end(number: u64, context: &Context<'_>) -> bool {
    number == number::PWRITEV2 && context.args()[5] as u32 & rwf::APPEND != 0
}

/// That a piece of memory, its start and length, is where a program may have any.
pub(super) fn check_area((start, length): (u64, u64)) -> Result<()> {
    match start.checked_add(length) {
        Some(end) if end <= TOP => Ok(()),
        _ => Err(Errno::FAULT),
    }
}

/// The `struct iovec`s at `address`: starts and lengths of pieces.
pub(super) fn pieces(
    context: &mut Context<'_>,
    address: u64,
    count: u64,
) -> Result<Vec<(u64, u64)>> {
    if count > MOST_PIECES {
        return Err(Errno::INVAL);
    }
    let pieces: Vec<(u64, u64)> = (0..count)
        .map(|index| {
            let at = address.wrapping_add(16 * index);
            match (context.read_u64(at)?, context.read_u64(at.wrapping_add(8))?) {
                (_, length) if length > i64::MAX as u64 => Err(Errno::INVAL),
                piece => Ok(piece),
            }
        })
        .collect::<Result<_>>()?;
    pieces.iter().try_for_each(|&piece| check_area(piece))?;
    Ok(pieces)
}
