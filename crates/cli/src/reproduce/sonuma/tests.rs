//! That no claim is forgotten, that checks are wired to the right quantities, and what the
//! reports say about this host.

use std::collections::BTreeSet;

use super::PAPER;
use super::experiment::{Experiment, Platform, Threshold, Variant, Work};
use super::fabricated::Perfect;
use super::parts;
use super::results::Results;
use super::setting::setting;
use crate::reproduce::outcome::{self, Outcome};
use crate::reproduce::paper::Part;
use crate::reproduce::results::Effort;
use crate::reproduce::verdict::Verdict;
use crate::reproduce::{accounted, render};

/// As many as the paper has nodes.
const CORES: usize = 16;

fn plan(effort: Effort, cores: usize, part: Option<Part>) -> BTreeSet<Experiment> {
    let mut results = Results::new(effort, Perfect::new().setting(cores));
    outcome::plan(&PAPER, &mut results, part)
}

fn perfect(effort: Effort, cores: usize) -> Outcome {
    accounted::evaluate(&PAPER, &Perfect::new().results(effort, cores), None)
}

#[test]
fn claims_are_accounted_for() {
    accounted::claims_are_accounted_for(&PAPER);
}

#[test]
fn with_a_perfect_model_every_claim_holds() {
    for effort in [Effort::Quick, Effort::Full] {
        accounted::every_claim_holds(&PAPER, &perfect(effort, CORES), 174);
    }
}

#[test]
fn values_are_measured_as_printed_and_by_runs() {
    let outcome = perfect(Effort::Full, CORES);
    let expected = [
        ("fig7a/small-latency", true),
        ("fig7a/remote-memory-part", true),
        ("fig7b/bandwidth-8kb", true),
        ("fig8a/half-duplex-latency", true),
        ("fig8b/bandwidth-8kb", true),
        ("fig9/bulk-reads-per-peer", true),
        ("sec6/replies-per-request", true),
        ("table1/rmc/tlb", false),
        ("sec4-1/atomicity", false),
    ];
    accounted::values_are_as_printed(&outcome, &expected);
}

#[test]
fn the_machine_file_has_what_table_1_has() {
    let results = Results::new(Effort::Quick, setting(None).unwrap());
    for judged in accounted::evaluate(&PAPER, &results, Some(parts::TABLE1)).claims {
        assert_ne!(judged.verdict, Verdict::Missed, "{}: {}", judged.id, judged.why);
    }
}

#[test]
fn both_mechanisms_are_run_once_it_is_known_where_they_cross() {
    let first = plan(Effort::Quick, CORES, Some(parts::FIG8));
    let thresholds = |runs: &BTreeSet<Experiment>, at| -> Vec<Threshold> {
        let of = |run: &Experiment| match run.work {
            Work::Messages(threshold) if run.platform == at => Some(threshold),
            _ => None,
        };
        runs.iter().filter_map(of).collect()
    };
    let ends = [Threshold::Pull, Threshold::Push];
    assert_eq!(thresholds(&first, Platform::Model), ends);
    assert_eq!(thresholds(&first, Platform::Host), ends);
    let results = Perfect::new().results(Effort::Full, CORES);
    assert_eq!(results.threshold(Platform::Model), Ok(Threshold::From(512)));
    assert_eq!(results.threshold(Platform::Host), Ok(Threshold::From(2048)));
    let all: BTreeSet<Experiment> = results.runs().map(|(run, _)| *run).collect();
    let model = [Threshold::Pull, Threshold::From(512), Threshold::Push];
    assert_eq!(thresholds(&all, Platform::Model), model);
}

#[test]
fn a_host_with_few_cores_runs_what_it_can_and_says_so() {
    let two = perfect(Effort::Full, 2);
    let nodes = accounted::of(&two, "fig9/dev-nodes");
    assert_eq!(nodes.verdict, Verdict::Untestable);
    assert!(nodes.why.contains("this host has 2 cores"), "{}", nodes.why);
    assert_eq!(accounted::of(&two, "fig9/dev/trends").verdict, Verdict::Holds);
    assert!(
        two.notes[0].contains("numbers of nodes that PageRank runs on are 2."),
        "{}",
        two.notes[0]
    );
    let text = render::outcome(&two, false);
    assert!(text.starts_with("The runtime on this host ("), "{text}");

    let runs = plan(Effort::Full, 2, None);
    let busy = |run: &&Experiment| {
        run.platform == Platform::Host
            && (run.nodes() > 2 || run.work == Work::Reads { both: true })
    };
    assert_eq!(runs.iter().find(busy), None);

    let one = perfect(Effort::Quick, 1);
    assert_eq!(one.notes, Vec::<String>::new());
    assert_eq!(one.summary.missed, 0);
    assert_eq!(accounted::of(&one, "fig7c/latency-grows").verdict, Verdict::Untestable);
    assert!(plan(Effort::Quick, 1, None).iter().all(|run| run.platform == Platform::Model));
}

#[test]
fn a_worse_model_misses_what_it_should() {
    let perfect = Perfect::new();
    let mut results = perfect.results(Effort::Quick, CORES);
    let reads = Experiment::new(Platform::Model, Work::Reads { both: false });
    results.extend([(reads, Err("no progress".to_owned()))]);
    let fine = Experiment::new(Platform::Model, Work::PageRank { variant: Variant::Fine, ways: 8 });
    let mut report = perfect.report(fine, Effort::Quick);
    report.output["variants"][0]["seconds"] = 1e-5.into();
    results.extend([(fine, Ok(report))]);
    let outcome = accounted::evaluate(&PAPER, &results, None);
    let rate = accounted::of(&outcome, "fig7b/op-rate-64b");
    assert_eq!((rate.verdict, rate.measured), (Verdict::Missed, None));
    assert_eq!(rate.why, "the run model/remote_read/single-sided failed: no progress");
    assert_eq!(accounted::of(&outcome, "fig9/sim/fine-vs-bulk").verdict, Verdict::Missed);
    assert_eq!(accounted::of(&outcome, "fig9/sim/shm-vs-bulk").verdict, Verdict::Holds);
    assert_eq!(accounted::of(&outcome, "fig7a/small-latency").verdict, Verdict::Holds);
    assert_eq!(outcome.failed_runs.len(), 1);
}

#[test]
fn a_part_needs_only_its_own_runs() {
    assert!(plan(Effort::Full, CORES, Some(parts::TABLE1)).is_empty());
    let runs = plan(Effort::Full, CORES, Some(parts::FIG9));
    assert!(runs.iter().all(|run| run.program() == "pagerank"), "{runs:?}");
    let model = |run: &&Experiment| run.platform == Platform::Model;
    assert_eq!(runs.iter().filter(model).count(), 1 + 3 * 3);
    accounted::parts_add_up(&PAPER, &Perfect::new().results(Effort::Quick, CORES));
}

#[test]
fn everything_is_written() {
    let dir = accounted::written(&PAPER, &Perfect::new().results(Effort::Quick, CORES), 8);
    let read = |name: &str| accounted::read(&dir, name);
    let report = read("reports/host-remote_read-single-sided.json");
    assert!(report.contains("\"program\": \"remote_read\""), "{report}");
    let eight = read("machines/model-pagerank-shm-8.toml");
    assert!(eight.contains("columns = 8\n") && eight.contains("size_bytes = 33554432\n"));
    assert!(eight.contains("banks = 16\n"), "{eight}");
}
