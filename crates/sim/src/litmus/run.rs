//! A test on the model's cores, seed by seed.
//!
//! A seed and the test's name decide when each thread starts, where the locations lie, who has copies of them, how
//! long memory takes and which line is slow, what predictors believe, and which accesses have late addresses: these
//! come from a chain of multiplications or remainders in two registers that the test does not use. Nothing of that
//! changes what the model allows.
//!
//! Most relaxed outcomes come if all threads start at about the same time, have old copies, and one access takes much
//! longer than the next one. So half of the locations are shared by all, half of the accesses are late, and most times
//! one line is much slower than the others.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use rackmem_riscv::encode::{b, opcode, r};
use rackmem_riscv::fnv::{BASIS, fnv1a};
use rackmem_riscv::space::AddressSpace;
use rackmem_riscv::{Class, decode};

use super::code::{Code, addi};
use super::memory::Delays;
use super::node::{DATA, Node, Start, code_address, space};
use super::test::{Layout, Observed, Outcome, Step, Test, Thread};
use crate::cpu::{CpuSpec, Stop};
use crate::engine::{Cycle, Random};

/// Outcomes, and how often each came.
pub type Seen = BTreeMap<Outcome, u64>;

/// Cycles after which a run is given up.
pub(super) const LIMIT: Cycle = 1_000_000;

/// Times that the slow line takes longer than others.
const SLOWNESS: u64 = 16;

/// A run that did not come to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// Seed of the run.
    pub seed: u64,
    /// The core that stopped early, and why; none if the cores went on and on.
    pub stopped: Option<(usize, Stop)>,
}

impl fmt::Display for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.stopped {
            Some((core, stop)) => write!(f, "seed {}: P{core} stopped: {stop:?}", self.seed),
            None => write!(f, "seed {}: not at its end after {LIMIT} cycles", self.seed),
        }
    }
}

impl std::error::Error for Unfinished {}

/// Runs a test once for each seed.
///
/// # Errors
/// A run does not come to its end.
pub fn run(test: &Test, spec: &CpuSpec, seeds: Range<u64>) -> Result<Seen, Unfinished> {
    let spare: Vec<Option<[u32; 2]>> = test.threads.iter().map(spare).collect();
    let mut seen = Seen::new();
    let mut memory = space(test.threads.len());
    for seed in seeds {
        let (outcome, left) = once(test, spec, &spare, memory, seed)?;
        memory = left;
        *seen.entry(outcome).or_insert(0) += 1;
    }
    Ok(seen)
}

fn once(
    test: &Test,
    spec: &CpuSpec,
    spare: &[Option<[u32; 2]>],
    memory: AddressSpace,
    seed: u64,
) -> Result<(Outcome, AddressSpace), Unfinished> {
    let mut random = Random::new(seed, stream(&test.name));
    let layout = place(test, &mut random);
    let start = |(thread, spare): (&Thread, &Option<[u32; 2]>)| Start {
        code: program(thread, *spare, &mut random),
        registers: registers(thread, &layout),
    };
    let started: Vec<Start> = test.threads.iter().zip(spare).map(start).collect();
    let delays = delays(&mut random);
    let mut node = Node::started(memory, &started, spec, delays, random.bits());
    prepare(&mut node, test, &layout, &mut random);
    finish(&mut node, seed)?;
    let outcome = outcome(&mut node, test, &layout);
    Ok((outcome, node.memory.space))
}

/// Number of a test's own stream of random numbers (FNV-1a), so that tests with the same seed differ.
pub(super) fn stream(name: &str) -> u64 {
    fnv1a(BASIS, name.as_bytes())
}

/// Addresses: in one line, in neighbouring ones, or in lines of their own. In one line, several stores show at once.
pub(super) fn place(test: &Test, random: &mut Random) -> Layout {
    let apart = [256, 64, 8, 8][random.below(4) as usize];
    let first = DATA + 8 * random.below(4);
    let address = |place: usize| first + place as u64 * apart;
    Layout { addresses: (0..test.locations.len()).map(address).collect() }
}

fn delays(random: &mut Random) -> Delays {
    let evict = [0, 0, 40, 10][random.below(4) as usize];
    let quick = Delays { grant: (1, 6), invalidate: (1, 6), ..Delays::wild() };
    let even = Delays { grant: (8, 12), invalidate: (1, 3), ..Delays::wild() };
    let delays = [even, quick, Delays::wild()][random.below(3) as usize];
    Delays { evict, ..delays }
}

pub(super) fn registers(thread: &Thread, layout: &Layout) -> [u64; 32] {
    let mut registers = [0; 32];
    for &(register, value) in &thread.registers {
        registers[usize::from(register)] = layout.bits(value);
    }
    registers[0] = 0;
    registers
}

