//! The breakdown of a read's latency: parts note when they have done their share, and the differences are
//! the rows of the paper's Table 3.
//!
//! Cores that execute a program do not say when they begin with an operation, or have seen its end: their queues show
//! it. A core has seen an operation's end when it has loaded the block of its CQ entry. It begins with an operation
//! when it has posted the one before, or has seen the end of one, or comes from a system call.

use std::collections::VecDeque;

use crate::block::Line;
use crate::engine::Cycle;
use crate::machine::Machine;
use crate::machine::spec::{Placement, WorkloadKind};
use crate::report::Stage;

/// A moment in the life of a read. Of a read of several lines, the first line passes the moments
/// on the way out, and the last line those on the way back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The time of the read.
    Start,
    /// Software begins with it.
    Begun,
    /// The stores of the WQ entry are performed.
    WqWritten,
    /// The entry is in the NI cache.
    WqInNi,
    /// The RGP, or its frontend, is done with it.
    FrontendDone,
    /// The backend has it.
    AtBackend,
    /// The request has left the chip.
    Out,
    /// An RRPP has the request.
    AtRrpp,
    /// The RRPP has sent the reply.
    RrppDone,
    /// The reply is at the chip.
    Back,
    /// The RCP, or the core, has the reply.
    AtRcp,
    /// The RCP backend is done with it.
    BackendDone,
    /// The RCP frontend has the completion.
    AtFrontend,
    CqWritten,
    /// Software has seen it.
    End,
}

const MARKS: usize = Mark::End as usize + 1;

/// A read under way: a slot of a core's queue pair has one at a time, and a core without queue pairs too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadId {
    /// The core whose queue pair it is, by number, or that loads.
    pub core: u16,
    /// The slot of its WQ entry; 0 of a core that loads.
    pub slot: u16,
}

