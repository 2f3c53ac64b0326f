//! Borrowed memory as programs see it, on both machines and with every write policy.

use rackmem_riscv::encode::{b, i, opcode, s};
use rackmem_sim::machine::Machine;
use rackmem_sim::run::Options;

use super::contexts::{add, driver, node_0_skips};
use super::ends::li;
use super::guest::Guest;
use super::parts::END;
use super::{End, load, number_after, run, said};

const SMALL: [(&str, &str); 3] =
    [("llc.size_bytes", "64K"), ("l1.size_bytes", "8K"), ("memory.size_bytes", "128M")];

/// A machine with small caches and a small memory.
pub(super) fn small(name: &str, settings: &[(&str, &str)]) -> Machine {
    load(name, &[&SMALL[..], settings].concat())
}

fn tests(name: &str, settings: &[(&str, &str)]) -> Vec<String> {
    let outcome = run(&small(name, settings), 2, &["window_test", "--llc-bytes=64K"]);
    said(&outcome).lines().map(str::to_owned).collect()
}

const ALL: [&str; 4] = ["PASS stores", "PASS two-cores", "PASS lender", "PASS dma"];

#[test]
fn memory_is_what_was_stored_whatever_the_policy() {
    for policy in ["write-back", "write-through-update", "write-through-invalidate"] {
        assert_eq!(tests("tsm-sim", &[("window.policy", policy)]), ALL, "{policy}");
    }
}

#[test]
fn neither_the_queue_nor_prefetches_change_an_answer() {
    for outstanding in ["1", "1024"] {
        let settings = [
            ("window.outstanding", outstanding),
            ("prefetch.local_degree", "2"),
            ("prefetch.remote_degree", "8"),
        ];
        assert_eq!(tests("tsm-sim", &settings), ALL, "{outstanding}");
    }
}

#[test]
fn memory_is_what_was_stored_over_pcie() {
    assert_eq!(tests("pcie-ntb", &[("window.lent_bytes", "16M")]), ALL);
}

/// Behind modules, past the lender's caches and through them, over links that lose and damage frames.
#[test]
fn memory_is_what_was_stored_over_extended_interconnects() {
    for machine in ["deoi-cores", "thunder-cores"] {
        for coherent in ["true", "false"] {
            for faults in ["0", "100000"] {
                let settings = [
                    ("window.coherent", coherent),
                    ("window.lent_bytes", "16M"),
                    ("extension.lost_per_million", faults),
                    ("extension.damaged_per_million", faults),
                ];
                let argv = ["window_test", "--llc-bytes=64K", "--no-dma"];
                let outcome = run(&small(machine, &settings), 2, &argv);
                let text = said(&outcome);
                let passed: Vec<&str> = text.lines().collect();
                assert_eq!(passed, ALL[..3], "{machine}, coherent {coherent}, faults {faults}");
                let lost = outcome.stats["node[0].link[0].lost"];
                assert_eq!(lost > 0.0, faults != "0", "{lost}");
            }
        }
    }
}

/// Two nodes borrow pieces of the third one while they run, until it has none left.
#[test]
fn each_piece_that_is_lent_has_one_borrower() {
    for machine in ["deoi-cores", "thunder-cores", "tsm-sim"] {
        let settings = [("window.lent_bytes", "1M"), ("run.threads", "2")];
        let argv = ["window_test", "--llc-bytes=64K", "--ask=1"];
        let outcome = run(&small(machine, &settings), 3, &argv);
        said(&outcome);
        for borrower in [0, 2] {
            assert_eq!(outcome.nodes[borrower].stdout, b"PASS asked 8\n", "{machine}");
            let borrowed = outcome.stats[&format!("node[{borrower}].lease.borrowed_bytes")];
            assert_eq!(borrowed, f64::from(8 << 16));
        }
        assert_eq!(outcome.stats["node[1].lease.lent_bytes"], f64::from(1 << 20));
    }
}

