//! Memory as several cores may see it (RVWMO), and as they do see it.

use crate::seeds::seeds;
use std::collections::BTreeMap;

use rackmem_sim::cpu::CpuSpec;

use crate::code::*;
use crate::memory::Delays;
use crate::node::{DATA, Node};
use crate::rng::Rng;

/// Registers that hold the results of a core.
const RESULTS: [u32; 2] = [A2, A3];

/// Distance of the places that programs name by `a0` and `a1`: in lines of their own.
const APART: i32 = 256;

/// Offset of the lines that only one core uses.
const OWN: i32 = 512;

/// Outcomes and how often they came: the results of all cores, then both places at the end.
struct Outcomes(BTreeMap<Vec<u64>, u32>);

impl Outcomes {
    fn never(&self, what: &str, forbidden: impl Fn(&[u64]) -> bool) -> &Self {
        let found = self.0.iter().find(|(outcome, _)| forbidden(outcome));
        assert!(found.is_none(), "{what}: {found:?} is forbidden");
        self
    }

    fn sometimes(&self, what: &str, expected: impl Fn(&[u64]) -> bool) -> &Self {
        let found = self.0.keys().any(|outcome| expected(outcome));
        assert!(found, "{what}: never seen, only {:?}", self.0);
        self
    }
}

/// A thread: some time later than others, `a0` and `a1` point to two places, `t1` is 1.
fn thread(body: impl Fn(&mut Code), rng: &mut Rng) -> Code {
    let mut code = Code::default();
    code.addi(A1, A0, APART).addi(T1, ZERO, 1).addi(T2, ZERO, 2);
    code.repeat(rng.below(150) as usize, &[addi(T0, T0, 1)]);
    body(&mut code);
    code.stop();
    code
}

/// A register that is zero, `late` cycles after `of` is known.
fn zero_from(code: &mut Code, rd: u32, of: u32, late: usize) {
    code.xor(rd, of, of);
    code.repeat(late, &[addi(rd, rd, 0)]);
}

/// A load whose address is known late, so that loads behind it come first unless they may not.
fn late_load(code: &mut Code, rd: u32, from: u32) {
    zero_from(code, A4, T0, 60);
    code.add(A4, A4, from).ld(rd, A4, 0);
}

fn run(bodies: &[&dyn Fn(&mut Code)]) -> Outcomes {
    let mut outcomes = BTreeMap::new();
    let mut flushes = 0;
    for seed in seeds(0..600) {
        let mut rng = Rng::new(seed);
        let threads: Vec<Code> = bodies.iter().map(|body| thread(body, &mut rng)).collect();
        let delays = if seed % 3 == 0 { Delays::fixed(10) } else { Delays::wild() };
        let mut node = Node::short(&threads, &CpuSpec::default(), delays, seed);
        for place in [DATA, DATA + APART as u64] {
            for core in 0..threads.len() {
                if rng.below(3) == 0 {
                    node.memory.warm(core, place, 8, false);
                }
            }
        }
        for core in 0..threads.len() {
            node.memory.warm(core, DATA + (core as u64 + 1) * OWN as u64, 8, true);
        }
        node.run(100_000);
        let mut outcome: Vec<u64> = (0..threads.len())
            .flat_map(|core| RESULTS.map(|register| node.x(core, register)))
            .collect();
        for place in [DATA, DATA + APART as u64] {
            outcome.push(node.memory.space.load(place, 8).expect("it is mapped"));
        }
        flushes += node.cores.iter().map(|core| core.stats().load_flushes).sum::<u64>();
        *outcomes.entry(outcome).or_insert(0) += 1;
    }
    eprintln!("{} outcomes, {flushes} loads in the wrong order", outcomes.len());
    Outcomes(outcomes)
}

fn message(order: &dyn Fn(&mut Code)) -> Outcomes {
    let writer = |code: &mut Code| {
        code.sd(T1, A0, 0).fence(W_W).sd(T1, A1, 0);
    };
    run(&[&writer, order])
}

fn stale(outcome: &[u64]) -> bool {
    outcome[2] == 1 && outcome[3] == 0
}

#[test]
fn message_passing() {
    let plain = |code: &mut Code| {
        late_load(code, A2, A1);
        code.ld(A3, A0, 0);
    };
    message(&plain).sometimes("loads pass each other", stale);
    let fenced = |code: &mut Code| {
        late_load(code, A2, A1);
        code.fence(R_R).ld(A3, A0, 0);
    };
    message(&fenced).never("MP with fences", stale).sometimes("the message comes", |o| o[2] == 1);
    let address = |code: &mut Code| {
        late_load(code, A2, A1);
        zero_from(code, A4, A2, 0);
        code.add(A4, A4, A0).ld(A3, A4, 0);
    };
    message(&address).never("MP with an address dependency", stale);
    let control = |code: &mut Code| {
        late_load(code, A2, A1);
        let next = code.here() + 2;
        code.beq(A2, ZERO, next).addi(A5, ZERO, 0).ld(A3, A0, 0);
    };
    message(&control).sometimes("branches do not hold loads back", stale);
    let acquire = |code: &mut Code| {
        code.atomic(2, 2, A2, A1, 0).ld(A3, A0, 0);
    };
    message(&acquire).never("MP with an acquiring load", stale);
}

