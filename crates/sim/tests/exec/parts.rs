//! Programs of which a part has timing, and the rest none.

use rackmem_riscv::Mark;
use rackmem_riscv::encode::{i, opcode};
use rackmem_sim::exec::part::{Measured, Part, Samples};
use rackmem_sim::exec::{Options, Outcome, Until};
use rackmem_sim::machine::Machine;

use super::guest::{Guest, at, from, options};
use super::{chips, load, run, said};

/// Programs, their nodes and their arguments.
const PROGRAMS: [(u16, &[&str]); 2] = [
    (2, &["pagerank", "--kronecker", "5", "--variant", "fine"]),
    (2, &["pagerank", "--kronecker", "5", "--variant", "bulk"]),
];

/// Instructions that no program here has.
pub(super) const ALL: u64 = 1 << 40;

pub(super) fn run_part(machine: &Machine, nodes: u16, args: &[&str], part: Part) -> Outcome {
    Guest::prebuilt(nodes, args).run_part(machine, part, options())
}

/// What does not depend on times.
pub(super) fn answers(outcome: &Outcome) -> Vec<String> {
    said(outcome)
        .lines()
        .filter(|line| ![" us", " ms", "/s"].iter().any(|time| line.contains(time)))
        .map(str::to_owned)
        .collect()
}

#[test]
fn answers_are_the_same_wherever_the_part_begins() {
    for (nodes, args) in PROGRAMS {
        for machine in [load("sonuma", &[]), chips(&[])] {
            let timed = answers(&run(&machine, nodes, args));
            for after in [1, 3_000, 20_000, 50_000, ALL] {
                let outcome = run_part(&machine, nodes, args, from(after));
                assert_eq!(answers(&outcome), timed, "{args:?} after {after}");
                let is_measured = outcome.measured.is_some();
                assert!(is_measured == (after != ALL) || after >= 20_000, "{args:?} after {after}");
            }
        }
    }
}

#[test]
fn the_library_passes_its_own_test_without_timing() {
    let outcome = run_part(&load("sonuma", &[]), 2, &["rack_test"], from(ALL));
    assert!(said(&outcome).contains("29 passed on 2 nodes"));
}

/// Executes a program in short pieces, with and without timing in turn.
pub(super) fn alternate(
    machine: &Machine,
    nodes: u16,
    args: &[&str],
    pieces: [u64; 2],
) -> (Outcome, usize) {
    let mut options = Options::default();
    let mut session = Guest::prebuilt(nodes, args).session(machine, &options);
    let mut switches = 0;
    while session.fast_forward(at(session.instructions() + pieces[0]), &mut options)
        && session.run(at(session.instructions() + pieces[1]), &mut options)
    {
        switches += 1;
    }
    (session.finish(options), switches)
}

#[test]
fn cores_change_their_pace_at_any_instruction() {
    for machine in [load("sonuma", &[]), chips(&[])] {
        let args = PROGRAMS[0].1;
        let timed = answers(&run(&machine, 2, args));
        for pieces in [[1_000, 1_000], [3_000, 777], [500, 5_000], [200, 11_111], [1, 30_000]] {
            let (outcome, switches) = alternate(&machine, 2, args, pieces);
            assert_eq!(answers(&outcome), timed, "{pieces:?}");
            assert!(switches > 3, "{switches}");
        }
    }
    let (outcome, switches) = alternate(&load("sonuma", &[]), 2, &["rack_test"], [5_000, 5_000]);
    assert!(said(&outcome).contains("29 passed on 2 nodes") && switches > 10, "{switches}");
}

#[test]
fn a_part_does_not_depend_on_threads() {
    let outcome = |threads| {
        let machine = load("sonuma", &[("run.threads", threads)]);
        let part = Part::Instructions { after: 20_000, count: Some(10_000) };
        let outcome = run_part(&machine, 2, PROGRAMS[1].1, part);
        let Measured { instructions, cycles, fast_forwarded, stats, .. } =
            outcome.measured.clone().unwrap();
        (said(&outcome), outcome.cycles, instructions, cycles, fast_forwarded, stats)
    };
    assert!(outcome("1") == outcome("2"));
}

