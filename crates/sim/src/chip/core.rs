//! Cores that execute no program: the microbenchmarks of the paper, instruction by instruction (Manycore NI
//! §3.1, §5).
//!
//! The instructions around the queues depend on each other, so each takes a cycle; stores leave
//! through a store buffer, in order. A core that looks at an unchanged CQ again and again sleeps,
//! and wakes in the very iteration in which it would have noticed the change.

use std::collections::VecDeque;

use rackmem_abi::{CQ_ENTRY_BYTES, CqEntry, Op, Reply, Status, WQ_ENTRY_BYTES, WqEntry};
use rackmem_rmc::qp::Cursor;

use super::cache::PrivateCache;
use super::front::CONTEXT;
use super::layout::{BUFFER_LINE, Part};
use super::message::{NetPacket, Payload};
use super::open_loop::Arrivals;
use super::probe::{Mark, ReadId};
use super::wires::{Event, Wires};
use crate::block::{BLOCK_BYTES, Line};
use crate::engine::{Cycle, Random};
use crate::machine::Machine;
use crate::machine::spec::{Placement, WorkloadKind};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    /// It has no part in the workload, or not yet, or no more.
    Nothing,
    /// Computes a WQ entry, to be stored at the next event.
    MakesEntry,
    /// Has an entry to store, and waits for room in the store buffer.
    WantsToStore([u64; 2]),
    /// Will look at the CQ at the next event.
    WillLook,
    /// Waits for the block of the CQ, since then.
    Looks(Cycle),
    /// Has loaded this word, and deals with it until the next event.
    Compares(u32),
    /// Would look at this block again at this cycle, and every few cycles from then on; but there is
    /// nothing new while the block is here.
    Sleeps(Line, Cycle),
    /// Waits for lines that it loads from remote memory.
    Loads,
    /// Has nothing under way, and waits for the time of its next read.
    Awaits,
}

/// A store of a word, in the store buffer.
#[derive(Clone, Copy, Debug)]
struct Store {
    line: Line,
    word: usize,
    value: u64,
    /// The slot whose WQ entry is whole with it.
    publishes: Option<u16>,
}

#[derive(Clone, Debug)]
struct Program {
    kind: WorkloadKind,
    placement: Placement,
    remote_nid: u16,
    segment_bytes: u64,
    transfer_bytes: u32,
    slots: u32,
    slot_span_lines: u64,
    local_slots: u64,
    make_cycles: u64,
    compare_cycles: u64,
    load_cycles: u64,
    posts_per_poll: u32,
    store_buffer: usize,
    stores_per_cycle: usize,
    loads: u32,
}

/// A core that runs a microbenchmark instead of a program.
#[derive(Clone, Debug)]
pub struct Core {
    number: u16,
    random: Random,
    program: Program,
    doing: Doing,
    /// Cycle of the next event, of those that follow from what it is doing.
    next_at: Cycle,
    /// Times of reads that do not wait for others.
    arrivals: Option<Arrivals>,
    wq: Cursor,
    cq: Cursor,
    /// Bit = slot whose operation has not been seen to be complete.
    busy: u128,
    posts_since_poll: u32,
    next_buffer: u64,
    stores: VecDeque<Store>,
    draining: bool,
    reads: u64,
    /// Number of synchronous reads that are left; those beyond `measured` warm up.
    left: u32,
    measured: u32,
    latencies: Vec<u64>,
    /// NUMA: lines of the current transfer that are neither sent nor here.
    unsent: u32,
    outstanding: u32,
    offset: u64,
}

impl Core {
    pub fn new(number: u16, nid: u16, nodes: u16, machine: &Machine) -> Core {
        let tiles = u64::from(machine.tiles.columns) * u64::from(machine.tiles.rows);
        let span = u64::from(machine.workload.transfer_bytes).div_ceil(BLOCK_BYTES);
        let lines = machine.workload.footprint_bytes / BLOCK_BYTES;
        let mut random = Random::new(machine.seed, u64::from(nid) << 32 | u64::from(number));
        let program = Program {
            kind: machine.workload.kind,
            placement: machine.ni.placement,
            remote_nid: (nid + 1) % nodes,
            segment_bytes: machine.workload.footprint_bytes,
            transfer_bytes: machine.workload.transfer_bytes,
            slots: machine.ni.wq_entries,
            slot_span_lines: span,
            local_slots: (lines / tiles / span).max(1),
            make_cycles: u64::from(machine.core.wq_instructions).max(1),
            compare_cycles: u64::from(machine.core.cq_instructions.max(2) - 1),
            load_cycles: u64::from(machine.l1.latency_cycles),
            posts_per_poll: machine.core.posts_per_poll.max(1),
            store_buffer: machine.core.store_buffer as usize,
            stores_per_cycle: machine.l1.ports as usize,
            loads: machine.l1.mshrs,
        };
        Core {
            number,
            // Cores that went through their buffers in step would write to the same bank and set of the LLC at once, as
            // buffers are a power of two apart.
            next_buffer: random.below(program.local_slots),
            random,
            program,
            doing: Doing::Nothing,
            next_at: 0,
            arrivals: Arrivals::of(number, nid, machine),
            wq: Cursor::START,
            cq: Cursor::START,
            busy: 0,
            posts_since_poll: 0,
            stores: VecDeque::new(),
            draining: false,
            reads: 0,
            left: 0,
            measured: 0,
            latencies: Vec::new(),
            unsent: 0,
            outstanding: 0,
            offset: 0,
        }
    }