#[test]
fn stores_leave_in_order_without_fences() {
    let writer = |code: &mut Code| {
        code.sd(T1, A0, 0).sd(T1, A1, 0);
    };
    let reader = |code: &mut Code| {
        code.ld(A2, A1, 0).fence(R_R).ld(A3, A0, 0);
    };
    run(&[&writer, &reader]).never("MP with one fence", stale);
}

/// Stores to one place, then a load from the other, with something in between. `a5` points to a
/// line that only this core uses, and has.
fn store_buffering(between: &dyn Fn(&mut Code)) -> Outcomes {
    let thread = |from: u32, to: u32, own: i32| {
        move |code: &mut Code| {
            code.addi(A5, A0, own).sd(T1, from, 0);
            between(code);
            code.ld(A2, to, 0);
        }
    };
    run(&[&thread(A0, A1, OWN), &thread(A1, A0, 2 * OWN)])
}

#[test]
fn store_buffers() {
    let both_old = |o: &[u64]| o[0] == 0 && o[2] == 0;
    store_buffering(&|_| {}).sometimes("loads pass stores", both_old);
    let fence = |code: &mut Code| {
        code.fence(RW_RW);
    };
    store_buffering(&fence).never("SB with fences", both_old);
    let weak = |code: &mut Code| {
        code.fence(0x13);
    };
    store_buffering(&weak).never("SB with fence w,rw", both_old);
    let wrong = |code: &mut Code| {
        code.fence(W_W).fence(R_R);
    };
    store_buffering(&wrong).sometimes("SB with fences of the wrong kind", both_old);
    let swap = |code: &mut Code| {
        code.atomic(1, 3, ZERO, A5, T1);
    };
    store_buffering(&swap).never("SB with an atomic in between", both_old);
}

#[test]
fn stores_by_atomics_are_not_buffered() {
    let one = |code: &mut Code| {
        code.atomic(1, 3, ZERO, A0, T1).ld(A2, A1, 0);
    };
    let other = |code: &mut Code| {
        code.atomic(1, 3, ZERO, A1, T1).ld(A2, A0, 0);
    };
    run(&[&one, &other]).never("SB with atomics", |o| o[0] == 0 && o[2] == 0);
}

#[test]
fn own_stores_are_seen_before_they_leave() {
    let one = |code: &mut Code| {
        code.sd(T1, A0, 0).ld(A2, A0, 0).ld(A3, A1, 0);
    };
    let other = |code: &mut Code| {
        code.sd(T1, A1, 0).ld(A2, A1, 0).ld(A3, A0, 0);
    };
    run(&[&one, &other])
        .never("a core does not see its own store", |o| o[0] == 0 || o[2] == 0)
        .sometimes("loads pass stores", |o| o[1] == 0 && o[3] == 0);
}

#[test]
fn load_buffering() {
    let both_new = |o: &[u64]| o[0] == 1 && o[2] == 1;
    let one = |code: &mut Code| {
        code.ld(A2, A0, 0).sd(T1, A1, 0);
    };
    let other = |code: &mut Code| {
        code.ld(A2, A1, 0).sd(T1, A0, 0);
    };
    run(&[&one, &other]).never("LB: stores wait until they retire", both_new);
    let data = |from: u32, to: u32| {
        move |code: &mut Code| {
            code.ld(A2, from, 0).sd(A2, to, 0);
        }
    };
    run(&[&data(A0, A1), &data(A1, A0)]).never("out of thin air", |o| o[0] != 0 || o[2] != 0);
}

#[test]
fn independent_reads_of_independent_writes() {
    let write = |to: u32| {
        move |code: &mut Code| {
            code.sd(T1, to, 0);
        }
    };
    let reader = |first: u32, second: u32, is_fenced: bool| {
        move |code: &mut Code| {
            late_load(code, A2, first);
            if is_fenced {
                code.fence(R_R);
            }
            code.ld(A3, second, 0);
        }
    };
    let disagree = |o: &[u64]| o[4] == 1 && o[5] == 0 && o[6] == 1 && o[7] == 0;
    let run =
        |fenced| run(&[&write(A0), &write(A1), &reader(A0, A1, fenced), &reader(A1, A0, fenced)]);
    run(true).never("IRIW with fences", disagree);
    run(false).sometimes("loads pass each other", disagree);
}

