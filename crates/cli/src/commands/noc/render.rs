//! The table of `rackmem noc`.

use rackmem_sim::noc::synthetic::{Experiment, Report};

use crate::console::{Align, Table};

/// A row for each report, which differ in their loads.
pub(super) fn table(reports: &[Report]) -> String {
    let Some(first) = reports.first() else { return String::new() };
    let Experiment { spec, packet_flits, pattern, .. } = &first.experiment;
    let each = match spec.concentration {
        1 => String::new(),
        each => format!(" with {each} endpoints a router"),
    };
    let head = format!(
        "{}{each}, {}, {}, {} VCs of {} flits, {packet_flits} flits a packet, {pattern} traffic\n\n",
        spec.topology,
        spec.routing,
        spec.router,
        spec.vcs(),
        spec.buffer_flits
    );
    let mut table = Table::new(&[
        ("offered", Align::Right),
        ("accepted", Align::Right),
        ("+-", Align::Right),
        ("latency", Align::Right),
        ("+-", Align::Right),
        ("p50", Align::Right),
        ("p99", Align::Right),
        ("max", Align::Right),
        ("network", Align::Right),
        ("hops", Align::Right),
        ("packets", Align::Right),
        ("saturated", Align::Left),
    ]);
    for report in reports {
        table.row([
            format!("{:.4}", report.offered),
            format!("{:.4}", report.accepted),
            half_width(report.accepted_half_width, 4),
            format!("{:.1}", report.latency_mean_cycles),
            half_width(report.latency_half_width_cycles, 2),
            report.latency_p50_cycles.to_string(),
            report.latency_p99_cycles.to_string(),
            report.latency_max_cycles.to_string(),
            format!("{:.1}", report.network_latency_mean_cycles),
            format!("{:.2}", report.hops_mean),
            report.packets.to_string(),
            if report.saturated { "yes" } else { "no" }.to_owned(),
        ]);
    }
    let units = "\nloads in flits per endpoint and cycle, latencies in cycles; network is from \
                 injection on; +- is half of a 95 % confidence interval\n";
    head + &table.render() + units
}

/// With so many decimals; a dash if there is too little to tell.
fn half_width(value: Option<f64>, decimals: usize) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.decimals$}"))
}
