//! Runs on this host: programs on the runtime, and measurements of borrowed memory and queue pairs.

use std::collections::BTreeMap;
use std::ffi::OsString;

use rackmem::protocol::Progress;
use rackmem_experiments::document::Document;
use rackmem_experiments::run::{Execution, Run, Work};
use rackmem_experiments::session::Session;
use rackmem_experiments::{Effort, Known, model};
use serde_json::{Value as Json, json};

use super::trials::{self, Trial};
use crate::commands::bench::{Placement, SPIN, place};
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::job::{Captured, Job, Program};
use crate::rackctl::{Plan, PrivateRack};
use crate::{console, host, placement};

/// The abilities of this host that claims of a file need, each with the reason if it is missing.
pub fn abilities(document: &Document, cores: usize) -> BTreeMap<String, Known<()>> {
    let is_needed = |what: &str| {
        let ways = document.checks.iter().chain(&document.on_host);
        ways.into_iter().any(|check| check.needs() == Some(what))
    };
    let mut all = BTreeMap::new();
    let two = match cores {
        0 | 1 => Err("two nodes of the runtime need a core each, this host has one".to_owned()),
        _ => Ok(()),
    };
    all.insert("two-cores".to_owned(), two);
    if is_needed("paging") {
        all.insert("paging".to_owned(), trials::probe());
    }
    all
}

/// Makes runs one after the other, so that nothing of ours disturbs what they measure. After a signal that asks to
/// end no further one begins.
pub fn make(runs: &[Run], effort: Effort) -> Vec<Known<Json>> {
    if runs.is_empty() {
        return vec![];
    }
    let interrupt = match Interrupt::catch().map_err(said) {
        Ok(interrupt) => interrupt,
        Err(problem) => return runs.iter().map(|_| Err(problem.clone())).collect(),
    };
    let bar = console::steps(runs.len() as u64);
    let run = |run: &Run| {
        if interrupt.received().is_some() {
            return Err("interrupted".to_owned());
        }
        bar.set_message(run.name.clone());
        let report = one(run, effort, &interrupt);
        bar.inc(1);
        report
    };
    let reports = runs.iter().map(run).collect();
    bar.finish_and_clear();
    reports
}

fn one(run: &Run, effort: Effort, interrupt: &Interrupt) -> Known<Json> {
    match &run.work {
        Work::Trial(name) => {
            let trial = Trial::of_name(name).ok_or_else(|| format!("there is no trial {name}"))?;
            serde_json::to_value(trial.measure(effort)?).map_err(|error| error.to_string())
        }
        Work::Program(execution) => {
            let text = execute(execution, interrupt).map_err(said)?;
            Ok(json!({ "output": model::parsed(execution, &text)?, "cycles": 0, "stats": {} }))
        }
        Work::Workload => Err("this is not for the runtime".to_owned()),
    }
}

fn said(failure: Failure) -> String {
    failure.message.unwrap_or_else(|| format!("it ended with status {}", failure.status))
}

/// Runs a program on nodes of its own, alone on this host.
fn execute(execution: &Execution, interrupt: &Interrupt) -> Result<String> {
    if let Some(signal) = interrupt.received() {
        return Err(Failure::interrupted(signal));
    }
    let cores = placement::cores();
    let is_packet = execution.progress == "packet";
    let progress = if is_packet { Progress::Packet } else { Progress::Inline };
    let programs = execution.programs();
    let mut plan = Plan::new(programs.iter().map(|&(_, nodes)| nodes).sum());
    // Daemons that poll have to stay away from programs; programs alone find their cores, and on a
    // busy host, too, better than if they were pinned.
    let (mut daemon_cores, mut process_cores) = (vec![], vec![]);
    if is_packet {
        let Placement { processes, daemons, together, .. } = place(&cores, progress);
        (daemon_cores, process_cores) = (daemons.clone(), processes);
        plan = Plan { cores: daemons, spin: SPIN, together, ..plan };
    }
    let built_in = |(words, nodes): (Vec<String>, u16)| {
        let name = format!(":{}", words[0]);
        let command = [name].into_iter().chain(words.into_iter().skip(1));
        Program { command: command.map(OsString::from).collect(), nodes }
    };
    let rack = PrivateRack::start(&plan, interrupt)?;
    let job = Job {
        rack: rack.rack(),
        programs: programs.into_iter().map(built_in).collect(),
        context_bytes: 0,
        progress,
        cores: process_cores,
        daemon_cores,
    };
    let mut captured = Captured::default();
    let result = job.run(Some(&mut captured), interrupt);
    captured.finish(result)
}

/// Sentences about this host that a reader needs before verdicts by it, or why there are none.
pub fn notes(session: &Session<'_>) -> Vec<String> {
    let here = host::description();
    let has = |is: fn(&Work) -> bool| {
        session.runs().any(|(run, _)| run.machine.is_none() && is(&run.work))
    };
    let mut all = Vec::new();
    match session.abilities.get("paging") {
        Some(Err(why)) => {
            all.push(format!("Nothing was measured on the runtime of this host: {why}."));
        }
        Some(Ok(())) if has(|work| matches!(work, Work::Trial(_))) => all.push(format!(
            "What is said of the runtime was measured on this host ({here}), with a lender in the same process, \
             over TCP unless a row says otherwise. Times are this host's and not the paper's: only orderings and \
             ratios are judged, and they are not in the counts of claims.",
        )),
        _ => {}
    }
    if has(|work| matches!(work, Work::Program(_))) {
        let cores = console::count(placement::cores().len(), "core");
        all.push(format!(
            "The runtime on this host ({here}) stands for the paper's development platform. Here a node needs a \
             core of its own, and this host has {cores}: programs run on no more nodes. Operations go by packets \
             between daemons where there are cores for these, else inline.",
        ));
    }
    all
}
