//! Results of the runs that the paper does not print in words, and the figures of the runtime on this host,
//! which are not those of the paper's server.

use super::experiment::Platform::{self, Model};
use super::experiment::{Experiment, LARGE, MOST_NODES, SMALL};
use super::parts;
use super::results::{Known, Results};
use crate::reproduce::paper::{Part, Row, Rows};

/// All, by the part of the paper that they are shown with.
pub const ALL: &[(Part, Rows<Experiment>)] = &[
    (parts::FIG7, reads),
    (parts::FIG8, messages),
    (parts::TABLE2, host),
    (parts::FIG9, pagerank),
];

fn row(name: &str, value: Known<f64>, unit: &'static str) -> Row {
    (name.to_owned(), value, unit)
}

fn reads(results: &Results) -> Vec<Row> {
    let ours = || Ok(results.small_read_ns(Model)? - results.remote_memory_ns()? - wires(results)?);
    let over =
        || Ok(results.read_ns(results.host()?, false, SMALL)? / results.small_read_ns(Model)?);
    vec![
        row("64 B read: software, RMCs and queues", ours(), "ns"),
        row("runtime: 64 B read over the model's", over(), "x"),
    ]
}

fn wires(results: &Results) -> Known<f64> {
    let hops = 2.0 * results.parameter("network.hops")?;
    Ok(hops * results.parameter("network.hop_latency_ns")?)
}

fn messages(results: &Results) -> Vec<Row> {
    let smallest = results.effort.message_sizes()[0];
    let host = || {
        let host = results.host()?;
        Ok((host, results.threshold(host)?))
    };
    let latency = |(at, threshold)| results.message_ns(at, threshold, smallest);
    let bandwidth = |(at, threshold)| results.message_gbits(at, threshold, LARGE);
    let threshold = |at| results.threshold_bytes(at);
    vec![
        row("best threshold", threshold(Model), "bytes"),
        row("runtime: best threshold", results.host().and_then(threshold), "bytes"),
        row("runtime: half a round trip of the smallest message", host().and_then(latency), "ns"),
        row("runtime: bandwidth at 8 KB", host().and_then(bandwidth), "Gbit/s"),
    ]
}

fn host(results: &Results) -> Vec<Row> {
    let of = |figure: &dyn Fn(Platform) -> Known<f64>| results.host().and_then(figure);
    let peak = of(&|at| Ok(8.0 * results.peak_gbps(at)?));
    let read = of(&|at| Ok(1e-3 * results.read_ns(at, false, SMALL)?));
    let fetch_and_add = of(&|at| Ok(1e-3 * results.fetch_and_add_ns(at)?));
    vec![
        row("runtime: max BW", peak, "Gbit/s"),
        row("runtime: read RTT", read, "us"),
        row("runtime: fetch-and-add", fetch_and_add, "us"),
        row("runtime: IOPS", of(&|at| results.read_mops(at, false, SMALL)), "Mops/s"),
    ]
}

fn pagerank(results: &Results) -> Vec<Row> {
    let of = |name| results.of_graph(Model, MOST_NODES, name);
    vec![
        row("vertices", of("vertices"), ""),
        row("edges", of("edges"), ""),
        row("edges of the largest of 8 parts over the mean", of("imbalance"), "x"),
    ]
}
