//! `rackmem reproduce`: makes the runs of an experiment file, and shows and writes what follows from them.
//!
//! `rackmem_experiments` reads the files and judges; this makes their runs: [`pool`] those of the model side by side,
//! [`host`] those of this host, by programs and trials, one after the other. [`render`] is for terminals, [`page`] for
//! browsers, with the charts of [`figures`]; [`mod@write`] is for directories.

pub mod figures;
pub mod host;
pub mod page;
pub mod pool;
pub mod render;
mod trials;
pub mod write;

use std::collections::BTreeMap;
use std::path::PathBuf;

use rackmem_experiments::document::Document;
use rackmem_experiments::outcome::Outcome;
use rackmem_experiments::run::Run;
use rackmem_experiments::session::Session;
use rackmem_experiments::variation::Variation;
use rackmem_experiments::{Effort, Known, model};
use serde_json::{Value as Json, json};

use self::pool::Job;
use crate::failure::{Failure, Result};
use crate::placement;

/// Options of a reproduction that expressions can name.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Graph for PageRank; none: a generated one.
    pub graph: Option<PathBuf>,
    /// Source of reads: `synthetic` or `executed`.
    pub cores: &'static str,
}

/// A reproduction of a paper or a part of it, on this host.
pub fn session<'a>(
    document: &'a Document,
    effort: Effort,
    selection: Option<usize>,
    options: &Options,
) -> Session<'a> {
    let cores = placement::cores().len();
    let mut trees: BTreeMap<String, Known<Json>> = model::trees(document);
    trees.insert("host".to_owned(), Ok(json!({ "cores": cores })));
    trees
        .insert("option".to_owned(), Ok(json!({ "graph": options.graph, "cores": options.cores })));
    Session::new(document, effort, selection, trees, host::abilities(document, cores))
}

/// Makes all runs that a selection takes. Later ones may depend on the results of the first.
pub fn make_all_runs(session: &mut Session<'_>, threads: usize) {
    make_runs(session, None, threads);
}

/// Verdicts with this variation. Only the runs that it changes are made; `session` has the others.
pub fn varied(session: &Session<'_>, variation: &Variation, threads: usize) -> Outcome {
    let machines = model::machines(session.document, Some(variation));
    let mut varied = session.varied(variation, machines);
    make_runs(&mut varied, Some(session), threads);
    outcome(&varied)
}

fn make_runs(session: &mut Session<'_>, made: Option<&Session<'_>>, threads: usize) {
    loop {
        let runs = session.plan();
        let is_done = runs.is_empty();
        let runs = match made {
            Some(made) => session.take_made(runs, made),
            None => runs,
        };
        if !is_done && runs.is_empty() {
            continue;
        }
        let (model, host): (Vec<Run>, Vec<Run>) =
            runs.into_iter().partition(|run| run.machine.is_some());
        if model.is_empty() && host.is_empty() {
            return;
        }
        let reports = pool::each(&jobs(&model), threads, &|run: &&Run| model::make(run));
        model.into_iter().zip(reports).for_each(|(run, report)| session.add(run, report));
        let reports = host::make(&host, session.effort);
        host.into_iter().zip(reports).for_each(|(run, report)| session.add(run, report));
    }
}

fn jobs(runs: &[Run]) -> Vec<Job<&Run>> {
    let mut all = Vec::new();
    for run in runs {
        all.push(Job { name: run.name.clone(), work: run, cost: run.cost as u64 });
    }
    all
}

/// The part of this name; `None` for all.
///
/// # Errors
/// There is none.
pub fn part(document: &Document, name: Option<&str>) -> Result<Option<usize>> {
    let Some(name) = name else { return Ok(None) };
    let found = document.parts.iter().position(|part| part.name == name);
    let unknown = || {
        let names: Vec<&str> = document.parts.iter().map(|part| part.name.as_str()).collect();
        let names = names.join(", ");
        Failure::usage(format!("{} has no part '{name}'; there are {names}", document.paper))
    };
    found.map(Some).ok_or_else(unknown)
}

/// Judges all claims of the selection.
pub fn outcome(session: &Session<'_>) -> Outcome {
    session.outcome(host::notes(session))
}
