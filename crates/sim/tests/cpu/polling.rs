//! Cores that poll sleep, and nobody can tell.

use crate::seeds::seeds;
use rackmem_riscv::Hart;
use rackmem_riscv::encode::{i, j, opcode, r};
use rackmem_sim::cpu::{CpuSpec, Stats};

use crate::rng::Rng;
use rackmem_sim::litmus::code::*;
use rackmem_sim::litmus::memory::Delays;
use rackmem_sim::litmus::node::{DATA, Node};

/// Everything that a run leaves behind, and how many cycles were simulated one by one.
type End = (u64, Vec<Hart>, Vec<Stats>);

fn run(programs: &[Code], sleeps: bool, delays: Delays, seed: u64) -> (End, u64) {
    let spec = CpuSpec { sleeps, ..CpuSpec::default() };
    let mut node = Node::short(programs, &spec, delays, seed);
    node.run(3_000_000);
    let harts = node.cores.iter().map(|core| core.hart()).collect();
    let stats = node.cores.iter().map(|core| *core.stats()).collect();
    ((node.now, harts, stats), node.ticks)
}

/// Runs with and without sleeping; returns how many times fewer cycles had to be simulated.
fn same(programs: &[Code], delays: Delays, seed: u64) -> f64 {
    let (awake, many) = run(programs, false, delays, seed);
    let (asleep, few) = run(programs, true, delays, seed);
    assert_eq!(awake, asleep, "seed {seed}");
    many as f64 / few as f64
}

/// Writes `t1` = 1 to each of the lines, with waits of about `cycles` before each.
pub fn writer(lines: &[i32], cycles: u64, rng: &mut Rng) -> Code {
    let mut code = Code::default();
    code.addi(T1, ZERO, 1);
    for &line in lines {
        code.li(T0, 1 + rng.below(2 * cycles) as i32);
        let again = code.here();
        code.addi(T0, T0, -1).bne(T0, ZERO, again);
        code.sd(T1, A0, line);
    }
    code.stop();
    code
}

/// Polls a word, with so many additions in the loop.
fn poller(line: i32, body: usize) -> Code {
    let mut code = Code::default();
    let again = code.here();
    code.repeat(body, &[addi(A3, ZERO, 1), addi(A4, A3, 1)]);
    code.ld(A2, A0, line).beq(A2, ZERO, again).stop();
    code
}

#[test]
fn a_core_that_polls_sleeps() {
    for body in 0..12 {
        for seed in seeds(0..6) {
            let mut rng = Rng::new(seed);
            let programs = [poller(0, body), writer(&[0], 20_000, &mut rng)];
            same(&programs, Delays::wild(), seed);
        }
    }
}

/// The load of each cycle has the only port of the cache, and the store before the loop goes all the same.
#[test]
fn a_store_before_a_loop_that_polls_reaches_other_cores() {
    let (asks, answers) = (0, 256);
    let program = |store_first: bool| {
        let mut code = Code::default();
        code.addi(T1, ZERO, 1);
        if store_first {
            code.sd(T1, A0, asks);
        }
        let again = code.here();
        code.ld(A2, A0, if store_first { answers } else { asks }).beq(A2, ZERO, again);
        if !store_first {
            code.sd(T1, A0, answers);
        }
        code.stop();
        code
    };
    let spec = CpuSpec { memory_ports: 1, ..CpuSpec::default() };
    let programs = [program(true), program(false)];
    let mut node = Node::short(&programs, &spec, Delays::fixed(20), 1);
    // The loop begins before the store's line is there.
    node.memory.slow_down(DATA, 20);
    node.run(100_000);
    let left: Vec<u64> = node.cores.iter().map(|core| core.hart().x[A2 as usize]).collect();
    assert_eq!(left, [1, 1], "in cycle {}", node.now);
}

#[test]
fn many_that_poll_cost_little() {
    let mut programs = vec![poller(0, 1); 16];
    // The only core that is awake counts down.
    programs.push(writer(&[0], 1, &mut Rng::new(1)));
    programs[16] = {
        let mut code = Code::default();
        code.addi(T1, ZERO, 1).li(T0, 30_000);
        let again = code.here();
        code.addi(T0, T0, -1).bne(T0, ZERO, again);
        code.sd(T1, A0, 0).stop();
        code
    };
    let saved = same(&programs, Delays::wild(), 3);
    assert!(saved > 14.0, "{saved}: only one core of seventeen had something to do");
}

#[test]
fn other_words_of_the_line_wake_it_in_vain() {
    for seed in seeds(0..10) {
        let mut rng = Rng::new(seed);
        // The core goes back to sleep each time, until its word is written.
        let programs = [poller(0, 2), writer(&[8, 16, 24, 0], 3000, &mut rng)];
        same(&programs, Delays::wild(), seed);
    }
}

