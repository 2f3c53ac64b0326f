//! The memory access queue: every read and write of the RMC on its way to the L1 (soNUMA §4.3).
//!
//! Accesses are performed out of order. Only those that touch the same bytes, one of them writing,
//! keep the order in which the queue took them, and a load whose bytes the youngest such store has
//! takes them from there: *store-to-load forwarding*.
//!
//! Two interfaces lead to the L1. The line-wide one moves a block, or a part of one, in a port's
//! cycle; the word-wide one a word. An access is atomic: all its bytes are of one moment.

use std::ops::Range;

use arrayvec::ArrayVec;

use super::memory::L1;
use super::slots::{MAX_SLOTS, Slots};
use super::spec::RmcSpec;
use crate::block::{Line, Mask, Words, mask, merge};
use crate::engine::Cycle;

/// The source of an access: the arbiter of a pipeline, or of the page walker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Request completion.
    Rcp,
    /// Remote request processing.
    Rrpp,
    /// Request generation.
    Rgp,
    /// Page walks.
    Walker,
}

/// Number of [`Source`]s.
pub const SOURCES: usize = 4;

/// The destination of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// Arbiter that the access came from.
    pub source: Source,
    /// Stage of that pipeline, if it does not follow from the transaction.
    pub stage: u8,
    /// Transaction of that pipeline.
    pub slot: u16,
}

/// The kind of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Reads the masked bytes.
    Load,
    /// Writes the masked bytes of the data.
    Store,
    /// Adds the first word of the data to the masked word; answers the old value.
    FetchAdd,
    /// Sets the masked word to the second word of the data if it equals the first; answers what
    /// was there.
    CompareSwap,
}

/// An interface of the L1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interface {
    /// A word a cycle: queue entries, tables, atomics.
    Word,
    /// A block a cycle: data.
    Line,
}

/// A read or write within one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The block.
    pub line: Line,
    /// Bytes of the block that it touches.
    pub mask: Mask,
    /// Load, store or atomic.
    pub action: Action,
    /// By which interface.
    pub interface: Interface,
    /// Bytes to write, at their place in the block, or operands.
    pub data: Words,
}

impl Access {
    /// Reads `bytes` bytes at a physical address.
    #[inline]
    pub const fn load(address: u64, bytes: usize, interface: Interface) -> Access {
        let mask = mask(address as usize % 64, bytes);
        Access { line: address / 64, mask, action: Action::Load, interface, data: [0; 8] }
    }

    /// Writes the bytes that start at a physical address, out of a block.
    #[inline]
    pub const fn store(address: u64, bytes: usize, data: Words, interface: Interface) -> Access {
        let mask = mask(address as usize % 64, bytes);
        Access { line: address / 64, mask, action: Action::Store, interface, data }
    }

    /// An atomic operation on the word at a physical address.
    #[inline]
    pub const fn atomic(address: u64, action: Action, operands: [u64; 2]) -> Access {
        let data = [operands[0], operands[1], 0, 0, 0, 0, 0, 0];
        let mask = mask(address as usize % 64, 8);
        Access { line: address / 64, mask, action, interface: Interface::Word, data }
    }

    /// Whether it writes one of these blocks.
    pub fn stores_to(&self, lines: &Range<Line>) -> bool {
        self.action != Action::Load && lines.contains(&self.line)
    }

    #[inline]
    fn overlaps(&self, other: &Access) -> bool {
        self.line == other.line && self.mask & other.mask != 0
    }

    /// Applies the access to a block.
    #[inline]
    fn apply(&self, block: &mut Words) {
        let word = (self.mask.trailing_zeros() / 8) as usize;
        match self.action {
            Action::Load => {}
            Action::Store => merge(block, &self.data, self.mask),
            Action::FetchAdd => block[word] = block[word].wrapping_add(self.data[0]),
            Action::CompareSwap if block[word] == self.data[0] => block[word] = self.data[1],
            Action::CompareSwap => {}
        }
    }
}

/// An access that is done.
#[derive(Clone, Copy, Debug)]
pub struct Response {
    /// As the access had it.
    pub tag: Tag,
    /// The block as a load or atomic has found it; only the masked bytes count.
    pub words: Words,
}

/// Counters of the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MaqStats {
    /// Accesses taken.
    pub accesses: u64,
    /// Loads that a store in the queue has answered.
    pub forwarded: u64,
    /// Accesses that found their block.
    pub hits: u64,
    /// Accesses that had to wait for their block.
    pub misses: u64,
    /// Largest number of accesses in the queue.
    pub peak: u32,
}

/// The progress of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Not tried, or to be tried again.
    Waiting,
    /// The L1 has been asked for the block.
    Missed,
    /// Performed; the answer is there at this cycle.
    Done(Cycle),
}