/// `addi x5, x0, COUNT`, then so many times two instructions.
pub(super) fn count_down(count: i32) -> [u32; 3] {
    let branch_back = 0xfe02_9ee3; // bne x5, x0, -4
    [i(opcode::OP_IMM, 0, 5, 0, count), i(opcode::OP_IMM, 0, 5, 5, -1), branch_back]
}

fn mark(number: i32) -> u32 {
    i(opcode::OP_IMM, 2, 0, 0, number)
}

/// The end of a program, with status 0.
pub(super) const END: [u32; 3] =
    [i(opcode::OP_IMM, 0, 10, 0, 0), i(opcode::OP_IMM, 0, 17, 0, 93), 0x73];

/// A program: 1,000 times round a loop, 500 times in a region of interest, 1,000 times; then it ends.
pub(super) fn with_region(nodes: u16) -> Guest {
    let parts =
        [&count_down(1000)[..], &[mark(1)], &count_down(500), &[mark(2)], &count_down(1000), &END];
    Guest::code(nodes, &parts.concat())
}

#[test]
fn the_region_of_interest_is_what_is_measured() {
    let (guest, machine) = (with_region(1), load("sonuma", &[]));
    let outcome = guest.run_part(&machine, Part::Region, Options::default());
    said(&outcome);
    let measured = outcome.measured.unwrap();
    assert_eq!(measured.of, Part::Region);
    // The hint that begins it belongs to what is before; the end of the epoch is a part of it.
    assert!((1001..1600).contains(&measured.instructions), "{measured:?}");
    assert!(measured.fast_forwarded > 3000, "{measured:?}");
    assert_eq!(measured.stats["node[0].core[0].retired"], measured.instructions as f64);
    let whole = guest.run_part(&machine, Part::Whole, Options::default());
    assert!(whole.measured.is_none());
    // Neither the hints nor the last call retire.
    assert_eq!(whole.instructions, 3 + 2 * 2500 + 2);
}

#[test]
fn instructions_are_counted_at_any_pace() {
    let count = |register| i(opcode::SYSTEM, 2, register, 0, 0xc02);
    let difference = 0x4063_8533; // sub x10, x7, x6
    let end =
        [difference, i(opcode::OP_IMM, 0, 10, 10, -602), i(opcode::OP_IMM, 0, 17, 0, 93), 0x73];
    let guest = Guest::code(1, &[&[count(6)][..], &count_down(300), &[count(7)], &end].concat());
    let machine = load("sonuma", &[]);
    for part in [Part::Whole, from(300), from(ALL)] {
        let outcome = guest.run_part(&machine, part, Options::default());
        said(&outcome);
        assert_eq!(outcome.instructions, 606, "{part:?}");
    }
    let mut options = Options::default();
    let mut session = guest.session(&machine, &options);
    session.run(at(200), &mut options);
    assert!(!session.fast_forward(Until::default(), &mut options));
    said(&session.finish(options));
}

#[test]
fn a_fast_forward_ends_at_every_begin() {
    // An end before all begins, and a begin within a region.
    let (begin, loops) = ([mark(1)], count_down(200));
    let code = [&[mark(2)][..], &loops, &begin, &loops, &begin, &loops, &END].concat();
    let mut options = Options::default();
    let mut session = Guest::code(1, &code).session(&load("sonuma", &[]), &options);
    let begin = Until { mark: Some(Mark::Begin), ..Until::default() };
    for instructions in [401, 802] {
        assert!(session.fast_forward(begin, &mut options));
        assert_eq!(session.instructions(), instructions);
    }
    assert!(!session.fast_forward(begin, &mut options));
    said(&session.finish(options));
}

