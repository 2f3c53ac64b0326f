//! The local buffers of a client: a table from its addresses to shared memory mapped here.

use std::sync::Arc;

use rackmem_abi::{MAX_ADDRESS, Status};
use rackmem_rmc::{Sink, Source};

use super::foreign::Foreign;
use crate::direct::LocalBuffers;
use crate::shm::copy;
use crate::shm::mapping::Mapping;
use crate::shm::queue::QueueMemory;
use crate::shm::segment::Segment;

/// Most buffers of a client; the translation is a short search.
pub const MAX_BUFFERS: usize = 64;

/// Shared memory that is kept mapped here.
#[derive(Clone, Debug)]
pub enum Backing {
    /// Memory made for local buffers.
    Buffer(Arc<Mapping>),
    /// A queue pair's memory, for its operands.
    Queue(Arc<QueueMemory>),
    /// The node's segment: the data only, never its control page.
    Segment(Arc<Segment>),
}

impl Backing {
    fn base_and_len(&self) -> (*mut u8, u64) {
        match self {
            Backing::Buffer(mapping) => (mapping.base(), mapping.len() as u64),
            Backing::Queue(memory) => (memory.mapping().base(), memory.mapping().len() as u64),
            Backing::Segment(segment) => (segment.data(), segment.size_bytes()),
        }
    }
}

#[derive(Debug)]
struct Range {
    /// In the client.
    address: u64,
    len: u64,
    /// Here.
    base: *mut u8,
    backing: Backing,
}

/// A client's translation table.
#[derive(Debug)]
pub struct LocalTable {
    ranges: Vec<Range>,
    /// Index of the last hit; the next address is most likely in the same range.
    last: std::cell::Cell<usize>,
    foreign: Option<Foreign>,
}

// SAFETY: the pointers lead into mappings that `backing` keeps, usable from any thread.
unsafe impl Send for LocalTable {}

impl LocalTable {
    /// A table without shared buffers; `foreign` reaches everything else, if allowed.
    pub fn new(foreign: Option<Foreign>) -> LocalTable {
        LocalTable { ranges: Vec::new(), last: std::cell::Cell::new(0), foreign }
    }

    /// Adds memory that the client has mapped at `address`, in place of what it had there. Control has checked
    /// `MAX_BUFFERS`.
    pub fn place(&mut self, address: u64, backing: Backing) {
        let (base, len) = backing.base_and_len();
        let old = std::mem::take(&mut self.ranges);
        self.ranges = old.iter().flat_map(|range| range.without(address, len)).collect();
        self.last.set(0);
        self.ranges.push(Range { address, len, base, backing });
    }

    /// Forgets memory that the client gives up.
    pub fn forget(&mut self, backing: &Backing) {
        let (base, _) = backing.base_and_len();
        self.ranges.retain(|range| range.backing.base_and_len().0 != base);
    }

    #[cold]
    fn search(&self, address: u64, length: u64) -> Option<*mut u8> {
        let index = self.ranges.iter().position(|range| range.contains(address, length))?;
        self.last.set(index);
        self.ranges[index].at(address)
    }

    /// Where the first of `length` bytes is here, if it is shared, and how many of them are there or, if it is not,
    /// how many come before shared memory.
    fn first_piece(&self, address: u64, length: usize) -> (Option<*mut u8>, usize) {
        let range = self.ranges.iter().find(|range| range.contains(address, 1));
        let end = match range {
            Some(range) => range.len - address.wrapping_sub(range.address),
            None => self
                .ranges
                .iter()
                .map(|r| r.address.wrapping_sub(address))
                .min()
                .unwrap_or(u64::MAX),
        };
        (range.and_then(|range| range.at(address)), end.min(length as u64) as usize)
    }

    /// Calls `each` with the pieces of a buffer that lies in several ranges, or partly in none: its start in the
    /// buffer, its length, and where it is here.
    fn pieces(
        &self,
        address: u64,
        length: usize,
        mut each: impl FnMut(usize, usize, Option<*mut u8>) -> Result<(), Status>,
    ) -> Result<(), Status> {
        let mut done = 0;
        while done < length {
            let (at, n) = self.first_piece(address.wrapping_add(done as u64), length - done);
            each(done, n, at)?;
            done += n;
        }
        Ok(())
    }