#[derive(Clone, Debug)]
struct Entry {
    access: Access,
    /// `None`: nobody waits for the answer.
    tag: Option<Tag>,
    state: State,
    words: Words,
}

/// The obstacle that an access finds among older ones.
enum Older {
    /// Nothing.
    Clear,
    /// An older access to the same bytes.
    Blocks,
    /// A store that has all the bytes.
    Forwards(Words),
}

/// The result of an attempt to perform an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attempt {
    /// It has to wait for its elders, or for a miss status register.
    Blocked,
    /// Answered from the queue.
    Forwarded,
    /// Performed.
    Hit,
    /// The block has to come.
    Miss,
}

/// The memory access queue.
#[derive(Clone, Debug)]
pub struct Maq {
    entries: Slots<Entry>,
    /// Entries that are kept for the poll.
    reserved: usize,
    capacity: usize,
    /// Blocks that the L1 has been asked for.
    pending: ArrayVec<Line, MAX_SLOTS>,
    mshrs: usize,
    /// Port cycles that have been given away, from `last` on.
    owed: u32,
    ports: u32,
    last: Cycle,
    latency: u64,
    forward_cycles: u64,
    word_bytes: u32,
    stats: MaqStats,
}

impl Maq {
    /// An empty queue.
    pub fn new(spec: &RmcSpec) -> Self {
        Self {
            entries: Slots::new(spec.maq_entries),
            reserved: 0,
            capacity: spec.maq_entries as usize,
            pending: ArrayVec::new(),
            mshrs: spec.l1_mshrs as usize,
            owed: 0,
            ports: spec.l1_ports,
            last: 0,
            latency: u64::from(spec.l1_latency_cycles),
            forward_cycles: u64::from(spec.forward_cycles),
            word_bytes: spec.word_bytes,
            stats: MaqStats::default(),
        }
    }

