//! Results of the runs that the paper does not print in words.

use super::experiment::Kernel::{B1, B2, B3, B4};
use super::experiment::Mechanism::{Dma, Load, Store};
use super::experiment::Place::{Local, Remote};
use super::experiment::{
    APPLICATIONS, BLOCKS, Changes, DEGREE, Experiment, Kernel, OUTSTANDING, Policy, Trial,
};
use super::parts;
use super::results::{Known, Results};
use crate::reproduce::paper::{Part, Row, Rows};
use crate::reproduce::runtime::kernels::DEGREES;
use crate::reproduce::runtime::messages::{self, Figure, SIZES};
use crate::reproduce::runtime::transfers;
use crate::reproduce::runtime::window::OUTSTANDING as OUTSTANDING_ON_HOST;

/// All, by the part of the paper that they are shown with.
pub const ALL: &[(Part, Rows<Experiment>)] = &[
    (parts::TABLE2, table2),
    (parts::FIG5, fig5),
    (parts::FIG8, fig8),
    (parts::FIG9, fig9),
    (parts::QPAIR, qpair),
];

fn row(name: String, value: Known<f64>, unit: &'static str) -> Row {
    (name, value, unit)
}

/// Bandwidths of the runtime, way by way.
fn table2(results: &Results) -> Vec<Row> {
    let mut rows = Vec::new();
    for mechanism in [Load, Store, Dma] {
        for (_, bytes) in BLOCKS {
            let name = transfers::name(mechanism.name(), bytes as usize);
            let found = results.on_host(Trial::Transfers, &name);
            rows.push(row(format!("runtime: {name}"), found, "MB/s"));
        }
    }
    rows
}

/// Latencies and bandwidths of the runtime, way by way.
fn qpair(results: &Results) -> Vec<Row> {
    let mut rows = Vec::new();
    for (figure, unit) in [(Figure::Latency, "us"), (Figure::Bandwidth, "MB/s")] {
        for way in ["qpair", "tcp"] {
            for bytes in SIZES {
                let name = messages::name(way, figure, bytes);
                let found = results.on_host(Trial::Messages, &name);
                rows.push(row(format!("runtime: {name}"), found, unit));
            }
        }
    }
    rows
}

/// Slowdowns over local memory.
fn fig5(results: &Results) -> Vec<Row> {
    let slowdown =
        |kernel| Ok(results.on_prototype(kernel, Remote)? / results.on_prototype(kernel, Local)?);
    let of = |kernel: Kernel| row(format!("{}, slowdown", kernel.name()), slowdown(kernel), "x");
    let mut rows: Vec<Row> = [B1, B2, B3, B4].into_iter().map(of).collect();
    rows.extend([B1, B2, B3, B4].map(|kernel| {
        let slowdown = results.on_host(Trial::Slowdowns, kernel.name());
        row(format!("runtime: {}, slowdown", kernel.name()), slowdown, "x")
    }));
    rows
}

fn fig8(results: &Results) -> Vec<Row> {
    let mut rows = Vec::new();
    for kernel in [B1, B2, B3, B4] {
        let slowdown = |policy, outstanding| {
            let local = results.on_simulator(kernel, Local, Changes::default())?;
            Ok(results.borrowed(kernel, policy, outstanding)? / local)
        };
        let name = kernel.name();
        let through = slowdown(Policy::Invalidate, OUTSTANDING[1]);
        rows.push(row(format!("{name}, write-through, slowdown"), through, "x"));
        for outstanding in OUTSTANDING {
            let name = format!("{name}, write-back, {outstanding} outstanding, slowdown");
            rows.push(row(name, slowdown(Policy::WriteBack, outstanding), "x"));
        }
    }
    rows.extend(OUTSTANDING_ON_HOST.map(|outstanding| {
        let rate = results.on_host(Trial::Outstanding, &outstanding.to_string());
        row(format!("runtime: random pages, {outstanding} outstanding"), rate, "reads per ms")
    }));
    rows
}

fn fig9(results: &Results) -> Vec<Row> {
    let of = |kernel: Kernel| {
        let name = format!("{}, speed-up with degree {DEGREE}", kernel.name());
        row(name, results.speedup(kernel, Remote, DEGREE), "x")
    };
    let mut rows: Vec<Row> = APPLICATIONS.into_iter().map(of).collect();
    rows.extend(DEGREES.map(|degree| {
        let time = results.on_host(Trial::Prefetching, &degree.to_string());
        row(format!("runtime: sequential, {degree} pages ahead"), time, "ns per page")
    }));
    rows
}
