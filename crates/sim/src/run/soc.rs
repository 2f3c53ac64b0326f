//! Runs an experiment to its end.

use std::time::Instant;

use super::{Options, RunError};
use crate::interconnect::Platform;
use crate::interconnect::packet::LAYER_NAMES;
use crate::interconnect::report::stats;
use crate::interconnect::workload::{PingPong, QueuePair, Rdma, Reads, Receive, Send, Workload};
use crate::machine::Machine;
use crate::machine::spec::ExperimentKind;
use crate::report::{ExtensionReport, Report, Stage};

/// Events after which a run that has not come to its end is given up.
const MOST_EVENTS: u64 = 2_000_000_000;

/// Events between two reports of progress.
const EVENTS_PER_REPORT: u64 = 1 << 16;

/// Runs a machine of kind `soc`.
///
/// # Errors
/// [`RunError::Impossible`] if its experiment cannot be made, [`RunError::Stuck`] if it never ends.
pub fn run(machine: &Machine, options: &Options<'_>) -> Result<Report, RunError> {
    if options.trace.0 < options.trace.1 {
        let problem = "nodes with an extended interconnect record no events; leave the trace out";
        return Err(RunError::Impossible(problem.to_owned()));
    }
    let begin = Instant::now();
    let mut report = match machine.experiment.kind {
        ExperimentKind::Reads => drive(machine, options, Reads::new(machine)),
        ExperimentKind::NicSend => drive(machine, options, Send::new(machine)),
        ExperimentKind::NicReceive => drive(machine, options, Receive::new(machine)),
        ExperimentKind::NicPingPong => drive(machine, options, PingPong::new(machine)),
        ExperimentKind::Rdma => drive(machine, options, Rdma::new(machine)),
        ExperimentKind::QpairPingPong | ExperimentKind::QpairStream => {
            drive(machine, options, QueuePair::new(machine))
        }
    }?;
    report.seconds = begin.elapsed().as_secs_f64();
    Ok(report)
}

fn drive(
    machine: &Machine,
    options: &Options<'_>,
    mut workload: impl Workload,
) -> Result<Report, RunError> {
    let mut platform = Platform::new(machine);
    workload.start(&mut platform).map_err(RunError::Impossible)?;
    let cycles = |platform: &Platform| (platform.now() as f64 / 1000.0 * machine.clock_ghz) as u64;
    let mut next_report = EVENTS_PER_REPORT;
    loop {
        let Some(upcall) = platform.next_upcall() else {
            let problem = "nothing happens any more, and the experiment is not at its end";
            return Err(RunError::Stuck(problem.to_owned()));
        };
        if workload.told(&mut platform, upcall) {
            break;
        }
        if platform.events > MOST_EVENTS {
            return Err(RunError::Stuck(format!("no end after {MOST_EVENTS} events")));
        }
        if platform.events >= next_report {
            next_report = platform.events + EVENTS_PER_REPORT;
            options.told(cycles(&platform))?;
        }
    }
    let mut extension = ExtensionReport::default();
    workload.report(&platform, &mut extension);
    let layers = extension.layers_ns.unwrap_or_default();
    let stages = LAYER_NAMES.iter().zip(layers);
    let stage =
        |(&name, ns): (&&'static str, f64)| Stage { name, mean_cycles: ns * machine.clock_ghz };
    Ok(Report {
        machine: machine.name.clone(),
        cycles: cycles(&platform),
        converged: true,
        breakdown: if extension.layers_ns.is_some() { stages.map(stage).collect() } else { vec![] },
        stats: stats(&platform),
        extension: Some(extension),
        ..Report::default()
    })
}