/// Values and copies of locations, and predictors.
fn prepare(node: &mut Node, test: &Test, layout: &Layout, random: &mut Random) {
    let cores = test.threads.len() as u64;
    for (location, &address) in test.locations.iter().zip(&layout.addresses) {
        let bits = layout.bits(location.value);
        let stored = node.memory.space.store(address, test.bytes, bits);
        stored.expect("locations are mapped");
    }
    let slow = random.below(1 + layout.addresses.len() as u64) as usize;
    if let Some(&address) = layout.addresses.get(slow) {
        node.memory.slow_down(address, SLOWNESS);
    }
    for &address in &layout.addresses {
        node.memory.make_evictable(address);
        let sharers = match random.below(8) {
            0..4 => u64::MAX,
            4 | 5 => random.bits(),
            _ => 0,
        };
        for core in (0..cores as usize).filter(|core| sharers >> core & 1 != 0) {
            node.memory.warm(core, address, 8, false);
        }
        if sharers == 0 && random.below(2) == 0 {
            node.memory.warm(random.below(cores) as usize, address, 8, true);
        }
    }
    for core in 0..cores as usize {
        if random.below(3) == 0 {
            let targets = [code_address(core), code_address(core) + 64];
            node.cores[core].scramble_predictors(random.bits(), &targets);
        }
    }
}

fn finish(node: &mut Node, seed: u64) -> Result<(), Unfinished> {
    while node.cores.iter().any(|core| core.stopped().is_none()) {
        match node.run_to_stop(LIMIT) {
            Some((_, Stop::Ebreak)) => {}
            stopped => return Err(Unfinished { seed, stopped }),
        }
    }
    let early = |(core, stop): (usize, Option<Stop>)| {
        stop.filter(|stop| *stop != Stop::Ebreak).map(|stop| (core, stop))
    };
    let stops = node.cores.iter().map(|core| core.stopped()).enumerate();
    match stops.into_iter().find_map(early) {
        Some(stopped) => Err(Unfinished { seed, stopped: Some(stopped) }),
        None => Ok(()),
    }
}

fn outcome(node: &mut Node, test: &Test, layout: &Layout) -> Outcome {
    let mut value = |observed: &Observed| {
        let bits = match *observed {
            Observed::Register(thread, register) => node.x(thread, register.into()),
            Observed::Location(place) => {
                let raw = node.memory.space.load(layout.addresses[place], test.bytes);
                test.loaded(raw.expect("locations are mapped"))
            }
        };
        layout.value(bits)
    };
    test.observed.iter().map(&mut value).collect()
}

/// Two registers that a thread does not name.
pub(super) fn spare(thread: &Thread) -> Option<[u32; 2]> {
    let named = |number: u8| {
        let is_source = |step: &Step| {
            let inst = decode(step.word);
            let registers = inst.sources().into_iter().chain([inst.dest()]);
            registers.flatten().any(|register| register.0 == number)
        };
        thread.registers.iter().any(|(register, _)| *register == number)
            || thread.steps.iter().any(is_source)
    };
    let mut free = (1..32).rev().filter(|&number| !named(number)).map(u32::from);
    Some([free.next()?, free.next()?])
}

/// The instructions of a thread: something to pass the time with, then its steps, then a stop.
pub(super) fn program(thread: &Thread, spare: Option<[u32; 2]>, random: &mut Random) -> Code {
    let mut code = Code::default();
    let most = [16, 40, 100][random.below(3) as usize];
    code.repeat(random.below(most) as usize, &[addi(0, 0, 0)]);
    let mut places = Vec::new();
    let mut branches = Vec::new();
    for step in &thread.steps {
        places.push(code.here());
        match (step.target, spare) {
            (Some(target), _) => branches.push((code.here(), target)),
            (None, Some(spare)) if may_be_late(step.word) && random.below(2) == 0 => {
                late(&mut code, step.word, spare, random);
                continue;
            }
            _ => {}
        }
        code.word(step.word);
    }
    places.push(code.here());
    for (from, target) in branches {
        let distance = (places[target] as i32 - from as i32) * 4;
        code.words[from] = branch(code.words[from], distance);
    }
    code.stop();
    code
}

/// Whether an access may be late. The stores of `lr` and `sc` may not: a loop that retries would lose its
/// reservation again and again.
fn may_be_late(word: u32) -> bool {
    use Class::{Amo, Load, LoadReserved, Store};
    matches!(decode(word).class(), Load | Store | Amo | LoadReserved)
}

/// An access whose address is known late.
fn late(code: &mut Code, word: u32, [zero, address]: [u32; 2], random: &mut Random) {
    // Remainders take long, and the one of 0 by 0 is 0.
    let operation = [0, 6][random.below(2) as usize];
    let zeros = |source| r(opcode::OP, operation, 1, zero, source, source);
    code.word(zeros(0)).repeat(random.below(16) as usize, &[zeros(zero)]);
    code.add(address, zero, word >> 15 & 31);
    code.word(word & !(31 << 15) | address << 15);
}

/// The same branch, with another distance.
fn branch(word: u32, distance: i32) -> u32 {
    b(word >> 12 & 7, word >> 15 & 31, word >> 20 & 31, distance)
}
