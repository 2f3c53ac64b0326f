//! Every operation from end to end: WQ entry, RGP, RRPP, home, RCP, CQ entry; data and status.

use rackmem_abi::{Op, Status};
use rackmem_sim::chip::driver::{Access, Asked};
use rackmem_sim::chip::layout::{BUFFER_LINE, SEGMENT_LINE};
use rackmem_sim::machine::Machine;
use rackmem_sim::machine::spec::Completion;

use super::bench::Bench;
use super::machines::{SMALL, machine};
use super::oracle::{Oracle, bytes_of, changed, words_of, written};
use super::rest;
use super::software::{Complete, Operation};

/// Bytes of each core's part of the segment, and blocks of its local buffer.
const PART: u64 = 2048;
const BUFFER_LINES: u64 = 8;

/// An operation and how it ends.
type Step = (Operation, Status);

/// Address of a byte of a core's local buffer.
fn buffer(tile: u16, at: u64) -> u64 {
    (BUFFER_LINE + BUFFER_LINES * u64::from(tile)) * 64 + at
}

/// The operations of a core, one after the other.
fn steps(tile: u16, segment_bytes: u64) -> Vec<Step> {
    let base = u64::from(tile) * PART;
    let ok = |op, offset, length, at| {
        (Operation::new(op, base + offset, length, buffer(tile, at)), Status::Ok)
    };
    let new = |op, offset, length| Operation::new(op, offset, length, buffer(tile, 256));
    vec![
        // Neither remote nor local ends at a block, and not at the same place.
        ok(Op::Write, 13, 150, 7),
        ok(Op::Read, 3, 190, 300),
        ok(Op::Write, 256, 128, 64),
        ok(Op::Read, 256, 64, 320),
        ok(Op::Write, 511, 1, 63),
        ok(Op::Write, 640, 64, 33),
        // Operands across two blocks.
        ok(Op::FetchAdd, 520, 8, 60),
        ok(Op::FetchAdd, 520, 8, 128),
        ok(Op::CompareSwap, 528, 8, 400),
        ok(Op::CompareSwap, 528, 8, 52),
        ok(Op::CompareSwap, 8, 8, 440),
        ok(Op::Read, 500, 60, 9),
        ok(Op::Nop, 0, 0, 0),
        ok(Op::Notify, 0, 0, 0),
        ok(Op::Read, 70, 0, 70),
        ok(Op::Write, 70, 0, 70),
        (Operation { op_code: 6, ..new(Op::Read, base, 64) }, Status::BadOperation),
        (Operation { op_code: 7, ..new(Op::Read, base, 64) }, Status::BadOperation),
        (Operation { dst_nid: 2, ..new(Op::Write, base, 64) }, Status::NoNode),
        (new(Op::FetchAdd, base + 4, 8), Status::MisalignedAtomic),
        (new(Op::CompareSwap, base, 16), Status::MisalignedAtomic),
        (new(Op::Read, segment_bytes, 64), Status::OutOfSegment),
        (new(Op::Write, segment_bytes + 5, 8), Status::OutOfSegment),
        (new(Op::FetchAdd, segment_bytes, 8), Status::OutOfSegment),
        (new(Op::Read, rackmem_abi::MAX_OFFSET - 3, 64), Status::OutOfSegment),
        // The first line of this one lies in the segment. One core per RGP, as each reads the same.
        match tile % 5 {
            0 => (new(Op::Read, segment_bytes - 64, 192), Status::OutOfSegment),
            _ => ok(Op::Nop, 0, 0, 0),
        },
        // After errors all is as before.
        ok(Op::Read, 0, 200, 130),
    ]
}

/// The content of memory after each step, independent of the chip: the segment, and one buffer.
struct Shadow {
    segment: Oracle,
    buffers: Oracle,
    segment_bytes: u64,
}

impl Shadow {
    fn bytes(oracle: &Oracle, from: u64, length: u64) -> Vec<u8> {
        let byte = |at: u64| bytes_of(oracle.current(at / 64))[(at % 64) as usize];
        (from..from + length).map(byte).collect()
    }

    fn write(oracle: &mut Oracle, from: u64, bytes: &[u8]) {
        for (at, byte) in (from..).zip(bytes) {
            let words = written(oracle.current(at / 64), (at % 64) as usize, &[*byte]);
            oracle.set(at / 64, words, 0);
        }
    }

    /// Does an operation that ends with this status.
    fn apply(&mut self, operation: &Operation, status: Status) {
        let Some(op) = Op::from_code(operation.op_code) else { return };
        let Operation { offset, length, buffer, .. } = *operation;
        let first = SEGMENT_LINE * 64;
        // Lines inside of the segment are done even if others are not.
        let inside = self.segment_bytes.saturating_sub(offset).min(u64::from(length));
        if inside == 0 || status != Status::Ok && status != Status::OutOfSegment {
            return;
        }
        match op {
            Op::Read => {
                let bytes = Self::bytes(&self.segment, first + offset, inside);
                Self::write(&mut self.buffers, buffer, &bytes);
            }
            Op::Write => {
                let bytes = Self::bytes(&self.buffers, buffer, inside);
                Self::write(&mut self.segment, first + offset, &bytes);
            }
            Op::FetchAdd | Op::CompareSwap => self.atomic(op, first + offset, buffer),
            Op::Nop | Op::Notify => {}
        }
    }

