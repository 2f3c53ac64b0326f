//! Cores that change one place together: counters and locks.

use rackmem_sim::cpu::CpuSpec;
use rackmem_sim::litmus::code::*;
use rackmem_sim::litmus::memory::Delays;
use rackmem_sim::litmus::node::{DATA, Node};

use crate::rng::Rng;
use crate::seeds::seeds;

/// Distance of the places that programs name by `a0` and `a1`: in lines of their own.
const APART: i32 = 256;

/// A thread: some time later than others, `a0` and `a1` point to two places, `t1` is 1.
fn thread(body: impl Fn(&mut Code), rng: &mut Rng) -> Code {
    let mut code = Code::default();
    code.addi(A1, A0, APART).addi(T1, ZERO, 1);
    code.repeat(rng.below(150) as usize, &[addi(T0, T0, 1)]);
    body(&mut code);
    code.stop();
    code
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
