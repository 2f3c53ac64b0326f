//! The front end: fetch along the predicted path, and the stages up to dispatch.

use rackmem_riscv::Inst;
use rackmem_riscv::space::{Fault, Wanted};

use super::ops::{Kind, OpTable};
use super::outside::Outside;
use super::predict::{Checkpoint, Predictor};
use super::spec::CpuSpec;
use super::stats::Stats;
use crate::block::{BLOCK_BYTES, Line, Tags};
use crate::engine::Cycle;

/// The most instructions on their way to dispatch.
pub(super) const ENTRIES: u32 = 128;

/// An instruction on its way to dispatch, in a line of the host's caches.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Fetched {
    pub(super) inst: Inst,
    pub(super) pc: u64,
    /// Address at which the next one was fetched.
    pub(super) next: u64,
    /// Cycle in which it can be dispatched.
    pub(super) ready_at: Cycle,
    /// The predictor before it.
    pub(super) before: Checkpoint,
    /// Whether there is no instruction: the fault is [`Front::fault`].
    pub(super) faults: bool,
}

const _: () = assert!(size_of::<Fetched>() == 64);

#[derive(Clone, Debug)]
pub(super) struct Front {
    /// Of the next instruction to be fetched.
    pc: u64,
    /// Cycle of its fetch at the earliest.
    at: Cycle,
    /// A ring, its length a power of two.
    queue: Box<[Fetched]>,
    /// The ring's length less 1.
    mask: u32,
    head: u32,
    tail: u32,
    limit: u32,
    width: u32,
    cycles: u64,
    icache: Tags<()>,
    /// Sets and ways of it.
    shape: (u64, u32),
    /// The virtual line that was looked up last, and is held.
    held: Line,
    /// The line that was missed last.
    asked: Line,
    /// Whether the line of `pc` is on its way.
    waits: bool,
    /// Whether a line has come into the cache since [`Front::has_missed`] was last asked.
    filled: bool,
    /// Whether there is nothing to fetch before a redirection: it has come to a trap.
    stopped: bool,
    /// The fault of the trap, if it is a fault.
    fault: Option<Fault>,
}

/// No line has this number.
const NO_LINE: Line = Line::MAX;

impl Front {
    pub(super) fn new(pc: u64, at: Cycle, spec: &CpuSpec) -> Front {
        let nothing = Fetched {
            inst: Inst::illegal(0, 0),
            pc: 0,
            next: 0,
            ready_at: 0,
            before: Checkpoint::default(),
            faults: false,
        };
        let entries = spec.front_end_entries().next_power_of_two();
        let sets = spec.icache_bytes / BLOCK_BYTES / u64::from(spec.icache_ways);
        Front {
            pc,
            at,
            queue: vec![nothing; entries as usize].into(),
            mask: entries - 1,
            head: 0,
            tail: 0,
            limit: spec.front_end_entries(),
            width: spec.fetch_width,
            cycles: spec.front_end_cycles.into(),
            icache: Tags::new(sets, spec.icache_ways),
            shape: (sets, spec.icache_ways),
            held: NO_LINE,
            asked: NO_LINE,
            waits: false,
            filled: false,
            stopped: false,
            fault: None,
        }
    }

    /// Address of the next fetch.
    pub(super) const fn pc(&self) -> u64 {
        self.pc
    }

    /// Address of the next instruction for dispatch.
    pub(super) const fn next_pc(&self) -> u64 {
        match self.head == self.tail {
            true => self.pc,
            false => self.queue[(self.head & self.mask) as usize].pc,
        }
    }

    /// Throws away what was fetched and goes on at `pc`.
    pub(super) fn redirect(&mut self, pc: u64, at: Cycle) {
        self.head = self.tail;
        self.pc = pc;
        self.at = at;
        self.held = NO_LINE;
        self.waits = false;
        self.stopped = false;
    }

    /// Forgets all lines of instructions.
    pub(super) fn clear_cache(&mut self) {
        let (sets, ways) = self.shape;
        self.icache = Tags::new(sets, ways);
        self.held = NO_LINE;
    }

    /// A line may have arrived.
    pub(super) fn complete(&mut self) -> bool {
        std::mem::take(&mut self.waits)
    }

    /// Whether it waits for a line.
    pub(super) fn is_waiting(&self) -> bool {
        self.waits
    }

    /// Whether it waits for a line, or one has come into the cache since this was last asked.
    #[inline(always)]
    pub(super) fn has_missed(&mut self) -> bool {
        std::mem::take(&mut self.filled) || self.waits
    }

    /// The next instruction for dispatch.
    #[inline(always)]
    pub(super) fn peek(&self, now: Cycle) -> Option<&Fetched> {
        let fetched = &self.queue[(self.head & self.mask) as usize];
        (self.head != self.tail && fetched.ready_at <= now).then_some(fetched)
    }

    #[inline(always)]
    pub(super) fn pop(&mut self) {
        self.head = self.head.wrapping_add(1);
    }

    /// The fault of an instruction that was not fetched.
    pub(super) const fn fault(&self) -> Option<Fault> {
        self.fault
    }

    /// The next cycle after `now` in which something comes by itself.
    pub(super) fn next(&self, now: Cycle) -> Option<Cycle> {
        let ready_at = self.queue[(self.head & self.mask) as usize].ready_at;
        let dispatch = (self.head != self.tail && ready_at > now).then_some(ready_at);
        let fetch = (self.at > now).then_some(self.at);
        match (dispatch, fetch) {
            (Some(dispatch), Some(fetch)) => Some(dispatch.min(fetch)),
            (dispatch, fetch) => dispatch.or(fetch),
        }
    }

