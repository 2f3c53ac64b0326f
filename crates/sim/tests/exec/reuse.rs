//! Queue pairs that come and go: entries of a context's list, registers, queues and addresses of those that are gone
//! serve others, which get nothing of theirs.

use rackmem_abi::{Op, Status, WqEntry};
use rackmem_riscv::encode::{b, i, opcode, r, s, u};
use rackmem_sim::exec::part::Part;
use rackmem_sim::exec::{End, Session, Until};
use rackmem_sim::machine::Machine;

use super::contexts::{add, driver};
use super::damaged::Parts;
use super::ends::{ECALL, li};
use super::guest::{Guest, at, limited};
use super::parts::END;
use super::{chips, load, said};

const SP: u32 = 2;
const T: [u32; 3] = [5, 6, 7];
const S: [u32; 4] = [8, 9, 18, 19];
const A0: u32 = 10;
const A1: u32 = 11;
const A2: u32 = 12;
const A3: u32 = 13;

const ENOENT: i32 = -2;
const ENOSPC: i32 = -28;

fn length(code: &[u32]) -> i32 {
    4 * code.len() as i32
}

fn constant(register: u32, value: i32) -> [u32; 2] {
    let high = (value + 0x800) & !0xfff;
    [u(opcode::LUI, register, high), add(register, register, value - high)]
}

/// So many times, counted in a register.
fn times(register: u32, count: i32, body: &[u32]) -> Vec<u32> {
    let end = [add(register, register, -1), b(1, register, 0, -4 - length(body))];
    [&constant(register, count)[..], body, &end].concat()
}

/// Ends with a failure unless `a0` has this value.
fn expect(value: i32) -> [u32; 4] {
    [add(A0, A0, -value), b(0, A0, 0, 12), li(17, 93), ECALL]
}

pub(super) fn open(context: i32) -> Vec<u32> {
    let args = [li(A0, context), li(A1, 0x100), li(A2, 0), add(A3, SP, -64)];
    [&args[..], &driver(1), &expect(0)].concat()
}

fn close() -> Vec<u32> {
    [&[li(A0, 0)][..], &driver(2), &expect(0)].concat()
}

pub(super) fn create(entries: i32, result: i32) -> Vec<u32> {
    create_in(0, entries, result)
}

/// Addresses of its queues, and its handle, are put on the stack.
fn create_in(context: i32, entries: i32, result: i32) -> Vec<u32> {
    let args = [li(A0, context), li(A1, entries), li(A2, 0), add(A3, SP, -64)];
    [&args[..], &driver(3), &expect(result)].concat()
}

/// Destroys the queue pair that was made last.
fn destroy(result: i32) -> Vec<u32> {
    [&[i(opcode::LOAD, 3, A0, SP, -48)][..], &driver(4), &expect(result)].concat()
}

fn machine(settings: &[(&str, &str)]) -> Machine {
    load("sonuma", settings)
}

#[test]
fn queue_pairs_come_and_go_without_end() {
    // Queues of so many queue pairs would not fit at the same time.
    let small = ("memory.size_bytes", "16M");
    for (machine, most) in [
        (machine(&[small]), 64),
        (machine(&[small, ("rmc.queue_pairs", "300")]), 256),
        (machine(&[small, ("rmc.queue_pairs", "300"), ("system.page_bytes", "4K")]), 128),
        (chips(&[]), 1),
    ] {
        let code = [
            open(0),
            times(S[0], most, &create(2, 0)),
            create(2, ENOSPC),
            destroy(0),
            create(2, 0),
            create(2, ENOSPC),
            create(4, ENOSPC),
            close(),
            open(0),
            times(S[0], most, &create(4, 0)),
            create(4, ENOSPC),
            close(),
            open(0),
            times(S[0], 10_000, &[create(128, 0), destroy(0)].concat()),
            destroy(ENOENT),
            END.to_vec(),
        ];
        said(&Guest::code(1, &code.concat()).execute(&machine));
    }
}

/// The controller's registers are for all contexts, and the lists for one each.
#[test]
fn a_queue_pair_that_is_refused_takes_no_place() {
    let code = [
        open(0),
        open(1),
        times(S[0], 64, &create(2, 0)),
        times(S[0], 300, &create_in(1, 2, ENOSPC)),
        close(),
        times(S[0], 64, &create_in(1, 2, 0)),
        create_in(1, 2, ENOSPC),
        END.to_vec(),
    ];
    said(&Guest::code(1, &code.concat()).execute(&machine(&[])));
}

