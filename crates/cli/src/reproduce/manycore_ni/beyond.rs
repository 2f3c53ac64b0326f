//! Results of the model that the paper does not have: the NUMA machine really modelled, hops really
//! simulated, all routings side by side.

use super::checks::columns;
use super::experiment::{Cores, Design, Experiment, LARGE, Routing};
use super::parts;
use super::results::{Known, Results};
use crate::console;
use crate::reproduce::paper::{Part, Row, Rows};

/// All, by the part of the paper that they are shown with.
pub const ALL: &[(Part, Rows<Experiment>)] = &[
    (parts::TABLE3, numa),
    (parts::TABLE3, executed_latency),
    (parts::FIG5, hops),
    (parts::FIG7, executed_bandwidth),
    (parts::ROUTING, routings),
];

/// Latencies when the software around the queues is executed, too (`--cores executed`).
fn executed_latency(results: &Results) -> Vec<Row> {
    let run = |design| Experiment::latency(design, 64);
    both_ways(results, 64, &run, &|run| results.total(run), "cycles")
}

/// Bandwidths in the same way.
fn executed_bandwidth(results: &Results) -> Vec<Row> {
    let mut rows = Vec::new();
    for &bytes in results.effort.bandwidth_sizes() {
        let run = |design| Experiment::bandwidth(design, bytes);
        rows.extend(both_ways(results, bytes, &run, &|run| results.app(run), "GB/s"));
    }
    rows
}

/// A quantity of each design with executed and synthetic cores.
fn both_ways(
    results: &Results,
    bytes: u32,
    run: &dyn Fn(Design) -> Experiment,
    quantity: &dyn Fn(Experiment) -> Known<f64>,
    unit: &'static str,
) -> Vec<Row> {
    if results.setting == Cores::Synthetic {
        return Vec::new();
    }
    let mut rows = Vec::new();
    for design in Design::MESSAGING {
        let executed = || quantity(run(design).executed());
        let ratio = || Ok(executed()? / quantity(run(design))?);
        let name = format!("{}, {bytes} B, software executed", design.title());
        rows.push((format!("{name} over synthetic"), ratio(), "x"));
        rows.push((name, executed(), unit));
    }
    rows
}

fn numa(results: &Results) -> Vec<Row> {
    let modelled = || results.total(Experiment::latency(Design::Numa, 64));
    let mut rows: Vec<Row> = vec![
        (
            "NUMA projected, as the paper does".to_owned(),
            results.projected(Design::Numa, 1),
            "cycles",
        ),
        ("NUMA really modelled".to_owned(), modelled(), "cycles"),
    ];
    for design in Design::MESSAGING {
        let over = || Ok(100.0 * (results.projected(design, 1)? / modelled()? - 1.0));
        rows.push((format!("{} over NUMA really modelled", design.title()), over(), "%"));
    }
    rows
}

fn hops(results: &Results) -> Vec<Row> {
    let mut rows = Vec::new();
    for design in Design::MESSAGING {
        for &hops in results.effort.simulated_hops() {
            let run = Experiment::latency(design, 64).hops(hops);
            let ratio = || Ok(results.total(run)? / results.projected(design, hops)?);
            let hops = console::count(hops as usize, "hop");
            let name = format!("{}, {hops}: simulated over projected", design.title());
            rows.push((name, ratio(), "x"));
        }
    }
    rows
}

fn routings(results: &Results) -> Vec<Row> {
    let mut rows = Vec::new();
    for routing in Routing::ALL {
        for design in Design::MESSAGING {
            let peak = results.app(Experiment::bandwidth(design, LARGE).routed(routing));
            rows.push((format!("{}, {}, 8 KB", design.title(), routing.name()), peak, "GB/s"));
        }
    }
    for routing in Routing::ALL {
        rows.extend(columns_of(results, routing));
    }
    rows
}

/// Load of the links along the columns at the two edges, and of those between.
fn columns_of(results: &Results, routing: Routing) -> Vec<Row> {
    let run = Experiment::bandwidth(Design::Split, LARGE).routed(routing);
    let Ok(report) = results.report(run) else { return vec![] };
    let mut columns = columns(&report.links);
    let (first, last) = (columns.pop_first(), columns.pop_last());
    let inner = columns.len() as f64;
    let between = (inner > 0.0).then(|| columns.into_values().sum::<f64>() / inner);
    let load = |column: Option<(u16, f64)>| column.map(|(_, load)| load);
    let all = [
        ("network interfaces", load(first)),
        ("inner columns", between),
        ("memory controllers", load(last)),
    ];
    let row = |(which, load): (&str, Option<f64>)| {
        let name = format!("NI_split, {}, 8 KB: load along {which}", routing.name());
        (name, load.ok_or_else(String::new), "flits/cycle")
    };
    all.into_iter().map(row).collect()
}
