//! The front end: fetch along the predicted path, and the stages up to dispatch.

use rackmem_riscv::Inst;
use rackmem_riscv::space::{Fault, Wanted};

use super::ops::{Kind, OpTable};
use super::outside::{Line, Outside};
use super::predict::{Checkpoint, Predictor};
use super::spec::CpuSpec;
use super::stats::Stats;
use super::{LINE_BYTES, Stop};
use crate::chip::tags::Tags;
use crate::engine::Cycle;

/// Entries of the ring.
pub(super) const ENTRIES: u32 = 128;

/// An instruction on its way to dispatch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fetched {
    pub(super) inst: Inst,
    pub(super) pc: u64,
    /// Address at which the next one was fetched.
    pub(super) next: u64,
    /// Cycle in which it can be dispatched.
    ready_at: Cycle,
    /// The predictor before it.
    pub(super) before: Checkpoint,
    /// The reason why there is no instruction.
    pub(super) trap: Option<Stop>,
}

/// The front end.
#[derive(Clone, Debug)]
pub(super) struct Front {
    /// Of the next instruction to be fetched.
    pc: u64,
    /// Cycle of its fetch at the earliest.
    at: Cycle,
    queue: Box<[Fetched; ENTRIES as usize]>,
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
    /// Whether there is nothing to fetch before a redirection: it has come to a trap.
    stopped: bool,
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
            trap: None,
        };
        let sets = spec.icache_bytes / LINE_BYTES / u64::from(spec.icache_ways);
        Front {
            pc,
            at,
            queue: Box::new([nothing; ENTRIES as usize]),
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
            stopped: false,
        }
    }

    /// Address of the next fetch.
    pub(super) const fn pc(&self) -> u64 {
        self.pc
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

    /// The next instruction for dispatch.
    #[inline(always)]
    pub(super) fn peek(&self, now: Cycle) -> Option<&Fetched> {
        let fetched = &self.queue[(self.head % ENTRIES) as usize];
        (self.head != self.tail && fetched.ready_at <= now).then_some(fetched)
    }

    #[inline(always)]
    pub(super) fn pop(&mut self) {
        self.head = self.head.wrapping_add(1);
    }

    /// The next cycle after `now` in which something comes by itself.
    pub(super) fn next(&self, now: Cycle) -> Option<Cycle> {
        let ready_at = self.queue[(self.head % ENTRIES) as usize].ready_at;
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
            match self.inst(stats, outside) {
                Ok(None) => break,
                Ok(Some(inst)) => {
                    if self.follow(now, inst, ops[inst.op as usize].kind, predictor) {
                        break;
                    }
                }
                Err(fault) => {
                    let trap = Some(Stop::Fault(fault));
                    self.push(now, Inst::illegal(0, 2), self.pc, predictor.checkpoint(), trap);
                    self.stopped = true;
                    break;
                }
            }
        }
        self.tail != start || self.waits
    }

    /// Predicts what comes after an instruction and takes it in; whether the fetch ends with it.
    #[inline(always)]
    fn follow(&mut self, now: Cycle, inst: Inst, kind: Kind, predictor: &mut Predictor) -> bool {
        let behind = self.pc.wrapping_add(inst.len.into());
        let before = predictor.checkpoint();
        let mut next = behind;
        match kind {
            Kind::Jump => next = predictor.predict(self.pc, &inst),
            Kind::System => self.stopped = true,
            _ => {}
        }
        self.push(now, inst, next, before, None);
        self.pc = next;
        next != behind || self.stopped
    }

    fn push(&mut self, now: Cycle, inst: Inst, next: u64, before: Checkpoint, trap: Option<Stop>) {
        let ready_at = now + self.cycles;
        let fetched = Fetched { inst, pc: self.pc, next, ready_at, before, trap };
        self.queue[(self.tail % ENTRIES) as usize] = fetched;
        self.tail = self.tail.wrapping_add(1);
    }

    /// The instruction at `pc`; `None` if its line has to be waited for.
    #[inline(always)]
    fn inst(
        &mut self,
        stats: &mut Stats,
        outside: &mut impl Outside,
    ) -> Result<Option<Inst>, Fault> {
        if !self.has_line(self.pc, stats, outside)? {
            return Ok(None);
        }
        let inst = outside.inst(self.pc)?;
        let last = self.pc.wrapping_add(u64::from(inst.len.max(2)) - 2);
        Ok(self.has_line(last, stats, outside)?.then_some(inst))
    }

    #[inline(always)]
    fn has_line(
        &mut self,
        address: u64,
        stats: &mut Stats,
        outside: &mut impl Outside,
    ) -> Result<bool, Fault> {
        if address / LINE_BYTES == self.held {
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
        let line = outside.translate(address, Wanted::Execute)? / LINE_BYTES;
        if let Some(entry) = self.icache.find(line, line) {
            self.icache.touch(entry);
        } else if outside.fetch(line) {
            let entry = self.icache.victim(line, |_, _| true).expect("any line may go");
            self.icache.fill(entry, line, ());
        } else {
            stats.fetch_misses += u64::from(self.asked != line);
            self.asked = line;
            self.waits = true;
            return Ok(false);
        }
        self.held = address / LINE_BYTES;
        self.asked = NO_LINE;
        Ok(true)
    }

    /// All that decides what it does from now on.
    pub(super) fn visit(&self, now: Cycle, put: &mut impl FnMut(u64)) {
        put(self.pc);
        put(self.at.saturating_sub(now));
        put(self.held);
        put(u64::from(self.waits) << 1 | u64::from(self.stopped));
        put(self.tail.wrapping_sub(self.head).into());
        let mut at = self.head;
        while at != self.tail {
            let fetched = &self.queue[(at % ENTRIES) as usize];
            put(fetched.pc);
            put(fetched.next);
            put(fetched.ready_at.saturating_sub(now));
            fetched.before.visit(put);
            put(fetched.trap.is_some().into());
            at = at.wrapping_add(1);
        }
    }

    /// Moves on in time by so many cycles.
    pub(super) fn shift(&mut self, cycles: Cycle) {
        self.at += cycles;
        let mut at = self.head;
        while at != self.tail {
            self.queue[(at % ENTRIES) as usize].ready_at += cycles;
            at = at.wrapping_add(1);
        }
    }
}