/// A program that checks what it has stored, in more memory than its node has.
pub(super) const OWN_AND_BORROWED: [&str; 6] = [
    "tsm_arenas",
    "--gets=800",
    "--own-bytes=9M",
    "--borrowed-bytes=4K",
    "--keys=2000",
    "--database-us=1",
];

/// The operating system borrows, of one neighbour after the other.
#[test]
fn an_operating_system_borrows_when_its_memory_is_full() {
    let outcome = |plugged| {
        let settings = [
            ("memory.size_bytes", "12M"),
            ("window.lent_bytes", "4M"),
            ("window.plug_bytes", plugged),
        ];
        run(&load("deoi-cores", &settings), 3, &OWN_AND_BORROWED)
    };
    assert!(outcome("0").nodes[0].stderr.ends_with(b"no memory for 9437184 bytes\n"));
    assert!(outcome("64K").nodes[0].stderr.ends_with(b"no memory for 9437184 bytes\n"), "16 slots");
    let plugged = outcome("1M");
    assert!(said(&plugged).contains("a hit takes"));
    assert!(plugged.stats["node[1].lease.lent_bytes"] > 3e6, "{:?}", plugged.stats);
    assert_eq!(plugged.stats["node[0].lease.refused"], 0.0);
}

/// Two threads want memory at the same time, and one of them has signals all the while.
#[test]
fn threads_that_wait_for_borrowed_memory_lose_no_signals() {
    for plugged in ["64K", "256K", "2M"] {
        let settings = [
            ("memory.size_bytes", "6M"),
            ("window.lent_bytes", "2M"),
            ("window.plug_bytes", plugged),
            ("extension.amt_slots", "64"),
        ];
        let outcome = run(&load("deoi-cores", &settings), 2, &["window_test", "--plug"]);
        assert_eq!(said(&outcome), "PASS plug\n", "{plugged}");
        assert!(outcome.stats["node[0].lease.borrowed_bytes"] > 0.0);
    }
}

/// Where a write takes long to pack, a read of its line that came soon after it would overtake it on another channel:
/// caches of few lines give lines back and want them again at once.
#[test]
fn a_read_does_not_overtake_the_write_of_its_line() {
    for coherent in ["true", "false"] {
        let settings = [
            ("extension.oci_mhz", "20"),
            ("extension.oci_bytes", "1"),
            ("llc.size_bytes", "2K"),
            ("llc.ways", "2"),
            ("l1.size_bytes", "1K"),
            ("l1.ways", "1"),
            ("window.coherent", coherent),
        ];
        let argv = [
            "tsm_arenas",
            "--gets=800",
            "--own-bytes=4K",
            "--borrowed-bytes=32K",
            "--keys=60",
            "--database-us=1",
        ];
        assert!(said(&run(&load("deoi-cores", &settings), 2, &argv)).contains("a hit takes"));
    }
}

#[test]
fn a_lender_that_takes_one_access_at_a_time_answers_all() {
    for machine in ["tsm-sim", "pcie-ntb", "deoi-cores"] {
        let machine = load(machine, &[("window.accesses", "1")]);
        let outcome =
            run(&machine, 2, &["tsm_kernels", "--kernel=b4", "--remote", "--llc-bytes=64K"]);
        assert!(said(&outcome).contains("b4, borrowed memory"));
    }
}

/// Applications and what they find with 16 KB, on hosts as well.
const APPLICATIONS: [(&str, &str); 3] = [
    ("compress", "compress of 16384 bytes: 6760, check df9d80da"),
    ("sort", "sort of 16384 bytes: 256, check 3b24691d"),
    ("lisp", "lisp of 16384 bytes: 10, check 5e2141dd"),
];

