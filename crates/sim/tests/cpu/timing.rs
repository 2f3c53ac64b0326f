//! Times from first principles.

use rackmem_riscv::space::{Fault, Wanted};
use rackmem_riscv::{Hart, Inst, decode};
use rackmem_sim::block::{Line, Words};
use rackmem_sim::cpu::{Core, CpuSpec, Next, Port, Program, Stop, Translate};
use rackmem_sim::engine::Cycle;

use rackmem_sim::litmus::code::*;
use rackmem_sim::litmus::memory::Delays;
use rackmem_sim::litmus::node::{DATA, Node};

/// Cycles from a request to its line.
const MISS: u64 = 200;

fn node(build: impl Fn(&mut Code), delays: Delays) -> Node {
    let mut code = Code::default();
    build(&mut code);
    code.stop();
    Node::short(&[code], &CpuSpec::default(), delays, 0)
}

/// Cycles of a program whose data are in the L1, or not.
fn cycles_with(build: impl Fn(&mut Code), delays: Delays, is_warm: bool) -> u64 {
    let mut node = node(build, delays);
    if is_warm {
        node.memory.warm(0, DATA, 1 << 15, true);
    }
    assert_eq!(node.run_to_stop(1_000_000), Some((0, Stop::Ebreak)));
    assert_eq!(node.cores[0].stats().cycles, node.now);
    node.now
}

fn warm(build: impl Fn(&mut Code)) -> u64 {
    cycles_with(build, Delays::fixed(MISS), true)
}

fn cold(build: impl Fn(&mut Code)) -> u64 {
    cycles_with(build, Delays::fixed(MISS), false)
}

/// The same instructions again and again.
fn times(n: usize, words: &[u32]) -> impl Fn(&mut Code) + use<'_> {
    move |code| {
        code.repeat(n, words);
    }
}

/// Cycles for one more of something.
fn each(run: impl Fn(usize) -> u64, from: usize, to: usize) -> f64 {
    (run(to) - run(from)) as f64 / (to - from) as f64
}

#[test]
fn a_chain_of_additions_takes_a_cycle_each() {
    let chain = |n| warm(times(n, &[addi(T0, T0, 1)]));
    assert_eq!(each(chain, 100, 1000), 1.0);
}

#[test]
fn three_independent_additions_take_a_cycle() {
    let three = [addi(T0, ZERO, 1), addi(T1, ZERO, 1), addi(T2, ZERO, 1)];
    let run = |n| warm(times(n, &three));
    assert_eq!(each(run, 100, 1000), 1.0);
}

#[test]
fn units_have_their_latencies() {
    use rackmem_riscv::encode::{opcode, r};
    let spec = CpuSpec::default();
    let chain = |word| move |n| warm(times(n, &[word]));
    let mul = r(opcode::OP, 0, 1, T0, T0, T0);
    assert_eq!(each(chain(mul), 20, 100), f64::from(spec.mul_cycles));
    let independent_mul = r(opcode::OP, 0, 1, T0, T1, T1);
    assert_eq!(each(chain(independent_mul), 20, 100), 1.0);
    let independent_div = r(opcode::OP, 4, 1, T0, T1, T1);
    assert_eq!(each(chain(independent_div), 20, 100), f64::from(spec.div_cycles));
    let fma = r(opcode::MADD, 0, 0, 1, 1, 1) | 1 << 25 | 1 << 27;
    assert_eq!(each(chain(fma), 20, 100), f64::from(spec.fma_cycles));
}

#[test]
fn a_hit_takes_four_cycles_from_load_to_use() {
    let chase = |n| warm(|code| chain_of_loads(code, n));
    assert_eq!(each(chase, 20, 200), 4.0);
    // Two ports.
    let loads = |n| warm(times(n, &[ld(T0, A0, 0)]));
    assert_eq!(each(loads, 100, 1100), 0.5);
}

/// Loads whose addresses depend on each other, and are all the same.
fn chain_of_loads(code: &mut Code, n: usize) {
    code.sd(A0, A0, 0).fence(RW_RW);
    code.repeat(n, &[ld(A0, A0, 0)]);
}

#[test]
fn stores_are_forwarded() {
    // Store and load the same place: the load waits for data, not for the store to leave.
    let pairs = |n: usize| {
        warm(|code| {
            for _ in 0..n {
                code.sd(T0, A0, 0).ld(T0, A0, 0);
            }
        })
    };
    let spec = CpuSpec::default();
    let forwarded = f64::from(spec.address_cycles + spec.forward_cycles);
    let each = each(pairs, 20, 200);
    assert!((forwarded..=forwarded + 2.0).contains(&each), "{each}");
}

fn loads(lines: usize) -> impl Fn(&mut Code) {
    move |code| {
        for _ in 0..lines {
            code.addi(T1, T1, 64).add(T2, T1, A0).ld(T0, T2, 0);
        }
    }
}

