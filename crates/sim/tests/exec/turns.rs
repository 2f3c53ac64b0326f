//! More threads than cores.

use rackmem_riscv::encode::{b, i, opcode, s, u};
use rackmem_sim::exec::End;

use super::ends::{ECALL, li};
use super::guest::{Guest, from, limited};
use super::load;

const SP: u32 = 2;
const A0: u32 = 10;
const A7: u32 = 17;
const CLONE: i32 = 220;
const EXIT: i32 = 93;
const EXIT_GROUP: i32 = 94;

/// After `before` x 4096 rounds of a loop, starts a thread, and ends well when a word below the stack's end is no
/// longer 0. Meanwhile the new one writes it after `count` rounds of a loop, and the first one looks again and again,
/// without a call.
fn waits_for_a_thread(before: u32, count: i32) -> Vec<u32> {
    const FLAGS: i32 = 0x100 | 0x1_0000;
    let (t0, beq, bne) = (5, 0, 1);
    let mut code = vec![
        u(opcode::LUI, t0, (before << 12) as i32),
        i(opcode::OP_IMM, 0, t0, t0, -1),
        b(bne, t0, 0, -4),
        u(opcode::LUI, A0, FLAGS & !0xfff),
        i(opcode::OP_IMM, 0, A0, A0, FLAGS & 0xfff),
    ];
    code.extend((11..15).map(|register| li(register, 0)));
    code.extend([li(A7, CLONE), ECALL]);
    let child = [
        li(t0, count),
        i(opcode::OP_IMM, 0, t0, t0, -1),
        b(bne, t0, 0, -4),
        li(t0, 1),
        s(opcode::STORE, 2, SP, t0, -64),
        li(A7, EXIT),
        ECALL,
    ];
    code.push(b(bne, A0, 0, 4 * (child.len() as i32 + 1)));
    code.extend(child);
    code.extend([
        i(opcode::LOAD, 2, t0, SP, -64),
        b(beq, t0, 0, -4),
        li(A0, 0),
        li(A7, EXIT_GROUP),
        ECALL,
    ]);
    code
}

#[test]
fn a_thread_that_never_calls_gives_its_core_to_another_one() {
    let machine = load("sonuma", &[]);
    let ends = |before| {
        let outcome = Guest::code(1, &waits_for_a_thread(before, 1)).execute(&machine);
        assert_eq!((&outcome.nodes[0].end, &outcome.cut_short), (&End::Exit(0), &None));
        outcome.cycles
    };
    // A turn of the first thread has 100 us, at 2 GHz.
    assert!((200_000..210_000).contains(&ends(1)), "{}", ends(1));
    assert!(ends(1) == ends(1), "runs repeat");
    // If it has had its turn when it makes the other one, that one is next. A round of the loop takes a cycle.
    let late = 4096 * 60;
    assert!((late..late + 10_000).contains(&ends(60)), "{}", ends(60));
}

#[test]
fn threads_take_turns_without_timing_and_across_its_begin() {
    for (before, after) in [(1, 10), (1, 100_000), (1, 1 << 40), (60, 1000), (60, 1 << 40)] {
        let guest = Guest::code(1, &waits_for_a_thread(before, 2000));
        let outcome = guest.run_part(&load("sonuma", &[]), from(after), limited(10_000_000));
        assert_eq!((&outcome.nodes[0].end, &outcome.cut_short), (&End::Exit(0), &None), "{after}");
    }
}
