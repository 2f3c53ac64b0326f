//! That no claim is forgotten, that checks are wired to the right quantities, and what the
//! reports look like.

use std::collections::{BTreeMap, BTreeSet};

use super::checks;
use super::claims::{self, Claim};
use super::experiment::{Chip, Design, Effort, Experiment};
use super::explanations::EXPLANATIONS;
use super::fabricated::Perfect;
use super::figure::Figure;
use super::not_checkable::{self, NOT_CHECKABLE};
use super::outcome::{FailedRun, Outcome, evaluate, plan};
use super::render;
use super::results::Results;
use super::tolerance::Class;
use super::verdict::Verdict;
use super::write;
use crate::plot::svg::assert_well_formed;

fn all_claims() -> Vec<Claim> {
    claims::manycore_ni().unwrap()
}

fn perfect(effort: Effort) -> Outcome {
    evaluate(&all_claims(), &Perfect::new().results(effort), None, vec![])
}

#[test]
fn every_claim_is_either_measured_or_listed_with_a_reason() {
    let claims: BTreeSet<String> =
        all_claims().iter().map(|claim| claim.short_id().to_owned()).collect();
    assert_eq!(claims.len(), all_claims().len(), "two claims have the same name");
    let mut known = BTreeMap::new();
    for (_, checks) in checks::ALL {
        for check in checks {
            *known.entry(check.id).or_insert(0) += 1;
        }
    }
    for (id, reason) in NOT_CHECKABLE {
        *known.entry(*id).or_insert(0) += 1;
        assert!(reason.len() > 20, "{id}: {reason}");
    }
    for id in &claims {
        assert_eq!(known.get(id.as_str()), Some(&1), "{id} must be named exactly once");
    }
    for id in known.keys() {
        assert!(claims.contains(*id), "there is no claim {id}");
    }
    for (id, _) in EXPLANATIONS {
        assert!(claims.contains(*id), "there is no claim {id} to be explained");
    }
}

#[test]
fn contradictory_and_ambiguous_claims_say_how_they_are_read() {
    for claim in all_claims() {
        let note = claim.note.as_deref().unwrap_or_default();
        let odd = ["CONTRADICTION", "AMBIGUOUS", "INFERRED", "DOES NOT ADD UP"];
        if !odd.iter().any(|word| note.contains(word)) {
            continue;
        }
        let id = claim.short_id();
        let check = checks::ALL.iter().flat_map(|(_, all)| *all).find(|check| check.id == id);
        match check {
            Some(check) => assert!(!check.reading.is_empty(), "{id}"),
            None => assert!(not_checkable::reason(id).is_some(), "{id}"),
        }
    }
}

#[test]
fn claims_are_judged_by_the_class_that_their_words_ask_for() {
    let claims: BTreeMap<String, Claim> =
        all_claims().into_iter().map(|claim| (claim.short_id().to_owned(), claim)).collect();
    for check in checks::ALL.iter().flat_map(|(_, all)| *all) {
        let claim = &claims[check.id];
        let up_to = claim.quote.contains("up to") && claim.relation.sign() == "<=";
        assert_eq!(check.class == Class::UpTo, up_to, "{}", check.id);
        let ordering = matches!(check.class, Class::Order | Class::Reaches);
        assert_eq!(ordering, claim.value.is_none() && claim.unit != "text", "{}", check.id);
    }
}

#[test]
fn with_a_perfect_model_every_claim_holds() {
    for effort in [Effort::Quick, Effort::Full] {
        let outcome = perfect(effort);
        for judged in &outcome.claims {
            if judged.verdict == Verdict::Missed {
                panic!("{} {:?} {:?}: {}", judged.id, judged.measured, judged.against, judged.why);
            }
            let short = judged.id.strip_prefix("manycore-ni/").unwrap();
            let listed = not_checkable::reason(short).is_some();
            assert_eq!(
                judged.verdict == Verdict::Untestable,
                listed,
                "{}: {}",
                judged.id,
                judged.why
            );
        }
        assert_eq!(outcome.summary.untestable, NOT_CHECKABLE.len());
        assert_eq!(outcome.claims.len(), all_claims().len());
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
    let mut reports = BTreeMap::new();
    for run in plan(Effort::Quick, None) {
        let mut report = perfect.report(run);
        if [512, 8192].contains(&run.bytes)
            && run == Experiment::bandwidth(Design::Split, run.bytes)
        {
            report.app_gbps = 150.0;
        }
        reports.insert(run, Ok(report));
    }
    let broken = Experiment::latency(Design::Edge, 64).on(Chip::NocOut);
    reports.insert(broken, Err("no progress".to_owned()));
    let results = Results::new(Effort::Quick, reports);
    let failed = FailedRun { experiment: broken.name(), problem: "no progress".to_owned() };
    let outcome = evaluate(&all_claims(), &results, None, vec![failed]);
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
    assert!(plan(Effort::Full, Some(Figure::Table2)).is_empty());
    let table1 = plan(Effort::Full, Some(Figure::Table1));
    assert!(table1.iter().all(|run| !run.loaded && run.bytes == 64), "{table1:?}");
    assert!(plan(Effort::Quick, Some(Figure::Fig10)).iter().all(|run| run.loaded));
    let (quick, full) = (plan(Effort::Quick, None).len(), plan(Effort::Full, None).len());
    assert!(quick * 2 < full && quick < 70, "{quick} {full}");
    for run in plan(Effort::Full, None) {
        run.machine(Effort::Full).unwrap();
        run.machine(Effort::Quick).unwrap();
    }
}

#[test]
fn every_part_has_claims_and_knows_only_its_own() {
    let results = Perfect::new().results(Effort::Quick);
    let mut sum = 0;
    for figure in Figure::ALL {
        let outcome = evaluate(&all_claims(), &results, Some(figure), vec![]);
        assert!(outcome.summary.holds > 0, "{figure:?}");
        assert!(outcome.claims.iter().all(|judged| judged.figure == Some(figure)));
        sum += outcome.summary.holds;
    }
    assert_eq!(sum, perfect(Effort::Quick).summary.holds);
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
        let all = checks::ALL.iter().flat_map(|(_, all)| *all);
        all.clone().find(|check| check.id == id).unwrap().needs_run()
    };
    assert!(needs("table3/ni-edge/rrpp") && needs("sec4-3/routing/no-edge-turns"));
    assert!(!needs("table2/l1/ways") && !needs("noc-out/llc-contention"));
}

#[test]
fn everything_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let perfect = Perfect::new();
    let results = perfect.results(Effort::Quick);
    let outcome = evaluate(&all_claims(), &results, None, vec![]);
    let run = Experiment::bandwidth(Design::Split, 8192);
    let machines = vec![(run, run.machine(Effort::Quick).unwrap())];
    write::all(dir.path(), &outcome, &results, &machines).unwrap();
    for name in [
        "results.json",
        "fig5.svg",
        "fig6.svg",
        "fig7.svg",
        "fig9.svg",
        "fig10.svg",
        "routing.svg",
        "links-xy.svg",
        "links-cdr-directory.svg",
        "machines/mesh-split-async-8192.toml",
        "reports/mesh-split-async-8192.json",
    ] {
        let text = std::fs::read_to_string(dir.path().join(name)).unwrap();
        match name.rsplit('.').next() {
            Some("svg") => assert_well_formed(&text),
            Some("json") => assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok()),
            _ => {}
        }
    }
    let path = dir.path().join("machines/mesh-split-async-8192.toml");
    let again = rackmem_sim::machine::load(path.to_str().unwrap(), &[]).unwrap();
    assert_eq!(again, machines[0].1);
}
