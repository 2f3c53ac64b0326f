//! The paper's figures as curves.

use super::experiment::Platform::{self, Host, Model};
use super::experiment::Threshold::{Pull, Push};
use super::experiment::{Experiment, Variant, host_nodes};
use super::on_host;
use super::parts;
use super::results::{Known, Results};
use crate::plot::lines::{Plot, Series};
use crate::reproduce::paper::Sheet;

/// All, by name.
pub const SHEETS: &[Sheet<Experiment>] = &[
    ("fig7a", parts::FIG7, fig7a),
    ("fig7b", parts::FIG7, fig7b),
    ("fig7c", parts::FIG7, fig7c),
    ("fig8a", parts::FIG8, fig8a),
    ("fig8b", parts::FIG8, fig8b),
    ("fig8c", parts::FIG8, fig8c),
    ("fig9", parts::FIG9, fig9),
    ("fig9-dev", parts::FIG9, fig9_dev),
];

fn plot(title: &str, x: &str, y: &str, series: Vec<Series>) -> Plot {
    Plot { title: title.to_owned(), x: x.to_owned(), y: y.to_owned(), log_x: true, series }
}

fn series<X: Into<f64> + Copy>(
    name: &str,
    xs: impl IntoIterator<Item = X>,
    y: impl Fn(X) -> Known<f64>,
) -> Known<Series> {
    let points: Known<Vec<(f64, f64)>> = xs.into_iter().map(|x| Ok((x.into(), y(x)?))).collect();
    Ok(Series { name: name.to_owned(), dashed: false, points: points? })
}

/// Both modes, as far as this platform can run them.
fn sides(
    results: &Results,
    at: Platform,
    y: impl Fn(bool, u32) -> Known<f64>,
) -> Known<Vec<Series>> {
    let modes: &[bool] = match at {
        Host if !on_host::both_sides(results.setting.cores) => &[false],
        _ => &[false, true],
    };
    let of = |&both: &bool| {
        let name = if both { "double-sided" } else { "single-sided" };
        series(name, results.effort.read_sizes().iter().copied(), |bytes| y(both, bytes))
    };
    modes.iter().map(of).collect()
}

fn fig7a(results: &Results) -> Known<Plot> {
    let all = sides(results, Model, |both, bytes| results.read_ns(Model, both, bytes))?;
    Ok(plot("Figure 7a: latency of remote reads", "bytes", "ns", all))
}

fn fig7b(results: &Results) -> Known<Plot> {
    let all = sides(results, Model, |both, bytes| results.read_gbps(Model, both, bytes))?;
    Ok(plot("Figure 7b: bandwidth of remote reads", "bytes", "GB/s", all))
}

fn fig7c(results: &Results) -> Known<Plot> {
    let host = results.host()?;
    let all = sides(results, host, |both, bytes| results.read_ns(host, both, bytes))?;
    Ok(plot("Figure 7c: latency of remote reads, runtime", "bytes", "ns", all))
}

/// Always push, always pull, and both with the best threshold.
fn thresholds(
    results: &Results,
    at: Platform,
    y: impl Fn(super::experiment::Threshold, u32) -> Known<f64>,
) -> Known<Vec<Series>> {
    let sizes = || results.effort.message_sizes().iter().copied();
    let mut all = vec![
        series("push (threshold inf)", sizes(), |bytes| y(Push, bytes))?,
        series("pull (threshold 0)", sizes(), |bytes| y(Pull, bytes))?,
    ];
    let best = results.threshold(at)?;
    let name = format!("threshold {}", best.name());
    all.push(series(&name, sizes(), |bytes| y(best, bytes))?);
    Ok(all)
}

fn fig8a(results: &Results) -> Known<Plot> {
    let all =
        thresholds(results, Model, |threshold, bytes| results.message_ns(Model, threshold, bytes))?;
    Ok(plot("Figure 8a: half a round trip of messages", "bytes", "ns", all))
}

fn fig8b(results: &Results) -> Known<Plot> {
    let all = thresholds(results, Model, |threshold, bytes| {
        results.message_gbits(Model, threshold, bytes)
    })?;
    Ok(plot("Figure 8b: bandwidth of messages", "bytes", "Gbit/s", all))
}

fn fig8c(results: &Results) -> Known<Plot> {
    let host = results.host()?;
    let all =
        thresholds(results, host, |threshold, bytes| results.message_ns(host, threshold, bytes))?;
    Ok(plot("Figure 8c: half a round trip of messages, runtime", "bytes", "ns", all))
}

fn speedups(results: &Results, at: Platform, nodes: &[u16]) -> Known<Vec<Series>> {
    let of = |variant: Variant| {
        let speedup = |nodes| results.speedup(at, variant, nodes);
        series(variant.title(), nodes.iter().copied(), speedup)
    };
    Variant::PARALLEL.into_iter().map(of).collect()
}

fn fig9(results: &Results) -> Known<Plot> {
    let all = speedups(results, Model, results.effort.model_nodes())?;
    Ok(plot("Figure 9, left: speed-up of PageRank", "nodes", "x", all))
}

fn fig9_dev(results: &Results) -> Known<Plot> {
    let host = results.host()?;
    let nodes: Vec<u16> = host_nodes(results.setting.cores).collect();
    let all = speedups(results, host, &nodes)?;
    Ok(plot("Figure 9, right: speed-up of PageRank, runtime", "nodes", "x", all))
}