/// Applications find on every memory what they find on hosts, and prefetching hides some of the distance (TS-17).
#[test]
fn applications_do_in_borrowed_memory_what_they_do_in_local_memory() {
    for (name, found) in APPLICATIONS {
        let us = |place: &str, degree: &str| {
            let settings = [SMALL[0], SMALL[1], ("prefetch.remote_degree", degree)];
            let argv = ["tsm_real", "--application", name, "--bytes=16K", "--llc-bytes=64K"];
            let argv: Vec<&str> = argv.into_iter().chain(place.split_whitespace()).collect();
            let outcome = run(&load("tsm-sim", &settings), 2, &argv);
            let text = said(&outcome);
            assert_eq!(text.lines().next(), Some(found), "{text}");
            let reads = outcome.stats["node[0].window.reads"];
            assert_eq!(reads > 100.0, place == "--remote", "{name}: {reads}");
            number_after(&text, "memory: ")
        };
        let (local, borrowed, ahead) = (us("", "0"), us("--remote", "0"), us("--remote", "5"));
        println!("{name}: {local} us, borrowed {borrowed} us, {ahead} us with prefetching");
        assert!(local < borrowed && ahead < borrowed, "{name}");
    }
}

/// Over DEOI's links and Thunder's channel of loads and stores (TS-26), too.
#[test]
fn applications_find_the_same_over_every_link() {
    for machine in ["deoi-cores", "thunder-cores"] {
        for (name, found) in APPLICATIONS {
            let argv = ["tsm_real", "--application", name, "--bytes=16K", "--remote"];
            let outcome = run(&load(machine, &[]), 2, &argv);
            assert_eq!(said(&outcome).lines().next(), Some(found), "{machine}");
        }
    }
}

/// A list of operations stands for cores that execute: the same reads take the same time, layer by layer.
#[test]
fn reads_by_cores_take_as_long_as_those_of_a_list() {
    for (list, cores) in [("deoi", "deoi-cores"), ("thunder", "thunder-cores")] {
        let settings = [
            ("experiment.kind", "reads"),
            ("experiment.place", "remote"),
            ("soc.line_bytes", "64"),
        ];
        let list = load(list, &settings);
        let report = rackmem_sim::run::run(&list, &Options::default()).expect("a run");
        let listed =
            report.extension.as_ref().and_then(|extension| extension.latency_ns).expect("reads");
        let argv = ["tsm_kernels", "--kernel=chase", "--remote", "--llc-bytes=512K"];
        let outcome = run(&load(cores, &[]), 2, &argv);
        let executed = number_after(&said(&outcome), "memory: ");
        assert!((executed / listed - 1.0).abs() < 0.02, "{cores}: {executed} ns, not {listed}");
        for stage in &report.breakdown[1..] {
            let of_cores = outcome.stats[&format!("node[0].bridge.layers.{}_mean_ns", stage.name)];
            let of_list = stage.mean_cycles / list.clock_ghz;
            let difference = (of_cores - of_list).abs();
            assert!(difference < 5.0, "{cores}, {}: {of_cores}, {of_list} ns", stage.name);
        }
    }
}

/// A cache that borrows memory while it runs hits more often (DEOI §IV-C). Each node has one; in a chain the last node
/// borrows of the first, and the one between them passes that on.
#[test]
fn a_cache_that_borrows_memory_hits_more_often() {
    let argv = [
        "tsm_arenas",
        "--all",
        "--gets=1600",
        "--own-bytes=64K",
        "--borrowed-bytes=64K",
        "--keys=250",
    ];
    let on = |threads| {
        let settings = [("extension.topology", "chain"), ("run.threads", threads)];
        run(&load("deoi-cores", &settings), 3, &argv)
    };
    let outcome = on("2");
    let text = said(&outcome);
    let hits = |interval: &str| {
        let line = text.lines().find(|line| line.contains(interval)).expect("an interval");
        number_after(line, ": ")
    };
    assert!(hits("interval 8") > 1.5 * hits("interval 4"), "{text}");
    assert!(outcome.stats["node[1].control.forwarded"] > 1000.0);
    assert_eq!(on("1").stats, outcome.stats);
}

