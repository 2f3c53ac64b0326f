//! The experiment files of the papers, without a run.

use std::collections::{BTreeMap, BTreeSet};

use rackmem_experiments::claims::Kind;
use rackmem_experiments::document::{Document, Way};
use rackmem_experiments::outcome::{Judged, Outcome};
use rackmem_experiments::papers::PAPERS;
use rackmem_experiments::run::{Run, Work};
use rackmem_experiments::session::Session;
use rackmem_experiments::tolerance::Class;
use rackmem_experiments::variation::Variation;
use rackmem_experiments::verdict::Verdict;
use rackmem_experiments::{Effort, model};
use serde_json::json;

fn documents() -> Vec<Document> {
    PAPERS.iter().map(|paper| paper.document().unwrap_or_else(|error| panic!("{error}"))).collect()
}

/// A session on a host that can do everything.
fn session(document: &Document, effort: Effort, part: Option<usize>) -> Session<'_> {
    let mut trees = model::trees(document);
    trees.insert("host".to_owned(), Ok(json!({ "cores": 16 })));
    trees.insert("option".to_owned(), Ok(json!({ "graph": null, "cores": "executed" })));
    let abilities = ["two-cores", "paging"].map(|what| (what.to_owned(), Ok(())));
    Session::new(document, effort, part, trees, BTreeMap::from(abilities))
}

fn planned(document: &Document, effort: Effort, part: Option<usize>) -> Vec<Run> {
    session(document, effort, part).plan()
}

fn outcome(document: &Document) -> Outcome {
    session(document, Effort::Quick, None).outcome(vec![])
}

#[test]
fn names_of_parts_in_the_help_are_those_of_the_files() {
    for (paper, document) in PAPERS.iter().zip(documents()) {
        let names: Vec<&str> = document.parts.iter().map(|part| part.name.as_str()).collect();
        assert_eq!(paper.part_names(), names, "{}", paper.name);
        assert_eq!(document.paper, paper.name);
    }
}

#[test]
fn without_runs_parameters_hold_and_nothing_else_does() {
    for document in documents() {
        let judged = outcome(&document).claims;
        assert_eq!(judged.len(), document.published.len(), "{}", document.paper);
        let parameters: Vec<&Judged> =
            judged.iter().filter(|one| one.verdict != Verdict::Untestable && !one.by_run).collect();
        assert!(!parameters.is_empty());
        for one in parameters {
            assert_eq!(one.verdict, Verdict::Holds, "{}: {}", one.id, one.why);
        }
        for one in judged.iter().filter(|one| one.by_run) {
            assert_eq!(one.verdict, Verdict::Missed, "{} is judged without its run", one.id);
            assert!(one.why.contains(" was not made"), "{}: {}", one.id, one.why);
        }
    }
}

#[test]
fn a_part_takes_only_its_own_runs_and_all_parts_take_all() {
    for document in documents() {
        for effort in [Effort::Quick, Effort::Full] {
            let names = |part| -> BTreeSet<String> {
                planned(&document, effort, part).into_iter().map(|run| run.name).collect()
            };
            let parts = (0..document.parts.len()).map(|part| names(Some(part)));
            let together: BTreeSet<String> = parts.flatten().collect();
            assert_eq!(together, names(None), "{}", document.paper);
        }
        let parameters = document.parts.iter().position(|part| part.name == "cost");
        assert!(
            parameters.is_none_or(|part| planned(&document, Effort::Full, Some(part)).is_empty())
        );
    }
}

#[test]
fn every_run_of_the_model_has_a_machine_and_every_trial_a_name() {
    for document in documents() {
        for effort in [Effort::Quick, Effort::Full] {
            for run in planned(&document, effort, None) {
                match (run.machine(), &run.work) {
                    (Some(machine), _) => drop(machine.unwrap_or_else(|error| panic!("{error}"))),
                    (None, Work::Workload) => panic!("{} has no machine", run.name),
                    (None, Work::Program(_) | Work::Trial(_)) => {}
                }
            }
        }
    }
}

/// Claims that contradict others or can be read in two ways say how they are read.
#[test]
fn odd_claims_say_how_they_are_read() {
    let odd = ["CONTRADICTION", "AMBIGUOUS", "INFERRED", "DOES NOT ADD UP", "INCONSISTENT"];
    for document in documents() {
        for check in &document.checks {
            let claim = document.published.iter().find(|claim| claim.short_id() == check.id);
            let note = claim.and_then(|claim| claim.note.as_deref()).unwrap_or_default();
            if let (true, Way::Measured(way)) =
                (odd.iter().any(|word| note.contains(word)), &check.way)
            {
                assert!(!way.reading.0.is_empty(), "{} says not how it is read", check.id);
            }
        }
    }
}

