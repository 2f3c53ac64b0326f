//! Memory that caches do not keep, and the DMA engine at its controller (CINI §4): it takes the same
//! packets as a scratchpad all of whose lines are plain.

use std::collections::VecDeque;
use std::convert::Infallible;

use super::LINE_BYTES;
use super::packet::{Class, Packet};
use super::region::DRAM;
use super::transfer::{Transfer, gather};
use crate::block::{Words, mask, merge, words_at};

/// Lines of a chunk, which comes into being when one of them is written.
const CHUNK: usize = 1024;

/// A read that is being answered: from where, and where to.
type Answer = (u64, Transfer);

/// Uncached memory with its DMA engine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Dram {
    chunks: Vec<Option<Box<[Words; CHUNK]>>>,
    answers: VecDeque<Answer>,
    acks: VecDeque<Packet>,
    reads: usize,
}

impl Dram {
    /// So many bytes, zeroed; the engine answers so many reads at a time.
    pub fn new(bytes: u64, reads: usize) -> Dram {
        let chunks = bytes.div_ceil(u64::from(LINE_BYTES)).div_ceil(CHUNK as u64) as usize;
        Dram { chunks: vec![None; chunks], answers: VecDeque::new(), acks: VecDeque::new(), reads }
    }

    /// The lines that are not zero, by number.
    pub fn lines(&self) -> impl Iterator<Item = (u64, Words)> {
        let chunks = (0..).zip(&self.chunks);
        let lines = chunks.filter_map(|(at, chunk): (u64, _)| Some((at, chunk.as_ref()?)));
        let lines = lines.flat_map(|(at, chunk)| (at * CHUNK as u64..).zip(chunk.iter().copied()));
        lines.filter(|(_, words)| *words != [0; 8])
    }

    /// Sets a line by its number; whether there is one.
    pub fn set(&mut self, line: u64, words: Words) -> bool {
        let is_there = line / (CHUNK as u64) < self.chunks.len() as u64;
        if is_there {
            *self.line_mut(line * u64::from(LINE_BYTES)) = words;
        }
        is_there
    }

    /// Whether there is room for the answer or acknowledgement that the arrival of a packet causes.
    pub fn has_room(&self, class: Class) -> bool {
        match class {
            Class::Read => self.answers.len() < self.reads,
            Class::Write | Class::Reply => self.acks.len() < self.reads,
            Class::Ack => true,
        }
    }

    /// A packet arrives.
    pub fn arrive(&mut self, packet: &Packet) {
        match *packet {
            Packet::Read { source, destination, ack, bytes } => {
                let transfer = Transfer { destination, ack, bytes, done: 0 };
                self.answers.push_back((source - DRAM, transfer));
            }
            Packet::Write { line, mask, words, ack, .. } => {
                merge(self.line_mut(line - DRAM), &words, mask);
                if ack != 0 {
                    self.acks.push_back(Packet::Ack {
                        address: ack,
                        bytes: mask.count_ones(),
                        is_refusal: false,
                    });
                }
            }
            Packet::Ack { address, bytes, is_refusal } => {
                let at = (address % u64::from(LINE_BYTES) / 8 * 8) as usize;
                let words = words_at(at, &Packet::ack_word(bytes, is_refusal).to_le_bytes());
                merge(self.line_mut(address - DRAM), &words, mask(at, 8));
            }
        }
    }

    /// Whether something waits to leave.
    pub fn has_work(&self) -> bool {
        !self.answers.is_empty() || !self.acks.is_empty()
    }

    /// The next packet to leave, of a class of which one `may` leave.
    pub fn emit(&mut self, may: impl Fn(Class) -> bool) -> Option<Packet> {
        if may(Class::Ack)
            && let Some(ack) = self.acks.pop_front()
        {
            return Some(ack);
        }
        if !may(Class::Reply) {
            return None;
        }
        let (offset, mut transfer) = self.answers.pop_front()?;
        let content = |at, length| {
            gather(offset + u64::from(at), length, |line| Ok(self.line(line as usize)))
        };
        let Ok(packet) = transfer.next::<Infallible>(content, true);
        if !transfer.is_done() {
            self.answers.push_back((offset, transfer));
        }
        Some(packet)
    }

    fn line(&self, line: usize) -> Words {
        self.chunks[line / CHUNK].as_ref().map_or([0; 8], |chunk| chunk[line % CHUNK])
    }

    fn line_mut(&mut self, offset: u64) -> &mut Words {
        let line = (offset / u64::from(LINE_BYTES)) as usize;
        let chunk = self.chunks[line / CHUNK].get_or_insert_with(|| Box::new([[0; 8]; CHUNK]));
        &mut chunk[line % CHUNK]
    }
}
