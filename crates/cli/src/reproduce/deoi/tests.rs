//! That no claim is forgotten, and that checks are wired to the right quantities.

use super::PAPER;
use super::experiment::{Card, Experiment, Place, Trial};
use super::fabricated::Perfect;
use super::parts;
use super::results::{Results, Setting, of_machine};
use crate::reproduce::accounted;
use crate::reproduce::outcome::{self, Outcome};
use crate::reproduce::results::Effort;
use crate::reproduce::verdict::Verdict;

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
        accounted::every_claim_holds(&PAPER, &outcome, 100);
    }
}

#[test]
fn the_machine_file_has_what_the_paper_gives() {
    accounted::parameters_hold(&evaluate(&Results::new(Effort::Quick, of_machine())));
}

#[test]
fn a_worse_model_misses_what_it_should() {
    let perfect = Perfect::new();
    let mut results = perfect.results(Effort::Quick);
    let mut slow = perfect.report(Experiment::Reads(Place::Remote));
    slow.model.extension.as_mut().unwrap().layers_ns.as_mut().unwrap()[4] *= 2.0;
    let mut full = perfect.report(Experiment::extra(384));
    full.model.extension.as_mut().unwrap().key_value.as_mut().unwrap().gets_per_second = 10.0;
    results.extend([
        (Experiment::Reads(Place::Remote), Ok(slow)),
        (Experiment::extra(384), Ok(full)),
        (Experiment::Card(Card::Send, Place::Remote, 1024), Err("no progress".to_owned())),
    ]);
    let outcome = evaluate(&results);
    let expected = [
        ("fig4/link-layer/latency", Verdict::Missed),
        ("fig4/physical-layer/latency", Verdict::Holds),
        ("fig7/order/384mb-above-256mb", Verdict::Missed),
        ("fig7/order/256mb-above-128mb", Verdict::Holds),
        ("fig5/bandwidth-disparity/outbound", Verdict::Missed),
        ("fig5/bandwidth-disparity/inbound", Verdict::Holds),
    ];
    accounted::verdicts_are(&outcome, &expected);
    assert_eq!(outcome.failed_runs.len(), 1);
}

#[test]
fn a_part_needs_only_its_own_runs() {
    let plan =
        |part| outcome::plan(&PAPER, &mut Results::new(Effort::Full, of_machine()), Some(part));
    let is_reads =
        |run: &Experiment| matches!(run, Experiment::Reads(_) | Experiment::Runtime(Trial::Reads));
    assert!(plan(parts::FIG4).iter().all(is_reads));
    let is_cache = |run: &Experiment| match run {
        Experiment::Runtime(trial) => *trial == Trial::Capacity,
        run => matches!(run, Experiment::KeyValue { .. }),
    };
    assert!(plan(parts::FIG7).iter().all(is_cache) && plan(parts::FIG8).len() == 18 + 1);
    assert!(plan(parts::COST).is_empty());
}

#[test]
fn the_runtime_is_judged_beside_the_model_and_not_counted() {
    let mut results = Perfect::new().results(Effort::Quick);
    let good = evaluate(&results);
    accounted::the_runtime_is_judged(&PAPER, &good);
    let run = Experiment::Runtime(Trial::Reads);
    let mut fast = Perfect::new().report(run);
    fast.figures.insert("remote".to_owned(), 99.0);
    results.extend([(run, Ok(fast))]);
    let bad = evaluate(&results);
    assert_eq!(accounted::missed_by_the_runtime(&bad), ["deoi/fig4/remote-over-local"]);
    assert_eq!(bad.summary, good.summary);
}

#[test]
fn a_host_that_does_not_let_the_runtime_measure_says_why() {
    let why = "userfaultfd is not permitted";
    let setting = Setting { host: Err(why.to_owned()), ..of_machine() };
    let mut none = Results::new(Effort::Quick, setting);
    let runs = outcome::plan(&PAPER, &mut none, None);
    assert!(runs.iter().all(|run| !matches!(run, Experiment::Runtime(_))), "{runs:?}");
    accounted::the_runtime_is_skipped(&evaluate(&none), why);
}

#[test]
fn everything_is_written() {
    let dir = accounted::written(&PAPER, &Perfect::new().results(Effort::Quick), 4);
    let machine = accounted::read(&dir, "machines/key-value-512mb-2048b-0us.toml");
    assert!(machine.contains("value_bytes = 2048"), "{machine}");
}
