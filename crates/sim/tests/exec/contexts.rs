//! Checkpoints of programs that are in contexts.

use rackmem_riscv::encode::{b, i, opcode, r, s, u};
use rackmem_sim::exec::part::{self, Part};
use rackmem_sim::exec::{Checkpoint, Outcome};
use rackmem_sim::machine::Machine;

use super::answers::TEST_OF_TILES;
use super::checkpoints::everything;
use super::ends::{ECALL, li};
use super::guest::{Guest, at, from, options, rest, through_a_file};
use super::parts::{END, count_down};
use super::reuse::{create, open};
use super::{SMALL_MESH, chips, load, said};

const MANY_READS: [&str; 5] = ["many_reads", "--async", "--bytes", "4096", "--reads=200"];

/// A checkpoint of a program on two nodes, after so many instructions.
pub(super) fn taken(machine: &Machine, args: &[&str], after: u64) -> Checkpoint {
    Guest::prebuilt(2, args).checkpoint(machine, from(after), options()).unwrap()
}

/// Lines without times.
fn ranks(outcome: &Outcome) -> Vec<String> {
    let text = said(outcome);
    text.lines().filter(|line| line.contains("e-0")).map(str::to_owned).collect()
}

/// Settings of network interfaces in tiles.
const PLACEMENTS: [&[(&str, &str)]; 5] = [
    &[("ni.placement", "edge")],
    &[("ni.placement", "split")],
    &[("ni.placement", "per-tile"), ("ni.cache", "separate")],
    &[("ni.placement", "per-tile")],
    &[("ni.placement", "uncached")],
];

/// The library's own test hops from checkpoint to checkpoint between machines; what it prints.
fn hop(machines: &[Machine], args: &[&str], every: u64) -> String {
    let (mut printed, mut hops) = (Vec::new(), 0);
    let outcome = Guest::prebuilt(2, args).hop(&machines[0], every, |session, checkpoint| {
        printed.extend(session.printed());
        // Each machine takes a checkpoint that it has taken itself, too.
        hops += 1;
        (&machines[hops / 2 % machines.len()], through_a_file(&checkpoint))
    });
    assert!(hops > 50, "{hops}");
    printed.extend(said(&outcome).bytes());
    String::from_utf8(printed).unwrap()
}

#[test]
fn the_library_passes_its_own_test_from_checkpoint_to_checkpoint() {
    // Nothing has the same place on both.
    let machines = [
        load("sonuma", &[]),
        load("sonuma", &[("memory.size_bytes", "64M"), ("rmc.itt_entries", "256")]),
    ];
    let printed = hop(&machines, &["rack_test"], 50_000);
    assert!(printed.contains("29 passed on 2 nodes"), "{printed}");
}

#[test]
fn the_library_passes_its_own_test_from_placement_to_placement() {
    let machines = PLACEMENTS.map(chips);
    let printed = hop(&machines, &TEST_OF_TILES, 50_000);
    assert!(printed.contains("27 passed on 2 nodes"), "{printed}");
}

#[test]
fn operations_under_way_come_to_their_end_before_a_checkpoint() {
    for machine in [load("sonuma", &[])].into_iter().chain(PLACEMENTS.map(chips)) {
        let guest = Guest::prebuilt(2, &MANY_READS);
        let mut options = options();
        let mut session = guest.session(&machine, &options);
        let (mut waits, mut count) = (0, 0);
        while session.fast_forward(at(count), &mut options) {
            let before = session.cycle();
            session.checkpoint(&[guest.job()], Part::Whole, &mut options).unwrap();
            waits += usize::from(session.cycle() > before);
            count = session.instructions() + 3_000;
        }
        said(&session.finish(options));
        assert!(waits > 5, "{waits}");
    }
}

