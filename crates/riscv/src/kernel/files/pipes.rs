//! Pipes and event counters: what threads wait for.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::fifos::Fifo;
use super::polling::{IN, NORMAL_IN, NORMAL_OUT, OUT};
use super::table::{CLOEXEC, NONBLOCK, Open, OpenFile, WRITE_ONLY, device};
use super::transfer::{CHUNK, MOST_BYTES};
use super::{Context, Errno, Files, Result, Way};
use crate::kernel::saved::{Checked, require};
use crate::kernel::signals::{Info, SIGPIPE};
use crate::kernel::synthetic::FIRST_INODE;
use crate::kernel::{Kind, Status};

/// Bytes that a pipe holds before its writers wait.
const CAPACITY: usize = 1 << 16;

/// Bytes that a program may have a pipe hold.
const LARGEST: usize = 1 << 20;

/// Bytes of one of its pages, which are written at once or not at all (`PIPE_BUF`).
const PAGE: usize = 4096;

/// A page of a pipe: a write begins in the last one if its end has room there, and otherwise on a new one.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Page {
    /// Places of the bytes in it that were not read yet.
    begin: usize,
    end: usize,
}

/// Bytes on their way through a pipe.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Pipe {
    bytes: VecDeque<u8>,
    /// The pages that they are on.
    #[serde(default)]
    pages: VecDeque<Page>,
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
        let capacity = (bytes as usize).next_power_of_two().max(PAGE);
        if capacity > LARGEST {
            return Err(Errno::PERM);
        }
        if capacity / PAGE < self.pages.len() {
            return Err(Errno::BUSY);
        }
        self.resized = Some(capacity);
        Ok(capacity as u64)
    }

    /// Bytes that it takes on new pages before its writers wait.
    pub(super) fn room(&self) -> usize {
        (self.capacity() / PAGE).saturating_sub(self.pages.len()) * PAGE
    }

    /// Of so many bytes, those that a write puts on the last page, behind what is there.
    fn merged(&self, length: usize) -> usize {
        let head = length % PAGE;
        self.pages.back().filter(|last| last.end + head <= PAGE).map_or(0, |_| head)
    }

    /// Of so many bytes, those that a write takes now.
    fn takes(&self, length: usize) -> usize {
        let merged = self.merged(length);
        merged + self.room().min(length - merged)
    }

    /// Appends what one write takes, on new pages also where there is no room.
    fn append(&mut self, bytes: &[u8]) {
        let merged = self.merged(bytes.len());
        if let Some(last) = self.pages.back_mut() {
            last.end += merged;
        }
        let rest = bytes[merged..].chunks(PAGE);
        self.pages.extend(rest.map(|page| Page { begin: 0, end: page.len() }));
        self.bytes.extend(bytes);
    }

    /// Bytes that wait to be read.
    pub(super) fn length(&self) -> usize {
        self.bytes.len()
    }

    /// Pages with bytes that wait to be read.
    pub(super) fn page_count(&self) -> usize {
        self.pages.len()
    }

    /// The first bytes, which stay.
    pub(super) fn first(&self, most: usize) -> Vec<u8> {
        self.bytes.iter().copied().take(most).collect()
    }

    /// Of `count` bytes that user memory takes of a read of `most`, those that the read moves. As on Linux, what it
    /// wants of a page moves as a whole, or stays.
    fn whole_pages(&self, most: usize, count: usize) -> usize {
        let mut end = 0;
        let ends = self.pages.iter().map(|page| {
            end = (end + page.end - page.begin).min(most);
            end
        });
        ends.take_while(|&end| end <= count).last().unwrap_or(0)
    }

    /// Of `count` bytes that user memory gives of a write of `length`, those that the write moves: whole pages, too.
    fn whole_new_pages(&self, length: usize, count: usize) -> usize {
        let merged = self.merged(length);
        count.checked_sub(merged).map_or(0, |rest| merged + rest / PAGE * PAGE)
    }

    /// Takes the first bytes out. Returns whether a writer that found it full has room now.
    pub(super) fn remove(&mut self, count: usize) -> bool {
        let count = count.min(self.bytes.len());
        self.bytes.drain(..count);
        let was_full = !self.is_writable();
        let mut left = count;
        while let Some(first) = self.pages.front_mut() {
            let taken = left.min(first.end - first.begin);
            first.begin += taken;
            left -= taken;
            if first.begin < first.end {
                break;
            }
            self.pages.pop_front();
        }
        was_full && self.is_writable()
    }

    /// Checks what was read: its bytes are on its pages.
    pub(super) fn check(&self) -> Checked {
        let is_page = |page: &Page| page.begin < page.end && page.end <= PAGE;
        let has_all = || self.pages.iter().map(|page| page.end - page.begin).sum::<usize>();
        require(self.pages.iter().all(is_page) && has_all() == self.bytes.len(), || {
            format!("pages: do not have its {} bytes", self.bytes.len())
        })?;
        let capacity = self.capacity();
        require(capacity.is_power_of_two() && (PAGE..=LARGEST).contains(&capacity), || {
            format!("resized: is {capacity}, which is no size of a pipe")
        })
    }

    pub(super) fn is_readable(&self) -> bool {
        !self.bytes.is_empty()
    }

    pub(super) fn is_writable(&self) -> bool {
        self.room() > 0
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

    /// Reads from a pipe into pieces of user memory.
    pub(super) fn read_pieces(
        &mut self,
        context: &mut Context<'_>,
        (number, waits): (u32, bool),
        pieces: &[(u64, u64)],
    ) -> Result {
        let length = total(pieces);
        let has_writers = self.table.has_end(number, Way::Write);
        let pipe = self.table.pipe(number)?;
        if !pipe.is_readable() && has_writers && length > 0 {
            return Err(context.would_block(waits));
        }
        let bytes = pipe.first(length);
        let mut count = scatter_some(context, pieces, &bytes);
        if count < bytes.len() {
            count = pipe.whole_pages(bytes.len(), count);
            if count == 0 {
                return Err(Errno::FAULT);
            }
        }
        let has_room = pipe.remove(count);
        context.has_changed |= count > 0;
        if has_room {
            self.note_pipe(number, Way::Write, OUT | NORMAL_OUT);
        }
        Ok(count as u64)
    }

    /// Has the interests of `epoll` in one end of a pipe look at it.
    pub(super) fn note_pipe(&mut self, number: u32, way: Way, events: u32) {
        for file in self.table.ends(number, way) {
            self.note_change(file, events);
        }
    }

    /// Writes pieces of user memory to a pipe, as one: `PIPE_BUF` counts the bytes of all of them.
    pub(super) fn write_pieces(
        &mut self,
        context: &mut Context<'_>,
        pipe: (u32, bool),
        pieces: &[(u64, u64)],
    ) -> Result {
        let length = total(pieces);
        if length == 0 {
            return Ok(0);
        }
        let most = self.room_of(context, pipe, length)?;
        let mut bytes = gather_some(context, pieces, most);
        if bytes.len() < most {
            bytes.truncate(self.table.pipe(pipe.0)?.whole_new_pages(length, bytes.len()));
            if bytes.is_empty() {
                // Readers are woken all the same.
                self.note_pipe(pipe.0, Way::Read, IN | NORMAL_IN);
                return Err(Errno::FAULT);
            }
        }
        self.append(context, pipe.0, &bytes)?;
        Ok(bytes.len() as u64)
    }

    /// Puts bytes into a pipe.
    fn append(&mut self, context: &mut Context<'_>, pipe: u32, bytes: &[u8]) -> Result<()> {
        self.table.pipe(pipe)?.append(bytes);
        self.note_pipe(pipe, Way::Read, IN | NORMAL_IN);
        context.has_changed = true;
        Ok(())
    }

    pub(super) fn write_pipe(
        &mut self,
        context: &mut Context<'_>,
        pipe: (u32, bool),
        buffer: &[u8],
    ) -> Result<usize> {
        let count = self.room_of(context, pipe, buffer.len())?;
        if count > 0 {
            self.append(context, pipe.0, &buffer[..count])?;
        }
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
        let taken = self.table.pipe(number)?.takes(length);
        if taken == 0 && length > 0 {
            // As on Linux, where a write that finds no room wakes readers, too.
            self.note_pipe(number, Way::Read, IN | NORMAL_IN);
            return Err(context.would_block(waits));
        }
        // A writer that waits writes all: the pipe grows for the time being.
        Ok(if waits { length } else { taken })
    }
}