#[test]
fn several_places_are_polled_in_turn() {
    let mut poller = Code::default();
    let start = poller.here();
    // An inner loop over four lines; the sum of what it finds has to be 4.
    poller.addi(A2, ZERO, 0).add(A3, A0, ZERO).addi(A4, A0, 1024);
    let inner = poller.here();
    poller.ld(A5, A3, 0).add(A2, A2, A5).addi(A3, A3, 256).bne(A3, A4, inner);
    poller.addi(A2, A2, -4).bne(A2, ZERO, start).stop();
    let mut saved = 0.0_f64;
    for seed in seeds(0..10) {
        let mut rng = Rng::new(seed);
        let programs = [poller.clone(), writer(&[0, 256, 512, 768], 10_000, &mut rng)];
        saved = saved.max(same(&programs, Delays::wild(), seed));
    }
    assert!(saved > 1.5, "{saved}");
}

#[test]
fn a_loop_that_looks_at_the_clock_does_not_sleep() {
    let mut poller = Code::default();
    // The loop keeps a zero of the clock until it ends.
    let again = poller.here();
    poller.rdcycle(A2).word(r(opcode::OP_IMM, 5, 0, A2, A2, 13));
    poller.ld(A3, A0, 0).beq(A2, ZERO, again).stop();
    assert!(same(&[poller], Delays::fixed(10), 0) < 1.01);
}

/// A loop that polls, with a random body that computes the same in each iteration.
pub fn random_poller(rng: &mut Rng) -> Code {
    let mut code = Code::default();
    let again = code.here();
    let registers = [T0, T1, T2, A3, A4, A5];
    for register in registers {
        code.addi(register, ZERO, register as i32);
    }
    for _ in 0..rng.below(20) {
        let [a, b, c] = [0; 3].map(|_| rng.pick(&registers));
        match rng.below(8) {
            0 => code.ld(a, A0, 64 * rng.below(6) as i32),
            1 => {
                let over = code.here() + 2;
                let condition = rng.pick(&[0, 1, 4]);
                code.branch(condition, a, b, over).addi(c, c, 3)
            }
            2 => code.word(r(opcode::OP, rng.pick(&[0, 4, 5]), 1, a, b, c)),
            3 => code.fence(rng.pick(&[RW_RW, R_R, W_W])),
            4 => code.sd(a, A0, 2048 - 128).xor(a, b, c),
            _ => code.add(a, b, c),
        };
    }
    code.ld(A2, A0, 0).beq(A2, ZERO, again).stop();
    code
}

#[test]
fn what_polls_in_a_function_sleeps() {
    let mut poller = Code::default();
    // main: call look; until it gives something. look: load the word and return.
    poller.word(j(1, 12)).beq(A2, ZERO, 0).stop();
    poller.ld(A2, A0, 0).word(i(opcode::JALR, 0, 0, 1, 0));
    for seed in seeds(0..10) {
        let mut rng = Rng::new(seed);
        let programs = [poller.clone(), poller.clone(), writer(&[8, 0], 5000, &mut rng)];
        assert!(same(&programs, Delays::wild(), seed) > 1.5);
    }
}

#[test]
fn cores_need_only_be_looked_at_when_they_say_so() {
    for seed in seeds(0..30) {
        let ends = [false, true].map(|is_busy| {
            let mut rng = Rng::new(seed);
            let pollers = [random_poller(&mut rng), random_poller(&mut rng)];
            let lines = [64, 128, 192, 256, 8, 320, 0];
            let [one, other] = pollers;
            let programs = [one, other, writer(&lines, 100, &mut rng)];
            let delays = Delays { evict: 100, ..Delays::wild() };
            let mut node = Node::short(&programs, &CpuSpec::default(), delays, seed);
            node.is_busy = is_busy;
            node.run(1_000_000);
            let stats: Vec<Stats> = node.cores.iter().map(|core| *core.stats()).collect();
            (node.now, stats)
        });
        assert_eq!(ends[0], ends[1], "seed {seed}");
    }
}

#[test]
fn random_loops() {
    let mut best = 0.0_f64;
    for seed in seeds(0..150) {
        let mut rng = Rng::new(seed);
        let pollers = [random_poller(&mut rng), random_poller(&mut rng)];
        let lines = [64, 128, 192, 256, 8, 320, 0];
        let programs = [pollers[0].clone(), pollers[1].clone(), writer(&lines, 800, &mut rng)];
        let delays = Delays { evict: 400 * (seed % 3), ..Delays::wild() };
        best = best.max(same(&programs, delays, seed));
    }
    assert!(best > 1.5, "{best}");
}

#[test]
fn counts_can_be_asked_for_at_any_time() {
    let ends = [false, true].map(|sleeps| {
        let spec = CpuSpec { sleeps, ..CpuSpec::default() };
        let mut node = Node::short(&[poller(0, 3)], &spec, Delays::fixed(20), 0);
        let mut seen = Vec::new();
        for limit in [1000, 1003, 1004, 5000, 5001] {
            assert_eq!(node.run_to_stop(limit), None);
            node.now = limit;
            node.settle();
            seen.push(*node.cores[0].stats());
        }
        seen
    });
    assert_eq!(ends[0], ends[1]);
    assert_eq!(ends[0][4].cycles, 5001);
    assert_eq!(DATA % 64, 0);
}
