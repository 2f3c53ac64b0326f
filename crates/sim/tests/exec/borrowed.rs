//! Borrowed memory as programs see it, on both machines and with every write policy.

use super::{End, load, run, said};

const SMALL: [(&str, &str); 3] =
    [("llc.size_bytes", "64K"), ("l1.size_bytes", "8K"), ("memory.size_bytes", "128M")];

fn tests(name: &str, settings: &[(&str, &str)]) -> Vec<String> {
    let all: Vec<(&str, &str)> = SMALL.iter().chain(settings).copied().collect();
    let outcome = run(&load(name, &all), 2, &["window_test", "--llc-bytes=64K"]);
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
        let ns = text.split("memory: ").nth(1).and_then(|rest| rest.split(' ').next());
        ns.and_then(|ns| ns.parse::<f64>().ok()).unwrap_or_else(|| panic!("{text}"))
    };
    assert!(time("true") > 3.0 * time("false"));
}

#[test]
fn what_the_system_does_to_a_borrowed_heap_is_seen() {
    for policy in ["write-back", "write-through-update", "write-through-invalidate"] {
        let settings = [("window.heap", "true"), ("window.policy", policy)];
        let all: Vec<(&str, &str)> = SMALL.iter().chain(&settings).copied().collect();
        let outcome = run(&load("tsm-sim", &all), 2, &["window_test", "--llc-bytes=64K", "--heap"]);
        assert_eq!(said(&outcome), "PASS heap\n", "{policy}");
    }
}

#[test]
fn nodes_need_somebody_to_borrow_of() {
    use rackmem_sim::exec::{Job, Options, run};
    let machine = load("tsm-sim", &[]);
    let job = Job { program: &[], args: &[], env: &[], nodes: 1 };
    let error = run(&machine, &job, Options::default()).err().map(|error| error.to_string());
    assert!(error.as_deref().is_some_and(|text| text.contains("-n 2")), "{error:?}");
}
