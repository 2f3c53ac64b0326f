//! A run's report for people.

use rackmem_sim::machine::Machine;
use rackmem_sim::machine::spec::WorkloadKind;
use rackmem_sim::report::{Report, Stats};

use crate::console::{Align, Table};
use crate::size;

/// Counters that say most about a run; all of them are in stats.json.
const MAIN_COUNTERS: [(&str, &str); 14] = [
    ("core.reads", "remote reads completed"),
    ("rcp.lines", "lines written to local buffers"),
    ("rrpp.requests", "remote requests served"),
    ("rrpp.latency_mean_cycles", "mean service time of an RRPP, cycles"),
    ("rrpp.hops_mean", "mean hops from RRPP to home"),
    ("rrpp.dram_share", "share of its requests that reach memory"),
    ("home.llc_hits", "LLC hits"),
    ("home.llc_misses", "LLC misses"),
    ("home.llc_writebacks", "LLC write-backs to memory"),
    ("home.messages_wq", "coherence messages about WQ blocks"),
    ("home.messages_cq", "coherence messages about CQ blocks"),
    ("memory.reads", "memory reads"),
    ("memory.writes", "memory writes"),
    ("noc.edge_turns_directory", "turns of directory packets in edge columns"),
];

/// Virtual networks, as counters name them.
const NETWORKS: [&str; 4] = ["request", "forward", "response", "network"];

const UNSETTLED: &str =
    "NOT SETTLED: this latency may still be changing, and that of a longer run may be another\n";

/// The whole report.
pub(super) fn report(machine: &Machine, report: &Report) -> String {
    let mut parts = vec![head(machine, report)];
    if let Some(rack) = &report.rack {
        parts.extend(super::render_rack::report(machine, report, rack));
        return parts.join("\n");
    }
    if let Some(extension) = &report.extension {
        parts.extend(super::render_extension::report(machine, report, extension));
        return parts.join("\n");
    }
    parts.extend(latency(machine, report));
    parts.extend(breakdown(report));
    parts.extend(bandwidth(report));
    parts.extend(traffic(&report.stats));
    parts.extend(counters(&report.stats));
    parts.join("\n")
}

fn head(machine: &Machine, report: &Report) -> String {
    let about = if machine.description.is_empty() { "" } else { ": " };
    let unsure = if report.converged { String::new() } else { unsure(machine, report) };
    let Report { machine: name, cycles, .. } = report;
    format!("{name}{about}{}\n{cycles} cycles simulated{unsure}\n", machine.description)
}

/// Says that less is known than was asked for, and how much is.
fn unsure(machine: &Machine, report: &Report) -> String {
    let is_known = report.measured.is_some_and(|measured| measured.bandwidth_settled == Some(true));
    let latency = "the latency has not settled".to_owned();
    let known = match (is_known, has_settled(report)) {
        (true, _) => latency,
        (false, true) => unsure_bandwidth(report),
        (false, false) => format!("{}, and {latency}", unsure_bandwidth(report)),
    };
    let (asked, windows) = (machine.run.precision_percent, machine.run.max_windows);
    format!(
        "; NOT CONVERGED: {known}, after run.max_windows = {windows} \
         (run.precision_percent = {asked})"
    )
}

fn unsure_bandwidth(report: &Report) -> String {
    let half_width = report.measured.and_then(|measured| measured.app_gbps_half_width);
    match half_width {
        Some(half) if report.app_gbps > 0.0 => {
            let percent = 100.0 * half / report.app_gbps;
            format!("the bandwidth is known to +-{percent:.1} % or is still changing")
        }
        _ => "the run was too short to know the bandwidth's precision".to_owned(),
    }
}

/// Whether the mean latency is that of a steady state, as far as the run can tell.
fn has_settled(report: &Report) -> bool {
    report.measured.is_none_or(|measured| measured.latency_settled != Some(false))
}

fn latency(machine: &Machine, report: &Report) -> Option<String> {
    match machine.workload.kind {
        WorkloadKind::Program => latency_of("remote operation", None, machine, report),
        _ => latency_of("read", Some(machine.workload.transfer_bytes), machine, report),
    }
}

