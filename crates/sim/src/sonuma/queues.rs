//! The queue pairs of an RMC, and the polling of their work queues: the queue part of the CT$ with
//! heads and tails, and the first stages of the RGP (soNUMA §4.2, §4.3).
//!
//! The polls have their turns: one every few cycles, of one queue pair after the other, whether or
//! not there is anything to see, but only while the RGP could take an entry: a full RGP holds the
//! turn, so nobody loses his. A poll comes before all other accesses to the L1 and takes one
//! port for one cycle. So its time depends on nothing but the cycle, and a poll that would see what
//! it saw before can be left out: the queue pair sleeps until its block is taken away or written,
//! and the next of its turns is just the one that would have noticed. What is left out of a poll is
//! the look; the port is taken all the same.

use std::collections::VecDeque;

use rackmem_abi::{Status, WQ_ENTRY_BYTES};
use rackmem_rmc::qp::{Cursor, Qp};
use rackmem_rmc::{QpConfig, QpId, Work, rgp};

use super::arbiter::{Arbiters, Wait};
use super::ct::QueuePair;
use super::maq::{Access, Interface, Maq, Source, Tag};
use super::memory::L1;
use super::spec::RmcSpec;
use crate::block::{BLOCK_BYTES, Line, Words};
use crate::engine::Cycle;

/// The stage in the tags of polls; others of the RGP have smaller numbers.
pub const POLL: u8 = u8::MAX;

/// The RMC's knowledge of the next entry of a work queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Watch {
    /// Nothing: the next turn looks.
    Due,
    /// It is not new, and the block has not changed since.
    Asleep(Line),
    /// The block has been asked for.
    Waiting,
    /// The queue pair that had the register before has asked for a block; the answer is not for this one.
    Stale,
    /// The last operation of its slot is not complete.
    SlotBusy,
}

#[derive(Clone, Debug)]
struct Pair {
    state: Qp,
    place: QueuePair,
    generation: u16,
    is_present: bool,
    watch: Watch,
}

impl Pair {
    /// Whether a poll of it, or of one that had its register before, waits for its block.
    fn is_asking(&self) -> bool {
        matches!(self.watch, Watch::Waiting | Watch::Stale)
    }
}

/// A work queue entry that has been found.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// Cycle in which the check is done.
    pub ready_at: Cycle,
    pub qp: QpId,
    /// Index of the entry in its WQ.
    pub slot: u16,
    /// The work, or the check that failed.
    pub work: Result<Work, Status>,
}

#[derive(Clone, Debug)]
pub struct Queues {
    pairs: Vec<Pair>,
    found: VecDeque<Found>,
    capacity: usize,
    max_pairs: usize,
    interval: u64,
    latency: u64,
    /// Further words of an entry, which are loaded if the first one is new.
    more_words: u32,
    nodes: u16,
    /// Polls whose block has been asked for.
    waiting: usize,
    asleep: usize,
    sleeps: bool,
    /// Turns so far, and the first cycle whose turn is not among them.
    turns: u64,
    counted: Cycle,
}

impl Queues {
    /// Without queue pairs, in a rack of `nodes` nodes.
    pub fn new(spec: &RmcSpec, nodes: u16) -> Self {
        Self {
            pairs: Vec::new(),
            found: VecDeque::with_capacity(spec.rgp_entries as usize),
            capacity: spec.rgp_entries as usize,
            max_pairs: spec.queue_pairs as usize,
            interval: u64::from(spec.poll_interval_cycles),
            latency: u64::from(spec.l1_latency_cycles),
            more_words: (WQ_ENTRY_BYTES as u32).div_ceil(spec.word_bytes) - 1,
            nodes,
            waiting: 0,
            asleep: 0,
            sleeps: true,
            turns: 0,
            counted: 0,
        }
    }

    /// Polls of unchanged blocks are made, not left out. Nothing else differs.
    pub fn keep_awake(&mut self) {
        self.sleeps = false;
    }

