//! The queues in their homes, for frontends without an NI cache: each look at a queue and each completion crosses the
//! chip. So what an NI cache is worth can be measured.

use super::cache::send_coherence;
use super::layout::{Layout, Part};
use super::wires::Wires;
use crate::block::{BLOCK_BYTES, Block, Line};
use crate::coherence::{Message, Request, Response};
use crate::engine::Cycle;

/// A read that its home has not answered.
#[derive(Clone, Copy, Debug)]
struct Read {
    line: Line,
    /// The block has changed in a way that its home does not know of.
    is_stale: bool,
}

/// Access to queues in their homes.
#[derive(Clone, Debug)]
pub struct Homes {
    part: Part,
    reads: Vec<Read>,
    /// Blocks with a store that its home has not answered.
    stores: Vec<Line>,
    /// The last answer, which can be read in the cycle in which it comes.
    answer: Option<(Cycle, Line, [u64; 8])>,
}

impl Homes {
    /// That of the frontends of unit `number` at the edge.
    pub fn new(number: u16) -> Homes {
        Homes { part: Part::NiCache(number), reads: Vec::new(), stores: Vec::new(), answer: None }
    }

    /// The block if it has come just now; otherwise its home is asked.
    pub fn read(&mut self, line: Line, wires: &mut Wires) -> Option<[u64; 8]> {
        if let Some((at, here, words)) = self.answer
            && (at, here) == (wires.now, line)
        {
            self.answer = None;
            return Some(words);
        }
        if !self.reads.iter().any(|read| read.line == line) {
            self.reads.push(Read { line, is_stale: false });
            self.send(line, Message::Request(Request::ReadOnce), wires);
        }
        None
    }

    /// Has the home store a word of 4 bytes; `false` while another store to the block is under way.
    pub fn write(&mut self, line: Line, word: usize, value: u32, wires: &mut Wires) -> bool {
        if self.stores.contains(&line) {
            return false;
        }
        self.stores.push(line);
        let change = Block::write(word * 4 % BLOCK_BYTES as usize, &value.to_le_bytes());
        self.send(line, Message::Request(Request::Update(change.as_update())), wires);
        true
    }

    /// Takes a home's answer.
    pub fn deliver(&mut self, line: Line, message: Message<Block>, wires: &mut Wires) {
        match message {
            Message::Response(response @ Response::Data { data, .. }) => {
                if response.read_needs_unblock() {
                    self.send(line, Message::Response(Response::Unblock(None)), wires);
                }
                let at = self.reads.iter().position(|read| read.line == line);
                let read = self.reads.swap_remove(at.expect("a read of this block"));
                if read.is_stale {
                    self.read(line, wires);
                } else {
                    self.answer = Some((wires.now, line, data.words));
                }
            }
            Message::Response(Response::Updated(_)) => self.stores.retain(|&store| store != line),
            other => panic!("{} got {other:?}", self.part),
        }
    }

    /// Somebody outside of the coherence domain has changed a block.
    pub fn changed(&mut self, line: Line) {
        for read in self.reads.iter_mut().filter(|read| read.line == line) {
            read.is_stale = true;
        }
    }

    /// Whether a store to a queue of this queue pair is under way.
    pub fn stores_to(&self, qp: u16, layout: &Layout) -> bool {
        self.stores.iter().any(|&line| layout.owner_of(line) == qp)
    }

    /// Accesses under way.
    pub fn under_way(&self) -> usize {
        self.reads.len() + self.stores.len()
    }

    fn send(&self, line: Line, message: Message<Block>, wires: &mut Wires) {
        send_coherence(self.part, line, None, message, 0, wires);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coherence::{Grant, Source};

    fn data(value: u64) -> Message<Block> {
        let data = Block::from_words([value; 8]);
        Message::Response(Response::Data {
            data,
            grant: Grant::Shared,
            acks: 0,
            source: Source::Home,
        })
    }

    /// An answer from before the queue was made anew is not its content.
    #[test]
    fn a_block_that_has_changed_meanwhile_is_read_again() {
        let machine = crate::machine::load("manycore-ni", &[]).unwrap();
        let (mut wires, mut homes) = (Wires::new(&machine, 0, 1).unwrap(), Homes::new(0));
        assert_eq!(homes.read(3, &mut wires), None);
        homes.changed(3);
        homes.deliver(3, data(1), &mut wires);
        assert_eq!((homes.read(3, &mut wires), homes.under_way()), (None, 1));
        homes.deliver(3, data(2), &mut wires);
        assert_eq!(homes.read(3, &mut wires), Some([2; 8]));
        assert_eq!(homes.under_way(), 0);
    }

    #[test]
    fn a_block_has_one_store_at_a_time() {
        let machine = crate::machine::load("manycore-ni", &[]).unwrap();
        let (mut wires, mut homes) = (Wires::new(&machine, 0, 1).unwrap(), Homes::new(0));
        let line = wires.layout.cq_line(1, 0);
        assert!(homes.write(line, 0, 7, &mut wires));
        assert!(!homes.write(line, 1, 8, &mut wires));
        assert!(homes.stores_to(1, &wires.layout) && !homes.stores_to(0, &wires.layout));
        homes.deliver(line, Message::Response(Response::Updated(None)), &mut wires);
        assert!(!homes.stores_to(1, &wires.layout));
        assert!(homes.write(line, 1, 8, &mut wires));
    }
}