    /// The client's memory that is not shared, if it can have a byte at `address`.
    fn foreign(&self, address: u64) -> Result<&Foreign, Status> {
        self.foreign.as_ref().filter(|_| address <= MAX_ADDRESS).ok_or(Status::BadLocalBuffer)
    }
}

impl Range {
    #[inline(always)]
    fn contains(&self, address: u64, length: u64) -> bool {
        let at = address.wrapping_sub(self.address);
        at <= self.len && length <= self.len - at
    }

    #[inline(always)]
    fn at(&self, address: u64) -> Option<*mut u8> {
        // SAFETY: the caller checked `contains`.
        Some(unsafe { self.base.add(address.wrapping_sub(self.address) as usize) })
    }

    /// The parts before and behind `len` bytes at `address`.
    fn without(&self, address: u64, len: u64) -> impl Iterator<Item = Range> + use<> {
        let start = address.wrapping_sub(self.address);
        let (from, to) = match start < self.len {
            true => (start, start.saturating_add(len)),
            false => (0, len.saturating_sub(self.address.wrapping_sub(address))),
        };
        [self.part(0, from), self.part(to.min(self.len), self.len)].into_iter().flatten()
    }

    fn part(&self, from: u64, to: u64) -> Option<Range> {
        let address = self.address.wrapping_add(from);
        let base = self.base.wrapping_add(from as usize);
        let backing = self.backing.clone();
        (from < to).then_some(Range { address, len: to - from, base, backing })
    }
}

impl LocalBuffers for LocalTable {
    #[inline(always)]
    fn locate(&self, address: u64, length: usize) -> Option<*mut u8> {
        match self.ranges.get(self.last.get()) {
            Some(range) if range.contains(address, length as u64) => range.at(address),
            _ => self.search(address, length as u64),
        }
    }

    fn check(&mut self, address: u64, length: usize, writes: bool) -> Result<(), Status> {
        address.checked_add(length as u64).ok_or(Status::BadLocalBuffer)?;
        self.pieces(address, length, |start, n, at| match at {
            Some(_) => Ok(()),
            None => {
                let first = address + start as u64;
                self.foreign(first + (n as u64 - 1))?.check(first, n, writes)
            }
        })
    }

    fn load(&mut self, address: u64, out: Sink<'_>) -> Result<(), Status> {
        self.pieces(address, out.len(), |start, n, at| {
            let to = out.as_mut_ptr().wrapping_add(start);
            let first = address.wrapping_add(start as u64);
            match at {
                // SAFETY: the range vouches for the bytes, the sink for its room.
                Some(from) => unsafe { copy::copy_out(to, from, n) },
                // SAFETY: a part of the sink.
                None => self.foreign(first)?.load(first, unsafe { Sink::from_raw(to, n) })?,
            }
            Ok(())
        })
    }

