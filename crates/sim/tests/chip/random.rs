//! Cores, network interfaces and other nodes do random things to the same blocks, with caches and
//! directories that are too small for them.

use crate::seeds::seeds;
use rackmem_abi::{Header, LINE_BYTES, Op, Request};
use rackmem_sim::block::Line;
use rackmem_sim::chip::driver::{Access, Asked};
use rackmem_sim::chip::layout::{BUFFER_LINE, SEGMENT_LINE};
use rackmem_sim::engine::Random;
use rackmem_sim::machine::Machine;

use super::bench::{Bench, STRANGER};
use super::machines::{LARGE, SMALL, machine};
use super::rest;
use super::software::Operation;

/// Accesses of cores that may wait at a time, each.
const ACCESSES: usize = 4;

/// Random things.
struct Tester {
    bench: Bench,
    random: Random,
    segment_lines: u64,
    next_id: u64,
}

impl Tester {
    fn new(machine: &Machine) -> Tester {
        Tester {
            bench: Bench::new(machine),
            random: Random::new(machine.seed, 1 << 40),
            segment_lines: machine.workload.footprint_bytes / 64,
            next_id: 0,
        }
    }

    /// Whether something happens that happens once in `n` times.
    fn one_in(&mut self, n: u64) -> bool {
        self.random.below(n) == 0
    }

    /// Half of all that happens happens to a few blocks. The first one is for additions only.
    fn segment_line(&mut self) -> u64 {
        match self.random.below(4) {
            0 => 1 + self.random.below(2),
            1 => 3 + self.random.below(6) * 17,
            _ => 1 + self.random.below(self.segment_lines - 1),
        }
    }

    fn any_line(&mut self) -> Line {
        match self.random.below(3) {
            0 => BUFFER_LINE + self.random.below(4 * self.bench.chip.tiles.len() as u64),
            _ => SEGMENT_LINE + self.segment_line(),
        }
    }

    fn access(&mut self) {
        let tile = self.random.below(self.bench.chip.tiles.len() as u64) as u16;
        if self.bench.chip.tiles[usize::from(tile)].driver.waiting() >= ACCESSES {
            return;
        }
        self.next_id += 1;
        let (id, word) = (self.next_id, self.random.below(8) as usize);
        let asked = match self.random.below(16) {
            0 => {
                let access = Access::Add(self.random.bits());
                Asked { id, line: SEGMENT_LINE, word, access }
            }
            1..=7 => Asked { id, line: self.any_line(), word, access: Access::Load },
            _ => {
                let access = Access::Store(self.random.bits());
                Asked { id, line: self.any_line(), word, access }
            }
        };
        self.bench.ask(tile, asked);
    }

    /// A request from another node.
    fn request(&mut self) {
        let op = [Op::Read, Op::Read, Op::Write, Op::Write, Op::FetchAdd, Op::CompareSwap];
        let op = op[self.random.below(6) as usize];
        let mut line = self.segment_line();
        let (at, length) = match op {
            _ if op.is_atomic() => (self.random.below(8) * 8, 8),
            _ if self.one_in(2) => (0, 64),
            _ => {
                let at = self.random.below(64);
                (at, 1 + self.random.below(64 - at))
            }
        };
        if op == Op::FetchAdd && self.one_in(2) {
            line = 0;
        }
        let outside = if self.one_in(32) { self.segment_lines } else { 0 };
        let offset = (line + outside) * 64 + at;
        let mut payload: [u8; LINE_BYTES] = std::array::from_fn(|_| self.random.bits() as u8);
        if op == Op::CompareSwap {
            let expected = self.bench.oracle.current(SEGMENT_LINE + line)[at as usize / 8];
            payload[..8].copy_from_slice(&expected.to_le_bytes());
        }
        self.next_id += 1;
        let tid = self.next_id as u32 | STRANGER;
        let header =
            Header { dst_nid: 0, src_nid: 1, op, ctx_id: 0, length: length as u16, offset, tid };
        let engine = self.random.below(8) as u16 % self.bench.chip.wires.layout.units;
        self.bench.receive(engine, Request { header, payload });
    }

    /// Software plans an operation, or goes on.
    fn software(&mut self, plan: bool) {
        let tile = self.random.below(self.bench.software.len() as u64) as u16;
        let software = &self.bench.software[usize::from(tile)];
        if plan && software.plan.is_empty() && !self.bench.is_numa() {
            let operation = self.new_operation(tile);
            self.bench.software[usize::from(tile)].plan.push_back(operation);
        }
        self.bench.go_on(tile);
    }

    /// An operation of whose packets it is known that they are its own.
    fn new_operation(&mut self, tile: u16) -> Operation {
        loop {
            let new = self.operation(tile);
            let mixes = |old: &Operation| {
                let apart = old.offset + u64::from(old.length) <= new.offset
                    || new.offset + u64::from(new.length) <= old.offset;
                old.op_code == new.op_code && !apart
            };
            let known = self.bench.software.iter().flat_map(|software| {
                let posted = software.posted.iter().flatten().map(|posted| &posted.operation);
                posted.chain(&software.plan)
            });
            if !known.into_iter().any(mixes) {
                return new;
            }
        }
    }

