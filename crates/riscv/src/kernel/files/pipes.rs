//! Pipes and event counters: what threads wait for.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::fifos::Fifo;
use super::table::{CLOEXEC, NONBLOCK, Open, OpenFile, WRITE_ONLY, device};
use super::transfer::{CHUNK, MOST_BYTES};
use super::{Context, Errno, Files, Result, Way};
use crate::kernel::signals::{Info, SIGPIPE};
use crate::kernel::synthetic::FIRST_INODE;
use crate::kernel::{Kind, Status};

/// Bytes that a pipe holds before its writers wait.
const CAPACITY: usize = 1 << 16;

/// Bytes that a program may have a pipe hold.
const LARGEST: usize = 1 << 20;

/// Bytes that are written at once or not at all (`PIPE_BUF`).
const ATOMIC: usize = 4096;

/// Bytes on their way through a pipe.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Pipe {
    bytes: VecDeque<u8>,
    /// Its capacity, if the program has chosen one.
    #[serde(default)]
    resized: Option<usize>,
    /// One with a name is.
    pub fifo: Option<Fifo>,
}

impl Pipe {
    /// One with a name.
    pub(super) fn named(fifo: Fifo) -> Pipe {
        Pipe { fifo: Some(fifo), ..Pipe::default() }
    }

    /// Whether it has had a writer: readers of one with a name may come first.
    pub(super) fn had_writer(&self) -> bool {
        self.fifo.as_ref().is_none_or(|fifo| fifo.had_writer)
    }

    /// Whether somebody is about to open this end.
    pub(super) fn is_opened(&self, way: Way) -> bool {
        self.fifo.as_ref().is_some_and(|fifo| fifo.is_opened(way))
    }

    /// Bytes that it holds before its writers wait.
    pub(super) fn capacity(&self) -> usize {
        self.resized.unwrap_or(CAPACITY)
    }

    /// Has it hold about so many bytes; returns how many these are: as on Linux a power of two, from a page on.
    pub(super) fn resize(&mut self, bytes: u64) -> Result {
        let bytes = bytes as u32;
        if bytes > 1 << 31 {
            return Err(Errno::INVAL);
        }
        let capacity = (bytes as usize).next_power_of_two().max(ATOMIC);
        if capacity > LARGEST {
            return Err(Errno::PERM);
        }
        if capacity < self.bytes.len() {
            return Err(Errno::BUSY);
        }
        self.resized = Some(capacity);
        Ok(capacity as u64)
    }

    /// Bytes that it takes before its writers wait.
    pub(super) fn room(&self) -> usize {
        self.capacity().saturating_sub(self.bytes.len())
    }

    /// Bytes that wait to be read.
    pub(super) fn length(&self) -> usize {
        self.bytes.len()
    }

    /// The first bytes, which stay.
    pub(super) fn first(&self, most: usize) -> Vec<u8> {
        self.bytes.iter().copied().take(most).collect()
    }

    /// Takes the first bytes out.
    pub(super) fn remove(&mut self, count: usize) {
        self.bytes.drain(..count.min(self.bytes.len()));
    }

    pub(super) fn is_readable(&self) -> bool {
        !self.bytes.is_empty()
    }

    pub(super) fn is_writable(&self) -> bool {
        self.bytes.len() + ATOMIC <= self.capacity()
    }
}

impl Files {
    /// `pipe2`: writes the two descriptors.
    pub(super) fn pipe(&mut self, context: &mut Context<'_>, to: u64, flags: u64) -> Result {
        const DIRECT: u64 = 0o40000;
        if flags & !(CLOEXEC | NONBLOCK | DIRECT) != 0 {
            return Err(Errno::INVAL);
        }
        if self.table.room() < 2 {
            return Err(Errno::MFILE);
        }
        let pipe = self.table.new_pipe(Pipe::default());
        let mut ends = [0; 2];
        for (end, access) in ends.iter_mut().zip([0, WRITE_ONLY]) {
            let open = Open::Pipe(pipe);
            let flags_shown = access | flags & NONBLOCK;
            let inode = FIRST_INODE + u64::from(pipe);
            let status = Status::new(Kind::Pipe, inode);
            let file = OpenFile { open, flags: flags_shown, status };
            *end = self.table.add(file, flags & CLOEXEC != 0)?;
        }
        let bytes: Vec<u8> = ends.iter().flat_map(|&end| (end as u32).to_le_bytes()).collect();
        if let Err(fault) = context.memory.write(to, &bytes) {
            for end in ends {
                self.table.close(end)?;
            }
            return Err(fault.into());
        }
        Ok(0)
    }

