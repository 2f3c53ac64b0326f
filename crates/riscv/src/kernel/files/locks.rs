//! Locks on files: of open files (`flock`), and of ranges, which the process (POSIX) or an open file (OFD) has.
//!
//! A process is alone in its node, and nodes know nothing of each other's locks.

use serde::{Deserialize, Serialize};

use super::table::{Open, OpenFile};
use super::{Context, Errno, Files, Result, Way, number};
use crate::kernel::saved::{Checked, require};

/// Locks of a process, at most: more are `ENOLCK`.
const MOST_LOCKS: usize = 1 << 16;

/// The last byte that a range can have.
const LAST_BYTE: u64 = i64::MAX as u64;

const SHARED: u16 = 0;
const EXCLUSIVE: u16 = 1;
const UNLOCKED: u16 = 2;

/// The owner of a lock on a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Owner {
    Process,
    /// Number of the open file.
    File(u32),
}

/// A lock of a whole file, which an open file has.
#[derive(Debug, Serialize, Deserialize)]
struct Whole {
    inode: u64,
    file: u32,
    is_exclusive: bool,
}

/// A lock of the bytes from `from` to `last`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Range {
    inode: u64,
    owner: Owner,
    is_exclusive: bool,
    from: u64,
    last: u64,
}

impl Range {
    fn excludes(&self, other: &Range) -> bool {
        self.inode == other.inode
            && self.owner != other.owner
            && (self.is_exclusive || other.is_exclusive)
            && self.from <= other.last
            && other.from <= self.last
    }

    fn is_of(&self, other: &Range) -> bool {
        (self.inode, self.owner) == (other.inode, other.owner)
    }

    /// The parts of it that another range leaves.
    fn without(self, other: &Range) -> Vec<Range> {
        if other.last < self.from || self.last < other.from {
            return vec![self];
        }
        let before = (self.from < other.from).then(|| Range { last: other.from - 1, ..self });
        let behind = (other.last < self.last).then(|| Range { from: other.last + 1, ..self });
        before.into_iter().chain(behind).collect()
    }
}

/// The locks of a process.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Locks {
    whole: Vec<Whole>,
    /// Owners of a file follow each other as they came; ranges of one owner ascend.
    ranges: Vec<Range>,
}

impl Locks {
    /// Checks what was read, where `is_open` says which open files there are.
    pub(super) fn check(&self, is_open: impl Fn(u32) -> bool) -> Checked {
        let Locks { whole, ranges } = self;
        require(whole.len() <= MOST_LOCKS && ranges.len() <= MOST_LOCKS, || {
            format!("locks: has more than {MOST_LOCKS} entries")
        })?;
        for (at, lock) in whole.iter().enumerate() {
            require(is_open(lock.file), || {
                format!("locks.whole[{at}].file: no open file has this number")
            })?;
        }
        for (at, lock) in ranges.iter().enumerate() {
            let has_owner = matches!(lock.owner, Owner::Process)
                || matches!(lock.owner, Owner::File(file) if is_open(file));
            require(has_owner && lock.from <= lock.last && lock.last <= LAST_BYTE, || {
                format!("locks.ranges[{at}]: nobody has a lock from {} to {}", lock.from, lock.last)
            })?;
        }
        Ok(())
    }

    /// The process has closed a descriptor of this file: its ranges are free, whichever descriptor locked them.
    pub(super) fn close_descriptor(&mut self, inode: u64) {
        self.ranges.retain(|lock| lock.inode != inode || lock.owner != Owner::Process);
    }

    /// An open file is gone, and its locks with it.
    pub(super) fn close_file(&mut self, file: u32) {
        self.whole.retain(|lock| lock.file != file);
        self.ranges.retain(|lock| lock.owner != Owner::File(file));
    }

