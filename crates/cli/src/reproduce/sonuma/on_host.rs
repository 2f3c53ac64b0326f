//! Programs on the runtime, which stands for the paper's development platform.

use std::ffi::OsString;

use rackmem::protocol::Progress;
use rackmem_sim::report::Stats;

use super::experiment::{Experiment, Work};
use super::results::Report;
use crate::commands::bench::{Placement, SPIN, place};
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::job::{Captured, Job};
use crate::placement;
use crate::rackctl::{Plan, PrivateRack};
use crate::reproduce::prebuilt::parsed;
use crate::reproduce::results::Known;

/// Whether there are cores for two busy programs and two daemons.
pub fn both_sides(cores: usize) -> bool {
    cores >= 4
}

/// Way of progress: daemons by packets, as the paper's emulated RMC, where there are cores for them beside the
/// programs. Reads from one side leave one core to them; PageRank takes all.
fn progress(work: Work, cores: usize) -> Progress {
    match work {
        Work::SmallReads | Work::Reads { both: false } => Progress::Packet,
        Work::Reads { both: true } | Work::Messages(_) if both_sides(cores) => Progress::Packet,
        _ => Progress::Inline,
    }
}

/// Runs a program, alone on this host.
pub fn run(run: &Experiment, arguments: &[String], interrupt: &Interrupt) -> Known<Report> {
    let text = output(run, arguments, interrupt).map_err(|failure| {
        failure.message.unwrap_or_else(|| format!("it ended with status {}", failure.status))
    })?;
    Ok(Report { output: parsed(run.program(), &text)?, cycles: 0, stats: Stats::new() })
}

fn output(run: &Experiment, arguments: &[String], interrupt: &Interrupt) -> Result<String> {
    if let Some(signal) = interrupt.received() {
        return Err(Failure::interrupted(signal));
    }
    let cores = placement::cores();
    let progress = progress(run.work, cores.len());
    let mut plan = Plan::new(run.nodes());
    // Daemons that poll have to stay away from programs; programs alone find their cores, and on a
    // busy host, too, better than if they were pinned.
    let (mut daemon_cores, mut process_cores) = (vec![], vec![]);
    if progress == Progress::Packet {
        let Placement { processes, daemons, together, .. } = place(&cores, progress);
        (daemon_cores, process_cores) = (daemons.clone(), processes);
        plan = Plan { cores: daemons, spin: SPIN, together, ..plan };
    }
    let program = format!(":{}", run.program());
    let command = [program].into_iter().chain(arguments.iter().cloned());
    let rack = PrivateRack::start(&plan, interrupt)?;
    let job = Job {
        rack: rack.rack(),
        nodes: run.nodes(),
        command: command.map(OsString::from).collect(),
        context_bytes: 0,
        progress,
        cores: process_cores,
        daemon_cores,
    };
    let mut captured = Captured::default();
    let result = job.run(Some(&mut captured), interrupt);
    captured.finish(result)
}
