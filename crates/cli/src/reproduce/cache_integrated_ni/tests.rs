//! That no claim is forgotten, and that checks are wired to the right quantities.

use std::collections::BTreeSet;

use super::PAPER;
use super::experiment::{Experiment, Kernel, Lock, Mechanism, Work};
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
use crate::reproduce::{accounted, write};

fn plan(effort: Effort, part: Option<Part>) -> BTreeSet<Experiment> {
    outcome::plan(&PAPER, &mut Results::new(effort, setting()), part)
}

fn evaluate(results: &Results, part: Option<Part>) -> Outcome {
    outcome::evaluate(&PAPER, &accounted::claims(&PAPER), results, part)
}

fn of(outcome: &Outcome, id: &str) -> Judged {
    let id = format!("cache-integrated-ni/{id}");
    outcome.claims.iter().find(|judged| judged.id == id).unwrap().clone()
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
        let outcome = evaluate(&Perfect::new().results(effort), None);
        for judged in &outcome.claims {
            if judged.verdict == Verdict::Missed {
                panic!("{} {:?} {:?}: {}", judged.id, judged.measured, judged.against, judged.why);
            }
            let short = judged.id.strip_prefix("cache-integrated-ni/").unwrap();
            let listed = PAPER.why_not(short).is_some();
            assert_eq!(judged.verdict == Verdict::Untestable, listed, "{short}: {}", judged.why);
        }
        assert_eq!(outcome.summary.untestable, NOT_CHECKABLE.len());
        assert_eq!(outcome.claims.len(), 172);
    }
}

#[test]
fn values_are_measured_as_printed_and_by_runs() {
    let outcome = evaluate(&Perfect::new().results(Effort::Full), None);
    for (id, by_run) in [
        ("table1a/mrq-lock/4cpu/total", true),
        ("table1b/mutex-barrier/2cpu/cycles", true),
        ("sect541/remote-store/one-way-latency", true),
        ("sect541/lock/software-overhead", true),
        ("stream/off-chip/saturation-buffers", true),
        ("bitonic/small/comm-time-saving-remote-store/max", true),
        ("fft/large/overall-gain-dma/min", true),
        ("sim/lock/mrq-over-mcs/max", true),
        ("sim/barrier/counter-over-tree/128cpu", true),
        ("proto/l2-size", false),
        ("sim/param/max-cores", false),
    ] {
        let judged = of(&outcome, id);
        let (published, measured) = (judged.published.unwrap(), judged.measured.unwrap());
        assert!((published / measured - 1.0).abs() < 0.03, "{id}: {measured} for {published}");
        assert_eq!(judged.by_run, by_run, "{id}");
    }
}

#[test]
fn the_machine_files_have_what_the_paper_gives() {
    let results = Results::new(Effort::Quick, setting());
    let outcome = evaluate(&results, None);
    let parameters = outcome.claims.iter().filter(|judged| !judged.by_run);
    for judged in parameters {
        assert_ne!(judged.verdict, Verdict::Missed, "{}: {}", judged.id, judged.why);
    }
}

#[test]
fn a_worse_model_misses_what_it_should() {
    let perfect = Perfect::new();
    let mut results = perfect.results(Effort::Quick);
    let lock = Experiment::prototype(Work::Lock(Lock::Queue), 4);
    let sort = Work::Kernel { kernel: Kernel::Bitonic, n: 4, mechanism: Mechanism::Stores };
    let sort = Experiment::prototype(sort, 2);
    let mut report = perfect.report(sort, Effort::Quick);
    report.output["communication_cycles"] = 101.0.into();
    let test = Experiment::prototype(Work::Test, 4);
    let mut tested = perfect.report(test, Effort::Quick);
    let passed = tested.output["passed"].as_array_mut().unwrap();
    passed.retain(|name| name != "notify");
    results.extend([(lock, Err("no progress".to_owned())), (sort, Ok(report)), (test, Ok(tested))]);
    let outcome = evaluate(&results, None);
    let total = of(&outcome, "table1a/mrq-lock/4cpu/total");
    assert_eq!((total.verdict, total.measured), (Verdict::Missed, None));
    assert_eq!(total.why, "the run prototype/lock/mrq/4 failed: no progress");
    assert_eq!(outcome.failed_runs.len(), 1);
    let notify = of(&outcome, "func/counter/notify-and-reset");
    assert_eq!(
        (notify.verdict, notify.why.as_str()),
        (Verdict::Missed, "scr_test: notify is not passed")
    );
    for (id, expected) in [
        ("table1a/mrq-lock/2cpu/total", Verdict::Holds),
        ("bitonic/order/small-comm", Verdict::Missed),
        ("bitonic/crossover", Verdict::Missed),
        ("bitonic/order/large-comm", Verdict::Holds),
        ("func/mrq/match", Verdict::Holds),
    ] {
        assert_eq!(of(&outcome, id).verdict, expected, "{id}");
    }
}

#[test]
fn a_part_needs_only_its_own_runs() {
    let programs = |part| -> BTreeSet<&str> {
        plan(Effort::Full, Some(part)).iter().map(Experiment::program).collect()
    };
    assert_eq!(programs(parts::FFT), ["fft"].into());
    assert_eq!(programs(parts::TABLE1), ["sync_bench"].into());
    assert_eq!(plan(Effort::Full, Some(parts::INTERFACE)).len(), 1);
    assert!(plan(Effort::Full, Some(parts::BARRIERS)).iter().all(|run| run.is_simulated));
    let results = Perfect::new().results(Effort::Quick);
    let mut sum = 0;
    for part in parts::ALL {
        let outcome = evaluate(&results, Some(part));
        assert!(outcome.summary.holds > 0, "{part:?}");
        assert!(outcome.claims.iter().all(|judged| judged.part == Some(part)));
        sum += outcome.summary.holds;
    }
    assert_eq!(sum, evaluate(&results, None).summary.holds);
}

#[test]
fn everything_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let results = Perfect::new().results(Effort::Quick);
    let outcome = evaluate(&results, None);
    assert_eq!(outcome.curves.len(), 8);
    write::all(dir.path(), &PAPER, &outcome, &results).unwrap();
    for name in outcome.curves.keys() {
        let text = std::fs::read_to_string(dir.path().join(format!("{name}.svg"))).unwrap();
        assert_well_formed(&text);
    }
    let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
    assert!(read("reports/prototype-lock-mrq-4.json").contains("\"total_cycles\": 214"));
    let many = read("machines/simulated-lock-mcs-128.toml");
    assert!(many.contains("columns = 16\n") && many.contains("rows = 8\n"), "{many}");
    let few = read("machines/simulated-lock-mcs-16.toml");
    assert!(few.contains("columns = 4\n") && few.contains("rows = 4\n"), "{few}");
}