/// Bytes of pieces that a call moves, at most.
fn total(pieces: &[(u64, u64)]) -> usize {
    let length = pieces.iter().fold(0, |sum: u64, piece| sum.saturating_add(piece.1));
    length.min(MOST_BYTES) as usize
}

/// Reads up to `most` bytes of pieces of user memory, up to the first page that cannot be read.
fn gather_some(context: &mut Context<'_>, pieces: &[(u64, u64)], most: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for &(from, length) in pieces {
        let end = bytes.len() + length.min((most - bytes.len()) as u64) as usize;
        let from = from.wrapping_sub(bytes.len() as u64);
        while bytes.len() < end {
            let done = bytes.len();
            let next = end.min(done + CHUNK as usize);
            bytes.resize(next, 0);
            let at = from.wrapping_add(done as u64);
            let count = context.read_some(at, &mut bytes[done..]).unwrap_or(0);
            bytes.truncate(done + count);
            if bytes.len() < next {
                return bytes;
            }
        }
    }
    bytes
}

/// Writes bytes to pieces of user memory, up to the first page that cannot be written. Returns how many.
fn scatter_some(context: &mut Context<'_>, pieces: &[(u64, u64)], bytes: &[u8]) -> usize {
    let mut done = 0;
    for &(to, length) in pieces {
        let wanted = length.min((bytes.len() - done) as u64) as usize;
        let count = context.write_some(to, &bytes[done..done + wanted]).unwrap_or(0);
        done += count;
        if count < wanted {
            break;
        }
    }
    done
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