/// A stage of reads: its name, and its part of their latency.
pub type Row = (&'static str, Span);

/// Stages of reads on their chip, before and after the network and the other chip.
#[derive(Clone, Copy, Debug)]
pub struct Stages {
    /// From the core until the request has left the chip.
    pub out: &'static [Row],
    /// From the reply at the chip until the core has seen it.
    pub back: &'static [Row],
}

/// A part of a read's latency.
#[derive(Clone, Copy, Debug)]
pub enum Span {
    /// From one moment to another.
    Between(Mark, Mark),
    /// The CQ entry is on its way from the NI cache to the core.
    CqTransfer,
    /// The rest of the time between the CQ entry and the end.
    CqRead,
}

#[derive(Clone, Copy, Debug, Default)]
struct Moments {
    at: [Cycle; MARKS],
    cq_transfer_cycles: u64,
}

/// Cycles of measured reads in each part.
#[derive(Clone, Debug, Default)]
pub struct Sums {
    cycles: Vec<u64>,
    reads: u64,
}

/// The moments of the reads under way, and sums over the measured ones.
#[derive(Clone, Debug, Default)]
pub struct Probe {
    parts: Vec<Row>,
    /// Reads that each core can have under way.
    slots: usize,
    /// By queue pair and slot; empty if nobody wants to know.
    moments: Vec<Moments>,
    /// From a core's look at its L1 until it has the data.
    l1_cycles: Cycle,
    /// What programs do at queue pairs, by number; empty if a workload uses them.
    executing: Vec<Executing>,
    /// Blocks of the queues that programs use, from block 0 on.
    queue_lines: Line,
    sums: Sums,
}

/// What a program does at a queue pair.
#[derive(Clone, Debug, Default)]
struct Executing {
    /// Since when its core may be busy with the next operation.
    free_since: Cycle,
    unseen: VecDeque<Unseen>,
    /// Since when the block that it waits for is on its way.
    missing_since: Option<Cycle>,
}

/// An operation whose CQ entry the program has not seen.
#[derive(Clone, Copy, Debug)]
struct Unseen {
    slot: u16,
    /// Block of the entry.
    line: Line,
    is_ok: bool,
}

impl Probe {
    pub fn new(machine: &Machine) -> Probe {
        if machine.workload.kind == WorkloadKind::Program {
            return Probe::default();
        }
        Probe::of(machine)
    }

    fn of(machine: &Machine) -> Probe {
        let slots = machine.ni.wq_entries.max(1) as usize;
        let cores = usize::from(machine.tiles.columns) * usize::from(machine.tiles.rows);
        let parts = rows(machine.ni.placement, machine.workload.rate > 0.0);
        let sums = Sums { cycles: vec![0; parts.len()], reads: 0 };
        Probe {
            parts,
            slots,
            moments: vec![Moments::default(); cores * slots],
            l1_cycles: machine.l1.latency_cycles.into(),
            executing: Vec::new(),
            queue_lines: 0,
            sums,
        }
    }

    /// That of programs' operations on a machine with so many blocks of queues.
    pub fn of_programs(machine: &Machine, queue_lines: Line) -> Probe {
        let probe = Probe::of(machine);
        let executing = vec![Executing::default(); probe.moments.len() / probe.slots];
        Probe { executing, queue_lines, ..probe }
    }

    /// Whether a program uses this block as a part of a queue.
    #[inline]
    pub fn follows(&self, line: Line) -> bool {
        line < self.queue_lines
    }

    /// A queue pair is another one from now on.
    pub fn attached(&mut self, qp: u16) {
        if let Some(executing) = self.executing.get_mut(usize::from(qp)) {
            *executing = Executing::default();
        }
    }

    /// Software begins with a read that counts from cycle `since`.
    pub fn start(&mut self, read: ReadId, since: Cycle, now: Cycle) {
        if let Some(moments) = self.moments(read) {
            *moments = Moments { at: [since; MARKS], cq_transfer_cycles: 0 };
            moments.at[Mark::Begun as usize] = now;
        }
    }

    /// A moment passes; on the way out only the first time counts.
    #[inline]
    pub fn mark(&mut self, read: ReadId, mark: Mark, now: Cycle) {
        let Some(moments) = self.moments(read) else { return };
        let outward = (mark as usize) <= Mark::AtRrpp as usize;
        let passed = moments.at[mark as usize] > moments.at[Mark::Start as usize];
        if !(outward && passed) {
            moments.at[mark as usize] = now;
        }
    }

    /// A reply is back at the chip; the RRPP had its request from the one cycle to the other.
    pub fn back(&mut self, read: ReadId, served: (Cycle, Cycle), now: Cycle) {
        self.mark(read, Mark::AtRrpp, served.0);
        self.mark(read, Mark::RrppDone, served.1);
        self.mark(read, Mark::Back, now);
    }

    /// The core's look at the read's CQ entry missed its L1 at `since` and is answered now. The entry has
    /// been on its way since it was written, or since it was asked for.
    pub fn cq_transfer(&mut self, read: ReadId, since: Cycle, now: Cycle) {
        let Some(moments) = self.moments(read) else { return };
        moments.cq_transfer_cycles = now - since.max(moments.at[Mark::CqWritten as usize]);
    }

    /// A core that executes a program goes on after a system call.
    pub fn went_on(&mut self, core: u16, now: Cycle) {
        if let Some(core) = self.executing.get_mut(usize::from(core)) {
            core.free_since = now;
        }
    }

    /// The stores of a WQ entry of a core that executes a program are performed.
    pub fn posted(&mut self, read: ReadId, now: Cycle) {
        let Some(core) = self.executing.get_mut(usize::from(read.core)) else { return };
        let since = std::mem::replace(&mut core.free_since, now);
        self.start(read, since, since);
        self.mark(read, Mark::WqWritten, now);
    }

    /// The entry of a read is in its CQ, in this block.
    #[inline]
    pub fn completed(&mut self, read: ReadId, is_ok: bool, line: Line, now: Cycle) {
        self.mark(read, Mark::CqWritten, now);
        if let Some(executing) = self.executing.get_mut(usize::from(read.core)) {
            executing.unseen.push_back(Unseen { slot: read.slot, line, is_ok });
        }
    }

    /// A program looks at this block of the CQ of a queue pair, and will have it if `is_there`. Calls `each` with the
    /// latency of each operation whose end it sees with that, and that has not failed.
    pub fn looked(
        &mut self,
        qp: u16,
        line: Line,
        is_there: bool,
        now: Cycle,
        mut each: impl FnMut(u64),
    ) {
        let Some(executing) = self.executing.get_mut(usize::from(qp)) else { return };
        if !is_there {
            executing.missing_since.get_or_insert(now);
            return;
        }
        let mut missing_since = executing.missing_since.take();
        let at = now + self.l1_cycles;
        while let Some(executing) = self.executing.get_mut(usize::from(qp))
            && let Some(&seen) = executing.unseen.front().filter(|unseen| unseen.line == line)
        {
            executing.unseen.pop_front();
            executing.free_since = at;
            let read = ReadId { core: qp, slot: seen.slot };
            if let Some(since) = missing_since.take() {
                self.cq_transfer(read, since, now);
            }
            let latency = self.end(read, at, seen.is_ok);
            if seen.is_ok {
                each(latency);
            }
        }
    }

    /// The read is over, and counts if `measured`; its latency.
    pub fn end(&mut self, read: ReadId, now: Cycle, measured: bool) -> u64 {
        self.mark(read, Mark::End, now);
        let Some(&mut moments) = self.moments(read) else { return 0 };
        if measured {
            self.sums.reads += 1;
            for (&(_, part), sum) in self.parts.iter().zip(&mut self.sums.cycles) {
                *sum += moments.cycles(part);
            }
        }
        moments.from(Mark::Start, Mark::End)
    }

    /// The sums up to now.
    pub fn sums(&self) -> Sums {
        self.sums.clone()
    }

    /// Means over the reads that were measured between two moments.
    pub fn breakdown(&self, before: &Sums, after: &Sums) -> Vec<Stage> {
        let reads = after.reads - before.reads;
        if reads == 0 {
            return Vec::new();
        }
        let earlier = before.cycles.iter().copied().chain(std::iter::repeat(0));
        let sums = after.cycles.iter().zip(earlier).map(|(after, before)| after - before);
        let mean = |cycles: u64| cycles as f64 / reads as f64;
        let named = self.parts.iter().zip(sums);
        named.map(|(&(name, _), cycles)| Stage { name, mean_cycles: mean(cycles) }).collect()
    }

    fn moments(&mut self, read: ReadId) -> Option<&mut Moments> {
        self.moments.get_mut(usize::from(read.core) * self.slots + usize::from(read.slot))
    }
}

impl Moments {
    fn cycles(&self, part: Span) -> u64 {
        let in_cq = self.from(Mark::CqWritten, Mark::End);
        let transfer = self.cq_transfer_cycles.min(in_cq);
        match part {
            Span::Between(from, to) => self.from(from, to),
            Span::CqTransfer => transfer,
            Span::CqRead => in_cq - transfer,
        }
    }

    fn from(&self, from: Mark, to: Mark) -> u64 {
        self.at[to as usize].saturating_sub(self.at[from as usize])
    }
}

/// The rows of Table 3 that the placement has; before them, the wait of reads that have a time of their own.
fn rows(placement: Placement, has_times: bool) -> Vec<Row> {
    use Mark::{AtRrpp, Back, Begun, Out, RrppDone, Start};
    use Span::Between;
    let Some(Stages { out, back }) = placement.stages() else { return Vec::new() };
    let wait = has_times.then_some(("core_wait", Between(Start, Begun)));
    let between = [
        ("network_out", Between(Out, AtRrpp)),
        ("rrpp", Between(AtRrpp, RrppDone)),
        ("network_back", Between(RrppDone, Back)),
    ];
    wait.into_iter().chain(out.iter().copied()).chain(between).chain(back.iter().copied()).collect()
}