/// Posts so many reads of 64 bytes of the node's own segment to the queue pair that was made last.
fn post_reads(count: i32) -> Vec<u32> {
    let [wq, entry, buffer] = T;
    let mut code = vec![
        i(opcode::LOAD, 3, wq, SP, -64),
        li(buffer, 64),
        i(opcode::OP_IMM, 1, buffer, buffer, 48),
        add(entry, SP, -512),
        r(opcode::OP, 6, 0, buffer, buffer, entry),
        li(entry, 1 | 1 << 1),
    ];
    for slot in 0..count {
        code.push(s(opcode::STORE, 3, wq, buffer, slot * 16 + 8));
        code.push(s(opcode::STORE, 3, wq, entry, slot * 16));
    }
    code
}

/// `a0` = whether anything is in the first completions of the queue pair that was made last.
fn look() -> Vec<u32> {
    let [cq, word, _] = T;
    let mut code = vec![i(opcode::LOAD, 3, cq, SP, -56), li(A0, 0)];
    for at in 0..4 {
        code.push(i(opcode::LOAD, 3, word, cq, at * 8));
        code.push(r(opcode::OP, 6, 0, A0, A0, word));
    }
    code
}

/// Queue pairs go at each time after operations were posted, and others of another or the same size follow at once:
/// they complete what was posted to them, and nothing else.
#[test]
fn nothing_of_a_queue_pair_comes_to_the_next_one() {
    let slow = [("llc.latency_cycles", "150"), ("system.call_cycles", "1")];
    let one = [&slow[..], &[("rmc.queue_pairs", "1")]].concat();
    for (settings, sizes) in
        [(&[][..], [8, 8]), (&slow, [8, 8]), (&slow, [8, 16]), (&one, [8, 8]), (&one, [8, 16])]
    {
        let delay = [b(0, T[0], 0, 12), add(T[0], T[0], -1), 0xff9f_f06f /* j -8 */];
        let wait = times(T[0], 6_000, &[]);
        let round = [
            create(sizes[0], 0),
            post_reads(4),
            vec![add(T[0], S[1], 0)],
            delay.to_vec(),
            destroy(0),
            create(sizes[1], 0),
            wait.clone(),
            look(),
            expect(0).to_vec(),
            post_reads(1),
            wait,
            look(),
            vec![i(opcode::OP_IMM, 5, A0, A0, 31)],
            expect(1).to_vec(),
            destroy(0),
            vec![add(S[1], S[1], 4)],
        ];
        let code = [open(0), vec![li(S[1], 0)], times(S[0], 200, &round.concat()), END.to_vec()];
        let outcome = Guest::code(1, &code.concat()).execute(&machine(settings));
        assert_eq!(outcome.nodes[0].end, End::Exit(0), "{settings:?} {sizes:?}");
    }
}

/// A second queue pair of a tile is refused, and the first one stays as it is.
#[test]
fn queues_of_a_tile_stay_when_another_pair_is_refused() {
    let word = |funct3| i(opcode::LOAD, funct3, A0, S[0], 24);
    let code = [
        open(0),
        create(8, 0),
        vec![i(opcode::LOAD, 3, S[0], SP, -64), li(A0, 7), s(opcode::STORE, 3, S[0], A0, 24)],
        create(8, ENOSPC),
        vec![word(3)],
        expect(7).to_vec(),
        destroy(0),
        create(8, 0),
        vec![i(opcode::LOAD, 3, S[0], SP, -64), word(3)],
        expect(0).to_vec(),
        END.to_vec(),
    ];
    said(&Guest::code(1, &code.concat()).execute(&chips(&[])));
}

/// The register gets a value of 64 bits.
fn value(register: u32, value: u64) -> Vec<u32> {
    let shift_left = |by| i(opcode::OP_IMM, 1, register, register, by);
    let part = |at: u32| (value >> (11 * at) & 0x7ff) as i32;
    let rest = (0..5).rev().flat_map(|at| [shift_left(11), add(register, register, part(at))]);
    std::iter::once(li(register, part(5))).chain(rest).collect()
}