    fn atomic(&mut self, op: Op, address: u64, buffer: u64) {
        let mut operands = [0; 64];
        operands[..16].copy_from_slice(&Self::bytes(&self.buffers, buffer, 16));
        let (line, at) = (address / 64, (address % 64) as usize);
        let before = self.segment.current(line);
        self.segment.set(line, changed(before, op, at, &operands, 8), 0);
        Self::write(&mut self.buffers, buffer, &before[at / 8].to_le_bytes());
    }
}

/// All cores do their steps at the same time.
struct Cores {
    bench: Bench,
    shadow: Shadow,
    completion: Completion,
    cores: u16,
}

impl Cores {
    fn new(machine: &Machine) -> Cores {
        let bench = Bench::new(machine);
        let segment_bytes = machine.workload.footprint_bytes;
        let (segment, buffers) = (Oracle::default(), Oracle::default());
        let shadow = Shadow { segment, buffers, segment_bytes };
        let cores = bench.chip.wires.layout.tiles;
        Cores { bench, shadow, completion: machine.ni.completion, cores }
    }

    /// Cores fill their buffers.
    fn fill(&mut self) {
        for tile in 0..self.cores {
            for line in buffer(tile, 0) / 64..buffer(tile + 1, 0) / 64 {
                let byte = |at: usize| (line as usize * 61 + at * 37 + at / 8 + 1) as u8;
                let words = words_of(&std::array::from_fn::<u8, 64, _>(byte));
                self.shadow.buffers.set(line, words, 0);
                for (word, value) in words.into_iter().enumerate() {
                    let access = Access::Store(value);
                    self.bench.ask(tile, Asked { id: 0, line, word, access });
                }
            }
        }
        self.rest();
    }

    fn rest(&mut self) {
        while !self.bench.is_at_rest() {
            self.bench.cycle();
        }
    }

    /// All cores do a step.
    fn step(&mut self, steps: &[Step]) {
        let end = self.bench.now() + 20_000;
        for (software, step) in self.bench.software.iter_mut().zip(steps) {
            software.plan.push_back(step.0);
        }
        let mut unseen: Vec<u16> = (0..self.cores).collect();
        while !unseen.is_empty() {
            self.bench.cycle();
            assert!(
                self.bench.now() < end,
                "{steps:x?} are not done: {:#?}",
                self.bench.chip.left()
            );
            (0..self.cores).for_each(|tile| self.bench.go_on(tile));
            unseen.retain(|&tile| {
                let software = &mut self.bench.software[usize::from(tile)];
                let Some(complete) = software.complete.pop() else { return true };
                let (operation, status) = steps[usize::from(tile)];
                let status_code = status as u8;
                assert_eq!(complete, Complete { operation, status_code }, "core {tile}");
                self.shadow.apply(&operation, status);
                if self.completion == Completion::Acknowledged {
                    // All that the operation has brought is there already.
                    same_buffer(&self.bench, &self.shadow, tile);
                }
                false
            });
        }
        self.rest();
        rest::at_rest(&self.bench);
        (0..self.cores).for_each(|tile| same_buffer(&self.bench, &self.shadow, tile));
        for line in SEGMENT_LINE..SEGMENT_LINE + self.shadow.segment_bytes / 64 {
            let expected = self.shadow.segment.current(line);
            assert_eq!(self.bench.oracle.current(line), expected, "block {line:#x}: {steps:x?}");
        }
    }
}

/// A core's local buffer is as it should be.
fn same_buffer(bench: &Bench, shadow: &Shadow, tile: u16) {
    for line in buffer(tile, 0) / 64..buffer(tile + 1, 0) / 64 {
        let expected = shadow.buffers.current(line);
        assert_eq!(bench.oracle.current(line), expected, "buffer of core {tile}, {line:#x}");
    }
}

fn run(settings: &str) {
    let machine = machine(&[SMALL, settings]);
    let mut cores = Cores::new(&machine);
    cores.fill();
    let all: Vec<Vec<Step>> =
        (0..cores.cores).map(|tile| steps(tile, cores.shadow.segment_bytes)).collect();
    for number in 0..all[0].len() {
        let steps: Vec<Step> = all.iter().map(|steps| steps[number]).collect();
        cores.step(&steps);
    }
}

#[test]
fn edge() {
    run("ni.placement=edge");
    run("ni.placement=edge ni.completion=acknowledged");
}

#[test]
fn per_tile() {
    run("ni.placement=per-tile");
    run("ni.placement=per-tile ni.completion=acknowledged ni.cache=separate");
}

#[test]
fn split() {
    run("ni.placement=split");
    run("ni.placement=split ni.completion=acknowledged");
    run("ni.placement=split ni.owned_state=false ni.max_outstanding_lines=1");
}

#[test]
fn other_networks() {
    run("noc.topology=noc-out");
    run("noc.topology=crossbar ni.placement=per-tile ni.unroll_per_cycle=4");
}