#[test]
fn a_piece_ends_where_a_region_does() {
    let mut options = Options::default();
    let mut session = with_region(1).session(&load("sonuma", &[]), &options);
    let at = |mark| Until { mark: Some(mark), ..Until::default() };
    assert!(session.run(at(Mark::Begin), &mut options));
    let begin = session.instructions();
    assert!((2000..2600).contains(&begin), "{begin}");
    assert!(session.run(at(Mark::End), &mut options));
    let end = session.instructions();
    assert!((begin + 400..begin + 1600).contains(&end), "{end}");
    assert!(!session.run(at(Mark::Begin), &mut options), "there is no other one");
}

#[test]
fn caches_are_warm_when_timing_begins() {
    // Eight passes over half of the LLC, which is much more than the L1 has.
    let machine = load("sonuma", &[]);
    let args = ["tsm_kernels", "--kernel", "b1", "--llc-bytes", "256K"];
    let whole = run(&machine, 1, &args);
    said(&whole);
    let late = whole.instructions * 3 / 4;
    let part = run_part(&machine, 1, &args, from(late));
    let measured = part.measured.unwrap();
    // The same instructions of a run with timing throughout.
    let mut options = Options::default();
    let mut session = Guest::prebuilt(1, &args).session(&machine, &options);
    session.run(at(late), &mut options);
    let (figures, cycle) = (session.figures(), session.cycle());
    session.run(Until::default(), &mut options);
    let (rest, cycles) = (session.figures().since(&figures), session.cycle() - cycle);
    for name in ["node[0].core[0].load_misses", "node[0].home[0].llc_misses"] {
        let (warmed, timed) = (measured.stats[name], rest[name]);
        assert!((warmed - timed).abs() <= 20.0 + timed / 20.0, "{name}: {warmed} and {timed}");
    }
    let ratio = measured.cycles as f64 / cycles as f64;
    assert!((0.97..1.03).contains(&ratio), "{ratio}");
}

#[test]
fn samples_estimate_ten_whole_programs() {
    let machine = load("sonuma", &[]);
    let kernels = [
        ("b1", "1"),
        ("b2", "6"),
        ("b3", "6"),
        ("b4", "6"),
        ("chase", "20"),
        ("gzip", "1"),
        ("gcc", "6"),
        ("mcf", "6"),
        ("gap", "6"),
    ];
    let kernel = |(name, scale)| {
        vec!["tsm_kernels", "--kernel", name, "--llc-bytes", "256K", "--scale", scale]
    };
    let pagerank = vec!["pagerank", "--kronecker", "9", "--variant", "serial"];
    for args in kernels.map(kernel).into_iter().chain([pagerank]) {
        let args = &args[..];
        let whole = run(&machine, 1, args);
        let rate = whole.cycles as f64 / whole.instructions as f64;
        let samples = Samples { every: whole.instructions / 60, warm_up: 2_000, length: 1_000 };
        let sampled = run_part(&machine, 1, args, Part::Samples(samples));
        assert_eq!(answers(&sampled).len(), answers(&whole).len());
        let estimate = sampled.measured.unwrap().estimate.unwrap();
        let error = (estimate.cycles_per_instruction - rate).abs();
        assert!(estimate.samples >= 50, "{estimate:?}");
        assert!(error <= estimate.half_width, "{args:?}: {rate} and {estimate:?}");
    }
}

#[test]
fn crashes_without_timing_name_the_instruction() {
    // ld a0, 0(zero), after some instructions.
    let guest = Guest::code(1, &[&count_down(100)[..], &[i(opcode::LOAD, 3, 10, 0, 0)]].concat());
    let outcome = guest.run_part(&load("sonuma", &[]), from(ALL), Options::default());
    let end = outcome.nodes[0].end.to_string();
    assert!(end.contains("ld a0,0(zero)") && end.contains("core 0"), "{end}");
}
