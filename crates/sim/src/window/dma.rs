//! The DMA engine of an NTB (TSM §2.1.1, TS-05): it fetches descriptors from a ring in its node's memory,
//! asks for data and writes them, a descriptor after the other, without waiting for what it has asked
//! for. Addresses are physical.

use crate::block::{BLOCK_BYTES, Block};
use std::collections::VecDeque;

/// A descriptor has two words; see [`Descriptor::words`].
pub const DESCRIPTOR_BYTES: u64 = 16;

/// Descriptors of a line of the ring, which are fetched together.
const PER_LINE: u64 = BLOCK_BYTES / DESCRIPTOR_BYTES;

/// Most bytes of a descriptor: its count has 27 bits.
pub const MAX_BYTES: u64 = (1 << 27) - BLOCK_BYTES;

/// Bits of a physical address: 32 in one word of a descriptor, 16 in the other.
const ADDRESS_BITS: u32 = 48;

/// A copy of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// From this address.
    pub from: u64,
    /// To this one.
    pub to: u64,
    /// So many bytes.
    pub bytes: u64,
}

impl Descriptor {
    /// As it lies in the ring: count and upper halves of the addresses, then the lower ones.
    pub const fn words(&self) -> [u64; 2] {
        let high = self.to >> 32 << 32 | self.from >> 32 << 48;
        [self.bytes | high, self.to & 0xffff_ffff | self.from << 32]
    }

    /// From the ring.
    pub const fn of(words: [u64; 2]) -> Descriptor {
        Descriptor {
            from: words[1] >> 32 | words[0] >> 48 << 32,
            to: words[1] & 0xffff_ffff | (words[0] >> 32 & 0xffff) << 32,
            bytes: words[0] & ((1 << 27) - 1),
        }
    }

    /// Whether the engine can carry it out.
    pub const fn is_valid(&self) -> bool {
        let is_whole = (self.from | self.to | self.bytes).is_multiple_of(BLOCK_BYTES);
        let fits = (self.from | self.to) >> ADDRESS_BITS == 0;
        is_whole && fits && self.bytes > 0 && self.bytes <= MAX_BYTES
    }
}

/// A read of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// From this address on.
    pub address: u64,
    /// So many lines.
    pub lines: u16,
    /// It is the first one of its descriptor.
    pub is_first: bool,
}

/// Lines that leave together, in a TLP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Write {
    /// To this address on.
    pub to: u64,
    /// Lines with addresses in sequence.
    pub blocks: Vec<Block>,
}

/// The engine's ring, and data that have been asked for and not been written.
#[derive(Clone, Debug, Default)]
pub struct Engine {
    ring: u64,
    entries: u64,
    posted: u64,
    fetched: u64,
    is_fetching: bool,
    /// Fetched, and not begun.
    ready: VecDeque<Descriptor>,
    /// Begun, with the bytes that have been asked for.
    asking: Option<(Descriptor, u64)>,
    /// Asked for, with the bytes that have come; and the lines of each that have not been written.
    coming: VecDeque<(Descriptor, u64)>,
    writing: VecDeque<u64>,
    gathered: Write,
    max_payload_bytes: u64,
    done: u64,
}

impl Engine {
    /// An engine whose ring of so many descriptors begins at an address, a multiple of 64.
    pub fn new(ring: u64, entries: u64, max_payload_bytes: u64) -> Engine {
        Engine { ring, entries, max_payload_bytes, ..Engine::default() }
    }

    /// The same after so many descriptors.
    pub fn after(self, posted: u64) -> Engine {
        Engine { posted, fetched: posted, done: posted, ..self }
    }

    /// Address of its ring.
    pub const fn ring(&self) -> u64 {
        self.ring
    }

    /// Descriptors for which the ring has room.
    pub const fn room(&self) -> u64 {
        self.entries - (self.posted - self.done)
    }

    /// Address of the next descriptor.
    pub const fn next_address(&self) -> u64 {
        self.ring + self.posted % self.entries * DESCRIPTOR_BYTES
    }

    /// A descriptor has been written there.
    pub fn post(&mut self) {
        debug_assert!(self.room() > 0, "the ring has no room");
        self.posted += 1;
    }

    /// Descriptors that have been posted so far.
    pub const fn posted(&self) -> u64 {
        self.posted
    }

    /// Descriptors that have been carried out so far.
    pub const fn done(&self) -> u64 {
        self.done
    }

    /// The line of the ring to fetch next, one at a time.
    pub fn fetch(&mut self) -> Option<u64> {
        let has_room = self.ready.len() as u64 <= PER_LINE;
        if self.is_fetching || self.fetched == self.posted || !has_room {
            return None;
        }
        self.is_fetching = true;
        let at = self.ring + self.fetched % self.entries * DESCRIPTOR_BYTES;
        Some(at / BLOCK_BYTES * BLOCK_BYTES)
    }

    /// The line that [`Engine::fetch`] asked for has come.
    pub fn fetched(&mut self, block: &Block) {
        self.is_fetching = false;
        loop {
            let at = (self.fetched % PER_LINE * 2) as usize;
            self.ready.push_back(Descriptor::of([block.words[at], block.words[at + 1]]));
            self.fetched += 1;
            if self.fetched == self.posted || self.fetched.is_multiple_of(PER_LINE) {
                return;
            }
        }
    }

    /// The next read, of at most so many bytes.
    pub fn read(&mut self, max_bytes: u64) -> Option<Read> {
        let is_first = self.asking.is_none();
        if is_first {
            let next = self.ready.pop_front()?;
            self.asking = Some((next, 0));
            self.coming.push_back((next, 0));
            self.writing.push_back(next.bytes / BLOCK_BYTES);
        }
        let (descriptor, asked) = self.asking.as_mut()?;
        let bytes = (descriptor.bytes - *asked).min(max_bytes);
        let address = descriptor.from + *asked;
        *asked += bytes;
        if *asked == descriptor.bytes {
            self.asking = None;
        }
        Some(Read { address, lines: (bytes / BLOCK_BYTES) as u16, is_first })
    }

    /// Whether there is anything to ask for.
    pub fn wants_to_read(&self) -> bool {
        self.asking.is_some() || !self.ready.is_empty()
    }

    /// The next line that was asked for has come. Returns the bytes to be written, if a TLP is full.
    pub fn data(&mut self, block: Block) -> Option<Write> {
        let (descriptor, come) = self.coming.front_mut().expect("only what was asked for comes");
        if self.gathered.blocks.is_empty() {
            self.gathered.to = descriptor.to + *come;
        }
        self.gathered.blocks.push(block);
        *come += BLOCK_BYTES;
        let is_last = *come == descriptor.bytes;
        let end = descriptor.to + *come;
        if is_last {
            self.coming.pop_front();
        }
        // TLPs end at multiples of their size.
        let is_full = end.is_multiple_of(self.max_payload_bytes);
        (is_last || is_full).then(|| std::mem::take(&mut self.gathered))
    }

    /// A line has been written; whether a descriptor has been carried out with that.
    pub fn written(&mut self) -> bool {
        let left = self.writing.front_mut().expect("only what came is written");
        *left -= 1;
        if *left > 0 {
            return false;
        }
        self.writing.pop_front();
        self.done += 1;
        true
    }

    /// Whether nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.done == self.posted
    }
}