    /// Whether an access would be taken.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.entries.len() + self.reserved < self.capacity
    }

    /// Keeps an entry for the poll, or gives it back.
    pub fn reserve_poll(&mut self, polls: bool) {
        self.reserved = usize::from(polls);
    }

    /// Takes an access; without a tag nobody waits for it.
    ///
    /// # Panics
    /// If there is no room.
    #[inline]
    pub fn accept(&mut self, access: Access, tag: Option<Tag>) {
        let entry = Entry { access, tag, state: State::Waiting, words: [0; 8] };
        self.entries.put(entry).expect("room in the MAQ");
        self.stats.accesses += 1;
        self.stats.peak = self.stats.peak.max(self.entries.len() as u32);
    }

    /// Begins a cycle: the ports are free again, as far as long accesses have left them.
    #[inline]
    pub fn begin(&mut self, now: Cycle) {
        let passed = u64::from(self.ports) * (now - self.last);
        self.owed = u64::from(self.owed).saturating_sub(passed) as u32;
        self.last = now;
    }

    /// The poll takes a port for this cycle: it comes before all others.
    #[inline]
    pub fn poll(&mut self) {
        self.owed += 1;
    }

    /// Appends the answers that are there, and frees their entries.
    #[inline]
    pub fn collect(&mut self, now: Cycle, out: &mut Vec<Response>) {
        let mut age = 0;
        while let Some(slot) = self.entries.at(age) {
            match self.entries.get(slot) {
                Some(Entry { state: State::Done(at), tag, words, .. }) if *at <= now => {
                    out.extend(tag.map(|tag| Response { tag, words: *words }));
                    self.entries.remove_at(age);
                }
                _ => age += 1,
            }
        }
    }

    /// Gives the ports to the oldest accesses that can use them. Appends the blocks that have been
    /// written.
    pub fn issue<M: L1>(&mut self, now: Cycle, l1: &mut M, written: &mut Vec<Line>) {
        for age in 0..self.entries.len() {
            if self.owed >= self.ports {
                return;
            }
            if !self.is_waiting(age) {
                continue;
            }
            let words = self.words_of(age);
            let ready = now + self.latency + u64::from(words) - 1;
            match self.attempt(age, now, ready, l1, written) {
                Attempt::Blocked | Attempt::Forwarded => {}
                // A miss has looked at the tags only.
                Attempt::Miss => {
                    self.owed += 1;
                    self.stats.misses += 1;
                }
                Attempt::Hit => {
                    self.owed += words;
                    self.stats.hits += 1;
                }
            }
        }
    }

    /// A block has come, or the right to change it: accesses that wait for it get it as it passes, without
    /// a port and before it can go away again. Or it has gone: then its place is for the oldest access, and
    /// not for one that wants it back, or polls of a few queues that share a set would keep others out for
    /// ever. Others that had to wait may try.
    pub fn filled<M: L1>(&mut self, now: Cycle, line: Line, l1: &mut M, written: &mut Vec<Line>) {
        if !l1.is_pending(line) {
            self.pending.retain(|pending| *pending != line);
        }
        let has_come = l1.peek(line).is_some();
        for age in 0..self.entries.len() {
            let Some(entry) = self.entry_mut(age) else { continue };
            if has_come && entry.state == State::Missed && entry.access.line == line {
                entry.state = State::Waiting;
                self.attempt(age, now, now, l1, written);
            }
        }
        for age in 0..self.entries.len() {
            let Some(slot) = self.entries.at(age) else { continue };
            let Some(entry) = self.entries.get_mut(slot) else { continue };
            // The L1 had no place for it; now it may.
            if entry.state == State::Missed && !self.pending.contains(&entry.access.line) {
                entry.state = State::Waiting;
            }
        }
    }

    /// The next cycle, not before `from`, with something to do, unless something comes from outside.
    pub fn next(&self, from: Cycle) -> Option<Cycle> {
        if self.owed > self.ports {
            return Some(from);
        }
        let of = |entry: &Entry| match entry.state {
            State::Waiting => Some(from),
            State::Missed => None,
            State::Done(at) => Some(at.max(from)),
        };
        self.entries.iter().filter_map(of).min()
    }

    /// Accesses that are not done.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether a store to one of these blocks is in the queue and not performed.
    pub fn has_store_to(&self, lines: &Range<Line>) -> bool {
        let is_done = |entry: &Entry| matches!(entry.state, State::Done(_));
        self.entries.iter().any(|entry| !is_done(entry) && entry.access.stores_to(lines))
    }

    /// Whether all is done.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Accesses, hits and misses so far.
    pub const fn stats(&self) -> &MaqStats {
        &self.stats
    }

    fn is_waiting(&self, age: usize) -> bool {
        let entry = self.entries.at(age).and_then(|slot| self.entries.get(slot));
        entry.is_some_and(|entry| entry.state == State::Waiting)
    }

    fn entry_mut(&mut self, age: usize) -> Option<&mut Entry> {
        let slot = self.entries.at(age)?;
        self.entries.get_mut(slot)
    }

    /// Port cycles of an access.
    fn words_of(&self, age: usize) -> u32 {
        let entry = self.entries.at(age).and_then(|slot| self.entries.get(slot));
        match entry.map(|entry| &entry.access) {
            Some(Access { interface: Interface::Word, mask, .. }) => {
                mask.count_ones().div_ceil(self.word_bytes).max(1)
            }
            _ => 1,
        }
    }

    /// Performs an access if it may be and its block is there.
    fn attempt<M: L1>(
        &mut self,
        age: usize,
        now: Cycle,
        ready: Cycle,
        l1: &mut M,
        written: &mut Vec<Line>,
    ) -> Attempt {
        let older = self.older(age);
        let (pending, mshrs) = (&mut self.pending, self.mshrs);
        let Some(slot) = self.entries.at(age) else { return Attempt::Blocked };
        let Some(entry) = self.entries.get_mut(slot) else { return Attempt::Blocked };
        match older {
            Older::Clear => {}
            Older::Blocks => return Attempt::Blocked,
            Older::Forwards(words) => {
                entry.words = words;
                entry.state = State::Done(now + self.forward_cycles);
                self.stats.forwarded += 1;
                return Attempt::Forwarded;
            }
        }
        let access = entry.access;
        let line = access.line;
        let is_load = access.action == Action::Load;
        let hits = if is_load { l1.peek(line).is_some() } else { l1.is_owned(line) };
        if !hits {
            if pending.contains(&line) {
                entry.state = State::Missed;
                return Attempt::Miss;
            }
            if pending.len() >= mshrs {
                return Attempt::Blocked;
            }
        }
        let mut found = None;
        if is_load {
            found = l1.load(line);
        } else if l1.store(line, |block| {
            found = Some(*block);
            access.apply(block);
        }) {
            written.push(line);
        }
        match found {
            Some(words) => {
                entry.words = words;
                entry.state = State::Done(ready);
                Attempt::Hit
            }
            None => {
                entry.state = State::Missed;
                if l1.is_pending(line) {
                    pending.push(line);
                }
                Attempt::Miss
            }
        }
    }

    /// Looks for an obstacle among the older accesses to the same bytes.
    fn older(&self, age: usize) -> Older {
        let Some(access) = self.entries.at(age).and_then(|slot| self.entries.get(slot)) else {
            return Older::Blocks;
        };
        let access = &access.access;
        let mut result = Older::Clear;
        for older in self.entries.iter().take(age) {
            if matches!(older.state, State::Done(_)) || !older.access.overlaps(access) {
                continue;
            }
            result = match (older.access.action, access.action) {
                (Action::Load, Action::Load) => continue,
                (Action::Store, Action::Load) if access.mask & !older.access.mask == 0 => {
                    Older::Forwards(older.access.data)
                }
                _ => Older::Blocks,
            };
            if access.action != Action::Load {
                break;
            }
        }
        result
    }
}