#[test]
fn one_place_is_coherent() {
    let writer = |code: &mut Code| {
        code.sd(T1, A0, 0).sd(T2, A0, 0);
    };
    for late in [0, 3, 10, 30] {
        // The address of the first load is known late, so that the second one comes first.
        let reader = |code: &mut Code| {
            zero_from(code, A4, T0, late);
            code.add(A4, A4, A0).ld(A2, A4, 0).ld(A3, A0, 0);
        };
        run(&[&writer, &reader, &reader])
            .never("CoRR", |o| o[2] > o[3] || o[4] > o[5])
            .never("CoWW", |o| o[6] != 2);
    }
    let slow_reader = |code: &mut Code| {
        code.ld(A2, A0, 0);
        zero_from(code, A4, A2, 50);
        code.add(A4, A4, A0).ld(A3, A4, 0);
    };
    run(&[&writer, &slow_reader])
        .never("CoRR", |o| o[2] > o[3])
        .sometimes("it changes in between", |o| o[2] < o[3]);
}

#[test]
fn reads_after_forwarding_are_coherent() {
    // The second load gets the core's own store, the first one may come after another core's.
    let one = |code: &mut Code| {
        code.sd(T1, A0, 0);
        zero_from(code, A4, T0, 25);
        code.add(A4, A4, A0).ld(A2, A4, 0).ld(A3, A0, 0);
    };
    let other = |code: &mut Code| {
        code.sd(T2, A0, 0);
    };
    run(&[&one, &other]).never("CoRR", |o| o[0] == 2 && o[1] == 1);
}

#[test]
fn writes_of_two_places() {
    let one = |code: &mut Code| {
        code.sd(T1, A0, 0).sd(T2, A1, 0);
    };
    let other = |code: &mut Code| {
        code.sd(T1, A1, 0).sd(T2, A0, 0);
    };
    run(&[&one, &other]).never("2+2W", |o| o[4] == 1 && o[5] == 1);
    let reader = |code: &mut Code| {
        code.ld(A2, A1, 0).xor(A4, A2, A2).add(A4, A4, T1).sd(A4, A0, 0);
    };
    let writer = |code: &mut Code| {
        code.sd(T2, A0, 0).sd(T1, A1, 0);
    };
    run(&[&writer, &reader]).never("S with a data dependency", |o| o[2] == 1 && o[4] == 2);
}

/// Cores that add to one counter; `add` does it once.
fn counters(add: &dyn Fn(&mut Code), evict: u64) {
    const TIMES: i32 = 40;
    let (cores, mut failed) = (4, 0);
    for seed in seeds(0..6) {
        let mut rng = Rng::new(seed);
        let body = |code: &mut Code| {
            code.addi(A5, ZERO, TIMES);
            let again = code.here();
            add(code);
            code.addi(A5, A5, -1).bne(A5, ZERO, again);
        };
        let threads: Vec<Code> = (0..cores).map(|_| thread(body, &mut rng)).collect();
        let delays = Delays { evict, ..Delays::wild() };
        let mut node = Node::short(&threads, &CpuSpec::default(), delays, seed);
        node.run(2_000_000);
        let sum = node.memory.space.load(DATA, 8).expect("it is mapped");
        assert_eq!(sum, (cores * TIMES) as u64, "seed {seed}");
        failed += node.cores.iter().map(|core| core.stats().failed_conditionals).sum::<u64>();
    }
    eprintln!("{failed} store conditionals failed");
}

#[test]
fn counters_add_up() {
    counters(
        &|code| {
            code.atomic(0, 0, ZERO, A0, T1);
        },
        100,
    );
    counters(
        &|code| {
            let again = code.here();
            code.atomic(2, 0, A2, A0, 0).addi(A2, A2, 1);
            code.atomic(3, 0, A3, A0, A2).bne(A3, ZERO, again);
        },
        100,
    );
}

#[test]
fn locks_exclude() {
    let release = |code: &mut Code| {
        code.fence(0x31).sd(ZERO, A1, 0);
    };
    let critical = |code: &mut Code| {
        code.ld(A3, A0, 0).addi(A3, A3, 1).sd(A3, A0, 0);
    };
    counters(
        &|code| {
            let again = code.here();
            code.atomic(1, 2, A2, A1, T1).bne(A2, ZERO, again);
            critical(code);
            release(code);
        },
        0,
    );
    counters(
        &|code| {
            let again = code.here();
            code.ld(A2, A1, 0).bne(A2, ZERO, again);
            code.atomic(1, 2, A2, A1, T1).bne(A2, ZERO, again);
            critical(code);
            code.atomic(1, 1, ZERO, A1, ZERO);
        },
        300,
    );
}