#[test]
fn independent_misses_overlap() {
    let run = |lines| cold(loads(lines));
    assert!(run(16) < run(1) + 20, "{} {}", run(16), run(1));
    // ... but no more than there are MSHRs.
    let few = |lines| {
        let delays = Delays { mshrs: 4, ..Delays::fixed(MISS) };
        cycles_with(loads(lines), delays, false)
    };
    assert!(few(4) < few(1) + 20);
    let steps = each(few, 4, 16) * 4.0;
    assert!((MISS as f64..MISS as f64 + 10.0).contains(&steps), "{steps}");
}

#[test]
fn misses_of_stores_overlap_as_far_as_is_asked_ahead() {
    let spec = CpuSpec::default();
    let run = |lines: usize| {
        cold(|code| {
            for _ in 0..lines {
                code.addi(T1, T1, 64).add(T2, T1, A0).sd(T0, T2, 0);
            }
            code.fence(RW_RW);
        })
    };
    let together = spec.stores_ahead as usize + 1;
    assert!(run(together) < run(1) + 30, "{} {}", run(together), run(1));
    let step = each(run, together, 11 * together) * together as f64;
    assert!((MISS as f64..MISS as f64 + 20.0).contains(&step), "{step}");
}

/// Cycles for one more line of a stream of stores, of so many words in each line.
fn line_of_stores(words: i32, streams: i32, spec: &CpuSpec) -> f64 {
    let run = |lines: usize| {
        let mut code = Code::default();
        for _ in 0..lines {
            code.addi(T1, T1, 64).add(T2, T1, A0);
            for word in 0..words {
                (0..streams).for_each(|stream| _ = code.sd(T0, T2, 8 * word + 1024 * stream));
            }
        }
        code.fence(RW_RW).stop();
        let mut node = Node::short(&[code], spec, Delays::fixed(MISS), 0);
        assert_eq!(node.run_to_stop(1_000_000), Some((0, Stop::Ebreak)));
        node.now
    };
    // As many as there are between two streams, or they would meet.
    each(run, 4, 14)
}

#[test]
fn streams_of_stores_take_as_long_whatever_they_store_in_a_line() {
    let spec = CpuSpec::default();
    let in_flight = f64::from(spec.stores_ahead + 1);
    // Little's law, and a cycle in which each line is written.
    let bound = MISS as f64 / in_flight + 4.0;
    for words in [1, 2, 8] {
        let line = line_of_stores(words, 1, &spec);
        assert!((MISS as f64 / in_flight..=bound).contains(&line), "{words} words: {line}");
        let two = line_of_stores(words, 2, &spec);
        assert!(two <= 2.0 * bound, "{words} words in turn with another stream: {two}");
    }
}

#[test]
fn a_chase_of_misses_does_not_overlap() {
    let run = |n: usize| {
        let mut node = node(times(n, &[ld(A0, A0, 0)]), Delays::fixed(MISS));
        for line in 0..n as u64 {
            let (at, next) = (DATA + line * 64, DATA + (line + 1) * 64);
            node.memory.space.store(at, 8, next).expect("it is mapped");
        }
        node.run(1_000_000);
        node.now
    };
    let spec = CpuSpec::default();
    let link = MISS + u64::from(spec.address_cycles + spec.refill_cycles);
    assert_eq!(each(run, 4, 20), link as f64);
}

#[test]
fn the_rob_limits_how_far_the_core_runs_ahead() {
    let apart = |n| {
        cold(|code| {
            code.ld(T0, A0, 0).repeat(n, &[addi(T1, ZERO, 1)]).ld(T2, A0, 1024);
        })
    };
    let rob = CpuSpec::default().rob_entries as usize;
    assert!(apart(rob - 2) < apart(0) + 25, "both are in the ROB");
    assert!(apart(rob - 1) > apart(0) + MISS, "the second one does not fit");
}

#[test]
fn a_branch_on_a_miss_holds_nothing_up() {
    let run = |branch: bool| {
        cold(|code| {
            code.ld(T0, A0, 0);
            if branch {
                let behind = code.here() + 2;
                code.bne(T0, ZERO, behind).addi(T1, T1, 1);
            }
            code.ld(T2, A0, 1024);
        })
    };
    assert!(run(true) < run(false) + 5, "the second miss begins behind the branch");
}

#[test]
fn a_misprediction_costs_the_front_end() {
    // Not taken is predicted at first.
    let run = |condition| {
        warm(|code| {
            let behind = code.repeat(30, &[addi(T0, T0, 0)]).here() + 2;
            code.branch(condition, T0, T0, behind).addi(T1, T1, 1);
            code.repeat(30, &[addi(T0, T0, 1)]);
        })
    };
    let (taken, not_taken) = (run(0), run(1));
    let depth = u64::from(CpuSpec::default().front_end_cycles);
    let loss = taken - not_taken;
    assert!((depth..=depth + 3).contains(&loss), "{loss}");
    // A loop that is predicted costs no such thing.
    let looped = |n: usize| {
        warm(|code| {
            code.li(T0, n as i32);
            let again = code.here();
            code.addi(T0, T0, -1).bne(T0, ZERO, again);
        })
    };
    assert_eq!(each(looped, 100, 1000), 1.0);
}

