//! That no claim is forgotten, and that checks are wired to the right quantities.

use std::collections::BTreeSet;

use super::PAPER;
use super::experiment::{
    Changes, Experiment, Kernel, Machine, Mechanism, Place, Policy, Share, Trial, Work,
};
use super::fabricated::Perfect;
use super::parts;
use super::results::Results;
use super::setting::{Setting, of_machines};
use crate::reproduce::accounted;
use crate::reproduce::outcome::{self, Outcome};
use crate::reproduce::paper::Part;
use crate::reproduce::results::Effort;
use crate::reproduce::verdict::Verdict;

fn plan(effort: Effort, part: Option<Part>) -> BTreeSet<Experiment> {
    outcome::plan(&PAPER, &mut Results::new(effort, of_machines()), part)
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
        ("table2/load/64", true),
        ("table2/store/1k", true),
        ("table2/dma/1m", true),
        ("table2/ratio/store-over-load-64", true),
        ("tlp/load-interval", true),
        ("tlp/ratio-dma-over-load", true),
        ("table3/remote-latency", true),
        ("table3/latency-ratio", true),
        ("fig8/b4/orq16-over-orq1", true),
        ("fig9/b3/prefetch5", true),
        ("comm/pcie/transfer-latency", true),
        ("table3/l2", false),
        ("table3/l1i", false),
        ("pcie/cpu-clock", false),
        ("pcie/generation", false),
    ];
    accounted::values_are_as_printed(&outcome, &expected);
}

#[test]
fn the_machine_files_have_what_the_paper_gives() {
    accounted::parameters_hold(&evaluate(&Results::new(Effort::Quick, of_machines())));
}

#[test]
fn a_worse_model_misses_what_it_should() {
    let perfect = Perfect::new();
    let mut results = perfect.results(Effort::Quick);
    let load = Experiment::prototype(Work::Transfer(Mechanism::Load, 128));
    let store = Experiment::prototype(Work::Transfer(Mechanism::Store, 1024));
    let mut slow = perfect.report(store);
    slow.output["mb_per_s"] = 2290.into();
    let atomics = Experiment::prototype(Work::Share(Share::Atomics));
    let mut working = perfect.report(atomics);
    working.output["works"] = 1.into();
    let through = Experiment::simulator(
        Work::Kernel(Kernel::B2, Place::Remote),
        Changes { policy: Some(Policy::Invalidate), outstanding: Some(16), ..Changes::default() },
    );
    let mut fast = perfect.report(through);
    fast.output["ns"] = 1.into();
    results.extend([
        (load, Err("no progress".to_owned())),
        (store, Ok(slow)),
        (atomics, Ok(working)),
        (through, Ok(fast)),
    ]);
    let outcome = evaluate(&results);
    let judged = accounted::of(&outcome, "table2/load/128");
    assert_eq!((judged.verdict, judged.measured), (Verdict::Missed, None));
    assert_eq!(judged.why, "the run pcie-ntb/load/128 failed: no progress");
    assert_eq!(outcome.failed_runs.len(), 1);
    let expected = [
        ("table2/load/64", Verdict::Holds),
        ("table2/store/1k", Verdict::Holds),
        ("table2/order/store-above-dma/1k", Verdict::Missed),
        ("table2/crossover/store-dma-lower", Verdict::Missed),
        ("table2/crossover/store-dma-upper", Verdict::Missed),
        ("atomics/lock-prefix", Verdict::Missed),
        ("atomics/exclusive", Verdict::Holds),
        ("fig8/order/b2-write-back-better", Verdict::Missed),
        ("fig8/order/b4-write-back-better", Verdict::Holds),
    ];
    accounted::verdicts_are(&outcome, &expected);
}

#[test]
fn a_part_needs_only_its_own_runs() {
    let programs = |part| -> BTreeSet<&str> {
        plan(Effort::Full, Some(part)).iter().map(Experiment::program).collect()
    };
    assert_eq!(programs(parts::TABLE2), ["", "tsm_transfer"].into());
    assert_eq!(programs(parts::COMM), ["", "tsm_share"].into());
    assert_eq!(programs(parts::FIG9), ["", "tsm_kernels"].into());
    assert!(plan(Effort::Quick, Some(parts::ORION)).is_empty());
    let fig8 = plan(Effort::Quick, Some(parts::FIG8));
    let is_meant = |run: &Experiment| matches!(run.machine, Machine::Simulator | Machine::Host);
    assert!(fig8.iter().all(is_meant));
    accounted::parts_add_up(&PAPER, &Perfect::new().results(Effort::Quick));
}

#[test]
fn the_runtime_is_judged_beside_the_model_and_not_counted() {
    let perfect = Perfect::new();
    let mut results = perfect.results(Effort::Quick);
    let good = evaluate(&results);
    accounted::the_runtime_is_judged(&PAPER, &good);
    let run = Experiment::on_host(Trial::Outstanding);
    let mut slow = perfect.report(run);
    slow.output["16"] = 19.into();
    results.extend([(run, Ok(slow))]);
    let bad = evaluate(&results);
    let prefix = |id: &str| format!("tsm/fig8/{id}");
    let expected = ["order/larger-orq-better", "b4/orq16-over-orq1", "order/orq16-equals-orq1024"];
    assert_eq!(accounted::missed_by_the_runtime(&bad), expected.map(prefix));
    assert_eq!(bad.summary, good.summary);
}

#[test]
fn a_host_that_does_not_let_the_runtime_measure_says_why() {
    let why = "userfaultfd is not permitted";
    let setting = Setting { host: Err(why.to_owned()), ..of_machines() };
    let mut none = Results::new(Effort::Quick, setting);
    let runs = outcome::plan(&PAPER, &mut none, None);
    assert!(runs.iter().all(|run| run.machine != Machine::Host), "{runs:?}");
    accounted::the_runtime_is_skipped(&evaluate(&none), why);
}

#[test]
fn experiments_become_command_lines() {
    let words = |run: Experiment| run.arguments(Effort::Quick, 2 << 20).join(" ");
    let kernel = Work::Kernel(Kernel::B4, Place::Remote);
    let changes = Changes { outstanding: Some(16), degree: Some(5), ..Changes::default() };
    let run = Experiment::simulator(kernel, changes);
    assert_eq!(words(run), "--kernel=b4 --llc-bytes=2097152 --remote --scale=1 --json");
    assert_eq!(run.name(), "tsm-sim/b4/remote/orq16/degree5");
    let transfer = Experiment::prototype(Work::Transfer(Mechanism::Dma, 64));
    assert_eq!(words(transfer), "--mechanism=dma --block-bytes=64 --bytes=262144 --json");
    let long = Experiment::prototype(Work::Transfer(Mechanism::Load, 1 << 20));
    assert_eq!(words(long), "--mechanism=load --block-bytes=1048576 --bytes=2097152 --json");
    let share = Experiment::prototype(Work::Share(Share::Message));
    assert_eq!(words(share), "--share=message --json");
}

#[test]
fn everything_is_written() {
    let dir = accounted::written(&PAPER, &Perfect::new().results(Effort::Quick), 2);
    let read = |name: &str| accounted::read(&dir, name);
    assert!(read("reports/pcie-ntb-dma-64.json").contains("\"mb_per_s\": 282"));
    let machine = read("machines/tsm-sim-b4-remote-write-back-orq1.toml");
    assert!(machine.contains("outstanding = 1\n"), "{machine}");
}