    fn operation(&mut self, tile: u16) -> Operation {
        let op = [Op::Read, Op::Read, Op::Write, Op::Write, Op::FetchAdd, Op::CompareSwap, Op::Nop];
        let op = op[self.random.below(7) as usize];
        let buffer = (BUFFER_LINE + 4 * u64::from(tile)) * 64 + self.random.below(64);
        let (mut offset, mut length) = (self.segment_line() * 64, 8);
        if op.is_atomic() {
            offset += self.random.below(8) * 8;
        } else {
            offset = (offset + self.random.below(64)).min(self.segment_lines * 64 - 192);
            length = self.random.below(192) as u32;
        }
        if self.one_in(20) {
            offset += self.segment_lines * 64;
        }
        let mut operation = Operation::new(op, offset, length, buffer);
        match self.random.below(40) {
            0 => operation.op_code = 7,
            1 => operation.dst_nid = 9,
            _ => {}
        }
        operation
    }

    fn run(&mut self, cycles: u64) {
        for _ in 0..cycles {
            self.access();
            if self.one_in(6) && self.bench.remote.waiting() < 64 {
                self.request();
            }
            if self.one_in(4) {
                self.software(true);
            }
            self.bench.cycle();
            if self.one_in(16) {
                let line = self.any_line();
                rest::one_writer(&self.bench.chip, line);
                rest::one_writer(&self.bench.chip, SEGMENT_LINE + 1);
                let queues = self.bench.chip.wires.layout.queue_lines();
                rest::one_writer(&self.bench.chip, self.random.below(queues));
            }
        }
        self.drain();
    }

    /// Everybody finishes what has been begun.
    fn drain(&mut self) {
        let end = self.bench.now() + 100_000;
        let is_done = |bench: &Bench| bench.software.iter().all(|software| software.is_done());
        while !(is_done(&self.bench) && self.bench.is_at_rest()) {
            if !is_done(&self.bench) {
                self.software(false);
            } else {
                self.bench.end_polling();
            }
            self.bench.cycle();
            assert!(self.bench.now() < end, "not done: {:#?}", self.bench.chip.left());
        }
        rest::at_rest(&self.bench);
        let sums: [u64; 8] = std::array::from_fn(|word| {
            self.bench.added[word].wrapping_add(self.bench.remote.added[word])
        });
        assert_eq!(self.bench.oracle.current(SEGMENT_LINE), sums, "sums are not conserved");
        assert_eq!(self.bench.remote.requests, self.bench.remote.replies);
        let requests = self.bench.chip.wires.counts.rrpp_requests as f64;
        assert_eq!(rest::figures(&self.bench.chip).total("rrpp", "replies"), requests);
    }
}

/// Runs a machine with some seeds.
fn run(settings: &[&str], range: std::ops::Range<u64>, cycles: u64) {
    for seed in seeds(range) {
        let seed_is = format!("seed={seed}");
        let all: Vec<&str> = settings.iter().copied().chain([seed_is.as_str()]).collect();
        let failing = Named(format!("{all:?}"));
        let mut tester = Tester::new(&machine(&all));
        tester.run(cycles);
        check_that_it_was_a_test(&tester.bench);
        drop(failing);
    }
}

/// Says with which settings a test has failed.
struct Named(String);

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("settings: {}", self.0);
        }
    }
}

/// The rare things have happened.
fn check_that_it_was_a_test(bench: &Bench) {
    let counts = &bench.chip.wires.counts;
    assert!(counts.recalls > 50, "{} recalls", counts.recalls);
    let writebacks = rest::figures(&bench.chip).total("home", "llc_writebacks");
    assert!(writebacks > 50.0, "{writebacks} write-backs");
    assert!(counts.rrpp_requests > 100, "{} requests", counts.rrpp_requests);
    let complete: usize = bench.software.iter().map(|software| software.complete.len()).sum();
    assert!(complete > 30 || bench.is_numa(), "{complete} operations");
}

const CYCLES: u64 = 10_000;

#[test]
fn edge() {
    run(&[SMALL, "ni.placement=edge"], 0..12, CYCLES);
    run(&[SMALL, "ni.placement=edge ni.completion=acknowledged"], 12..20, CYCLES);
}

#[test]
fn per_tile() {
    run(&[SMALL, "ni.placement=per-tile"], 0..12, CYCLES);
    run(&[SMALL, "ni.placement=per-tile ni.cache=separate"], 12..20, CYCLES);
    run(&[SMALL, "ni.placement=per-tile ni.owned_state=false"], 20..28, CYCLES);
}

