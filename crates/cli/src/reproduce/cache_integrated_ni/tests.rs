//! That no claim is forgotten, and that checks are wired to the right quantities.

use std::collections::BTreeSet;

use super::PAPER;
use super::experiment::{Experiment, Kernel, Lock, Mechanism, Work};
use super::fabricated::Perfect;
use super::parts;
use super::results::Results;
use super::setting::setting;
use crate::reproduce::accounted;
use crate::reproduce::outcome::{self, Outcome};
use crate::reproduce::paper::Part;
use crate::reproduce::results::Effort;
use crate::reproduce::verdict::Verdict;

fn plan(effort: Effort, part: Option<Part>) -> BTreeSet<Experiment> {
    outcome::plan(&PAPER, &mut Results::new(effort, setting()), part)
}

fn evaluate(results: &Results) -> Outcome {
    accounted::evaluate(&PAPER, results, None)
}

#[test]
fn claims_are_accounted_for() {
    accounted::claims_are_accounted_for(&PAPER);
}

#[test]
fn with_a_perfect_model_every_claim_holds() {
    for effort in [Effort::Quick, Effort::Full] {
        let outcome = evaluate(&Perfect::new().results(effort));
        accounted::every_claim_holds(&PAPER, &outcome, 172);
    }
}

#[test]
fn values_are_measured_as_printed_and_by_runs() {
    let outcome = evaluate(&Perfect::new().results(Effort::Full));
    let expected = [
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
    ];
    accounted::values_are_as_printed(&outcome, &expected);
}

#[test]
fn the_machine_files_have_what_the_paper_gives() {
    accounted::parameters_hold(&evaluate(&Results::new(Effort::Quick, setting())));
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
    let outcome = evaluate(&results);
    let total = accounted::of(&outcome, "table1a/mrq-lock/4cpu/total");
    assert_eq!((total.verdict, total.measured), (Verdict::Missed, None));
    assert_eq!(total.why, "the run prototype/lock/mrq/4 failed: no progress");
    assert_eq!(outcome.failed_runs.len(), 1);
    let notify = accounted::of(&outcome, "func/counter/notify-and-reset");
    assert_eq!(
        (notify.verdict, notify.why.as_str()),
        (Verdict::Missed, "scr_test: notify is not passed")
    );
    let expected = [
        ("table1a/mrq-lock/2cpu/total", Verdict::Holds),
        ("bitonic/order/small-comm", Verdict::Missed),
        ("bitonic/crossover", Verdict::Missed),
        ("bitonic/order/large-comm", Verdict::Holds),
        ("func/mrq/match", Verdict::Holds),
    ];
    accounted::verdicts_are(&outcome, &expected);
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
    accounted::parts_add_up(&PAPER, &Perfect::new().results(Effort::Quick));
}

#[test]
fn everything_is_written() {
    let dir = accounted::written(&PAPER, &Perfect::new().results(Effort::Quick), 8);
    let read = |name: &str| accounted::read(&dir, name);
    assert!(read("reports/prototype-lock-mrq-4.json").contains("\"total_cycles\": 214"));
    let many = read("machines/simulated-lock-mcs-128.toml");
    assert!(many.contains("columns = 16\n") && many.contains("rows = 8\n"), "{many}");
    let few = read("machines/simulated-lock-mcs-16.toml");
    assert!(few.contains("columns = 4\n") && few.contains("rows = 4\n"), "{few}");
}
