//! Moving bytes from one file to another: `sendfile`, `copy_file_range`, `splice` and `tee`.

use super::regular::Regular;
use super::table::{APPEND, NONBLOCK, Open, OpenFile};
use super::transfer::{CHUNK, MOST_BYTES};
use super::{Context, Errno, Files, Result, Way, number};

/// The last place in a file.
const LAST: u64 = i64::MAX as u64;

/// A file on one side of a copy.
#[derive(Clone, Copy)]
struct Side {
    /// Number of the open file.
    file: u32,
    /// Address of the place in the file, which the call moves on; 0 for that of the file.
    offset: u64,
}

impl Open {
    /// Whether places in it can be named.
    pub(super) const fn has_places(&self) -> bool {
        matches!(
            self,
            Open::File(_) | Open::Text(..) | Open::Null | Open::Zero | Open::Full | Open::Random
        )
    }

    /// Whether bytes can be moved from it by places: Linux has no such way for `/dev/null`.
    const fn gives_bytes(&self) -> bool {
        self.has_places() && !matches!(self, Open::Null)
    }

    /// Whether bytes can be moved to it.
    const fn takes_bytes(&self) -> bool {
        self.has_places() || matches!(self, Open::Pipe(_) | Open::Output(_) | Open::Socket(_))
    }
}

impl Files {
    /// A file that was opened for that.
    fn side(&mut self, file: u32, way: Way) -> Result<&mut OpenFile> {
        let file = self.table.by_number(file)?;
        if file.permits(way) { Ok(file) } else { Err(Errno::BADF) }
    }

    /// The number of the pipe, if an open file is one of its ends.
    fn pipe_number(&mut self, file: u32) -> Result<Option<u32>> {
        Ok(match &self.table.by_number(file)?.open {
            Open::Pipe(number) => Some(*number),
            _ => None,
        })
    }

    /// The place from which on a copy reads or writes.
    fn begin(&mut self, context: &mut Context<'_>, side: Side) -> Result {
        const CURRENT: u64 = 1;
        match side.offset {
            0 => self.seek(side.file, 0, CURRENT),
            offset => match context.read_u64(offset)? {
                place if place > LAST => Err(Errno::INVAL),
                place => Ok(place),
            },
        }
    }

    /// Moves the place on.
    fn end(&mut self, context: &mut Context<'_>, side: Side, place: u64) -> Result<()> {
        const SET: u64 = 0;
        match side.offset {
            0 => self.seek(side.file, place, SET).map(|_| ()),
            offset => context.write_words(offset, &[place]),
        }
    }

    /// Writes what there is room for: a pipe takes no more than it holds.
    fn put_some(
        &mut self,
        context: &mut Context<'_>,
        file: u32,
        bytes: &[u8],
        at: Option<u64>,
    ) -> Result<usize> {
        let most = match self.pipe_number(file)? {
            Some(number) => self.table.pipe(number)?.room().max(1),
            None => bytes.len(),
        };
        self.put(context, file, &bytes[..bytes.len().min(most)], at)
    }

    /// Copies up to `length` bytes from a place of a file, to a place of another one or to where that one is. Returns
    /// their number; an error counts only if nothing was copied before.
    fn copy(
        &mut self,
        context: &mut Context<'_>,
        (from, start): (u32, u64),
        (to, at): (u32, Option<u64>),
        length: u64,
    ) -> Result {
        let mut buffer = vec![0; length.min(CHUNK) as usize];
        let mut moved = 0;
        while moved < length {
            let wanted = (length - moved).min(CHUNK) as usize;
            let place = start.saturating_add(moved);
            let at = at.map(|at| at.saturating_add(moved));
            let step = self
                .fetch(context, from, &mut buffer[..wanted], Some(place))
                .and_then(|count| self.put_some(context, to, &buffer[..count], at));
            let done = match step {
                Err(errno) if moved == 0 => return Err(errno),
                Err(_) => {
                    context.wait = None;
                    break;
                }
                Ok(done) => done,
            };
            moved += done as u64;
            if done < wanted {
                break;
            }
        }
        Ok(moved)
    }

    /// `sendfile`.
    pub(super) fn send_file(&mut self, context: &mut Context<'_>) -> Result {
        let [to, from, offset, count, ..] = context.args();
        let from = self.named(context, from)?;
        let side = Side { file: from, offset };
        if offset != 0 {
            context.read_u64(offset)?;
        }
        let open = &self.side(from, Way::Read)?.open;
        let has_places = open.has_places() || matches!(open, Open::Folder(..));
        let gives_bytes = open.gives_bytes();
        if offset != 0 && !has_places {
            return Err(Errno::SPIPE);
        }
        let to = self.named(context, to)?;
        let OpenFile { open, flags, .. } = self.side(to, Way::Write)?;
        let is_appended = *flags & APPEND != 0 && !matches!(open, Open::Pipe(_));
        if is_appended || !open.takes_bytes() || !gives_bytes {
            return Err(Errno::INVAL);
        }
        let is_socket = matches!(open, Open::Socket(_));
        let count = count.min(MOST_BYTES);
        loop {
            let start = self.begin(context, side)?;
            let left = count.saturating_sub(context.moved);
            let moved = self.copy(context, (from, start), (to, None), left)?;
            self.end(context, side, start.saturating_add(moved))?;
            if !is_socket {
                return Ok(moved);
            }
            // The place has moved on when a call for a socket that is full is made again.
            context.moved += moved;
            if moved == 0 || context.moved == count {
                return Ok(context.moved);
            }
        }
    }

