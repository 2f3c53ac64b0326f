//! The RDMA channel of Thunder (TSM §4.2) for the operating system of a node: copies between borrowed memory and the
//! node's own. [`Bursts`] decides which burst is read when; its module ([`bridge`](super::bridge)) makes the accesses.
//!
//! # Decisions
//!
//! - *Pages.* The operating system gives the channel the physical pages of the local buffer together with source,
//!   destination and length, so a copy needs no translation on its way. Borrowed memory is in one piece: a slot of the
//!   address mapping table.
//! - *One copy at a time.* The handler of the interrupt begins the next one.
//! - *The channel's buffer* holds as many bursts as may be under way. A burst of borrowed memory leaves it with its
//!   writes to local memory, which takes them at once; one for borrowed memory when its lender has answered.

use std::collections::VecDeque;
use std::ops::Range;

use rackmem_riscv::space::PAGE;

use super::image::in_blocks;
use crate::block::{BLOCK_BYTES, Block};
use crate::engine::Slab;
use crate::interconnect::bursts::{self, Bursts};
use crate::machine::spec::QpairSpec;

/// A copy, as the operating system has it. Addresses and lengths are multiples of a line.
#[derive(Clone, Debug)]
pub struct Copy {
    /// Number of the thread that waits for its end.
    pub thread: usize,
    /// Whether it reads borrowed memory; otherwise it writes it.
    pub is_in: bool,
    /// Physical address of the borrowed memory.
    pub borrowed: u64,
    /// Physical pages of the local buffer, which begins at `offset` in the first.
    pub pages: Vec<u64>,
    pub offset: u64,
    pub bytes: u64,
}

/// An access of the channel, for which it waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task {
    /// To borrowed memory: so many bytes at a physical address of the window, to be read or written.
    Borrowed { tag: u32, address: u64, bytes: u32, write: Option<Vec<Block>> },
    /// To a line of local memory: the one with this index in the burst.
    Local { tag: u32, index: u32, address: u64, write: Option<Block> },
}

/// A burst under way.
#[derive(Clone, Debug)]
struct Moving {
    at: u64,
    bytes: u32,
    /// Its lines, as far as they have been read.
    blocks: Vec<Block>,
    /// Accesses to local memory that are not done.
    local: u32,
}

/// The channel of a node.
#[derive(Clone, Debug)]
pub struct Rdma {
    spec: QpairSpec,
    /// The copy under way, if it has begun, and those that wait.
    copies: VecDeque<Copy>,
    bursts: Option<Bursts>,
    moving: Slab<Moving>,
    /// Threads whose copies are complete, for the operating system.
    pub ended: Vec<usize>,
    /// Bursts and bytes that were moved.
    pub moved: (u64, u64),
}

impl Moving {
    /// Pieces of the burst, one in each line: place in the copy, and which bytes of the burst.
    fn pieces(&self) -> impl Iterator<Item = (u64, Range<usize>)> + use<> {
        in_blocks(self.at, self.bytes as usize)
    }

    /// Writes of its lines, each with the place in the copy where its line begins.
    fn writes(&self) -> Vec<(u64, Block)> {
        let write = |((at, range), block): ((u64, Range<usize>), &Block)| {
            let offset = (at % BLOCK_BYTES) as usize;
            let bytes = &block.to_bytes()[offset..offset + range.len()];
            (at - at % BLOCK_BYTES, Block::write(offset, bytes))
        };
        self.pieces().zip(&self.blocks).map(write).collect()
    }
}

impl Copy {
    /// The physical address of a place of the local buffer.
    fn local(&self, at: u64) -> u64 {
        let place = self.offset + at;
        self.pages[(place / PAGE) as usize] + place % PAGE
    }
}

impl Rdma {
    pub fn new(spec: &QpairSpec) -> Rdma {
        Rdma {
            spec: spec.clone(),
            copies: VecDeque::new(),
            bursts: None,
            moving: Slab::default(),
            ended: Vec::new(),
            moved: (0, 0),
        }
    }

    /// Takes a copy; whether it is the only one, so that it begins next.
    pub fn post(&mut self, copy: Copy) -> bool {
        self.copies.push_back(copy);
        self.copies.len() == 1
    }

    /// The first copy begins.
    pub fn begin(&mut self) {
        self.bursts = self.copies.front().map(|copy| Bursts::new(&self.spec, copy.bytes));
    }

