//! The local buffers of a client: a table from its addresses to shared memory mapped here.

use std::sync::Arc;

use rackmem_abi::{MAX_ADDRESS, Status};
use rackmem_rmc::{Sink, Source};

use super::foreign::Foreign;
use crate::direct::LocalBuffers;
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

    /// Adds memory that the client has mapped at `address`. Control has checked `MAX_BUFFERS`.
    pub fn place(&mut self, address: u64, backing: Backing) {
        let (base, len) = backing.base_and_len();
        self.ranges.push(Range { address, len, base, backing });
    }

    /// Forgets the memory of a queue pair.
    pub fn forget_queue(&mut self, memory: &Arc<QueueMemory>) {
        self.ranges.retain(
            |range| !matches!(&range.backing, Backing::Queue(queue) if Arc::ptr_eq(queue, memory)),
        );
    }

    #[cold]
    fn search(&self, address: u64, length: u64) -> Option<*mut u8> {
        let index = self.ranges.iter().position(|range| range.contains(address, length))?;
        self.last.set(index);
        self.ranges[index].at(address)
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
        let end = address.checked_add(length as u64).ok_or(Status::BadLocalBuffer)?;
        match &self.foreign {
            Some(foreign) if end <= MAX_ADDRESS + 1 => foreign.check(address, length, writes),
            _ => Err(Status::BadLocalBuffer),
        }
    }

    fn load(&mut self, address: u64, out: Sink<'_>) -> Result<(), Status> {
        match &self.foreign {
            Some(foreign) if address <= MAX_ADDRESS => foreign.load(address, out),
            _ => Err(Status::BadLocalBuffer),
        }
    }

    fn store(&mut self, address: u64, bytes: Source<'_>) -> Result<(), Status> {
        match &self.foreign {
            Some(foreign) if address <= MAX_ADDRESS => foreign.store(address, bytes),
            _ => Err(Status::BadLocalBuffer),
        }
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
}
