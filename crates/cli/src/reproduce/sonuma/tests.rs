//! That no claim is forgotten, that checks are wired to the right quantities, and what the
//! reports say about this host.

use std::collections::BTreeSet;

use super::PAPER;
use super::experiment::{Experiment, Platform, Threshold, Variant, Work};
use super::fabricated::Perfect;
use super::not_checkable::NOT_CHECKABLE;
use super::parts;
use super::results::Results;
use super::setting::setting;
use crate::plot::svg::assert_well_formed;
use crate::reproduce::outcome::{self, Judged, Outcome};
use crate::reproduce::paper::Part;
use crate::reproduce::results::Effort;
use crate::reproduce::verdict::Verdict;
use crate::reproduce::{accounted, render, write};

/// As many as the paper has nodes.
const CORES: usize = 16;

fn plan(effort: Effort, cores: usize, part: Option<Part>) -> BTreeSet<Experiment> {
    let mut results = Results::new(effort, Perfect::new().setting(cores));
    outcome::plan(&PAPER, &mut results, part)
}

fn evaluate(results: &Results, part: Option<Part>) -> Outcome {
    outcome::evaluate(&PAPER, &accounted::claims(&PAPER), results, part)
}

fn perfect(effort: Effort, cores: usize) -> Outcome {
    evaluate(&Perfect::new().results(effort, cores), None)
}

fn of(outcome: &Outcome, id: &str) -> Judged {
    outcome.claims.iter().find(|judged| judged.id == format!("sonuma/{id}")).unwrap().clone()
}

#[test]
fn claims_are_accounted_for() {
    accounted::every_claim_is_named_once(&PAPER);
    accounted::odd_claims_say_how_they_are_read(&PAPER);
    accounted::classes_fit_the_words(&PAPER);
}

#[test]
fn with_a_perfect_model_every_claim_holds() {
    for effort in [Effort::Quick, Effort::Full] {
        let outcome = perfect(effort, CORES);
        for judged in &outcome.claims {
            if judged.verdict == Verdict::Missed {
                panic!("{} {:?} {:?}: {}", judged.id, judged.measured, judged.against, judged.why);
            }
            let short = judged.id.strip_prefix("sonuma/").unwrap();
            let listed = PAPER.why_not(short).is_some();
            assert_eq!(judged.verdict == Verdict::Untestable, listed, "{short}: {}", judged.why);
        }
        assert_eq!(outcome.summary.untestable, NOT_CHECKABLE.len());
        assert_eq!(outcome.claims.len(), 174);
    }
}

#[test]
fn values_are_measured_as_printed_and_by_runs() {
    let outcome = perfect(Effort::Full, CORES);
    for (id, by_run) in [
        ("fig7a/small-latency", true),
        ("fig7a/remote-memory-part", true),
        ("fig7b/bandwidth-8kb", true),
        ("fig8a/half-duplex-latency", true),
        ("fig8b/bandwidth-8kb", true),
        ("fig9/bulk-reads-per-peer", true),
        ("sec6/replies-per-request", true),
        ("table1/rmc/tlb", false),
        ("sec4-1/atomicity", false),
    ] {
        let judged = of(&outcome, id);
        let (published, measured) = (judged.published.unwrap(), judged.measured.unwrap());
        assert!((published / measured - 1.0).abs() < 0.03, "{id}: {measured} for {published}");
        assert_eq!(judged.by_run, by_run, "{id}");
    }
}

#[test]
fn the_machine_file_has_what_table_1_has() {
    let results = Results::new(Effort::Quick, setting(None).unwrap());
    for judged in evaluate(&results, Some(parts::TABLE1)).claims {
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
    let nodes = of(&two, "fig9/dev-nodes");
    assert_eq!(nodes.verdict, Verdict::Untestable);
    assert!(nodes.why.contains("this host has 2 cores"), "{}", nodes.why);
    assert_eq!(of(&two, "fig9/dev/trends").verdict, Verdict::Holds);
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
    assert_eq!(of(&one, "fig7c/latency-grows").verdict, Verdict::Untestable);
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
    let outcome = evaluate(&results, None);
    let rate = of(&outcome, "fig7b/op-rate-64b");
    assert_eq!((rate.verdict, rate.measured), (Verdict::Missed, None));
    assert_eq!(rate.why, "the run model/remote_read/single-sided failed: no progress");
    assert_eq!(of(&outcome, "fig9/sim/fine-vs-bulk").verdict, Verdict::Missed);
    assert_eq!(of(&outcome, "fig9/sim/shm-vs-bulk").verdict, Verdict::Holds);
    assert_eq!(of(&outcome, "fig7a/small-latency").verdict, Verdict::Holds);
    assert_eq!(outcome.failed_runs.len(), 1);
}

#[test]
fn a_part_needs_only_its_own_runs() {
    assert!(plan(Effort::Full, CORES, Some(parts::TABLE1)).is_empty());
    let runs = plan(Effort::Full, CORES, Some(parts::FIG9));
    assert!(runs.iter().all(|run| run.program() == "pagerank"), "{runs:?}");
    let model = |run: &&Experiment| run.platform == Platform::Model;
    assert_eq!(runs.iter().filter(model).count(), 1 + 3 * 3);
    let results = Perfect::new().results(Effort::Quick, CORES);
    let mut sum = 0;
    for part in parts::ALL {
        let outcome = evaluate(&results, Some(part));
        assert!(outcome.summary.holds > 0, "{part:?}");
        assert!(outcome.claims.iter().all(|judged| judged.part == Some(part)));
        sum += outcome.summary.holds;
    }
    assert_eq!(sum, perfect(Effort::Quick, CORES).summary.holds);
}

#[test]
fn everything_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let results = Perfect::new().results(Effort::Quick, CORES);
    let outcome = evaluate(&results, None);
    assert_eq!(outcome.curves.len(), 8);
    write::all(dir.path(), &PAPER, &outcome, &results).unwrap();
    for name in ["fig7a", "fig7b", "fig7c", "fig8a", "fig8b", "fig8c", "fig9", "fig9-dev"] {
        let text = std::fs::read_to_string(dir.path().join(format!("{name}.svg"))).unwrap();
        assert_well_formed(&text);
    }
    let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
    let report = read("reports/host-remote_read-single-sided.json");
    assert!(report.contains("\"program\": \"remote_read\""), "{report}");
    let eight = read("machines/model-pagerank-shm-8.toml");
    assert!(eight.contains("columns = 8\n") && eight.contains("size_bytes = 33554432\n"));
    assert!(eight.contains("banks = 16\n"), "{eight}");
}
