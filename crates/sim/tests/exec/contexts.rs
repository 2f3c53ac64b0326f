//! Checkpoints of programs that are in contexts of an RMC.

use rackmem_riscv::encode::{b, i, opcode, r, s, u};
use rackmem_sim::exec::part::{self, Part};
use rackmem_sim::exec::{Checkpoint, Job, Options, Outcome, Session, Until};
use rackmem_sim::machine::Machine;

use super::checkpoints::{begun, chips, everything, words};
use super::ends::{ECALL, elf, li};
use super::parts::{END, count_down};
use super::{load, prebuilt, said};

const MANY_READS: [&str; 5] = ["many_reads", "--async", "--bytes", "4096", "--reads=200"];

fn at(instructions: u64) -> Until<'static> {
    Until { instructions: Some(instructions), ..Until::default() }
}

fn options() -> Options<'static> {
    Options { max_cycles: Some(500_000_000), ..Options::default() }
}

/// A checkpoint of a program on two nodes, after so many instructions.
pub(super) fn taken(machine: &Machine, args: &[&str], after: u64) -> Checkpoint {
    let (program, args) = (prebuilt(&format!("{}.rv64", args[0])), words(args));
    let job = Job { program: &program, args: &args, env: &[], nodes: 2 };
    begun(part::checkpoint(machine, &job, Part::Instructions { after, count: None }, options()))
}

fn rest(machine: &Machine, checkpoint: &Checkpoint) -> Outcome {
    part::restore(machine, checkpoint, Part::Whole, options()).unwrap()
}

/// Lines without times.
fn ranks(outcome: &Outcome) -> Vec<String> {
    let text = said(outcome);
    text.lines().filter(|line| line.contains("e-0")).map(str::to_owned).collect()
}

/// The library's own test hops from checkpoint to checkpoint between two machines, on which nothing has the same place.
#[test]
fn the_library_passes_its_own_test_from_checkpoint_to_checkpoint() {
    let machines = [
        load("sonuma", &[]),
        load("sonuma", &[("memory.size_bytes", "64M"), ("rmc.itt_entries", "256")]),
    ];
    let (program, args) = (prebuilt("rack_test.rv64"), words(&["rack_test"]));
    let job = Job { program: &program, args: &args, env: &[], nodes: 2 };
    let mut options = options();
    let mut session = Session::new(&machines[0], &job, &options).unwrap();
    let mut printed = Vec::new();
    let mut hops = 0;
    while session.fast_forward(at(session.instructions() + 50_000), &mut options).unwrap() {
        let checkpoint = session.checkpoint(&job, Part::Whole, &mut options).unwrap();
        printed.extend(session.printed());
        // Each machine takes a checkpoint that it has taken itself, too.
        hops += 1;
        session = Session::restore(&machines[hops / 2 % 2], &checkpoint, &options).unwrap();
    }
    assert!(hops > 50, "{hops}");
    let outcome = session.finish(options);
    printed.extend(said(&outcome).bytes());
    let printed = String::from_utf8(printed).unwrap();
    assert!(printed.contains("29 passed on 2 nodes"), "{printed}");
}

#[test]
fn operations_under_way_come_to_their_end_before_a_checkpoint() {
    let machine = load("sonuma", &[]);
    let (program, args) = (prebuilt("many_reads.rv64"), words(&MANY_READS));
    let job = Job { program: &program, args: &args, env: &[], nodes: 2 };
    let mut options = options();
    let mut session = Session::new(&machine, &job, &options).unwrap();
    let (mut waits, mut count) = (0, 0);
    while session.fast_forward(at(count), &mut options).unwrap() {
        let before = session.cycle();
        session.checkpoint(&job, Part::Whole, &mut options).unwrap();
        waits += usize::from(session.cycle() > before);
        count = session.instructions() + 3_000;
    }
    said(&session.finish(options));
    assert!(waits > 5, "{waits}");
}

#[test]
fn a_program_in_a_context_goes_on_alike_each_time_and_everywhere() {
    let machine = load("sonuma", &[]);
    for variant in ["bulk", "fine"] {
        let args = ["pagerank", "--kronecker", "5", "--variant", variant];
        let (program, all) = (prebuilt("pagerank.rv64"), words(&args));
        let job = Job { program: &program, args: &all, env: &[], nodes: 2 };
        let whole = part::run(&machine, &job, Part::Whole, options()).unwrap();
        assert_eq!(ranks(&whole).len(), 10);
        for after in [90_000, 300_000] {
            let checkpoint = taken(&machine, &args, after);
            let first = rest(&machine, &checkpoint);
            assert_eq!(everything(first.clone()), everything(rest(&machine, &checkpoint)));
            assert_eq!(ranks(&first), ranks(&whole));
            for settings in [
                &[("rmc.tlb_entries", "8"), ("l1.size_bytes", "16K")][..],
                &[("memory.size_bytes", "64M"), ("clock_ghz", "1")],
                &[("system.page_bytes", "4K")],
                &[("rmc.itt_entries", "32"), ("network.hop_latency_ns", "10")],
                &[("system.contexts", "2"), ("rmc.queue_pairs", "4")],
            ] {
                let other = rest(&load("sonuma", settings), &checkpoint);
                assert_eq!(ranks(&other), ranks(&whole), "{settings:?}");
                assert_ne!(other.cycles, first.cycles, "{settings:?}");
            }
        }
    }
}

