//! Accesses to a node's memory by other nodes, and by the DMA engine beside it (TSM §2.1), in order: coherent with the
//! node's own caches, or past them to a memory controller beside the module.

use std::collections::VecDeque;

use super::layout::Part;
use super::message::Payload;
use super::wires::Wires;
use crate::block::{BLOCK_BYTES, Block, Line};
use crate::coherence::{Message, Request, Response};
use crate::window::packet::{Asker, Packet};

/// Its part, as one of those that access memory without a cache.
const PART: Part = Part::Rrpp(0);

#[derive(Clone, Copy, Debug)]
struct Access {
    line: Line,
    what: What,
    is_done: bool,
}

#[derive(Clone, Copy, Debug)]
enum What {
    /// Answered with the line, which is its answer in the end.
    Read { asker: Asker, tag: u32, index: u16, block: Block },
    /// Answered only if somebody wants to know.
    Write { asker: Option<(Asker, u32)>, block: Block },
}

/// An access that is done; answers keep the order.
#[derive(Clone, Copy, Debug)]
pub enum Answer {
    /// A line.
    Data(Asker, Packet),
    /// A write is done.
    Written(Asker, Packet),
}

/// Memory as others see it.
#[derive(Clone, Debug)]
pub struct Inbound {
    capacity: usize,
    is_coherent: bool,
    /// Blocks that have changed past the caches.
    changed: Vec<Line>,
    waiting: VecDeque<Access>,
    under_way: VecDeque<Access>,
}

impl Inbound {
    /// So many accesses at the same time.
    pub fn new(capacity: usize, is_coherent: bool) -> Inbound {
        Inbound {
            capacity,
            is_coherent,
            changed: Vec::new(),
            waiting: VecDeque::new(),
            under_way: VecDeque::new(),
        }
    }

    pub fn arrive(&mut self, packet: Packet, wires: &mut Wires) {
        match packet {
            Packet::Read { asker, tag, address, lines } => {
                for index in 0..lines {
                    let line = address / BLOCK_BYTES + u64::from(index);
                    let what = What::Read { asker, tag, index, block: Block::ZERO };
                    self.waiting.push_back(Access { line, what, is_done: false });
                }
            }
            Packet::Write { address, block, asker, .. } => {
                let what = What::Write { asker, block };
                let line = address / BLOCK_BYTES;
                self.waiting.push_back(Access { line, what, is_done: false });
            }
            Packet::Data { .. } | Packet::Written { .. } | Packet::Message { .. } => {
                panic!("memory has asked for nothing")
            }
        }
        self.begin(wires);
    }

    pub fn response(&mut self, line: Line, response: Response<Block>, wires: &mut Wires) {
        if response.read_needs_unblock() {
            wires.ask_home(PART, line, Message::Response(Response::Unblock(None)));
        }
        let data = match response {
            Response::Data { data, .. } => data,
            _ => Block::ZERO,
        };
        self.done(line, data);
        self.begin(wires);
    }

    /// The memory controller has read a block.
    pub fn read(&mut self, line: Line, data: Block, wires: &mut Wires) {
        self.done(line, wires.content(line).unwrap_or(data));
        self.begin(wires);
    }

    fn done(&mut self, line: Line, data: Block) {
        let access =
            self.under_way.iter_mut().find(|access| access.line == line && !access.is_done);
        let access = access.expect("an access that was begun");
        access.is_done = true;
        if let What::Read { block, .. } = &mut access.what {
            *block = data;
        }
    }

    /// Takes the next answer, if its access is done. Another access may begin then.
    pub fn answer(&mut self, wires: &mut Wires) -> Option<Answer> {
        while self.under_way.front().is_some_and(|access| access.is_done) {
            let Access { what, .. } = self.under_way.pop_front()?;
            self.begin(wires);
            match what {
                What::Read { asker, tag, index, block } => {
                    let data = Packet::Data { asker, tag, index, block };
                    return Some(Answer::Data(asker, data));
                }
                What::Write { asker: Some((asker, tag)), .. } => {
                    return Some(Answer::Written(asker, Packet::Written { asker, tag }));
                }
                What::Write { asker: None, .. } => {}
            }
        }
        None
    }

    /// Takes a block that has changed past the caches.
    pub fn take_changed(&mut self) -> Option<Line> {
        self.changed.pop()
    }

    /// Accesses that are not over.
    pub fn under_way(&self) -> usize {
        self.waiting.len() + self.under_way.len()
    }

    /// Begins what may begin: answers name their line only, so that each has one at a time.
    fn begin(&mut self, wires: &mut Wires) {
        while self.under_way.len() < self.capacity {
            let Some(next) = self.waiting.front() else { return };
            let is_same = |access: &Access| access.line == next.line && !access.is_done;
            if self.under_way.iter().any(is_same) {
                return;
            }
            let Some(mut next) = self.waiting.pop_front() else { return };
            if self.is_coherent {
                let request = match next.what {
                    What::Read { .. } => Request::ReadOnce,
                    What::Write { block, .. } => Request::Update(block.as_update()),
                };
                wires.ask_home(PART, next.line, Message::Request(request));
            } else {
                self.ask_memory(&mut next, wires);
            }
            self.under_way.push_back(next);
        }
    }

    /// Gives an access to the memory controller beside the module. A write is done with that.
    fn ask_memory(&mut self, access: &mut Access, wires: &mut Wires) {
        let line = access.line;
        let memory = Part::Memory(wires.layout.controller_of(line));
        match access.what {
            What::Read { .. } => wires.hand(1, memory, Payload::MemoryRead { line, to: PART }),
            What::Write { block, .. } => {
                if let Some(image) = &mut wires.image {
                    image.change(line, block);
                }
                self.changed.push(line);
                access.is_done = true;
                let data = wires.content(line).unwrap_or(block);
                wires.hand(1, memory, Payload::MemoryWrite { line, data });
            }
        }
    }
}