    /// `eventfd2`.
    pub(super) fn event(&mut self, initial: u64, flags: u64) -> Result {
        const SEMAPHORE: u64 = 1;
        if flags & !(CLOEXEC | NONBLOCK | SEMAPHORE) != 0 {
            return Err(Errno::INVAL);
        }
        let open = Open::Event { count: initial & 0xffff_ffff, one_by_one: flags & SEMAPHORE != 0 };
        let flags_shown = super::table::READ_WRITE | flags & NONBLOCK;
        let file = OpenFile { open, flags: flags_shown, status: device(Kind::Device) };
        self.table.add(file, flags & CLOEXEC != 0)
    }

    /// Reads from a pipe into user memory; bytes that have no place there stay.
    pub(super) fn read_pipe(
        &mut self,
        context: &mut Context<'_>,
        (number, waits): (u32, bool),
        (to, length): (u64, u64),
    ) -> Result {
        let has_writers = self.table.has_end(number, Way::Write);
        let pipe = self.table.pipe(number)?;
        if !pipe.is_readable() && has_writers && length > 0 {
            return Err(context.would_block(waits));
        }
        let bytes = pipe.first(length as usize);
        context.memory.write(to, &bytes)?;
        pipe.remove(bytes.len());
        context.has_changed |= !bytes.is_empty();
        Ok(bytes.len() as u64)
    }

    /// Writes pieces of user memory to a pipe, as one: `PIPE_BUF` counts the bytes of all of them. An error counts only
    /// if nothing was written before.
    pub(super) fn write_pieces(
        &mut self,
        context: &mut Context<'_>,
        pipe: (u32, bool),
        pieces: &[(u64, u64)],
    ) -> Result {
        let length = pieces.iter().fold(0, |sum: u64, piece| sum.saturating_add(piece.1));
        if length == 0 {
            return Ok(0);
        }
        let most = self.room_of(context, pipe, length.min(MOST_BYTES) as usize)? as u64;
        let mut written: u64 = 0;
        for &(start, length) in pieces {
            let end = written.saturating_add(length).min(most);
            let from = start.wrapping_sub(written);
            while written < end {
                let mut buffer = vec![0; (end - written).min(CHUNK) as usize];
                match context.memory.read(from.wrapping_add(written), &mut buffer) {
                    Err(fault) if written == 0 => return Err(fault.into()),
                    Err(_) => return Ok(written),
                    Ok(()) => written += buffer.len() as u64,
                }
                self.table.pipe(pipe.0)?.bytes.extend(&buffer);
                context.has_changed = true;
            }
        }
        Ok(written)
    }

    pub(super) fn write_pipe(
        &mut self,
        context: &mut Context<'_>,
        pipe: (u32, bool),
        buffer: &[u8],
    ) -> Result<usize> {
        let count = self.room_of(context, pipe, buffer.len())?;
        self.table.pipe(pipe.0)?.bytes.extend(&buffer[..count]);
        context.has_changed |= count > 0;
        Ok(count)
    }

    /// How many of so many bytes a pipe takes now.
    fn room_of(
        &mut self,
        context: &mut Context<'_>,
        (number, waits): (u32, bool),
        length: usize,
    ) -> Result<usize> {
        if !self.table.has_end(number, Way::Read) {
            context.raised = Some(Info::by_write(SIGPIPE));
            return Err(Errno::PIPE);
        }
        let room = self.table.pipe(number)?.room();
        let is_full = if length <= ATOMIC { room < length } else { room == 0 };
        if is_full {
            return Err(context.would_block(waits));
        }
        // A writer that waits writes all: the pipe grows for the time being.
        Ok(if waits { length } else { length.min(room) })
    }
}

/// Reads an event counter: the count, or one of it.
pub(super) fn read_event(
    context: &mut Context<'_>,
    (count, one_by_one): (&mut u64, bool),
    waits: bool,
    buffer: &mut [u8],
) -> Result<usize> {
    let room = buffer.first_chunk_mut::<8>().ok_or(Errno::INVAL)?;
    if *count == 0 {
        return Err(context.would_block(waits));
    }
    let taken = if one_by_one { 1 } else { *count };
    *count -= taken;
    *room = taken.to_le_bytes();
    context.has_changed = true;
    Ok(8)
}

/// Adds to an event counter.
pub(super) fn write_event(
    context: &mut Context<'_>,
    count: &mut u64,
    waits: bool,
    buffer: &[u8],
) -> Result<usize> {
    let added = u64::from_le_bytes(*buffer.first_chunk::<8>().ok_or(Errno::INVAL)?);
    if added == u64::MAX {
        return Err(Errno::INVAL);
    }
    let Some(sum) = count.checked_add(added).filter(|&sum| sum < u64::MAX) else {
        return Err(context.would_block(waits));
    };
    *count = sum;
    context.has_changed = true;
    Ok(8)
}
