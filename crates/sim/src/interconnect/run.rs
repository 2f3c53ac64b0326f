//! Runs an experiment to its end.

use std::time::Instant;

use super::packet::LAYER_NAMES;
use super::platform::Platform;
use super::report::{ExtensionReport, stats};
use super::workload::key_value::{KeyValue, Times};
use super::workload::{PingPong, QueuePair, Rdma, Reads, Receive, Send, Workload};
use crate::machine::Machine;
use crate::machine::spec::{ExperimentKind, Place};
use crate::report::{Report, Stage};
use crate::run::{Options, RunError};

/// Events after which a run that has not come to its end is given up.
const MOST_EVENTS: u64 = 2_000_000_000;

/// Messages that are exchanged to measure the time of the network.
const MESSAGES: u64 = 200;

/// Bytes of a request, or of an answer without a value.
const REQUEST_BYTES: u32 = 64;

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
        ExperimentKind::KeyValue => key_value(machine, options),
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

fn with(machine: &Machine, kind: ExperimentKind, place: Place, bytes: u32) -> Machine {
    let mut other = machine.clone();
    other.experiment.kind = kind;
    other.experiment.place = place;
    other.experiment.message_bytes = bytes;
    other
}

/// Measures what the queue model needs, then runs it.
fn key_value(machine: &Machine, options: &Options<'_>) -> Result<Report, RunError> {
    let read = |place| {
        let machine = with(machine, ExperimentKind::Reads, place, 0);
        let report = drive(&machine, options, Reads::new(&machine))?;
        Ok(report.extension.and_then(|report| report.latency_ns).unwrap_or_default())
    };
    let nic = &machine.nic;
    let segment = nic.mtu - nic.header_bytes;
    let value = machine.kv.value_bytes;
    let message = |bytes: u32| {
        let mut machine = with(machine, ExperimentKind::NicPingPong, Place::Local, bytes);
        machine.nic.coalesce_frames = machine.kv.coalesce_frames;
        (machine.experiment.warm_up, machine.experiment.count) = (10, MESSAGES);
        let report = drive(&machine, options, PingPong::new(&machine))?;
        Ok(report.extension.and_then(|report| report.latency_ns).unwrap_or_default())
    };
    // Packets after the first one of a long value follow each other on the wire and through the stack.
    let more = f64::from(value.div_ceil(segment).max(1) - 1);
    let wire_ns = f64::from((nic.mtu + nic.frame_bytes) * 8) / nic.gbps;
    let round_trip =
        message(REQUEST_BYTES)? + message(value.min(segment))? + more * wire_ns.max(nic.send_ns);
    let soc = &machine.soc;
    let copy = soc.copy_ns_per_kb * f64::from(value) / 1024.0;
    let stack_ns =
        soc.interrupt_ns + nic.receive_ns + soc.wake_ns + 2.0 * soc.call_ns + nic.send_ns + copy;
    let times = Times {
        local_ns: read(Place::Local)?,
        remote_ns: read(Place::Remote)?,
        network_ns: (round_trip - stack_ns).max(0.0),
        stack_ns,
    };
    let measured = KeyValue::new(machine, times).run();
    let seconds = machine.kv.requests as f64 / measured.gets_per_second;
    let extension = ExtensionReport { key_value: Some(measured), ..ExtensionReport::default() };
    Ok(Report {
        machine: machine.name.clone(),
        cycles: (seconds * 1e9 * machine.clock_ghz) as u64,
        converged: true,
        extension: Some(extension),
        ..Report::default()
    })
}