/// A program gives back the local buffer of an operation that is under way.
#[test]
fn an_operation_whose_buffer_goes_ends_with_an_error() {
    const BUFFER: u64 = 1 << 30;
    const BYTES: i32 = 1 << 16;
    let buffer = [value(A0, BUFFER), constant(A1, BYTES).to_vec()].concat();
    let flags = [li(A2, 3), li(A3, 0x32), li(14, -1), li(15, 0), li(17, 222), ECALL];
    let map = [&buffer[..], &flags].concat();
    let unmap = [&buffer[..], &[li(17, 215), ECALL], &expect(0)].concat();
    let segment = [li(A0, 0), li(A2, 0), add(A3, SP, -64)];
    let open = [&segment[..], &constant(A1, BYTES), &driver(1), &expect(0)].concat();
    let queues = [i(opcode::LOAD, 3, S[0], SP, -64), i(opcode::LOAD, 3, S[1], SP, -56)];
    let look = [i(opcode::LOAD, 6, A0, S[1], 0), b(0, A0, 0, -4)];
    let status = [i(opcode::OP_IMM, 5, A0, A0, 16), i(opcode::OP_IMM, 7, A0, A0, 0x7f)];
    for placement in ["edge", "per-tile", "split", "uncached"] {
        for op in [Op::Read, Op::Write] {
            let length = BYTES as u32;
            let entry = WqEntry {
                phase: true,
                op_code: op as u8,
                dst_nid: 0,
                offset: 0,
                length,
                buffer: BUFFER,
            };
            let [first, last] = entry.encode();
            let post = [
                value(T[0], last),
                vec![s(opcode::STORE, 3, S[0], T[0], 8)],
                value(T[0], first),
                vec![s(opcode::STORE, 3, S[0], T[0], 0)],
            ];
            let code = [
                map.clone(),
                open.clone(),
                create(8, 0),
                queues.to_vec(),
                post.concat(),
                unmap.clone(),
                look.to_vec(),
                status.to_vec(),
                expect(Status::BadLocalBuffer as i32).to_vec(),
                END.to_vec(),
            ];
            let machine = chips(&[("ni.placement", placement)]);
            let outcome = Guest::code(1, &code.concat()).execute(&machine);
            assert_eq!(outcome.nodes[0].end, End::Exit(0), "{placement} {op:?}");
        }
    }
}

/// Memory of a segment that is closed is not the program's, and that of the next one is zero.
#[test]
fn a_segment_of_tiles_has_a_place_of_its_own() {
    let mmap = [li(A0, 0), li(A1, 2), i(opcode::OP_IMM, 1, A1, A1, 12), li(A2, 3), li(A3, 0x22)];
    let no_file = [li(14, -1), li(15, 0), li(17, 222), ECALL, add(S[0], A0, 0)];
    let next_page = [li(T[0], 1), i(opcode::OP_IMM, 1, T[0], T[0], 12)];
    let fill = [
        li(T[1], 7),
        s(opcode::STORE, 3, S[0], T[1], 0),
        r(opcode::OP, 0, 0, S[1], S[0], T[0]),
        s(opcode::STORE, 3, S[1], T[1], 0),
    ];
    let segment = [i(opcode::LOAD, 3, S[2], SP, -64), i(opcode::LOAD, 3, A0, S[2], 0)];
    let code = [
        open(0),
        close(),
        [&mmap[..], &no_file, &next_page, &fill].concat(),
        open(0),
        segment.to_vec(),
        expect(0).to_vec(),
        vec![s(opcode::STORE, 3, S[2], SP, 0), i(opcode::LOAD, 3, A0, S[0], 0)],
        expect(7).to_vec(),
        vec![i(opcode::LOAD, 3, A0, S[1], 0)],
        expect(7).to_vec(),
        END.to_vec(),
    ];
    said(&Guest::code(1, &code.concat()).execute(&chips(&[])));
}