    /// Registers a queue pair of a context whose rings are at these positions and have nothing in
    /// flight; its name. `None` if there is no register for it, or the size or a position is out of
    /// range.
    pub fn attach(&mut self, ctx_id: u16, place: QueuePair, cursors: [Cursor; 2]) -> Option<QpId> {
        let config = QpConfig { ctx_id, size: u32::from(place.size), rights: place.rights };
        let state = Qp::at(config, cursors)?;
        let index = self.free_register()?;
        let last = self.pairs.get(index);
        let generation = last.map_or(0, |pair| pair.generation);
        let watch = if last.is_some_and(Pair::is_asking) { Watch::Stale } else { Watch::Due };
        let pair = Pair { state, place, generation, is_present: true, watch };
        if index < self.pairs.len() {
            self.pairs[index] = pair;
        } else {
            self.pairs.push(pair);
        }
        Some(QpId::new(index as u16, generation))
    }

    /// A register of no queue pair, whose next one can poll at once if there is such a register.
    fn free_register(&self) -> Option<usize> {
        let is_free = |pair: &Pair| !pair.is_present;
        let at_once = self.pairs.iter().position(|pair| is_free(pair) && !pair.is_asking());
        let next = (self.pairs.len() < self.max_pairs).then_some(self.pairs.len());
        at_once.or(next).or_else(|| self.pairs.iter().position(is_free))
    }

    /// Forgets a queue pair. Its operations under way are still answered, but nothing is stored or
    /// completed. `false` if it is not there.
    pub fn detach(&mut self, qp: QpId) -> bool {
        if self.get(qp).is_none() {
            return false;
        }
        let pair = &mut self.pairs[qp.index()];
        pair.is_present = false;
        pair.generation = pair.generation.wrapping_add(1);
        if let Watch::Asleep(_) = pair.watch {
            pair.watch = Watch::Due;
            self.asleep -= 1;
        }
        true
    }

    /// A queue pair's state, unless it is gone.
    #[inline]
    pub fn get(&self, qp: QpId) -> Option<&Qp> {
        let pair = self.pairs.get(qp.index())?;
        let is_it = pair.is_present && QpId::new(qp.index() as u16, pair.generation) == qp;
        is_it.then_some(&pair.state)
    }

    /// Whether any queue pair is registered.
    pub fn is_empty(&self) -> bool {
        self.pairs.iter().all(|pair| !pair.is_present)
    }

    /// RCP stage 4: physical address and word of the completion queue entry for a slot. `None` if
    /// the queue pair is gone.
    pub fn complete(
        &mut self,
        qp: QpId,
        slot: u16,
        status: Status,
        bytes: u32,
    ) -> Option<(u64, u32)> {
        self.get(qp)?;
        let pair = &mut self.pairs[qp.index()];
        let (position, word) = pair.state.complete(slot, status, bytes);
        if pair.watch == Watch::SlotBusy {
            pair.watch = Watch::Due;
        }
        Some((pair.place.cq + u64::from(position) * 4, word))
    }

    /// The queue pair whose turn it is looks at its next entry (RGP stages 1 to 4).
    pub fn poll<M: L1>(&mut self, now: Cycle, l1: &M, maq: &mut Maq, arbiters: &mut Arbiters) {
        let Some(index) = self.turn(now) else { return };
        let pair = &mut self.pairs[index];
        if !pair.is_present {
            return;
        }
        match pair.watch {
            Watch::Due => {}
            Watch::Asleep(_) => return maq.poll(),
            Watch::Waiting | Watch::Stale | Watch::SlotBusy => return,
        }
        let next = pair.state.next_entry();
        if pair.state.is_outstanding(next.index) {
            pair.watch = Watch::SlotBusy;
            return;
        }
        maq.poll();
        let address = pair.place.wq + u64::from(next.index) * WQ_ENTRY_BYTES as u64;
        if let Some(words) = l1.peek(address / BLOCK_BYTES) {
            let more = u64::from(self.more_words);
            if self.look(index, &words, now + self.latency + more) {
                (0..self.more_words).for_each(|_| maq.poll());
            }
            return;
        }
        pair.watch = Watch::Waiting;
        self.waiting += 1;
        let tag = Tag { source: Source::Rgp, stage: POLL, slot: index as u16 };
        let access = Access::load(address, WQ_ENTRY_BYTES, Interface::Word);
        arbiters.ask(now, access, tag, Wait::Done);
    }

