//! That no claim is forgotten, that checks are wired to the right quantities, and what the
//! reports look like.

use std::collections::BTreeSet;

use super::PAPER;
use super::experiment::{Chip, Cores, Design, Experiment};
use super::fabricated::Perfect;
use super::not_checkable::NOT_CHECKABLE;
use super::parts;
use super::results::Results;
use crate::plot::svg::assert_well_formed;
use crate::reproduce::outcome::{self, Outcome};
use crate::reproduce::paper::Part;
use crate::reproduce::results::Effort;
use crate::reproduce::verdict::Verdict;
use crate::reproduce::{accounted, render};

fn plan(effort: Effort, part: Option<Part>) -> BTreeSet<Experiment> {
    outcome::plan(&PAPER, &mut Results::new(effort, Cores::Synthetic), part)
}

fn perfect(effort: Effort) -> Outcome {
    accounted::evaluate(&PAPER, &Perfect::new().results(effort), None)
}

#[test]
fn claims_are_accounted_for() {
    accounted::claims_are_accounted_for(&PAPER);
}

#[test]
fn with_a_perfect_model_every_claim_holds() {
    for effort in [Effort::Quick, Effort::Full] {
        let count = accounted::claims(&PAPER).len();
        accounted::every_claim_holds(&PAPER, &perfect(effort), count);
    }
}

#[test]
fn what_is_measured_is_what_the_paper_prints() {
    let outcome = perfect(Effort::Full);
    for judged in &outcome.claims {
        let component = judged.id.contains("/table3/") || judged.id.contains("/table1/");
        if let (true, Some(published), Some(measured)) =
            (component, judged.published, judged.measured)
        {
            assert!(
                (published - measured).abs() < 0.1,
                "{}: {measured} for {published}",
                judged.id
            );
        }
    }
}

#[test]
fn a_worse_model_misses_what_it_should() {
    let perfect = Perfect::new();
    let mut results = Results::new(Effort::Quick, Cores::Synthetic);
    for run in plan(Effort::Quick, None) {
        let mut report = perfect.report(run);
        if [512, 8192].contains(&run.bytes)
            && run == Experiment::bandwidth(Design::Split, run.bytes)
        {
            report.app_gbps = 150.0;
        }
        results.extend([(run, Ok(report))]);
    }
    let broken = Experiment::latency(Design::Edge, 64).on(Chip::NocOut);
    results.extend([(broken, Err("no progress".to_owned()))]);
    let outcome = accounted::evaluate(&PAPER, &results, None);
    let of =
        |id: &str| outcome.claims.iter().find(|judged| judged.id.ends_with(id)).unwrap().clone();
    let peak = of("fig7/ni-split/peak");
    assert_eq!(peak.verdict, Verdict::Missed);
    assert!(peak.why.contains("the paper has = 214 (allowed: 10 %"), "{}", peak.why);
    assert_eq!(of("intro/ni-split/bandwidth-matches-edge").verdict, Verdict::Missed);
    assert_eq!(of("fig7/ni-edge/peak").verdict, Verdict::Holds);
    let gap = of("fig9/edge-gap-narrower");
    assert_eq!((gap.verdict, gap.measured), (Verdict::Missed, None));
    assert_eq!(gap.why, "the run noc-out/edge/sync/64 failed: no progress");
    let text = render::outcome(&outcome, false);
    assert!(text.contains("run failed: noc-out/edge/sync/64: no progress"), "{text}");
}

#[test]
fn a_part_needs_only_its_own_runs() {
    assert!(plan(Effort::Full, Some(parts::TABLE2)).is_empty());
    let table1 = plan(Effort::Full, Some(parts::TABLE1));
    assert!(table1.iter().all(|run| !run.loaded && run.bytes == 64), "{table1:?}");
    assert!(plan(Effort::Quick, Some(parts::FIG10)).iter().all(|run| run.loaded));
    let (quick, full) = (plan(Effort::Quick, None).len(), plan(Effort::Full, None).len());
    assert!(quick * 2 < full && quick < 70, "{quick} {full}");
    for run in plan(Effort::Full, None) {
        run.machine(Effort::Full).unwrap();
        run.machine(Effort::Quick).unwrap();
    }
}

#[test]
fn every_part_has_claims_and_knows_only_its_own() {
    accounted::parts_add_up(&PAPER, &Perfect::new().results(Effort::Quick));
}

#[test]
fn the_table_for_people() {
    let text = render::outcome(&perfect(Effort::Quick), false);
    for line in [
        "Table 3: latency of a single-block remote read\n",
        "table3/ni-edge/wq-write                        104         104  cycles@2GHz   1.00  holds\n",
        "Figure 7: bandwidth by size\n",
        "fig7/small/split-vs-edge",
        "107 : 64.2  GBps",
        "Not testable here, and why\n",
        "NUMA really modelled",
    ] {
        assert!(text.contains(line), "{line:?} is not in\n{text}");
    }
    assert!(!text.contains("\x1b["));
    let last = text.lines().last().unwrap();
    let held = perfect(Effort::Quick).summary.holds;
    assert_eq!(
        last,
        format!(
            "{held} of {held} checkable claims hold (100.0 %), {} untestable",
            NOT_CHECKABLE.len()
        )
    );
    assert!(render::outcome(&perfect(Effort::Quick), true).contains("\x1b[32mholds\x1b[0m\n"));
}

#[test]
fn the_json_for_programs() {
    let json = serde_json::to_value(perfect(Effort::Quick)).unwrap();
    let claim = &json["claims"][0];
    for key in ["id", "published", "measured", "unit", "relation", "ratio", "verdict", "why"] {
        assert!(claim.get(key).is_some(), "{key}");
    }
    assert_eq!(claim["id"], "manycore-ni/abstract/best-design/within-3pct-of-numa");
    assert_eq!(claim["verdict"], "holds");
    assert!(claim["why"].as_str().unwrap().contains("it is judged there"));
    let points = &json["curves"]["fig7"]["series"][0]["points"];
    assert_eq!(points.as_array().unwrap().len(), Effort::Quick.bandwidth_sizes().len());
    assert_eq!(json["effort"], "quick");
    assert_eq!(json["failed_runs"], serde_json::json!([]));
}

#[test]
fn parameters_are_told_from_what_takes_a_run() {
    let needs = |id: &str| {
        PAPER.check(id).unwrap().1.needs_run(&Results::new(Effort::Quick, Cores::Synthetic))
    };
    assert!(needs("table3/ni-edge/rrpp") && needs("sec4-3/routing/no-edge-turns"));
    assert!(!needs("table2/l1/ways") && !needs("noc-out/llc-contention"));
}

#[test]
fn everything_is_written() {
    let dir = accounted::written(&PAPER, &Perfect::new().results(Effort::Quick), 7);
    for name in ["links-xy.svg", "links-cdr-directory.svg"] {
        assert_well_formed(&accounted::read(&dir, name));
    }
    for name in ["results.json", "reports/mesh-split-async-8192.json"] {
        let text = accounted::read(&dir, name);
        assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{name}");
    }
    let path = dir.path().join("machines/mesh-split-async-8192.toml");
    let again = rackmem_sim::machine::load(path.to_str().unwrap(), &[]).unwrap();
    let run = Experiment::bandwidth(Design::Split, 8192);
    assert_eq!(again, run.machine(Effort::Quick).unwrap());
}