    /// Lines of borrowed memory that the next burst reads, if there is one that does.
    pub fn next_read(&self) -> Option<Range<u64>> {
        let copy = self.copies.front().filter(|copy| copy.is_in)?;
        let bursts::Burst { at, bytes } = self.bursts?.peek()?;
        let first = copy.borrowed + at;
        Some(first / BLOCK_BYTES..(first + u64::from(bytes)).div_ceil(BLOCK_BYTES))
    }

    /// Whether a write of a line of borrowed memory is on its way.
    pub fn is_writing(&self, line: u64) -> bool {
        let Some(copy) = self.copies.front().filter(|copy| !copy.is_in) else { return false };
        self.moving.values().filter(|moving| moving.local == 0).any(|moving| {
            let first = copy.borrowed + moving.at;
            (first / BLOCK_BYTES..(first + u64::from(moving.bytes)).div_ceil(BLOCK_BYTES))
                .contains(&line)
        })
    }

    /// Takes the next burst, if one may be under way: its first accesses.
    pub fn ask(&mut self) -> Option<Vec<Task>> {
        let bursts::Burst { at, bytes } = self.bursts.as_mut()?.ask()?;
        let copy = self.copies.front()?;
        let mut moving = Moving { at, bytes, blocks: Vec::new(), local: 0 };
        let lines = moving.pieces().count();
        moving.blocks = vec![Block::ZERO; lines];
        moving.local = if copy.is_in { 0 } else { lines as u32 };
        let tag = self.moving.put(moving.clone());
        if copy.is_in {
            let address = copy.borrowed + at;
            return Some(vec![Task::Borrowed { tag, address, bytes, write: None }]);
        }
        let read = |(index, (at, _)): (u32, (u64, Range<usize>))| Task::Local {
            tag,
            index,
            address: copy.local(at - at % BLOCK_BYTES),
            write: None,
        };
        Some((0..).zip(moving.pieces()).map(read).collect())
    }

    /// A line of a burst has been read.
    pub fn read(&mut self, tag: u32, index: u32, block: Block) {
        self.moving.get_mut(tag).blocks[index as usize] = block;
    }

    /// An access to borrowed memory is done: the accesses to local memory that follow a read, and whether the copy is
    /// complete.
    pub fn borrowed_done(&mut self, tag: u32) -> (Vec<Task>, bool) {
        self.bursts.iter_mut().for_each(Bursts::leave);
        let Some(copy) = self.copies.front() else { return (Vec::new(), false) };
        if !copy.is_in {
            return (Vec::new(), self.end_burst(tag));
        }
        let moving = self.moving.get_mut(tag);
        let writes = moving.writes();
        moving.local = writes.len() as u32;
        let write = |(index, (at, block)): (u32, (u64, Block))| Task::Local {
            tag,
            index,
            address: copy.local(at),
            write: Some(block),
        };
        ((0..).zip(writes).map(write).collect(), false)
    }

    /// An access to local memory is done: the write of borrowed memory that follows the last read, and whether the copy
    /// is complete.
    pub fn local_done(&mut self, tag: u32) -> (Option<Task>, bool) {
        let moving = self.moving.get_mut(tag);
        moving.local -= 1;
        let Some(copy) = self.copies.front().filter(|_| moving.local == 0) else {
            return (None, false);
        };
        if copy.is_in {
            return (None, self.end_burst(tag));
        }
        let blocks = moving.writes().into_iter().map(|(_, block)| block).collect();
        let (address, bytes) = (copy.borrowed + moving.at, moving.bytes);
        (Some(Task::Borrowed { tag, address, bytes, write: Some(blocks) }), false)
    }

    /// A burst is where it goes; whether the copy is complete.
    fn end_burst(&mut self, tag: u32) -> bool {
        let Moving { bytes, .. } = self.moving.take(tag);
        self.moved.0 += 1;
        self.moved.1 += u64::from(bytes);
        let is_complete = self.bursts.as_mut().is_some_and(|bursts| bursts.moved(bytes));
        if is_complete {
            self.bursts = None;
            self.ended.extend(self.copies.pop_front().map(|copy| copy.thread));
        }
        is_complete
    }

    /// Whether a copy waits for its begin.
    pub fn is_waiting(&self) -> bool {
        self.bursts.is_none() && !self.copies.is_empty()
    }

    /// Copies that are not complete.
    pub fn under_way(&self) -> usize {
        self.copies.len()
    }
}