    fn store(&mut self, address: u64, bytes: Source<'_>) -> Result<(), Status> {
        self.pieces(address, bytes.len(), |start, n, at| {
            let from = bytes.as_ptr().wrapping_add(start);
            let first = address.wrapping_add(start as u64);
            match at {
                // SAFETY: the range vouches for the room, the source for its bytes.
                Some(to) => unsafe { copy::copy_out(to, from, n) },
                // SAFETY: a part of the source.
                None => self.foreign(first)?.store(first, unsafe { Source::from_raw(from, n) })?,
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_found_in_their_buffer_only() {
        let mut table = LocalTable::new(None);
        let a = Arc::new(Mapping::create("a", 4096).unwrap());
        let b = Arc::new(Mapping::create("b", 4096).unwrap());
        table.place(0x10000, Backing::Buffer(a.clone()));
        table.place(0x20000, Backing::Buffer(b.clone()));
        assert_eq!(table.locate(0x10000, 4096), Some(a.base()));
        assert_eq!(table.locate(0x20fff, 1), Some(b.base().wrapping_add(4095)));
        assert_eq!(table.locate(0x10001, 4096), None);
        assert_eq!(table.locate(0xffff, 1), None);
        assert_eq!(table.locate(u64::MAX, 1), None);
        assert_eq!(table.load(0x1, Sink::new(&mut [0])), Err(Status::BadLocalBuffer));
        // A client may claim any address, even one so high that its buffer wraps to zero.
        let c = Arc::new(Mapping::create("c", 4096).unwrap());
        table.place(u64::MAX - 99, Backing::Buffer(c.clone()));
        assert_eq!(table.locate(0, 8), Some(c.base().wrapping_add(100)));
        assert_eq!(table.locate(3990, 8), None);
    }

    /// A table with a page of 1 at page 1, of 2 at page 2, and of 3 at page 4.
    fn pages() -> LocalTable {
        let mut table = LocalTable::new(None);
        for (page, byte) in [(1, 1), (2, 2), (4, 3)] {
            table.place(page << 12, filled(1, byte));
        }
        table
    }

    fn filled(pages: usize, byte: u8) -> Backing {
        let mapping = Mapping::create("filled", pages << 12).unwrap();
        // SAFETY: nobody else has the mapping.
        unsafe { mapping.base().write_bytes(byte, mapping.len()) };
        Backing::Buffer(Arc::new(mapping))
    }

    /// The bytes at the start of each page.
    fn first_bytes(table: &mut LocalTable) -> Vec<Option<u8>> {
        let byte_at = |page: u64| {
            let mut byte = [0];
            table.load(page << 12, Sink::new(&mut byte)).ok().map(|()| byte[0])
        };
        (0..6).map(byte_at).collect()
    }

    #[test]
    fn new_memory_takes_the_place_of_what_was_at_its_addresses() {
        let mut table = pages();
        assert_eq!(first_bytes(&mut table), [None, Some(1), Some(2), None, Some(3), None]);
        table.place(0x2000, filled(2, 7));
        assert_eq!(first_bytes(&mut table), [None, Some(1), Some(7), Some(7), Some(3), None]);
        table.place(0, filled(5, 8));
        assert_eq!(
            first_bytes(&mut table),
            [8, 8, 8, 8, 8].map(Some).into_iter().chain([None]).collect::<Vec<_>>()
        );
        table.place(0x2000, filled(1, 9));
        let parts = [8, 8, 9, 8, 8].map(Some).into_iter().chain([None]);
        assert_eq!(first_bytes(&mut table), parts.collect::<Vec<_>>());
        assert_eq!(table.ranges.len(), 3);
        // Bytes at the ends of the parts.
        for (address, byte) in [(0x1fff, 8), (0x2fff, 9), (0x3000, 8), (0x4fff, 8)] {
            let at = table.locate(address, 1).unwrap();
            // SAFETY: the table vouches for it.
            assert_eq!(unsafe { at.read() }, byte, "{address:#x}");
        }
        assert_eq!((table.locate(0x1fff, 2), table.locate(0x5000, 1)), (None, None));
    }

    #[test]
    fn a_buffer_may_lie_in_several_ranges() {
        let mut table = pages();
        let mut bytes = [0; 4];
        assert_eq!(table.check(0x1ffd, 4, true), Ok(()));
        assert_eq!(table.load(0x1ffd, Sink::new(&mut bytes)), Ok(()));
        assert_eq!(bytes, [1, 1, 1, 2]);
        assert_eq!(table.store(0x1ffe, Source::new(&[4, 5, 6])), Ok(()));
        assert_eq!(table.load(0x1ffd, Sink::new(&mut bytes)), Ok(()));
        assert_eq!(bytes, [1, 4, 5, 6]);
        assert_eq!(table.check(0x2ffd, 4, true), Err(Status::BadLocalBuffer));
        assert_eq!(table.check(0xffd, 4, true), Err(Status::BadLocalBuffer));
        assert_eq!(table.load(0x2ffd, Sink::new(&mut bytes)), Err(Status::BadLocalBuffer));
    }

    #[test]
    fn memory_beside_a_range_is_reached_in_its_process() {
        let own = [5u8; 16];
        let address = own.as_ptr() as u64;
        let foreign = Foreign::open(rustix::process::getpid()).unwrap();
        let mut table = LocalTable::new(Some(foreign));
        table.place(address - 4096 + 4, filled(1, 6));
        let mut bytes = [0; 8];
        assert_eq!(table.check(address, 8, false), Ok(()));
        assert_eq!(table.load(address, Sink::new(&mut bytes)), Ok(()));
        assert_eq!(bytes, [6, 6, 6, 6, 5, 5, 5, 5]);
    }
}