    /// `flock`: `None` frees the file. Returns whether a lock is gone or weaker, or that another one is in the way.
    fn lock_whole(&mut self, file: u32, inode: u64, wanted: Option<bool>) -> (bool, bool) {
        let same = |lock: &Whole| lock.file == file && Some(lock.is_exclusive) == wanted;
        if self.whole.iter().any(same) {
            return (false, true);
        }
        // As on Linux, one of the other kind is given back first, even if the new one has to wait.
        let before = self.whole.len();
        self.whole.retain(|lock| lock.file != file);
        let has_changed = self.whole.len() < before;
        let Some(is_exclusive) = wanted else { return (has_changed, true) };
        let is_in_the_way =
            |lock: &Whole| lock.inode == inode && (lock.is_exclusive || is_exclusive);
        let is_free = !self.whole.iter().any(is_in_the_way);
        if is_free {
            self.whole.push(Whole { inode, file, is_exclusive });
        }
        (has_changed, is_free)
    }

    /// The first lock that is in the way of another one.
    fn in_the_way(&self, of: &Range) -> Option<Range> {
        self.ranges.iter().find(|lock| lock.excludes(of)).copied()
    }

    /// Whether the owner of a range has a lock on a part of it.
    fn has_some(&self, range: &Range) -> bool {
        let overlaps = |lock: &Range| lock.from <= range.last && range.from <= lock.last;
        self.ranges.iter().any(|lock| lock.is_of(range) && overlaps(lock))
    }

    /// Replaces what the owner has of a range by a lock, or by nothing. Nobody is in the way.
    fn set(&mut self, range: Range, is_locked: bool) -> Result<()> {
        const NOLCK: Errno = Errno(37);
        let at = self.ranges.iter().position(|lock| lock.is_of(&range));
        let (own, others): (Vec<Range>, Vec<Range>) =
            self.ranges.iter().partition(|lock| lock.is_of(&range));
        let mut own: Vec<Range> = own.into_iter().flat_map(|lock| lock.without(&range)).collect();
        own.extend(is_locked.then_some(range));
        own.sort_by_key(|lock| lock.from);
        own.dedup_by(|next, before| {
            let continues =
                next.from == before.last + 1 && next.is_exclusive == before.is_exclusive;
            if continues {
                before.last = next.last;
            }
            continues
        });
        if own.len() + others.len() > MOST_LOCKS {
            return Err(NOLCK);
        }
        self.ranges = others;
        let at = at.unwrap_or(self.ranges.len());
        self.ranges.splice(at..at, own);
        Ok(())
    }
}

/// A `struct flock`.
struct Asked {
    kind: u16,
    whence: u16,
    start: i64,
    length: i64,
    process: u32,
}

impl Asked {
    fn read(context: &mut Context<'_>, at: u64) -> Result<Asked> {
        let [kinds, start, length, process] =
            [0, 8, 16, 24].map(|field| context.read_u64(at.wrapping_add(field)));
        let kinds = kinds?;
        Ok(Asked {
            kind: kinds as u16,
            whence: (kinds >> 16) as u16,
            start: start? as i64,
            length: length? as i64,
            process: process? as u32,
        })
    }

    /// The first and the last byte, of a file of this size that is at this position.
    fn bytes(&self, position: u64, size: u64) -> Result<(u64, u64)> {
        const OVERFLOW: Errno = Errno(75);
        let base = match self.whence {
            0 => 0,
            1 => position,
            2 => size,
            _ => return Err(Errno::INVAL),
        };
        let start = i64::try_from(base).ok().and_then(|base| base.checked_add(self.start));
        let start = start.ok_or(OVERFLOW)?;
        if start < 0 {
            return Err(Errno::INVAL);
        }
        let (from, last) = match self.length {
            0 => (start, i64::MAX),
            1.. => (start, start.checked_add(self.length - 1).ok_or(OVERFLOW)?),
            _ => (start + self.length, start - 1),
        };
        match from < 0 {
            true => Err(Errno::INVAL),
            false => Ok((from as u64, last as u64)),
        }
    }
}

/// Commands of `fcntl` about locks.
const GETLK: u64 = 5;
const SETLK: u64 = 6;
const SETLKW: u64 = 7;
const OFD_GETLK: u64 = 36;
const OFD_SETLK: u64 = 37;
const OFD_SETLKW: u64 = 38;