/// The distribution of the latency of what the machine does.
pub(super) fn latency_of(
    what: &str,
    bytes: Option<u32>,
    machine: &Machine,
    report: &Report,
) -> Option<String> {
    let latency = report.latency?;
    let size = bytes.map(|bytes| size::exact(bytes.into()) + " ").unwrap_or_default();
    let ns = latency.mean_cycles / machine.clock_ghz;
    let unsettled = if has_settled(report) { "" } else { UNSETTLED };
    Some(format!(
        "latency of a {size}{what}: {:.1} cycles = {ns:.1} ns (min {}, median {}, 95 % {}, 99 % {}, \
         max {}; {} {what}s)\n{unsettled}",
        latency.mean_cycles,
        latency.min_cycles,
        latency.p50_cycles,
        latency.p95_cycles,
        latency.p99_cycles,
        latency.max_cycles,
        latency.count,
    ))
}

fn breakdown(report: &Report) -> Option<String> {
    if report.breakdown.is_empty() {
        return None;
    }
    let mut table =
        Table::new(&[("stage", Align::Left), ("cycles", Align::Right), ("share", Align::Right)]);
    let total: f64 = report.breakdown.iter().map(|stage| stage.mean_cycles).sum();
    for stage in &report.breakdown {
        let share = 100.0 * stage.mean_cycles / total.max(1e-9);
        let cells = [format!("{:.1}", stage.mean_cycles), format!("{share:.1} %")];
        table.row([stage.title().to_owned()].into_iter().chain(cells));
    }
    table.row(["total".to_owned(), format!("{total:.1}"), "100.0 %".to_owned()]);
    Some(table.render())
}

fn bandwidth(report: &Report) -> Option<String> {
    report.measured?;
    let mut text = format!(
        "application bandwidth: {:.1} GB/s{} ({:.1} received by RCPs, {:.1} sent by RRPPs)\n\
         remote reads: {:.1} per microsecond{}\n\
         traffic on chip: {:.1} GB/s\n{}\n",
        report.app_gbps,
        confidence(report),
        report.rcp_gbps,
        report.rrpp_gbps,
        report.reads_per_us,
        offered(report),
        report.noc_gbps,
        span(report),
    );
    if !report.windows.is_empty() {
        text += "window  end      GB/s\n";
    }
    for (number, window) in report.windows.iter().enumerate() {
        text += &format!("{:<6}  {:<8} {:.2}\n", number + 1, window.end_cycle, window.app_gbps);
    }
    Some(text)
}

/// The confidence interval of the bandwidth.
pub(super) fn confidence(report: &Report) -> String {
    let half_width = report.measured.and_then(|measured| measured.app_gbps_half_width);
    half_width.map_or(String::new(), |half| format!(" +- {half:.1} at 95 % confidence"))
}

fn offered(report: &Report) -> String {
    let Some(offered) = report.offered else { return String::new() };
    let saturated = if offered.saturated { "; SATURATED" } else { "" };
    format!(" of {:.1} offered{saturated}", offered.reads_per_us)
}

/// The part of the run that the figures are of.
pub(super) fn span(report: &Report) -> String {
    report.measured.map_or(String::new(), |measured| {
        let (from, to) = (measured.from_cycle, measured.to_cycle);
        format!("all of these from cycle {from} to {to}, after the warm-up\n")
    })
}

fn traffic(stats: &Stats) -> Option<String> {
    let of = |what: &str, network: &str| stats.get(&format!("noc.{what}.{network}")).copied();
    let mut table = Table::new(&[
        ("virtual network", Align::Left),
        ("packets", Align::Right),
        ("flits", Align::Right),
    ]);
    let mut any = false;
    for network in NETWORKS {
        let (packets, flits) = (of("packets", network), of("flits", network));
        any |= packets.or(flits).is_some();
        let cell = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value}"));
        table.row([network.to_owned(), cell(packets), cell(flits)]);
    }
    any.then(|| table.render())
}