    /// Begins with the workload: so many synchronous reads to warm up and to measure.
    pub fn start(&mut self, warmup: u32, measured: u32, wires: &mut Wires) {
        self.left = warmup + measured;
        self.measured = measured;
        self.begin(wires);
    }

    /// Whether all synchronous reads are done.
    pub fn is_done(&self) -> bool {
        self.left == 0 && self.doing == Doing::Nothing
    }

    pub fn number(&self) -> u16 {
        self.number
    }

    /// Whether it has nothing to do.
    pub fn is_idle(&self) -> bool {
        self.doing == Doing::Nothing
    }

    /// Latencies of the measured synchronous reads.
    pub fn take_latencies(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.latencies)
    }

    /// Remote reads that the core has seen to be complete.
    pub fn reads(&self) -> u64 {
        self.reads
    }

    /// The core's activity and its operations under way, for the watchdog.
    pub fn describe(&self) -> String {
        let operations = self.busy.count_ones() + self.outstanding;
        format!("{:?}, {operations} operations under way", self.doing)
    }

    pub fn step(&mut self, l1: &mut PrivateCache, wires: &mut Wires) {
        match self.doing {
            // A read's time that came while it did something else is looked at when that is done.
            Doing::MakesEntry | Doing::WillLook | Doing::Compares(_)
                if self.next_at != wires.now => {}
            Doing::MakesEntry => {
                let words = self.entry_words();
                self.doing = Doing::WantsToStore(words);
                self.store_entry(l1, wires);
            }
            Doing::WillLook => self.look(l1, wires),
            Doing::Sleeps(..) if self.may_post(wires.now) => self.go_on(wires),
            Doing::Awaits => self.begin(wires),
            Doing::Compares(word) => self.compare(word, l1, wires),
            Doing::Loads => self.send_loads(wires),
            Doing::Nothing | Doing::WantsToStore(_) | Doing::Looks(_) | Doing::Sleeps(..) => {}
        }
    }

    /// The store buffer goes on.
    pub fn drain(&mut self, l1: &mut PrivateCache, wires: &mut Wires) {
        self.draining = false;
        for _ in 0..self.program.stores_per_cycle {
            let Some(&Store { line, word, value, publishes }) = self.stores.front() else { break };
            if !l1.store(line, wires, |words| words[word] = value) {
                wires.counts.store_misses += 1;
                return;
            }
            self.stores.pop_front();
            if let Some(slot) = publishes {
                wires.probe.mark(self.read(slot), Mark::WqWritten, wires.now);
            }
        }
        if !self.stores.is_empty() {
            self.drain_next_cycle(wires);
        }
        if matches!(self.doing, Doing::WantsToStore(_)) {
            self.store_entry(l1, wires);
        }
    }

    /// Something about a block has changed in the L1, and something may be complete.
    pub fn changed(
        &mut self,
        line: Line,
        complete: bool,
        l1: &mut PrivateCache,
        wires: &mut Wires,
    ) {
        match self.doing {
            Doing::Sleeps(at, next) if at == line && !l1.is_readable(line) => {
                let period = self.program.load_cycles + self.program.compare_cycles;
                let late = (wires.now + 1).saturating_sub(next);
                let look_at = next + late.div_ceil(period) * period;
                self.then(Doing::WillLook, look_at, wires);
            }
            Doing::Looks(_) if complete => self.look(l1, wires),
            _ => {}
        }
        if complete && !self.draining && !self.stores.is_empty() {
            self.drain(l1, wires);
        }
    }

    /// A line has come from remote memory.
    pub fn loaded(&mut self, reply: &Reply, wires: &mut Wires) {
        assert_eq!(reply.status, Status::Ok, "remote loads stay inside of the segment");
        wires.counts.rcp_lines += 1;
        self.outstanding -= 1;
        if self.unsent == 0 && self.outstanding == 0 {
            self.complete(0, wires);
        } else {
            self.send_loads(wires);
        }
    }

    /// The next read, or whatever there is to do.
    fn begin(&mut self, wires: &mut Wires) {
        if self.program.kind == WorkloadKind::SyncRead {
            if self.left == 0 {
                self.doing = Doing::Nothing;
                return;
            }
            wires.trace.begin(self.number, self.reads);
        }
        if self.program.placement == Placement::Numa {
            if !self.is_time(wires.now) {
                return self.await_read(wires);
            }
            self.start_read(0, wires);
            self.offset = self.random_offset();
            self.unsent = self.program.slot_span_lines as u32;
            self.doing = Doing::Loads;
            wires.wheel.at(wires.now + 1, Event::Core(self.number));
            return;
        }
        self.go_on(wires);
    }

    /// Posts while the WQ has room, and looks at the CQ now and then, or all the time if it has
    /// none.
    fn go_on(&mut self, wires: &mut Wires) {
        let waits = self.program.kind == WorkloadKind::SyncRead && self.busy != 0;
        let polls = self.posts_since_poll >= self.program.posts_per_poll;
        if self.busy == 0 && !self.is_time(wires.now) {
            self.await_read(wires);
        } else if waits || polls || !self.may_post(wires.now) {
            self.then(Doing::WillLook, wires.now + 1, wires);
        } else {
            self.start_read(self.wq.index as u16, wires);
            self.then(Doing::MakesEntry, wires.now + self.program.make_cycles, wires);
        }
    }

    /// Does that in the cycle `at`.
    fn then(&mut self, doing: Doing, at: Cycle, wires: &mut Wires) {
        self.doing = doing;
        self.next_at = at;
        wires.wheel.at(at, Event::Core(self.number));
    }

    /// Whether there is a read to be made, by its time.
    fn is_time(&self, now: Cycle) -> bool {
        self.arrivals.as_ref().is_none_or(|arrivals| arrivals.next() <= now)
    }

    /// Whether there is a read to be made, and room for it in the WQ.
    fn may_post(&self, now: Cycle) -> bool {
        self.busy >> self.wq.index & 1 == 0 && self.is_time(now)
    }

    /// Begins with the next read, whose latency counts from its own time, if it has one.
    fn start_read(&mut self, slot: u16, wires: &mut Wires) {
        let since = self.arrivals.as_mut().map_or(wires.now, Arrivals::take);
        wires.probe.start(self.read(slot), since, wires.now);
    }

    /// The name of its read in a slot.
    fn read(&self, slot: u16) -> ReadId {
        ReadId { core: self.number, slot }
    }

    /// Does nothing until the time of the next read.
    fn await_read(&mut self, wires: &mut Wires) {
        let next = self.arrivals.as_ref().map_or(0, Arrivals::next);
        self.then(Doing::Awaits, next.max(wires.now + 1), wires);
    }

    /// The words of the next WQ entry: a read of a random place into the next local buffer.
    fn entry_words(&mut self) -> [u64; 2] {
        let offset = self.random_offset();
        let buffer = self.next_buffer;
        self.next_buffer = (buffer + 1) % self.program.local_slots;
        let first = u64::from(self.number) * self.program.local_slots;
        let line = BUFFER_LINE + (first + buffer) * self.program.slot_span_lines;
        let entry = WqEntry {
            phase: self.wq.phase,
            op_code: Op::Read as u8,
            dst_nid: self.program.remote_nid,
            offset,
            length: self.program.transfer_bytes,
            buffer: line * BLOCK_BYTES,
        };
        entry.encode()
    }

    fn random_offset(&mut self) -> u64 {
        let places = self.program.segment_bytes / (self.program.slot_span_lines * BLOCK_BYTES);
        self.random.below(places.max(1)) * self.program.slot_span_lines * BLOCK_BYTES
    }

    /// Puts the two stores of an entry into the store buffer: the word that publishes it last.
    fn store_entry(&mut self, l1: &mut PrivateCache, wires: &mut Wires) {
        let Doing::WantsToStore(words) = self.doing else { return };
        if self.stores.len() + 2 > self.program.store_buffer {
            return;
        }
        let slot = self.wq.index;
        let line = wires.layout.wq_line(self.number, slot);
        let at = (slot as usize * WQ_ENTRY_BYTES % BLOCK_BYTES as usize) / 8;
        let publishes = Some(slot as u16);
        self.stores.push_back(Store { line, word: at + 1, value: words[1], publishes: None });
        self.stores.push_back(Store { line, word: at, value: words[0], publishes });
        self.busy |= 1 << slot;
        self.wq.advance(self.program.slots);
        self.posts_since_poll += 1;
        self.go_on(wires);
        if !self.draining && self.stores.len() == 2 {
            self.drain(l1, wires);
        }
    }

    fn drain_next_cycle(&mut self, wires: &mut Wires) {
        self.draining = true;
        wires.wheel.at(wires.now + 1, Event::Drain(self.number));
    }

    /// Loads the CQ entry at the head.
    fn look(&mut self, l1: &mut PrivateCache, wires: &mut Wires) {
        let line = wires.layout.cq_line(self.number, self.cq.index);
        let Some(words) = l1.load(line, wires) else {
            if !matches!(self.doing, Doing::Looks(_)) {
                wires.counts.cq_misses += 1;
                self.doing = Doing::Looks(wires.now);
            }
            return;
        };
        let byte = self.cq.index as usize * CQ_ENTRY_BYTES % BLOCK_BYTES as usize;
        let word = (words[byte / 8] >> (byte % 8 * 8)) as u32;
        let entry = CqEntry::decode(word);
        if let Doing::Looks(since) = self.doing
            && entry.phase == self.cq.phase
        {
            wires.probe.cq_transfer(self.read(entry.slot), since, wires.now);
        }
        // A load that has missed reads the L1 again when the block is there.
        let cycles = self.program.load_cycles + self.program.compare_cycles;
        self.then(Doing::Compares(word), wires.now + cycles, wires);
    }

    /// The entry is new, or it is not.
    fn compare(&mut self, word: u32, l1: &mut PrivateCache, wires: &mut Wires) {
        let entry = CqEntry::decode(word);
        if entry.phase == self.cq.phase {
            assert_eq!(entry.status_code, Status::Ok as u8, "reads stay inside of the segment");
            self.busy &= !(1 << entry.slot);
            self.cq.advance(self.program.slots);
            self.complete(entry.slot, wires);
            return;
        }
        self.posts_since_poll = 0;
        let waits = self.program.kind == WorkloadKind::SyncRead;
        if !waits && (self.busy == 0 || self.may_post(wires.now)) {
            return self.go_on(wires);
        }
        let line = wires.layout.cq_line(self.number, self.cq.index);
        if l1.is_readable(line) {
            self.doing = Doing::Sleeps(line, wires.now);
            if let Some(next) = self.arrivals.as_ref().map(Arrivals::next)
                && next > wires.now
            {
                wires.wheel.at(next, Event::Core(self.number));
            }
        } else {
            self.doing = Doing::WillLook;
            self.look(l1, wires);
        }
    }

    /// The read of a slot is complete.
    fn complete(&mut self, slot: u16, wires: &mut Wires) {
        self.reads += 1;
        wires.counts.reads += 1;
        let is_sync = self.program.kind == WorkloadKind::SyncRead;
        let measured = !is_sync || self.left <= self.measured;
        let latency = wires.probe.end(self.read(slot), wires.now, measured);
        wires.trace.end(self.number, self.reads - 1, wires.now - latency, wires.now);
        if is_sync {
            if measured {
                self.latencies.push(latency);
            }
            self.left -= 1;
            return self.begin(wires);
        }
        wires.latencies.add(latency);
        if self.program.placement == Placement::Numa {
            self.begin(wires);
        } else {
            // There may be more: it looks until there is nothing.
            self.then(Doing::WillLook, wires.now + 1, wires);
        }
    }

    /// NUMA: sends loads of the lines of a transfer, as many as the MSHRs hold, one a cycle.
    fn send_loads(&mut self, wires: &mut Wires) {
        let engine = Part::Engine(self.number);
        if self.unsent == 0 || self.outstanding >= self.program.loads {
            return;
        }
        let line = self.program.slot_span_lines - u64::from(self.unsent);
        self.unsent -= 1;
        self.outstanding += 1;
        let packet = remote_load(self, self.offset + line * BLOCK_BYTES, wires.nid);
        wires.probe.mark(self.read(0), Mark::FrontendDone, wires.now);
        let port = Part::Port(wires.layout.unit_of_tile(self.number));
        wires.send(engine, port, Payload::Net(packet));
        if self.unsent > 0 && self.outstanding < self.program.loads {
            wires.wheel.at(wires.now + 1, Event::Core(self.number));
        }
    }
}

fn remote_load(core: &Core, offset: u64, nid: u16) -> NetPacket {
    let header = rackmem_abi::Header {
        dst_nid: core.program.remote_nid,
        src_nid: nid,
        op: Op::Read,
        ctx_id: CONTEXT,
        length: BLOCK_BYTES as u16,
        offset,
        tid: 0,
    };
    let request = rackmem_abi::Request { header, payload: [0; rackmem_abi::LINE_BYTES] };
    NetPacket::request(request, core.number)
}

// The part of a buffer's address that a core computes must fit the entry.
const _: () = assert!(BUFFER_LINE * BLOCK_BYTES < rackmem_abi::MAX_ADDRESS);