    /// The block that a poll waited for has come.
    pub fn respond(&mut self, now: Cycle, index: u16, words: &Words) {
        self.waiting -= 1;
        let index = usize::from(index);
        let pair = &mut self.pairs[index];
        if !pair.is_present || pair.watch == Watch::Stale {
            pair.watch = Watch::Due;
            return;
        }
        self.look(index, words, now);
        let watch = &mut self.pairs[index].watch;
        // The load may have found it some cycles ago: only a poll knows whether it still is so.
        if let Watch::Asleep(_) = watch {
            *watch = Watch::Due;
            self.asleep -= 1;
        }
    }

    /// A block has been written by the RMC itself, or can no longer be read.
    #[inline]
    pub fn changed(&mut self, line: Line) {
        if self.asleep == 0 {
            return;
        }
        for pair in &mut self.pairs {
            if pair.is_present && pair.watch == Watch::Asleep(line) {
                pair.watch = Watch::Due;
                self.asleep -= 1;
            }
        }
    }

    /// The oldest entry that has been found and is checked.
    #[inline]
    pub fn front(&self, now: Cycle) -> Option<Found> {
        self.found.front().filter(|found| found.ready_at <= now).copied()
    }

    /// Removes the entry that [`Queues::front`] has shown.
    #[inline]
    pub fn pop(&mut self) {
        self.found.pop_front();
    }

    /// The cycle, not before `from`, in which an entry is checked or the next poll is due.
    pub fn next(&self, from: Cycle) -> Option<Cycle> {
        let checked = self.found.front().map(|found| found.ready_at.max(from));
        let polled = if self.has_room() { self.next_poll(from) } else { None };
        [checked, polled].into_iter().flatten().min()
    }

    /// Entries found and not begun, and polls that wait for their block.
    pub fn under_way(&self) -> usize {
        self.found.len() + self.waiting
    }

    /// Operations that are not complete.
    pub fn in_flight(&self) -> u32 {
        let present = self.pairs.iter().filter(|pair| pair.is_present);
        present.map(|pair| pair.state.in_flight()).sum()
    }

    /// Whether one more entry could be taken if every poll under way finds one.
    fn has_room(&self) -> bool {
        self.found.len() + self.waiting < self.capacity
    }

    /// The queue pair whose turn it is in this cycle. Counts the turns of the cycles since the last call:
    /// nothing but a call changes whether there is room.
    fn turn(&mut self, now: Cycle) -> Option<usize> {
        let (first, here) = (self.counted.div_ceil(self.interval), now.div_ceil(self.interval));
        self.counted = now + 1;
        if !self.has_room() {
            return None;
        }
        self.turns += here - first;
        if now % self.interval != 0 || self.pairs.is_empty() {
            return None;
        }
        let turn = self.turns;
        self.turns += 1;
        Some((turn % self.pairs.len() as u64) as usize)
    }

    fn next_poll(&self, from: Cycle) -> Option<Cycle> {
        let count = self.pairs.len() as u64;
        let (counted, first) = (self.counted.div_ceil(self.interval), from.div_ceil(self.interval));
        let turns = self.turns + (first - counted);
        let turn = |index: u64| (first + (index + count - turns % count) % count) * self.interval;
        let due = |(_, pair): &(usize, &Pair)| pair.is_present && pair.watch == Watch::Due;
        self.pairs.iter().enumerate().filter(due).map(|(index, _)| turn(index as u64)).min()
    }

    /// Stage 4; the words are there at `at`. Whether there is a new entry.
    fn look(&mut self, index: usize, words: &Words, at: Cycle) -> bool {
        let pair = &mut self.pairs[index];
        let next = pair.state.next_entry();
        let address = pair.place.wq + u64::from(next.index) * WQ_ENTRY_BYTES as u64;
        let word = (address % BLOCK_BYTES / 8) as usize;
        let Some(entry) = rgp::accept([words[word], words[word + 1]], next.phase) else {
            pair.watch = Watch::Due;
            if self.sleeps {
                pair.watch = Watch::Asleep(address / BLOCK_BYTES);
                self.asleep += 1;
            }
            return false;
        };
        let work = rgp::check(&entry, self.nodes, pair.state.config().rights);
        let slot = pair.state.take_entry(true);
        pair.watch = Watch::Due;
        let qp = QpId::new(index as u16, pair.generation);
        self.found.push_back(Found { ready_at: at + 1, qp, slot, work });
        true
    }
}