fn counters(stats: &Stats) -> Option<String> {
    let mut table = Table::new(&[("counter", Align::Left), ("", Align::Right)]);
    let known: Vec<_> =
        MAIN_COUNTERS.iter().filter_map(|&(path, name)| Some((name, stats.get(path)?))).collect();
    for (name, value) in &known {
        let decimals = if value.fract() == 0.0 { 0 } else { 2 };
        table.row([(*name).to_owned(), format!("{value:.decimals$}")]);
    }
    (!known.is_empty()).then(|| table.render())
}

#[cfg(test)]
mod tests {
    use rackmem_sim::report::{Latency, Measured, Offered, Stage, Window};

    use super::*;

    #[test]
    fn stages_have_the_papers_names_and_add_up() {
        let latency = Latency {
            count: 6400,
            mean_cycles: 150.0,
            min_cycles: 140,
            p50_cycles: 150,
            p95_cycles: 158,
            p99_cycles: 160,
            max_cycles: 161,
        };
        let made = Report {
            machine: "m".to_owned(),
            cycles: 1000,
            seconds: 0.5,
            latency: Some(latency),
            breakdown: vec![
                Stage { name: "wq_write", mean_cycles: 50.0 },
                Stage { name: "rrpp", mean_cycles: 100.0 },
            ],
            ..Report::default()
        };
        let text = report(&Machine::default(), &made);
        assert!(text.contains("WQ write software overhead    50.0   33.3 %\n"), "{text}");
        assert!(text.contains("total                        150.0  100.0 %\n"), "{text}");
        assert!(text.contains("150.0 cycles = 75.0 ns"), "{text}");
        assert!(text.contains("NOT CONVERGED: the run was too short"), "{text}");
    }

    #[test]
    fn bandwidth_has_its_windows_and_counters_their_names() {
        let stats = [("noc.flits.request", 12.0), ("home.llc_hits", 3.0), ("odd", 1.0)];
        let made = Report {
            converged: true,
            app_gbps: 12.25,
            measured: Some(Measured {
                from_cycle: 200_000,
                to_cycle: 500_000,
                bandwidth_settled: Some(true),
                latency_settled: Some(false),
                app_gbps_half_width: Some(0.23),
                latency_half_width_cycles: None,
                precision_percent: 2.0,
            }),
            offered: Some(Offered { reads_per_us: 640.0, saturated: true }),
            windows: vec![Window { end_cycle: 500_000, app_gbps: 12.25 }],
            stats: stats.map(|(path, value)| (path.to_owned(), value)).into(),
            ..Report::default()
        };
        let text = report(&Machine::default(), &made);
        assert!(text.contains("1       500000   12.25\n"), "{text}");
        assert!(text.contains(": 12.2 GB/s +- 0.2 at 95 % confidence"), "{text}");
        assert!(text.contains(" of 640.0 offered; SATURATED\n"), "{text}");
        assert!(text.contains("from cycle 200000 to 500000"), "{text}");
        assert!(!text.contains("CONVERGED"), "{text}");
        assert!(!text.contains("settled"), "there is no latency: {text}");
        assert!(text.contains("request                -     12\n"), "{text}");
        assert!(text.contains("LLC hits") && !text.contains("odd"), "{text}");
    }

    #[test]
    fn what_is_not_known_yet_is_said() {
        let measured = |bandwidth, latency| Measured {
            from_cycle: 1_000,
            to_cycle: 2_000,
            bandwidth_settled: Some(bandwidth),
            latency_settled: Some(latency),
            app_gbps_half_width: Some(1.0),
            latency_half_width_cycles: None,
            precision_percent: 2.0,
        };
        let head = |bandwidth, latency| {
            let measured = Some(measured(bandwidth, latency));
            unsure(&Machine::default(), &Report { app_gbps: 10.0, measured, ..Report::default() })
        };
        let changing = "the bandwidth is known to +-10.0 % or is still changing";
        for (said, known) in [
            (head(false, true), changing.to_owned()),
            (head(true, false), "the latency has not settled".to_owned()),
            (head(false, false), format!("{changing}, and the latency has not settled")),
        ] {
            assert!(said.contains(&format!("NOT CONVERGED: {known}, after")), "{said}");
        }
    }
}