/// It is memory like other for an RMC, and has a place of its own for tiles, though all else is at the same place.
#[test]
fn a_segment_goes_on_between_rmc_and_tiles() {
    let code = [
        open(0),
        vec![i(opcode::LOAD, 3, S[0], SP, -64), li(A0, 7), s(opcode::STORE, 3, S[0], A0, 0)],
        times(S[1], 1_000, &[]),
        create(8, 0),
        post_reads(1),
        times(S[1], 6_000, &[]),
        vec![i(opcode::LOAD, 3, A0, SP, -512)],
        expect(7).to_vec(),
        END.to_vec(),
    ];
    let guest = Guest::code(1, &code.concat());
    let one = [("tiles.rows", "1"), ("tiles.columns", "1"), ("memory.controllers", "1")];
    let [rmc, tile] = [machine(&[]), chips(&one)];
    for (from, to) in [(&rmc, &tile), (&tile, &rmc), (&tile, &tile)] {
        let mut options = limited(50_000_000);
        let mut session = guest.session(from, &options);
        assert!(session.fast_forward(at(1_000), &mut options));
        let checkpoint = session.checkpoint(&[guest.job()], Part::Whole, &mut options).unwrap();
        let fresh = Parts::of(&checkpoint).head["nodes"][0]["memory"]["fresh"].clone();
        assert_eq!(fresh, serde_json::json!({"start": 24576, "end": 4u64 << 30}));
        let mut other = Session::restore(to, &checkpoint, &options).unwrap();
        assert!(!other.run(Until::default(), &mut options));
        said(&other.finish(options));
    }
}

/// Three queue pairs, of which the second goes, and others that come and go.
fn coming_and_going() -> Guest {
    let code = [
        open(0),
        times(S[0], 3, &create(16, 0)),
        [&[li(A0, 1)][..], &driver(4), &expect(0)].concat(),
        times(S[0], 2_000, &[create(128, 0), destroy(0), create(16, 0), destroy(0)].concat()),
        [&[li(A0, 0)][..], &driver(4), &expect(0)].concat(),
        [&[li(A0, 1)][..], &driver(4), &expect(ENOENT)].concat(),
        END.to_vec(),
    ];
    Guest::code(1, &code.concat())
}

/// Hops from checkpoint to checkpoint between these machines; the checkpoints' heads.
fn hop(machines: &[Machine], guest: &Guest) -> Vec<serde_json::Value> {
    let mut heads = Vec::new();
    let outcome = guest.hop(&machines[0], 2_003, |_, checkpoint| {
        heads.push(Parts::of(&checkpoint).head);
        (&machines[heads.len() % machines.len()], checkpoint)
    });
    said(&outcome);
    heads
}

/// What is free stays free: a program that goes on needs no more memory or addresses than one that never stopped.
#[test]
fn what_is_gone_is_used_again_after_a_checkpoint() {
    let heads = hop(&[machine(&[])], &coming_and_going());
    assert!(heads.len() > 10, "{}", heads.len());
    let own = |head: &serde_json::Value| head["nodes"][0].clone();
    for [before, after] in heads[1..].array_windows() {
        let (before, after) = (own(before), own(after));
        for name in ["next", "pages", "free", "for_lists"] {
            assert_eq!(before["memory"][name], after["memory"][name], "{name}");
        }
        assert_eq!(before["kernel"]["memory"], after["kernel"]["memory"]);
        let made = |node: &serde_json::Value| node["device"]["next_handle"].as_u64();
        assert!(made(&before) < made(&after));
    }
    assert!(heads.iter().any(|head| own(head)["memory"]["unused"].as_array().unwrap().len() == 2));
}

#[test]
fn queue_pairs_come_and_go_on_one_machine_after_the_other() {
    let small = [("memory.size_bytes", "16M"), ("rmc.queue_pairs", "4")];
    let pages = [("system.page_bytes", "4K"), ("rmc.queue_pairs", "3")];
    hop(&[machine(&[]), machine(&small), machine(&pages)], &coming_and_going());
    // One of a tile at a time, at the same addresses again and again.
    let code = [
        open(0),
        times(S[0], 2_000, &[create(128, 0), destroy(0), create(16, 0), destroy(0)].concat()),
        END.to_vec(),
    ];
    let split = chips(&[]);
    let edge = chips(&[("ni.placement", "edge")]);
    let moved = chips(&[("memory.size_bytes", "16M")]);
    let heads = hop(&[split, edge, moved], &Guest::code(1, &code.concat()));
    assert!(heads.len() > 10, "{}", heads.len());
    let reserved = |head: &serde_json::Value| head["nodes"][0]["kernel"]["memory"].clone();
    let last = heads.len() - 1;
    assert_eq!(reserved(&heads[1]), reserved(&heads[last]));
}