#[test]
fn a_program_in_a_context_goes_on_alike_each_time_and_everywhere() {
    let machine = load("sonuma", &[]);
    for variant in ["bulk", "fine"] {
        let args = ["pagerank", "--kronecker", "5", "--variant", variant];
        let whole = Guest::prebuilt(2, &args).run_part(&machine, Part::Whole, options());
        assert_eq!(ranks(&whole).len(), 10);
        for after in [90_000, 300_000] {
            let checkpoint = taken(&machine, &args, after);
            let first = rest(&machine, &checkpoint).unwrap();
            assert_eq!(everything(first.clone()), everything(rest(&machine, &checkpoint).unwrap()));
            assert_eq!(ranks(&first), ranks(&whole));
            for settings in [
                &[("rmc.tlb_entries", "8"), ("l1.size_bytes", "16K")][..],
                &[("memory.size_bytes", "64M"), ("clock_ghz", "1")],
                &[("system.page_bytes", "4K")],
                &[("rmc.itt_entries", "32"), ("network.hop_latency_ns", "10")],
                // Sizes of tables alone may take the same time.
                &[("system.contexts", "2"), ("rmc.queue_pairs", "4"), ("l1.size_bytes", "16K")],
            ] {
                let other = rest(&load("sonuma", settings), &checkpoint).unwrap();
                assert_eq!(ranks(&other), ranks(&whole), "{settings:?}");
                assert_ne!(other.cycles, first.cycles, "{settings:?}");
            }
        }
    }
}

/// Each core has a queue pair; that of the second one crosses a page.
const ALL_CORES: [&str; 7] =
    ["pagerank", "--kronecker", "5", "--variant", "fine", "--node-threads", "4"];

#[test]
fn a_program_in_a_context_of_tiles_goes_on_on_each_placement() {
    let machines = PLACEMENTS.map(chips);
    let early = taken(&machines[0], &ALL_CORES, 1_000);
    let whole = ranks(&rest(&machines[0], &early).unwrap());
    assert_eq!(whole.len(), 10);
    let checkpoint = taken(&machines[0], &ALL_CORES, 400_000);
    let mut cycles = Vec::new();
    for machine in &machines {
        let first = rest(machine, &checkpoint).unwrap();
        assert_eq!(ranks(&first), whole);
        assert_eq!(everything(first.clone()), everything(rest(machine, &checkpoint).unwrap()));
        cycles.push(first.cycles);
    }
    for settings in [
        &[("memory.size_bytes", "64M"), ("clock_ghz", "1")][..],
        &[("tiles.columns", "4")],
        &[("system.page_bytes", "4K")],
    ] {
        let other = rest(&chips(settings), &checkpoint).unwrap();
        assert_eq!(ranks(&other), whole, "{settings:?}");
        cycles.push(other.cycles);
    }
    // The queues keep their places in their pages, and the segment becomes memory like other.
    for settings in [&[][..], &[("memory.size_bytes", "64M"), ("system.page_bytes", "4K")]] {
        let cores = [&[("tiles.columns", "4")], settings].concat();
        let other = rest(&load("sonuma", &cores), &checkpoint).unwrap();
        assert_eq!(ranks(&other), whole, "{settings:?}");
        cycles.push(other.cycles);
    }
    let all = cycles.len();
    cycles.sort_unstable();
    cycles.dedup();
    assert!(cycles.len() >= all - 1, "each has times of its own: {cycles:?}");
}

