//! Memory that caches do not keep, and the DMA engine at its controller (CINI §4): it takes the same
//! packets as a scratchpad all of whose lines are plain.

use std::collections::VecDeque;

use super::packet::{Class, Packet};
use super::region::DRAM;
use super::{LINE_BYTES, Words};
use crate::sonuma::memory::{bytes_of, mask, merge, words_at};

/// Lines of a chunk, which comes into being when one of them is written.
const CHUNK: usize = 1024;

/// A read that is being answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Answer {
    offset: u64,
    destination: u64,
    ack: u64,
    bytes: u32,
    done: u32,
}

/// Uncached memory with its DMA engine.
#[derive(Clone, Debug)]
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

    /// Whether there is room for what the arrival of a packet causes.
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
                let offset = source - DRAM;
                self.answers.push_back(Answer { offset, destination, ack, bytes, done: 0 });
            }
            Packet::Write { line, mask, words, ack, .. } => {
                merge(self.line_mut(line - DRAM), &words, mask);
                if ack != 0 {
                    self.acks.push_back(Packet::Ack { address: ack, bytes: mask.count_ones() });
                }
            }
            Packet::Ack { address, bytes } => {
                let at = (address % u64::from(LINE_BYTES) / 8 * 8) as usize;
                let words = words_at(at, &u64::from(bytes).to_le_bytes());
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
        let mut answer = self.answers.pop_front()?;
        let packet = self.piece(&mut answer);
        if answer.done < answer.bytes {
            self.answers.push_back(answer);
        }
        Some(packet)
    }

    fn line(&self, offset: u64) -> Words {
        let line = (offset / u64::from(LINE_BYTES)) as usize;
        self.chunks[line / CHUNK].as_ref().map_or([0; 8], |chunk| chunk[line % CHUNK])
    }

    fn line_mut(&mut self, offset: u64) -> &mut Words {
        let line = (offset / u64::from(LINE_BYTES)) as usize;
        let chunk = self.chunks[line / CHUNK].get_or_insert_with(|| Box::new([[0; 8]; CHUNK]));
        &mut chunk[line % CHUNK]
    }

    /// As much as is in one line of the destination.
    fn piece(&self, answer: &mut Answer) -> Packet {
        let Answer { offset, destination, ack, bytes, done } = *answer;
        let at = destination + u64::from(done);
        let first = (at % u64::from(LINE_BYTES)) as usize;
        let length = (bytes - done).min(LINE_BYTES - first as u32) as usize;
        let mut content = [0; LINE_BYTES as usize];
        for (index, byte) in content[..length].iter_mut().enumerate() {
            let from = offset + u64::from(done) + index as u64;
            *byte = bytes_of(&self.line(from))[(from % u64::from(LINE_BYTES)) as usize];
        }
        answer.done += length as u32;
        Packet::Write {
            line: at - first as u64,
            mask: mask(first, length),
            words: words_at(first, &content[..length]),
            ack,
            is_reply: true,
        }
    }
}