    /// `copy_file_range`.
    pub(super) fn copy_range(&mut self, context: &mut Context<'_>) -> Result {
        let [from, from_offset, to, to_offset, length, flags] = context.args();
        let (from, to) = (self.named(context, from)?, self.named(context, to)?);
        let sides =
            [Side { file: from, offset: from_offset }, Side { file: to, offset: to_offset }];
        for Side { offset, .. } in sides {
            if offset != 0 {
                context.read_u64(offset)?;
            }
        }
        if flags as u32 != 0 {
            return Err(Errno::INVAL);
        }
        self.may_copy(from, to)?;
        let (start, at) = (self.begin(context, sides[0])?, self.begin(context, sides[1])?);
        let rest = self.size_bytes(from).map_or(0, |size| size.saturating_sub(start));
        let length = length.min(MOST_BYTES).min(rest);
        let inodes =
            [from, to].map(|file| self.table.by_number(file).map(|file| file.status.inode));
        if inodes[0] == inodes[1] && start.abs_diff(at) < length {
            return Err(Errno::INVAL);
        }
        let moved = self.copy(context, (from, start), (to, Some(at)), length)?;
        for (side, begin) in sides.into_iter().zip([start, at]) {
            if moved > 0 {
                self.end(context, side, begin.saturating_add(moved))?;
            }
        }
        Ok(moved)
    }

    /// Whether `copy_file_range` copies between these: both are regular files of one file system.
    fn may_copy(&mut self, from: u32, to: u32) -> Result<()> {
        let mut systems = [None, None];
        for (file, system) in [from, to].into_iter().zip(&mut systems) {
            *system = match &self.table.by_number(file)?.open {
                Open::Folder(..) => return Err(Errno::ISDIR),
                Open::File(Regular::Disk(_)) => Some("disk"),
                Open::File(Regular::Memory(_)) => Some("memory"),
                Open::Text(..) => Some("kernel"),
                _ => None,
            };
        }
        if systems.contains(&None) {
            return Err(Errno::INVAL);
        }
        self.side(from, Way::Read)?;
        if self.side(to, Way::Write)?.flags & APPEND != 0 {
            return Err(Errno::BADF);
        }
        if systems[0] == systems[1] { Ok(()) } else { Err(Errno::XDEV) }
    }

    /// `splice`, and `tee`, which leaves the bytes where they are.
    pub(super) fn splice(&mut self, context: &mut Context<'_>, number: u64) -> Result {
        const FLAGS: u32 = 0xf;
        const NO_WAIT: u32 = 2;
        let [from, from_offset, to, to_offset, length, flags] = match (number, context.args()) {
            (number::TEE, [from, to, length, flags, ..]) => [from, 0, to, 0, length, flags],
            (_, args) => args,
        };
        let flags = flags as u32;
        if flags & !FLAGS != 0 {
            return Err(Errno::INVAL);
        }
        if length == 0 {
            return Ok(0);
        }
        let from = Side { file: self.named(context, from)?, offset: from_offset };
        let to = Side { file: self.named(context, to)?, offset: to_offset };
        let waits = self.side(from.file, Way::Read)?.flags & NONBLOCK == 0;
        self.side(to.file, Way::Write)?;
        let ends = (self.pipe_number(from.file)?, self.pipe_number(to.file)?);
        let moved = match ends {
            (Some(from), Some(to)) if from == to => return Err(Errno::INVAL),
            (Some(_), _) if from.offset != 0 => return Err(Errno::SPIPE),
            (_, Some(_)) if to.offset != 0 => return Err(Errno::SPIPE),
            (Some(pipe), other) if number != number::TEE || other.is_some() => {
                self.splice_out(context, (pipe, waits), to, (length, number != number::TEE))
            }
            (None, Some(_)) if number != number::TEE => self.splice_in(context, from, to, length),
            _ => return Err(Errno::INVAL),
        };
        if flags & NO_WAIT != 0 {
            context.wait = None;
        }
        moved
    }

    /// Moves bytes out of a pipe, or copies them.
    fn splice_out(
        &mut self,
        context: &mut Context<'_>,
        (pipe, waits): (u32, bool),
        to: Side,
        (length, takes): (u64, bool),
    ) -> Result {
        let OpenFile { open, flags, .. } = self.table.by_number(to.file)?;
        let is_pipe = matches!(open, Open::Pipe(_));
        let has_places = open.has_places();
        if !open.takes_bytes() || !is_pipe && *flags & APPEND != 0 || to.offset != 0 && !has_places
        {
            return Err(Errno::INVAL);
        }
        let at = if has_places { Some(self.begin(context, to)?) } else { None };
        let has_writers = self.table.has_end(pipe, Way::Write);
        let bytes = self.table.pipe(pipe)?.first(length.min(CHUNK) as usize);
        if bytes.is_empty() {
            return if has_writers { Err(context.would_block(waits)) } else { Ok(0) };
        }
        let count = self.put_some(context, to.file, &bytes, at)?;
        if takes {
            let pipe_from = self.table.pipe(pipe)?;
            let pages = pipe_from.page_count();
            pipe_from.remove(count);
            // As on Linux, where each page that gets empty wakes writers, also if there was room before.
            if pipe_from.page_count() < pages {
                self.note_pipe(pipe, Way::Write, 0);
            }
        }
        context.has_changed = true;
        if let Some(at) = at {
            self.end(context, to, at.saturating_add(count as u64))?;
        }
        Ok(count as u64)
    }

    /// Moves bytes into a pipe.
    fn splice_in(
        &mut self,
        context: &mut Context<'_>,
        from: Side,
        to: Side,
        length: u64,
    ) -> Result {
        if !self.table.by_number(from.file)?.open.gives_bytes() {
            return Err(Errno::INVAL);
        }
        let start = self.begin(context, from)?;
        let length = length.min(CHUNK);
        let moved = self.copy(context, (from.file, start), (to.file, None), length)?;
        self.end(context, from, start.saturating_add(moved))?;
        Ok(moved)
    }
}