impl Files {
    /// Calls about locks.
    pub(super) fn lock_call(&mut self, number: u64, context: &mut Context<'_>) -> Option<Result> {
        let [descriptor, command, ..] = context.args();
        let is_whole = number == number::FLOCK;
        let is_range =
            matches!(command, GETLK | SETLK | SETLKW | OFD_GETLK | OFD_SETLK | OFD_SETLKW);
        if !is_whole && (number != number::FCNTL || !is_range) {
            return None;
        }
        let file = match self.named(context, descriptor) {
            Ok(file) => file,
            Err(errno) => return Some(Err(errno)),
        };
        Some(match is_whole {
            true => self.lock_file(context, file, command),
            false => self.lock_range(context, file),
        })
    }

    /// `flock`.
    fn lock_file(&mut self, context: &mut Context<'_>, file: u32, operation: u64) -> Result {
        const NOT_WAITING: u32 = 4;
        let operation = operation as u32;
        let wanted = match operation & !NOT_WAITING {
            1 => Some(false),
            2 => Some(true),
            8 => None,
            _ => return Err(Errno::INVAL),
        };
        let inode = self.table.by_number(file)?.status.inode;
        let (has_changed, is_done) = self.table.locks.lock_whole(file, inode, wanted);
        context.has_changed |= has_changed;
        match is_done {
            true => Ok(0),
            false => Err(context.would_block(operation & NOT_WAITING == 0)),
        }
    }

    /// Locks of ranges by `fcntl`.
    fn lock_range(&mut self, context: &mut Context<'_>, file: u32) -> Result {
        let [descriptor, command, at, ..] = context.args();
        let OpenFile { open, status, .. } = self.table.by_number(file)?;
        let inode = status.inode;
        let (position, size) = match open {
            Open::File(file) => (file.position()?, file.size_bytes()?),
            _ => (0, 0),
        };
        let asked = Asked::read(context, at)?;
        let asks = matches!(command, GETLK | OFD_GETLK);
        if asks && asked.kind == UNLOCKED {
            return Err(Errno::INVAL);
        }
        let (from, last) = asked.bytes(position, size)?;
        let is_exclusive = match asked.kind {
            SHARED | UNLOCKED => false,
            EXCLUSIVE => true,
            _ => return Err(Errno::INVAL),
        };
        let of_file = matches!(command, OFD_GETLK | OFD_SETLK | OFD_SETLKW);
        let way = if is_exclusive { Way::Write } else { Way::Read };
        if !asks && asked.kind != UNLOCKED && !self.table.by_number(file)?.permits(way) {
            return Err(Errno::BADF);
        }
        if of_file && asked.process != 0 {
            return Err(Errno::INVAL);
        }
        let owner = if of_file { Owner::File(file) } else { Owner::Process };
        let range = Range { inode, owner, is_exclusive, from, last };
        if asks {
            return show(context, at, self.table.locks.in_the_way(&range));
        }
        let is_locked = asked.kind != UNLOCKED;
        if is_locked && self.table.locks.in_the_way(&range).is_some() {
            return Err(context.would_block(matches!(command, SETLKW | OFD_SETLKW)));
        }
        // One that becomes weaker lets others in, too.
        context.has_changed |= !is_exclusive && self.table.locks.has_some(&range);
        // As on Linux, the process has no lock by a descriptor that was closed while it waited.
        let is_closed = !of_file && self.table.file_number(descriptor) != Ok(file);
        self.table.locks.set(range, is_locked && !is_closed)?;
        if is_closed { Err(Errno::BADF) } else { Ok(0) }
    }
}

/// Tells of a lock that is in the way, or that none is.
fn show(context: &mut Context<'_>, at: u64, lock: Option<Range>) -> Result {
    const NO_PROCESS: u32 = -1i32 as u32;
    let Some(Range { owner, is_exclusive, from, last, .. }) = lock else {
        context.memory.write(at, &UNLOCKED.to_le_bytes())?;
        return Ok(0);
    };
    let kind = if is_exclusive { EXCLUSIVE } else { SHARED };
    let length = if last == LAST_BYTE { 0 } else { last - from + 1 };
    context.memory.write(at, &u32::from(kind).to_le_bytes())?;
    context.write_words(at.wrapping_add(8), &[from, length])?;
    let process = match owner {
        Owner::Process => crate::kernel::threads::PROCESS as u32,
        Owner::File(_) => NO_PROCESS,
    };
    context.memory.write(at.wrapping_add(24), &process.to_le_bytes())?;
    Ok(0)
}