    /// Fetches up to a taken branch; whether there was anything.
    #[inline]
    pub(super) fn fetch(
        &mut self,
        now: Cycle,
        ops: &OpTable,
        predictor: &mut Predictor,
        stats: &mut Stats,
        outside: &mut impl Outside,
    ) -> bool {
        if self.stopped || self.waits || now < self.at {
            return false;
        }
        let start = self.tail;
        for _ in 0..self.width {
            if self.tail.wrapping_sub(self.head) >= self.limit {
                break;
            }
            match self.read(stats, outside) {
                Ok(false) => break,
                Ok(true) => {
                    if self.follow(now, ops, predictor) {
                        break;
                    }
                }
                Err(fault) => {
                    let fetched = self.push(now, predictor);
                    fetched.inst = Inst::illegal(0, 2);
                    fetched.faults = true;
                    self.fault = Some(fault);
                    self.stopped = true;
                    break;
                }
            }
        }
        self.tail != start || self.waits
    }

    /// Takes the instruction in that was read, and predicts what comes after it; whether the fetch
    /// ends with it.
    #[inline(always)]
    fn follow(&mut self, now: Cycle, ops: &OpTable, predictor: &mut Predictor) -> bool {
        let pc = self.pc;
        let fetched = self.push(now, predictor);
        let kind = ops[fetched.inst.op as usize].kind;
        let behind = pc.wrapping_add(fetched.inst.len.into());
        let next = match kind {
            Kind::Jump => predictor.predict(pc, &fetched.inst),
            _ => behind,
        };
        fetched.next = next;
        self.pc = next;
        self.stopped = kind == Kind::System;
        next != behind || self.stopped
    }

    /// Takes the instruction in that is in the place of the next one, with the predictor as it is
    /// before it.
    #[inline(always)]
    fn push(&mut self, now: Cycle, predictor: &Predictor) -> &mut Fetched {
        let place = (self.tail & self.mask) as usize;
        self.tail = self.tail.wrapping_add(1);
        let fetched = &mut self.queue[place];
        fetched.pc = self.pc;
        fetched.next = self.pc;
        fetched.ready_at = now + self.cycles;
        fetched.before = predictor.checkpoint();
        fetched.faults = false;
        fetched
    }

    /// Reads the instruction at `pc` into the place of the next one; whether its line is there. Copied
    /// from memory to memory: what is written by fields and read as a whole costs the host a stall.
    #[inline(always)]
    fn read(&mut self, stats: &mut Stats, outside: &mut impl Outside) -> Result<bool, Fault> {
        if !self.has_line(self.pc, stats, outside)? {
            return Ok(false);
        }
        let inst = &mut self.queue[(self.tail & self.mask) as usize].inst;
        *inst = *outside.inst(self.pc)?;
        let last = self.pc.wrapping_add(u64::from(inst.len.max(2)) - 2);
        self.has_line(last, stats, outside)
    }

    #[inline(always)]
    fn has_line(
        &mut self,
        address: u64,
        stats: &mut Stats,
        outside: &mut impl Outside,
    ) -> Result<bool, Fault> {
        if address / BLOCK_BYTES == self.held {
            return Ok(true);
        }
        self.look_up(address, stats, outside)
    }

    fn look_up(
        &mut self,
        address: u64,
        stats: &mut Stats,
        outside: &mut impl Outside,
    ) -> Result<bool, Fault> {
        let line = outside.translate(address, Wanted::Execute)? / BLOCK_BYTES;
        if let Some(entry) = self.icache.find(line, line) {
            self.icache.touch(entry);
        } else if outside.fetch(line) {
            let entry = self.icache.victim(line, |_, _| true).expect("any line may go");
            self.icache.fill(entry, line, ());
            self.filled = true;
        } else {
            stats.fetch_misses += u64::from(self.asked != line);
            self.asked = line;
            self.waits = true;
            return Ok(false);
        }
        self.held = address / BLOCK_BYTES;
        self.asked = NO_LINE;
        Ok(true)
    }

    /// All that is on its way to dispatch, oldest first.
    pub(super) fn queued(&self) -> impl Iterator<Item = &Fetched> {
        let count = self.tail.wrapping_sub(self.head);
        let at = move |number| self.head.wrapping_add(number) & self.mask;
        (0..count).map(move |number| &self.queue[at(number) as usize])
    }

    /// All that decides what it does from now on.
    pub(super) fn visit(&self, now: Cycle, put: &mut impl FnMut(u64)) {
        put(self.pc);
        put(self.at.saturating_sub(now));
        put(self.held);
        put(u64::from(self.waits) << 1 | u64::from(self.stopped));
        put(self.tail.wrapping_sub(self.head).into());
        for fetched in self.queued() {
            put(fetched.pc);
            put(fetched.next);
            put(fetched.ready_at.saturating_sub(now));
            fetched.before.visit(put);
            put(fetched.faults.into());
        }
    }

    /// Moves on in time by so many cycles.
    pub(super) fn shift(&mut self, cycles: Cycle) {
        self.at += cycles;
        let mut at = self.head;
        while at != self.tail {
            self.queue[(at & self.mask) as usize].ready_at += cycles;
            at = at.wrapping_add(1);
        }
    }
}