/// A call of the driver: `guest/driver.h` has their numbers.
pub(super) fn driver(number: i32) -> [u32; 3] {
    [u(opcode::LUI, 17, 0x5241_4000), add(17, 17, 0x300 + number), ECALL]
}

pub(super) fn add(rd: u32, rs1: u32, value: i32) -> u32 {
    i(opcode::OP_IMM, 0, rd, rs1, value)
}

/// Node 0 goes on behind `others`, which node 1 and those after it execute.
fn node_0_skips(others: &[u32]) -> Vec<u32> {
    // a0 = RACK() & 0xffff
    let branch = [i(opcode::OP_IMM, 1, 10, 10, 48), b(0, 10, 0, 4 + 4 * others.len() as i32)];
    [&driver(0), &branch[..], others].concat()
}

#[test]
fn a_process_that_has_ended_stays_so() {
    let (program, args) =
        (elf(&[&node_0_skips(&END)[..], &count_down(900), &END].concat()), words(&["test"]));
    let job = Job { program: &program, args: &args, env: &[], nodes: 3 };
    let machine = load("sonuma", &[]);
    let part = Part::Instructions { after: 300, count: None };
    let whole = part::run(&machine, &job, part, options()).unwrap();
    let checkpoint = begun(part::checkpoint(&machine, &job, part, options()));
    let rest = part::restore(&machine, &checkpoint, part, options()).unwrap();
    assert!(whole.nodes[2].cycle < 300 && whole.nodes[2].instructions < 20);
    assert_eq!(everything(rest), everything(whole));
}

#[test]
fn drivers_know_what_they_knew() {
    let (sp, s0, s1, a0, a3) = (2, 8, 9, 10, 13);
    let open = [&[li(a0, 0), li(11, 0x100), li(12, 0), add(a3, sp, -64)][..], &driver(1)].concat();
    let create = [&[li(a0, 0), li(11, 2), li(12, 0), add(a3, sp, -64)][..], &driver(3)].concat();
    let has_joined_1 = [&[li(a0, 0), li(11, 1)][..], &driver(5)].concat();
    let with = |number, argument| [&[li(a0, argument)][..], &driver(number)].concat();
    let sum = [r(opcode::OP, 0, 0, s0, s0, a0)];
    // Node 1 notifies node 0 and ends.
    let notify =
        [i(opcode::LOAD, 3, s1, sp, -64), li(6, 1 | 5 << 1), s(opcode::STORE, 3, s1, 6, 0)];
    let node_1 = [&count_down(500)[..], &open, &create, &notify, &count_down(500), &END].concat();
    let code = [
        &node_0_skips(&node_1)[..],
        &open,
        &create,
        &create,
        &with(4, 0),
        &count_down(2000),
        // It is not looked at before the checkpoint that node 1 has ended, or once.
        &[li(s0, 0)],
        &has_joined_1,
        &sum,
        &count_down(1000),
        &has_joined_1,
        &sum,
        &with(4, 1),
        &sum,
        &with(6, 0),
        &sum,
        // -EPIPE, -EPIPE, 0, and one notification.
        &[add(a0, s0, 32 + 32 - 1), li(17, 93), ECALL],
    ]
    .concat();
    let (program, args) = (elf(&code), words(&["test"]));
    let job = Job { program: &program, args: &args, env: &[], nodes: 2 };
    let machine = load("sonuma", &[]);
    for after in [4_500, 6_500] {
        let part = Part::Instructions { after, count: None };
        let checkpoint = begun(part::checkpoint(&machine, &job, part, options()));
        for memory in ["4G", "64M"] {
            said(&rest(&load("sonuma", &[("memory.size_bytes", memory)]), &checkpoint));
        }
    }
}

#[test]
fn what_a_machine_lacks_for_contexts_is_named() {
    let pagerank = ["pagerank", "--kronecker", "5", "--variant", "bulk"];
    let checkpoint = taken(&load("sonuma", &[]), &pagerank, 300_000);
    let refused = |machine: &Machine| {
        part::restore(machine, &checkpoint, Part::Whole, options()).unwrap_err().to_string()
    };
    let tiles = refused(&chips(&[]));
    assert!(tiles.starts_with("ni.placement: "), "{tiles}");
    let pairs = refused(&load("sonuma", &[("rmc.queue_pairs", "0")]));
    assert!(pairs.starts_with("rmc.queue_pairs: "), "{pairs}");
    let (program, args) = (prebuilt("pagerank.rv64"), words(&pagerank));
    let job = Job { program: &program, args: &args, env: &[], nodes: 2 };
    let part = Part::Instructions { after: 300_000, count: None };
    let taken = part::checkpoint(&chips(&[]), &job, part, options()).unwrap_err().to_string();
    assert!(taken.starts_with("node 0 has a part in a context of network"), "{taken}");
}
