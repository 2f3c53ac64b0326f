//! Results of the runs that the paper does not print in words.

use super::experiment::Card::{Receive, Send};
use super::experiment::Place::{Local, Remote};
use super::experiment::{EXTRA, Experiment, LATENCIES, Trial, VALUES};
use super::parts;
use super::results::{Known, Layer, Results};
use crate::reproduce::paper::{Part, Row, Rows};

/// All, by the part of the paper that they are shown with.
pub const ALL: &[(Part, Rows<Experiment>)] =
    &[(parts::FIG4, reads), (parts::FIG5, card), (parts::FIG7, capacity), (parts::FIG8, gains)];

fn row(name: impl Into<String>, value: Known<f64>, unit: &'static str) -> Row {
    (name.into(), value, unit)
}

fn reads(results: &Results) -> Vec<Row> {
    let on_host = |figure| results.on_host(Trial::Reads, figure);
    vec![
        row("on-chip interconnect and memory", results.layer_ns(Layer::Memory), "ns"),
        row("program, caches and ports", results.layer_ns(Layer::Software), "ns"),
        row("runtime: random read, local", on_host("local"), "ns"),
        row("runtime: random read, remote", on_host("remote"), "ns"),
        row("runtime: of it, from the fault to the page", on_host("page-in"), "ns"),
        row("runtime: page of the lender, without paging", on_host("lane"), "ns"),
    ]
}

fn card(results: &Results) -> Vec<Row> {
    let bytes = 16 << 10;
    vec![
        row("outbound, local card, calls of 16 KB", results.mbps(Send, Local, bytes), "Mbps"),
        row("inbound, local card, calls of 16 KB", results.mbps(Receive, Local, bytes), "Mbps"),
        row("message of 1 byte, local card", results.ping_pong_us(Local, 1), "us"),
        row("message of 1 byte, remote card", results.ping_pong_us(Remote, 1), "us"),
    ]
}

fn capacity(results: &Results) -> Vec<Row> {
    let of = |mb| results.key_value(Experiment::extra(mb));
    let mut rows = vec![
        row("without additional memory", of(0).map(|report| report.gets_per_second), "GET/s"),
        row("its hits", of(0).map(|report| report.hit_ratio * 100.0), "%"),
        row("with 512 MB more", of(512).map(|report| report.gets_per_second), "GET/s"),
        row("its hits", of(512).map(|report| report.hit_ratio * 100.0), "%"),
    ];
    rows.extend(EXTRA.map(|mb| {
        let name = format!("runtime: {mb} / 256 MB more");
        row(name, results.gets_on_host(mb), "GET/s")
    }));
    rows
}

fn gains(results: &Results) -> Vec<Row> {
    let mut all = vec![];
    for value in VALUES {
        for latency in LATENCIES {
            all.push(row(format!("{value} B, {latency} us"), results.gain(value, latency), "x"));
        }
    }
    for value in VALUES {
        for latency in LATENCIES {
            let gain = results.gain_on_host(value, latency);
            all.push(row(format!("runtime: {value} B, {latency} us"), gain, "x"));
        }
    }
    all
}
