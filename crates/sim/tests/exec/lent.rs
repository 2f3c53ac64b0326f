//! Checkpoints of programs on machines whose nodes lend and borrow memory.

use rackmem_sim::exec::{Checkpoint, End, NodeOutcome};
use rackmem_sim::machine::Machine;
use serde_json::Value;

use super::borrowed::small;
use super::checkpoints::everything;
use super::contexts::taken;
use super::damaged::Parts;
use super::guest::{from, rest, through_a_file};
use super::outside::checked;
use super::parts::{ALL, run_part};
use super::{load, run};

const TEST: [&str; 2] = ["window_test", "--llc-bytes=64K"];
const DRIVER: [&str; 2] = ["deoi_nic", "--rounds=3"];
const MESSAGES: [&str; 4] = ["tsm_qpair", "--sizes=64,1000", "--rounds=3", "--messages=12"];
const PLUGGED: [(&str, &str); 4] = [
    ("memory.size_bytes", "6M"),
    ("window.lent_bytes", "2M"),
    ("window.plug_bytes", "256K"),
    ("extension.amt_slots", "64"),
];

/// A machine with a DMA engine, and a program that has used it.
pub(super) fn with_engine() -> (Machine, Checkpoint) {
    let settings = [("window.policy", "write-through-invalidate"), ("window.lent_bytes", "1M")];
    let machine = small("tsm-sim", &settings);
    let checkpoint = taken(&machine, &TEST, 1_440_000);
    (machine, checkpoint)
}

/// A machine whose operating systems borrow memory, and a program that has some of it.
pub(super) fn with_plugged() -> (Machine, Checkpoint) {
    let machine = load("deoi-cores", &PLUGGED);
    let checkpoint = taken(&machine, &["window_test", "--plug"], 3_000_000);
    assert!(lent(&checkpoint)["plugged"]["pieces"][0].is_array());
    (machine, checkpoint)
}

/// A machine with a borrowed card, and a program that drives it.
pub(super) fn with_card() -> (Machine, Checkpoint) {
    let machine = load("deoi-cores", &[]);
    let checkpoint = taken(&machine, &DRIVER, 6_000);
    (machine, checkpoint)
}

/// A machine with queue pairs in hardware, and a program with a connection.
pub(super) fn with_pairs() -> (Machine, Checkpoint) {
    let machine = load("thunder-cores", &[]);
    let checkpoint = taken(&machine, &MESSAGES, 20_000);
    (machine, checkpoint)
}

/// Machines, and programs for two nodes with arguments.
fn programs() -> Vec<(Machine, Vec<&'static str>)> {
    let through = [("window.policy", "write-through-invalidate")];
    let lent = [("window.lent_bytes", "16M")];
    let no_dma = [&TEST[..], &["--no-dma"]].concat();
    vec![
        (small("tsm-sim", &[]), TEST.to_vec()),
        (small("tsm-sim", &through), TEST.to_vec()),
        (small("tsm-sim", &[("window.heap", "true")]), [&TEST[..], &["--heap"]].concat()),
        (small("pcie-ntb", &lent), TEST.to_vec()),
        (small("deoi-cores", &lent), no_dma.clone()),
        (small("thunder-cores", &lent), no_dma),
        (load("tsm-sim", &[]), vec!["tsm_share", "--share=atomics"]),
        (load("thunder-cores", &[]), vec!["tsm_rdma", "--exchange"]),
        (load("deoi-cores", &PLUGGED), vec!["window_test", "--plug"]),
    ]
}

/// What a checkpoint has of the memory that node 0 lends and borrows.
fn lent(checkpoint: &Checkpoint) -> Value {
    Parts::of(checkpoint).head["nodes"][0]["memory"]["lent"].take()
}

#[test]
fn answers_are_the_same_from_a_checkpoint_on() {
    for (machine, args) in programs() {
        let whole = checked(&run(&machine, 2, &args));
        let all = run_part(&machine, 2, &args, from(ALL)).instructions;
        let mut borrowed = 0;
        for after in [2, 5, 8].map(|part| all / 10 * part) {
            let place = format!("{args:?} on {} after {after} of {all}", machine.name);
            let checkpoint = through_a_file(&taken(&machine, &args, after));
            let first = rest(&machine, &checkpoint).unwrap();
            assert_eq!(checked(&first), whole, "{place}");
            assert_eq!(
                everything(first),
                everything(rest(&machine, &checkpoint).unwrap()),
                "{place}"
            );
            borrowed += usize::from(lent(&checkpoint)["slots"][0].is_object());
        }
        assert!(borrowed > 1, "{args:?} on {}: {borrowed}", machine.name);
    }
}