/// Claims are judged by the class that their words ask for.
#[test]
fn classes_fit_the_words() {
    for document in documents() {
        let claims: BTreeMap<&str, _> =
            document.published.iter().map(|claim| (claim.short_id(), claim)).collect();
        for check in &document.checks {
            let (claim, Way::Measured(way)) = (claims[check.id.as_str()], &check.way) else {
                continue;
            };
            let up_to = claim.quote.contains("up to") && claim.relation.sign() == "<=";
            assert_eq!(way.class == Class::UpTo, up_to, "{}", check.id);
            let is_ordering = matches!(way.class, Class::Order | Class::Reaches);
            assert_eq!(is_ordering, claim.kind == Kind::Ordering, "{}", check.id);
        }
        for check in &document.on_host {
            let (claim, Way::Measured(way)) = (claims[check.id.as_str()], &check.way) else {
                continue;
            };
            assert_eq!(way.class, Class::Host, "{}", check.id);
            // Of the paper's values only ratios mean something on another host.
            let is_ratio = claim.unit == "x" && claim.value.is_some();
            assert!(claim.kind == Kind::Ordering || is_ratio, "{}", check.id);
        }
    }
}

#[test]
fn what_is_untestable_says_why() {
    for document in documents() {
        for check in &document.checks {
            if let Way::Untestable(why) = &check.way {
                assert!(why.len() > 20, "{}: {why}", check.id);
            }
        }
    }
}

/// The files of bands come from the ranges that machine files declare.
#[test]
fn bands_come_from_the_declared_ranges() {
    for document in documents() {
        let declared = Variation::open(&document).unwrap();
        let declared: Vec<String> = declared.iter().map(Variation::name).collect();
        let paper = &document.paper;
        let again = format!(
            "run `rackmem sensitivity {paper} --quick --out experiments/bands/{paper}.toml`"
        );
        // A paper of which no study was made has no bands.
        if !document.bands.effort.is_empty() {
            assert_eq!(document.bands.tried, declared, "{again}");
        }
        let counted: BTreeSet<String> = outcome(&document)
            .claims
            .iter()
            .filter(|judged| judged.by_run && (judged.counted || judged.fitted.is_some()))
            .map(|judged| judged.id[paper.len() + 1..].to_owned())
            .collect();
        for id in document.bands.claims.keys() {
            assert!(counted.contains(id), "{id} does not count: {again}");
        }
    }
}

#[test]
fn a_variation_changes_the_runs_that_do_not_set_it_themselves() {
    let document = PAPERS[0].document().unwrap();
    let base = session(&document, Effort::Quick, None);
    let by_name = |runs: Vec<Run>| -> BTreeMap<String, Run> {
        runs.into_iter().map(|run| (run.name.clone(), run)).collect()
    };
    let before = by_name(base.plan());
    for variation in Variation::open(&document).unwrap().iter().chain(&[Variation::seed(7)]) {
        let machines = model::machines(&document, Some(variation));
        let after = by_name(base.varied(variation, machines).plan());
        let changed = before.iter().filter(|(name, run)| after.get(*name) != Some(run));
        let mut any = false;
        for (name, run) in changed {
            any = true;
            let has = |run: &Run| {
                run.machine.as_ref().unwrap().1.iter().any(|setting| setting.path == variation.path)
            };
            assert!(!has(run) && has(&after[name]), "{}: {name}", variation.name());
        }
        assert!(any, "{} changes nothing", variation.name());
    }
}

/// With another seed, runs on this host are made again; with another value of a parameter they are as they were.
#[test]
fn seeds_repeat_the_runs_on_this_host() {
    let document = PAPERS.iter().find(|paper| paper.name == "tsm").unwrap().document().unwrap();
    let mut base = session(&document, Effort::Quick, None);
    for run in base.plan() {
        base.add(run, Ok(json!({})));
    }
    let of_value = Variation::open(&document).unwrap().swap_remove(0);
    for (variation, are_made) in [(of_value, false), (Variation::seed(2), true)] {
        let mut varied = base.varied(&variation, model::machines(&document, Some(&variation)));
        let planned = varied.plan();
        let rest = varied.take_made(planned, &base);
        assert_eq!(rest.iter().any(|run| run.machine.is_none()), are_made, "{}", variation.name());
    }
}

/// A claim that a machine's parameter was fitted to is out of the count, whatever its run gives.
#[test]
fn fitted_claims_do_not_count() {
    let mut fitted = 0;
    for document in documents() {
        for judged in outcome(&document).claims.iter().filter(|judged| judged.fitted.is_some()) {
            assert!(!judged.counted, "{}", judged.id);
            fitted += 1;
        }
    }
    assert!(fitted > 30, "{fitted}");
}
