//! Work and completion queues behind the queue pair that the program sees.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use rackmem_abi::{CqEntry, MAX_WQ_SIZE, WqEntry, phase_of};
use rackmem_rmc::Work;

use crate::shm::queue::QueueMemory;

/// The waiter for an entry of a WQ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiter {
    /// The entry is free.
    Nobody,
    /// An asynchronous operation in this slot of the program.
    Slot(u16),
    /// The calling thread, in `execute`.
    Thread,
}

/// An operation that has completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Completion {
    pub(super) waiter: Waiter,
    pub(super) status_code: u8,
    pub(super) length: u32,
}

/// The side of a queue pair that posts, with a waiter for each entry.
pub(super) struct Rings {
    pub(super) memory: Arc<QueueMemory>,
    size: u32,
    /// Entries ever posted.
    posted: u32,
    /// Completions ever taken.
    pub(super) reaped: u32,
    /// By entry of the WQ.
    waiters: [Waiter; MAX_WQ_SIZE],
    /// By entry of the WQ, bytes of its operation.
    lengths: [u32; MAX_WQ_SIZE],
}

impl Rings {
    pub(super) fn new(memory: Arc<QueueMemory>, size: u32) -> Rings {
        let waiters = [Waiter::Nobody; MAX_WQ_SIZE];
        Rings { memory, size, posted: 0, reaped: 0, waiters, lengths: [0; MAX_WQ_SIZE] }
    }

    fn next_entry(&self) -> u32 {
        self.posted & (self.size - 1)
    }

    /// Whether the next entry is free. Completions come in any order, so others may be while it is not.
    pub(super) fn has_room(&self) -> bool {
        self.waiters[self.next_entry() as usize] == Waiter::Nobody
    }

    /// Posts an operation; there is room.
    pub(super) fn post(&mut self, work: &Work, waiter: Waiter) {
        let index = self.next_entry();
        let words = WqEntry {
            phase: phase_of(self.posted, self.size),
            op_code: work.op as u8,
            dst_nid: work.dst_nid,
            offset: work.offset,
            length: work.length,
            buffer: work.buffer,
        }
        .encode();
        self.memory.wq_word(index, 1).store(words[1], Ordering::Relaxed);
        // Publishes the entry; pairs with the acquire load of word 0.
        self.memory.wq_word(index, 0).store(words[0], Ordering::Release);
        self.waiters[index as usize] = waiter;
        self.lengths[index as usize] = work.length;
        self.posted = self.posted.wrapping_add(1);
    }

    /// The next completion, if it has come.
    pub(super) fn completion(&self) -> Option<CqEntry> {
        let word = self.memory.cq_entry(self.reaped & (self.size - 1)).load(Ordering::Acquire);
        let entry = CqEntry::decode(word);
        let is_new = entry.phase == phase_of(self.reaped, self.size);
        (is_new && self.reaped != self.posted).then_some(entry)
    }

    /// Takes the next completion, if it has come.
    pub(super) fn take(&mut self) -> Option<Completion> {
        let entry = self.completion()?;
        self.reaped = self.reaped.wrapping_add(1);
        let index = u32::from(entry.slot) & (self.size - 1);
        let length = self.lengths[index as usize];
        Some(Completion { waiter: self.free(index), status_code: entry.status_code, length })
    }

    /// Operations that have not completed, as far as completions were taken.
    pub(super) fn in_flight(&self) -> u32 {
        self.posted.wrapping_sub(self.reaped)
    }

    /// Gives up an entry that has not completed, and returns its waiter.
    pub(super) fn give_up(&mut self) -> Option<Waiter> {
        let index = (0..self.size).find(|index| self.waiters[*index as usize] != Waiter::Nobody)?;
        Some(self.free(index))
    }

    fn free(&mut self, index: u32) -> Waiter {
        std::mem::replace(&mut self.waiters[index as usize], Waiter::Nobody)
    }
}

#[cfg(test)]
mod tests {
    use rackmem_abi::{Op, Status};

    use super::*;

    fn taken(rings: &mut Rings) -> Option<(Waiter, u8)> {
        rings.take().map(|done| (done.waiter, done.status_code))
    }

    fn queues(size: u32) -> Rings {
        Rings::new(Arc::new(QueueMemory::create("mixed-test").unwrap()), size)
    }

    fn read(offset: u64) -> Work {
        Work { op: Op::Read, dst_nid: 1, offset, length: 64, buffer: 4096 }
    }

    /// The daemon's part: completes an entry at a position of the CQ.
    fn complete(queues: &Rings, position: u32, slot: u16, status: Status) {
        let phase = phase_of(position, queues.size);
        let entry = CqEntry { phase, slot, status_code: status as u8 };
        let word = queues.memory.cq_entry(position & (queues.size - 1));
        word.store(entry.encode(), Ordering::Release);
    }

    #[test]
    fn entries_have_the_phase_of_their_round_and_their_own_waiter() {
        let mut queues = queues(4);
        for round in 0..3u32 {
            for index in 0..4u32 {
                assert!(queues.has_room());
                queues.post(&read(u64::from(index) * 64), Waiter::Slot(3 - index as u16));
                let entry = WqEntry::decode(queues.memory.wq_words(index));
                assert_eq!(entry.phase, round % 2 == 0);
                assert_eq!(entry.offset, u64::from(index) * 64);
            }
            assert!(!queues.has_room());
            assert_eq!(queues.take(), None);
            for (n, index) in [2u16, 0, 3, 1].into_iter().enumerate() {
                complete(&queues, round * 4 + n as u32, index, Status::Ok);
                assert_eq!(taken(&mut queues), Some((Waiter::Slot(3 - index), 0)));
            }
            assert_eq!(queues.take(), None, "the completions of the round before are old");
        }
    }

    #[test]
    fn there_is_no_room_while_the_next_entry_is_in_flight() {
        let mut queues = queues(2);
        queues.post(&read(0), Waiter::Thread);
        queues.post(&read(64), Waiter::Slot(1));
        complete(&queues, 0, 1, Status::OutOfSegment);
        assert_eq!(taken(&mut queues), Some((Waiter::Slot(1), Status::OutOfSegment as u8)));
        assert!(!queues.has_room());
        complete(&queues, 1, 0, Status::Ok);
        assert_eq!(taken(&mut queues), Some((Waiter::Thread, 0)));
        assert!(queues.has_room());
    }

    #[test]
    fn what_is_given_up_is_given_up_once() {
        let mut queues = queues(4);
        queues.post(&read(0), Waiter::Slot(2));
        queues.post(&read(64), Waiter::Thread);
        queues.post(&read(128), Waiter::Slot(0));
        complete(&queues, 0, 1, Status::Ok);
        assert_eq!(taken(&mut queues), Some((Waiter::Thread, 0)));
        assert_eq!(queues.give_up(), Some(Waiter::Slot(2)));
        assert_eq!(queues.give_up(), Some(Waiter::Slot(0)));
        assert_eq!(queues.give_up(), None);
    }
}