#[test]
fn leases_stay_as_the_program_knows_them() {
    let machine = |settings: &[_]| small("tsm-sim", settings);
    let checkpoint = taken(&machine(&[]), &TEST, 300_000);
    let answers = |machine: &Machine| rest(machine, &checkpoint).map(|outcome| checked(&outcome));
    let whole = answers(&machine(&[])).unwrap();
    for other in [
        ("window.root_ns", "300"),
        ("window.link_gtps", "5"),
        ("window.policy", "write-through-update"),
        ("window.combining_buffers", "1"),
        ("window.dma_descriptors", "128"),
        ("network.hop_latency_ns", "50"),
        ("clock_ghz", "2"),
        ("llc.ways", "8"),
        ("cpu.rob_entries", "16"),
        ("memory.latency_ns", "30"),
    ] {
        assert_eq!(answers(&machine(&[other])), Ok(whole.clone()), "{other:?}");
    }
    for (key, value) in [
        ("memory.size_bytes", "256M"),
        ("window.lent_bytes", "32M"),
        ("system.page_bytes", "4096"),
        ("window.heap", "true"),
        ("tiles.columns", "4"),
    ] {
        let error = answers(&machine(&[(key, value)])).unwrap_err();
        assert!(error.contains(key), "{key}: {error}");
    }
    let error = answers(&load("sonuma", &[])).unwrap_err();
    assert!(error.contains("ni.placement: the checkpoint has borrowed memory"), "{error}");
}

#[test]
fn a_dma_engine_stays() {
    let (machine, checkpoint) = with_engine();
    assert!(lent(&checkpoint)["engine"]["posted"].as_u64() > Some(0));
    let through = ("window.policy", "write-through-invalidate");
    let lent = ("window.lent_bytes", "1M");
    for (machine, why) in [
        (
            small("tsm-sim", &[through, lent, ("window.dma_descriptors", "128")]),
            "window.dma_descriptors: ",
        ),
        (small("deoi-cores", &[lent]), "ni.placement: the checkpoint has a DMA engine"),
    ] {
        let error = rest(&machine, &checkpoint).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
    let answers = checked(&rest(&machine, &checkpoint).unwrap());
    assert_eq!(answers, ["PASS stores", "PASS two-cores", "PASS lender", "PASS dma"]);
}

#[test]
fn devices_go_on_from_a_checkpoint() {
    for (name, args, device) in
        [("deoi-cores", &DRIVER[..], "card"), ("thunder-cores", &MESSAGES, "pairs")]
    {
        let machine = load(name, &[]);
        let all = run_part(&machine, 2, args, from(ALL)).instructions;
        let mut used = 0;
        for after in (1..10).map(|part| all / 10 * part) {
            let checkpoint = taken(&machine, args, after);
            let first = rest(&machine, &checkpoint).unwrap();
            let has_ended = |node: &NodeOutcome| node.end == End::Exit(0);
            assert!(first.nodes.iter().all(has_ended), "{args:?} after {after}: {first:?}");
            let again = rest(&machine, &checkpoint).unwrap();
            assert_eq!(everything(first), everything(again), "{args:?} after {after}");
            let nodes = &Parts::of(&checkpoint).head["nodes"];
            let has = |node: usize| !nodes[node]["memory"]["lent"]["devices"][device].is_null();
            used += usize::from(has(0) || has(1));
        }
        assert!(used > 3, "{args:?}: {used}");
    }
}

#[test]
fn devices_stay_as_the_program_knows_them() {
    let refused = |(_, checkpoint): &(Machine, Checkpoint), name, setting| {
        rest(&load(name, &[setting]), checkpoint).unwrap_err()
    };
    let (card, pairs) = (with_card(), with_pairs());
    assert!(refused(&card, "deoi-cores", ("nic.mtu", "1000")).contains("nic.mtu: "));
    let entries = ("qpair.queue_entries", "32");
    assert!(refused(&pairs, "thunder-cores", entries).contains("qpair.queue_entries: "));
    for used in [card, pairs] {
        let why = refused(&used, "tsm-sim", ("clock_ghz", "2"));
        assert!(why.contains("ni.placement: the checkpoint has a card or connections"), "{why}");
    }
}

/// Links differ, and memory is where it was.
#[test]
fn a_program_goes_on_over_other_links() {
    let lent = [("window.lent_bytes", "16M")];
    let args = [&TEST[..], &["--no-dma"]].concat();
    let machines = ["tsm-sim", "deoi-cores", "thunder-cores"].map(|name| small(name, &lent));
    for from in &machines {
        let checkpoint = taken(from, &args, 200_000);
        for to in &machines {
            let answers = checked(&rest(to, &checkpoint).unwrap());
            assert_eq!(answers, ["PASS stores", "PASS two-cores", "PASS lender"], "{}", to.name);
        }
    }
}

#[test]
fn a_borrowed_heap_is_not_made_of_one_that_is_not() {
    let checkpoint = taken(&small("tsm-sim", &[]), &TEST, 1_000);
    assert!(lent(&checkpoint).is_null());
    let error = rest(&small("tsm-sim", &[("window.heap", "true")]), &checkpoint).unwrap_err();
    assert!(error.contains("window.heap: "), "{error}");
}