/// The paper's test of write policies (TSM §2.1.2).
#[test]
fn a_copy_that_stores_drop_shows_what_the_lender_has_written() {
    for (machine, policy, expected) in [
        ("pcie-ntb", "write-through-invalidate", 1),
        ("pcie-ntb", "write-through-update", 0),
        ("tsm-sim", "write-through-invalidate", 1),
        ("tsm-sim", "write-through-update", 0),
    ] {
        let machine = load(machine, &[("window.policy", policy)]);
        let outcome = run(&machine, 2, &["tsm_share", "--share=policy"]);
        assert_eq!(said(&outcome), format!("read again: {expected}\n"), "{policy}");
        let counted = |name: &str| outcome.stats[&format!("node[0].window.{name}")];
        let dropped = counted("through_dropped");
        assert_eq!(dropped > 0.0, expected == 1, "{policy}: {dropped}");
    }
}

/// Node 0 stores a word and ends; node 1 waits for it in what it lends.
#[test]
fn stores_before_the_end_of_a_process_reach_the_lender() {
    let (sp, word, memory) = (2, 6, 9);
    let call = |number| [&[add(10, sp, -64)][..], &driver(number)].concat();
    let (borrow, lent) = (call(0x20), call(0x21));
    let open = i(opcode::LOAD, 3, memory, sp, -64);
    let wait = [i(opcode::LOAD, 3, word, memory, 0), b(0, word, 0, -4)];
    let node_1 = [&lent[..], &[open], &wait, &END].concat();
    let store = [li(word, 7), s(opcode::STORE, 3, memory, word, 0)];
    let code = [&node_0_skips(&node_1)[..], &borrow, &[open], &store, &END].concat();
    let guest = Guest::code(2, &code);
    for machine in ["tsm-sim", "pcie-ntb"] {
        for policy in ["write-through-invalidate", "write-through-update"] {
            let machine = load(machine, &[("window.policy", policy)]);
            said(&guest.execute(&machine));
        }
    }
}

#[test]
fn atomics_work_where_stores_are_written_back_only() {
    let outcome = run(&load("tsm-sim", &[]), 2, &["tsm_share", "--share=atomics"]);
    assert_eq!(said(&outcome), "atomics in borrowed memory: work\n");
    let outcome = run(&load("pcie-ntb", &[]), 2, &["tsm_share", "--share=atomics"]);
    let End::Crashed(crash) = &outcome.nodes[0].end else { panic!("{:?}", outcome.nodes[0].end) };
    let why = crash.failure.why.to_string();
    assert!(why.contains("takes no atomics"), "{why}");
}

#[test]
fn a_heap_that_is_borrowed_is_slower_and_as_good() {
    let time = |heap| {
        let machine = load("tsm-sim", &[("window.heap", heap)]);
        let outcome = run(&machine, 2, &["tsm_kernels", "--kernel=chase"]);
        let text = said(&outcome);
        let reads = outcome.stats["node[0].window.reads"];
        assert_eq!(reads > 0.0, heap == "true", "{reads}");
        number_after(&text, "memory: ")
    };
    assert!(time("true") > 3.0 * time("false"));
}

#[test]
fn what_the_system_does_to_a_borrowed_heap_is_seen() {
    for policy in ["write-back", "write-through-update", "write-through-invalidate"] {
        let settings = [("window.heap", "true"), ("window.policy", policy)];
        let argv = ["window_test", "--llc-bytes=64K", "--heap"];
        let outcome = run(&small("tsm-sim", &settings), 2, &argv);
        assert_eq!(said(&outcome), "PASS heap\n", "{policy}");
    }
}

#[test]
fn nodes_need_somebody_to_borrow_of() {
    use rackmem_sim::exec::{Job, Options, run};
    let machine = load("tsm-sim", &[]);
    let job = Job { program: &[], args: &[], env: &[], nodes: 1 };
    let error = run(&machine, &[job], Options::default()).err().map(|error| error.to_string());
    assert!(error.as_deref().is_some_and(|text| text.contains("-n 2")), "{error:?}");
}
