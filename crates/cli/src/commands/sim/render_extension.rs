//! The report of nodes with an extended on-chip interconnect, for people.

use rackmem_sim::machine::Machine;
use rackmem_sim::machine::spec::{ExperimentKind, Place};
use rackmem_sim::report::{ExtensionReport, Report};

use crate::console::{Align, Table};

/// Its parts.
pub(super) fn report(
    machine: &Machine,
    report: &Report,
    extension: &ExtensionReport,
) -> Vec<String> {
    let figures = [latency(extension), bandwidth(extension), cores(extension)].concat();
    let head = what(machine) + &figures;
    [Some(head), layers(machine, report), faults(report)].into_iter().flatten().collect()
}

fn what(machine: &Machine) -> String {
    let experiment = &machine.experiment;
    let (bytes, place) = (
        experiment.message_bytes,
        match experiment.place {
            Place::Local => "its own",
            Place::Remote => "the neighbour's",
        },
    );
    let what = match experiment.kind {
        ExperimentKind::Reads => format!("random reads of {place} memory"),
        ExperimentKind::NicSend => format!("sending through {place} card, calls of {bytes} B"),
        ExperimentKind::NicReceive => format!("receiving through {place} card, calls of {bytes} B"),
        ExperimentKind::NicPingPong => format!("messages of {bytes} B through {place} card"),
        ExperimentKind::Rdma => format!("copies of {bytes} B of borrowed memory"),
        ExperimentKind::QpairPingPong => format!("messages of {bytes} B by a queue pair"),
        ExperimentKind::QpairStream => format!("a stream of messages of {bytes} B by a queue pair"),
    };
    what + "\n"
}

fn latency(extension: &ExtensionReport) -> String {
    let Some(mean) = extension.latency_ns else { return String::new() };
    let ends = extension.least_latency_ns.zip(extension.most_latency_ns);
    let ends = ends.map_or(String::new(), |(least, most)| format!(" ({least:.0} to {most:.0})"));
    let failed = match extension.failed {
        0 => String::new(),
        failed => format!("; {failed} ended with a bus error"),
    };
    format!("latency: {mean:.1} ns{ends}{failed}\n")
}

fn bandwidth(extension: &ExtensionReport) -> String {
    let Some(mbps) = extension.mbps else { return String::new() };
    format!("bandwidth: {mbps:.1} Mbps ({:.1} MB/s)\n", mbps / 8.0)
}

fn cores(extension: &ExtensionReport) -> String {
    if extension.core_utilisation.is_empty() {
        return String::new();
    }
    let percent = |share: &f64| format!("{:.0} %", share * 100.0);
    let all: Vec<String> = extension.core_utilisation.iter().map(percent).collect();
    format!("cores busy: {}\n", all.join(", "))
}

fn layers(machine: &Machine, report: &Report) -> Option<String> {
    if report.breakdown.is_empty() {
        return None;
    }
    let sum: f64 = report.breakdown.iter().map(|stage| stage.mean_cycles).sum();
    let mut table =
        Table::new(&[("layer", Align::Left), ("ns", Align::Right), ("%", Align::Right)]);
    for stage in &report.breakdown {
        table.row([
            stage.title().to_owned(),
            format!("{:.1}", stage.mean_cycles / machine.clock_ghz),
            format!("{:.1}", 100.0 * stage.mean_cycles / sum),
        ]);
    }
    Some(table.render())
}

/// Counts of faults on links and in tables, if there are any.
fn faults(report: &Report) -> Option<String> {
    let names = ["lost", "damaged", "dropped", "unroutable", "unmapped"];
    let of = |name: &str| -> f64 {
        let ends = format!(".{name}");
        report.stats.iter().filter(|(path, _)| path.ends_with(&ends)).map(|(_, n)| n).sum()
    };
    let found = names.iter().map(|name| (name, of(name))).filter(|&(_, count)| count > 0.0);
    let found: Vec<String> = found.map(|(name, count)| format!("{name}: {count}")).collect();
    (!found.is_empty()).then(|| format!("frames and packets {}\n", found.join(", ")))
}
