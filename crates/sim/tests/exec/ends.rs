//! Processes that do not end well.

use rackmem_riscv::encode::{b, i, j, opcode};
use rackmem_sim::exec::{self, End, ExecError, Job, Options};

use super::contexts::{add, driver};
use super::guest::{Guest, limited};
use super::{errors, load, run};

/// `j .`
const LOOP: u32 = 0x6f;
pub(super) const ECALL: u32 = 0x73;
const EBREAK: u32 = 0x0010_0073;

pub(super) fn li(rd: u32, value: i32) -> u32 {
    i(opcode::OP_IMM, 0, rd, 0, value)
}

fn end(code: &[u32]) -> (End, Option<String>) {
    let outcome = Guest::code(1, code).execute(&load("sonuma", &[]));
    (outcome.nodes[0].end.clone(), outcome.cut_short)
}

#[test]
fn what_no_program_may_do_is_named_with_its_place() {
    let no_such_call = [li(17, 2000), ECALL, li(17, 93), ECALL];
    assert!(matches!(end(&no_such_call).0, End::Exit(_)), "an error for the program to handle");
    for (code, why) in [
        (&[i(opcode::LOAD, 3, 10, 0, 8)][..], "load from 0x8"),
        (&[i(opcode::JALR, 0, 0, 0, 0x400)], "fetch from 0x400"),
        (&[EBREAK], "breakpoint"),
        (&[0], "no instruction"),
    ] {
        let (End::Crashed(crash), None) = end(code) else { panic!("{why}: {:?}", end(code)) };
        let said = crash.failure.to_string();
        assert!(said.starts_with("hart 0 at 0x") && said.contains(why), "{said}");
    }
}

/// The first thread of a process that fails ends the run; the results of the others are kept.
#[test]
fn one_failure_ends_the_run() {
    // Node 1 ends with status 3, node 0 waits for ever: a1 = RACK() & 0xffff.
    let andi = |rd, rs, value| i(opcode::OP_IMM, 7, rd, rs, value);
    let code = [
        0x5241_48b7, // lui a7, 0x52414
        i(opcode::OP_IMM, 0, 17, 17, 0x300),
        ECALL,
        andi(11, 10, 1),
        0x0005_9463, // bnez a1, +8
        LOOP,
        li(10, 3),
        li(17, 94),
        ECALL,
    ];
    let outcome = Guest::code(2, &code).execute(&load("sonuma", &[]));
    let ends: Vec<&End> = outcome.nodes.iter().map(|node| &node.end).collect();
    assert_eq!(ends, [&End::Stopped, &End::Exit(3)]);
    assert_eq!(outcome.failed().map(|(nid, _)| nid), Some(1));
    assert!(outcome.nodes[0].instructions > 5, "{outcome:?}");
}

#[test]
fn a_program_that_loops_or_waits_for_ever_is_found() {
    // futex(address of a 0, FUTEX_WAIT, 0, no timeout), on the stack
    let (sp, a0, a1, a2, a3, a7) = (2, 10, 11, 12, 13, 17);
    let waits = [
        i(opcode::OP_IMM, 0, a0, sp, -64),
        li(a1, 0),
        li(a2, 0),
        li(a3, 0),
        li(a7, 98),
        ECALL,
        LOOP,
    ];
    for (code, said) in [
        (&[LOOP][..], "it loops for ever: what it looks at does not change any more"),
        (&waits, "all processes wait for each other"),
    ] {
        let (end, cut_short) = end(code);
        assert_eq!(end, End::Stopped);
        let why = cut_short.expect("a reason");
        assert!(why.starts_with(&format!("{said}\nnode 0, core 0:")), "{why}");
    }
}

#[test]
fn a_run_is_cut_short_after_so_many_instructions() {
    let guest = Guest::code(2, &[i(opcode::OP_IMM, 0, 10, 10, 1), 0xffdf_f06f]);
    let options = Options { max_instructions: Some(20_000), ..Options::default() };
    let outcome = guest.run(&load("sonuma", &[]), options);
    let why = outcome.cut_short.expect("a reason");
    assert!(why.starts_with("not at its end after 20000 instructions"), "{why}");
    assert!((20_000..30_000).contains(&outcome.instructions), "{}", outcome.instructions);
}

#[test]
fn a_run_is_cut_short_after_so_many_cycles() {
    // An endless loop that changes something: addi a0, a0, 1; j -4.
    let guest = Guest::code(1, &[i(opcode::OP_IMM, 0, 10, 10, 1), 0xffdf_f06f]);
    let outcome = guest.run(&load("sonuma", &[]), limited(10_000));
    let why = outcome.cut_short.expect("a reason");
    assert!(why.starts_with("not at its end after 10000 cycles"), "{why}");
    assert!(outcome.cycles <= 10_000 && outcome.instructions > 5_000, "{}", outcome.instructions);
}

#[test]
fn memory_that_is_full_ends_the_process() {
    let machine = load("sonuma", &[("memory.size_bytes", "16M")]);
    let outcome = run(&machine, 1, &["pagerank", "--kronecker", "16", "--variant", "serial"]);
    assert!(!outcome.nodes[0].end.is_success());
    let said = errors(&outcome, 0);
    assert!(said.contains("memory"), "{said}");
}

#[test]
fn queue_pairs_without_end_are_an_error_of_the_program() {
    let (sp, a0, a3) = (2, 10, 13);
    let open = [&[li(a0, 0), li(11, 0x100), li(12, 0), add(a3, sp, -64)][..], &driver(1)].concat();
    let create = [&[li(a0, 0), li(11, 2), li(12, 0), add(a3, sp, -64)][..], &driver(3)].concat();
    let length = |code: &[u32]| 4 * code.len() as i32;
    let code = [
        &open[..],
        &create,
        &[b(4, a0, 0, 8)],
        &[j(0, -4 - length(&create))],
        // -ENOSPC
        &[add(a0, a0, 28), li(17, 93), ECALL],
    ]
    .concat();
    assert_eq!(end(&code), (End::Exit(0), None));
}

#[test]
fn machines_that_cannot_execute_say_what_to_do() {
    let hello = Guest::prebuilt(1, &["hello"]);
    for (name, settings, nodes, said) in [
        ("manycore-ni", &[][..], 2, "network.remote"),
        ("manycore-ni", &[("network.remote", "nodes")][..], 2, "acknowledged"),
        ("manycore-ni-numa", &[][..], 1, "queue pairs"),
        ("rack-torus", &[][..], 1, "torus"),
    ] {
        let job = Job { nodes, ..hello.job() };
        let machine = load(name, settings);
        match exec::run(&machine, &[job], Options::default()) {
            Err(ExecError::Machine(what)) => assert!(what.contains(said), "{what}"),
            other => panic!("{name}: {other:?}"),
        }
    }
    let (program, args) = (&b"text"[..], vec!["x".repeat(1 << 21)]);
    for job in [Job { program, ..hello.job() }, Job { args: &args, ..hello.job() }] {
        let refused = exec::run(&load("sonuma", &[]), &[job], Options::default());
        assert!(matches!(refused, Err(ExecError::Program(..))));
    }
}