#[test]
fn without_prediction_each_taken_branch_costs_the_front_end() {
    // A MicroBlaze: one instruction at a time, fetch, decode, and branches that are known behind that.
    let spec = CpuSpec {
        predicts: false,
        fetch_width: 1,
        dispatch_width: 1,
        issue_width: 1,
        retire_width: 1,
        rob_entries: 5,
        front_end_cycles: 1,
        ..CpuSpec::default()
    };
    let looped = |n: usize, jump: fn(&mut Code, usize)| {
        let mut code = Code::default();
        code.li(T0, n as i32);
        let again = code.here();
        code.addi(T0, T0, -1);
        jump(&mut code, again);
        code.stop();
        let mut node = Node::short(&[code], &spec, Delays::fixed(MISS), 0);
        assert_eq!(node.run_to_stop(1_000_000), Some((0, Stop::Ebreak)));
        node.now
    };
    let taken = |n| looped(n, |code, again| _ = code.bne(T0, ZERO, again));
    assert_eq!(each(taken, 100, 1000), 4.0, "an addition and three cycles");
    let not_taken = |n| {
        looped(n, |code, again| {
            let behind = code.here() + 1;
            code.bne(ZERO, ZERO, behind).bne(T0, ZERO, again);
        })
    };
    assert_eq!(each(not_taken, 100, 1000), 5.0, "a cycle more");
}

#[test]
fn fences_wait_for_stores() {
    let run = |sets| {
        cold(|code| {
            code.sd(T0, A0, 0).fence(sets).ld(T1, A0, 1024);
        })
    };
    let (full, stores) = (run(RW_RW), run(W_W));
    assert!(full > stores + MISS - 10, "{full} {stores}");
}

#[test]
fn counters_show_the_time() {
    let mut node = node(
        |code| {
            code.rdcycle(A2).repeat(100, &[addi(T0, T0, 1)]).rdcycle(A3);
        },
        Delays::fixed(MISS),
    );
    node.run(10_000);
    let passed = node.x(0, A3) - node.x(0, A2);
    assert!((100..130).contains(&passed), "{passed}");
}

#[test]
fn traps_have_exact_places() {
    let mut node = node(
        |code| {
            // A wrong path to a place that is not mapped, then a right one.
            let behind = code.ld(T0, A0, 0).here() + 2;
            code.beq(T0, ZERO, behind).ld(T1, ZERO, 0);
            code.addi(T2, ZERO, 7).sd(T2, A0, 8).ld(T1, ZERO, 16).addi(T2, ZERO, 9);
        },
        Delays::fixed(MISS),
    );
    let Some((0, Stop::Fault(fault))) = node.run_to_stop(10_000) else {
        panic!("it ends with a fault");
    };
    assert_eq!((fault.address, node.x(0, T2)), (16, 7));
    assert_eq!(node.cores[0].hart().pc, rackmem_sim::litmus::node::CODE + 5 * 4);
    assert_eq!(node.memory.space.load(DATA + 8, 8), Ok(7), "stores before it have left");
}

/// One load from a line that goes away and comes back with another value.
struct Script {
    now: Cycle,
    lost_at: Cycle,
    back_at: Cycle,
    first_read: Option<Cycle>,
    program: [Inst; 2],
}

impl Port for Script {
    fn load(&mut self, _: Line) -> Option<Words> {
        self.first_read.get_or_insert(self.now);
        let is_gone = (self.lost_at..self.back_at).contains(&self.now);
        let value = if self.now < self.lost_at { 1 } else { 2 };
        (!is_gone).then_some([value; 8])
    }

    fn store(&mut self, _: Line, _: impl FnOnce(&mut Words)) -> bool {
        unreachable!("the program does not store");
    }

    fn fetch(&mut self, _: Line) -> bool {
        true
    }
}

impl Translate for Script {
    fn translate(&mut self, address: u64, _: Wanted) -> Result<u64, Fault> {
        Ok(address)
    }
}

impl Program for Script {
    fn inst(&mut self, pc: u64) -> Result<&Inst, Fault> {
        Ok(&self.program[usize::from(pc != 0)])
    }

    fn fence_i(&mut self) {}
}

#[test]
fn a_load_has_the_value_of_the_cycle_in_which_it_completes() {
    let spec = CpuSpec::default();
    let run = |lost_at| {
        let program = [ld(A2, A0, 0), 0x0010_0073].map(decode);
        let back_at = lost_at + 100;
        let mut script = Script { now: 0, lost_at, back_at, first_read: None, program };
        let mut core = Core::new(&spec, &Hart::new(0), 0);
        for now in 1.. {
            script.now = now;
            if now == lost_at {
                core.lost(0);
            }
            if now == script.back_at {
                core.complete();
            }
            if let Next::Stopped(_) = core.tick(now, &mut script) {
                break;
            }
        }
        (core.hart().x[A2 as usize], script.first_read.expect("it loads"))
    };
    let begins = run(1_000_000).1;
    let completes = begins + Cycle::from(spec.l1_cycles);
    for lost_at in begins - 3..completes + 3 {
        assert_eq!(run(lost_at).0, if lost_at <= completes { 2 } else { 1 }, "{lost_at}");
    }
}