#[test]
fn split() {
    run(&[SMALL, "ni.placement=split"], 0..12, CYCLES);
    run(&[SMALL, "ni.placement=split ni.cache=separate"], 12..20, CYCLES);
    run(&[SMALL, "ni.placement=split ni.owned_state=false"], 20..28, CYCLES);
    run(&[SMALL, "ni.placement=split ni.completion=acknowledged"], 28..36, CYCLES);
}

#[test]
fn uncached() {
    run(&[SMALL, "ni.placement=uncached"], 0..12, CYCLES);
    run(&[SMALL, "ni.placement=uncached ni.completion=acknowledged"], 12..20, CYCLES);
}

#[test]
fn numa() {
    run(&[SMALL, "ni.placement=numa"], 0..4, CYCLES);
}

#[test]
fn routings() {
    for (routing, seeds) in
        [("xy", 0..4), ("yx", 4..8), ("o1turn", 8..14), ("cdr", 14..18), ("cdr-directory", 18..22)]
    {
        let routing = format!("noc.routing={routing}");
        run(&[SMALL, &routing], seeds.clone(), CYCLES);
        run(&[SMALL, &routing, "ni.placement=edge noc.buffer_flits=2 noc.vcs=3"], seeds, CYCLES);
    }
}

/// All parts of a tile send by one queue, or each virtual network has its own.
#[test]
fn sources() {
    for sources in ["shared noc.delivery_packets=0", "per-network noc.delivery_packets=1"] {
        for placement in ["edge", "per-tile", "split"] {
            for packets in [1, 2, 32] {
                let settings = format!(
                    "ni.placement={placement} noc.sources={sources} noc.port_packets={packets}"
                );
                run(&[SMALL, &settings], 0..4, CYCLES);
            }
        }
    }
}

#[test]
fn noc_out() {
    for placement in ["edge", "per-tile", "split"] {
        let placement = format!("ni.placement={placement}");
        run(&[SMALL, "noc.topology=noc-out", &placement], 0..8, CYCLES);
    }
}

#[test]
fn crossbar() {
    for placement in ["edge", "per-tile", "split"] {
        let placement = format!("ni.placement={placement}");
        run(&[SMALL, "noc.topology=crossbar", &placement], 0..8, CYCLES);
    }
}

#[test]
fn all_64_tiles() {
    run(&[LARGE], 0..4, 4000);
    run(&[LARGE, "ni.placement=edge"], 4..8, 4000);
}

#[test]
fn tiny_parts() {
    // One way, one place, one transaction at a time.
    run(&[SMALL, "l1.mshrs=1 llc.transactions=1 ni.rrpp_transactions=1"], 0..8, CYCLES);
    run(&[SMALL, "l1.size_bytes=256 l1.ways=1 ni.cache_blocks=2"], 8..16, CYCLES);
    let credits = "network.credits=1 ni.lane_credits=1 ni.rrpp_transactions=1";
    for placement in ["edge", "per-tile", "split", "uncached"] {
        run(&[SMALL, credits, &format!("ni.placement={placement}")], 24..28, CYCLES);
    }
    run(&[SMALL, "l1.size_bytes=256 ni.cache_blocks=5 ni.placement=edge"], 16..24, CYCLES);
}

/// Memory answers in another order than it was asked in.
#[test]
fn ddr3() {
    let ddr3 = "memory.model=ddr3";
    run(&[SMALL, ddr3], 0..6, CYCLES);
    run(&[SMALL, ddr3, "ni.placement=edge dram.ranks=1 dram.page_policy=closed"], 6..10, CYCLES);
    // Requests wait in the network, writes often go before reads, refreshes are always due.
    let tiny = "dram.read_queue=1 dram.write_queue=1 dram.write_high=1 dram.write_low=0 \
        dram.trefi_nck=400 dram.controller_ns=0 memory.controllers=2";
    run(&[SMALL, ddr3, tiny, "ni.placement=per-tile"], 10..14, 3 * CYCLES);
    run(&[SMALL, ddr3, tiny, "dram.scheduler=fcfs noc.routing=o1turn"], 14..18, 3 * CYCLES);
    // Blocks of each bank are spread over many rows.
    let rows = "dram.row_bytes=64 dram.mapping=row-column-bank-rank dram.age_limit_ns=100";
    run(&[SMALL, ddr3, rows], 18..22, CYCLES);
    let in_turn = "dram.scheduler=rank-then-bank-round-robin dram.row_accesses=1";
    run(&[SMALL, ddr3, tiny, in_turn], 22..26, 3 * CYCLES);
    run(&[SMALL, ddr3, rows, in_turn], 26..30, CYCLES);
}

#[test]
fn an_l1_larger_than_the_table_behind_it() {
    let machine = machine(&["l1.size_bytes=256K memory.contents=all workload.footprint_bytes=4M"]);
    let mut bench = Bench::new(&machine);
    for n in 0..40 {
        let access = Access::Store(n + 1);
        bench.ask(3, Asked { id: n, line: SEGMENT_LINE + n * 256, word: 1, access });
    }
    while !bench.is_at_rest() {
        bench.cycle();
    }
    rest::at_rest(&bench);
}