#[test]
fn a_queue_pair_goes_on_between_rmc_and_tiles() {
    let args = ["pagerank", "--kronecker", "5", "--variant", "fine"];
    let one = [("tiles.rows", "1"), ("tiles.columns", "1"), ("memory.controllers", "1")];
    let [rmc, tiles] = [load("sonuma", &[]), chips(&one)];
    let checkpoints = [taken(&rmc, &args, 300_000), taken(&tiles, &args, 300_000)];
    let whole = ranks(&rest(&rmc, &checkpoints[0]).unwrap());
    assert_eq!(whole.len(), 10);
    for checkpoint in &checkpoints {
        for machine in [&rmc, &tiles] {
            assert_eq!(ranks(&rest(machine, checkpoint).unwrap()), whole);
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
pub(super) fn node_0_skips(others: &[u32]) -> Vec<u32> {
    // a0 = RACK() & 0xffff
    let branch = [i(opcode::OP_IMM, 1, 10, 10, 48), b(0, 10, 0, 4 + 4 * others.len() as i32)];
    [&driver(0), &branch[..], others].concat()
}

#[test]
fn a_process_that_has_ended_stays_so() {
    let guest = Guest::code(3, &[&node_0_skips(&END)[..], &count_down(900), &END].concat());
    let (machine, part) = (load("sonuma", &[]), from(300));
    let whole = guest.run_part(&machine, part, options());
    let checkpoint = guest.checkpoint(&machine, part, options()).unwrap();
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
    let code = |queue_pairs: &[u32]| {
        [
            &node_0_skips(&node_1)[..],
            &open,
            queue_pairs,
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
        .concat()
    };
    // A tile has one queue pair at a time.
    let destroy = with(4, 0);
    let rmc = |memory| load("sonuma", &[("memory.size_bytes", memory)]);
    let tiles = |memory| chips(&[("memory.size_bytes", memory)]);
    for (queue_pairs, machines) in [
        ([&create[..], &create, &destroy].concat(), [rmc("4G"), rmc("64M")]),
        ([&create[..], &destroy, &create].concat(), [tiles("4G"), tiles("64M")]),
        ([&create[..], &destroy, &create].concat(), [tiles("4G"), rmc("64M")]),
    ] {
        let guest = Guest::code(2, &code(&queue_pairs));
        for after in [4_500, 6_500] {
            let checkpoint = guest.checkpoint(&machines[0], from(after), options()).unwrap();
            for machine in &machines {
                said(&rest(machine, &checkpoint).unwrap());
            }
        }
    }
}

#[test]
fn what_a_machine_lacks_for_contexts_is_named() {
    let pagerank = ["pagerank", "--kronecker", "5", "--variant", "bulk"];
    let checkpoint = taken(&load("sonuma", &[]), &pagerank, 300_000);
    let refused = |machine: &Machine| rest(machine, &checkpoint).unwrap_err();
    let pairs = refused(&load("sonuma", &[("rmc.queue_pairs", "0")]));
    assert!(pairs.starts_with("rmc.queue_pairs: "), "{pairs}");
    let [chip, rmc, four] =
        [chips(&[]), load("sonuma", &[]), load("sonuma", &[("tiles.columns", "4")])];
    let mirrored = load("manycore-ni", &SMALL_MESH);
    let one = [("tiles.rows", "1"), ("tiles.columns", "1"), ("memory.controllers", "1")];
    let of_128 = [open(0), create(128, 0)].concat();
    for (taken_on, code, on, why) in [
        (
            &chip,
            of_128.clone(),
            chips(&[("ni.wq_entries", "64")]),
            "ni.wq_entries: the queues of core 0",
        ),
        (
            &chip,
            of_128.clone(),
            chips(&[("workload.footprint_bytes", "2K")]),
            "workload.footprint_bytes: ",
        ),
        (&chip, of_128.clone(), mirrored.clone(), "network.remote: "),
        (&mirrored, of_128.clone(), rmc.clone(), "network.remote: "),
        (&rmc, [open(0), create(64, 0)].concat(), chip.clone(), "ni.wq_entries: "),
        (
            &rmc,
            [&of_128[..], &create(128, 0)].concat(),
            chip.clone(),
            "ni.placement: core 0 has two",
        ),
        (&rmc, open(1), chip.clone(), "ni.placement: the checkpoint has a part in context 1"),
    ] {
        let guest = Guest::code(1, &[&code[..], &count_down(900), &END].concat());
        let checkpoint = guest.checkpoint(taken_on, from(500), options()).unwrap();
        said(&rest(taken_on, &checkpoint).unwrap());
        let refused = rest(&on, &checkpoint).unwrap_err();
        assert!(refused.starts_with(why), "{refused}");
    }
    for machine in [&chip, &four] {
        let cores = rest(&chips(&one), &taken(machine, &ALL_CORES, 400_000)).unwrap_err();
        assert!(cores.starts_with("tiles.columns, tiles.rows: "), "{cores}");
    }
}
