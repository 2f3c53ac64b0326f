//! The paper's figures as curves.

use super::checks::HOPS;
use super::experiment::{Chip, Design, Experiment, Routing};
use super::parts;
use super::results::{Known, Results};
use crate::plot::lines::{Plot, Series};
use crate::reproduce::paper::Sheet;

/// All, by name.
pub const SHEETS: &[Sheet<Experiment>] = &[
    ("fig5", parts::FIG5, fig5),
    ("fig5-overhead", parts::FIG5, fig5_overhead),
    ("fig6", parts::FIG6, fig6),
    ("fig7", parts::FIG7, fig7),
    ("routing", parts::ROUTING, routing),
    ("fig9", parts::FIG9, fig9),
    ("fig10", parts::FIG10, fig10),
];

fn plot(title: &str, x: &str, y: &str, log_x: bool, series: Vec<Series>) -> Plot {
    Plot { title: title.to_owned(), x: x.to_owned(), y: y.to_owned(), log_x, series }
}

fn series(
    name: &str,
    dashed: bool,
    xs: impl IntoIterator<Item = u32>,
    y: impl Fn(u32) -> Known<f64>,
) -> Known<Series> {
    let points: Known<Vec<(f64, f64)>> =
        xs.into_iter().map(|x| Ok((f64::from(x), y(x)?))).collect();
    Ok(Series { name: name.to_owned(), dashed, points: points? })
}

const ALL_DESIGNS: [Design; 4] = [Design::Edge, Design::PerTile, Design::Split, Design::Numa];

fn fig5(results: &Results) -> Known<Plot> {
    let mut all = Vec::new();
    for design in ALL_DESIGNS {
        all.push(series(design.title(), false, HOPS, |hops| results.projected(design, hops))?);
    }
    for design in Design::MESSAGING {
        let run = |hops| results.total(Experiment::latency(design, 64).hops(hops));
        let name = format!("{}, simulated", design.title());
        all.push(series(&name, true, results.effort.simulated_hops().iter().copied(), run)?);
    }
    Ok(plot("Figure 5: latency of a block by network hops", "hops", "cycles", false, all))
}

fn fig5_overhead(results: &Results) -> Known<Plot> {
    let of =
        |design: Design| series(design.title(), false, HOPS, |hops| results.overhead(design, hops));
    let all: Known<Vec<Series>> = Design::MESSAGING.into_iter().map(of).collect();
    Ok(plot("Figure 5: overhead over NUMA by network hops", "hops", "per cent", false, all?))
}

fn latencies(results: &Results, chip: Chip) -> Known<Vec<Series>> {
    let sizes = || results.effort.latency_sizes().iter().copied();
    let of = |design: Design| {
        let run = |bytes| results.total(Experiment::latency(design, bytes).on(chip));
        series(design.title(), false, sizes(), run)
    };
    Design::MESSAGING.into_iter().map(of).collect()
}

fn fig6(results: &Results) -> Known<Plot> {
    let sizes = results.effort.latency_sizes().iter().copied();
    let mut all = latencies(results, Chip::Mesh)?;
    all.push(series("NUMA, projected", true, sizes, |bytes| results.numa_at(bytes))?);
    Ok(plot("Figure 6: latency of synchronous reads", "bytes", "cycles", true, all))
}

fn fig9(results: &Results) -> Known<Plot> {
    let all = latencies(results, Chip::NocOut)?;
    Ok(plot("Figure 9: latency of synchronous reads, NOC-Out", "bytes", "cycles", true, all))
}

fn bandwidths(results: &Results, chip: Chip) -> Known<Vec<Series>> {
    let of = |design: Design| {
        let run = |bytes| results.app(Experiment::bandwidth(design, bytes).on(chip));
        series(design.title(), false, results.effort.bandwidth_sizes().iter().copied(), run)
    };
    Design::MESSAGING.into_iter().map(of).collect()
}

fn fig7(results: &Results) -> Known<Plot> {
    let all = bandwidths(results, Chip::Mesh)?;
    Ok(plot("Figure 7: bandwidth of asynchronous reads", "bytes", "GB/s", true, all))
}

fn fig10(results: &Results) -> Known<Plot> {
    let all = bandwidths(results, Chip::NocOut)?;
    Ok(plot("Figure 10: bandwidth of asynchronous reads, NOC-Out", "bytes", "GB/s", true, all))
}

fn routing(results: &Results) -> Known<Plot> {
    let mut all = Vec::new();
    for (routing, dashed) in [(Routing::CdrDirectory, false), (Routing::Xy, true)] {
        for design in Design::MESSAGING {
            let run = |bytes| results.app(Experiment::bandwidth(design, bytes).routed(routing));
            let name = format!("{}, {}", design.title(), routing.name());
            all.push(series(&name, dashed, results.effort.shape_sizes().iter().copied(), run)?);
        }
    }
    Ok(plot("Bandwidth with and without classes of routing", "bytes", "GB/s", true, all))
}
