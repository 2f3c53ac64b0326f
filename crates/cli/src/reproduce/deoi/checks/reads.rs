//! Figure 4: random remote reads, layer by layer.

use super::{Check, Known, Results, check, number};
use crate::reproduce::deoi::experiment::Place::{Local, Remote};
use crate::reproduce::deoi::results::Layer::{self, Link, Master, Physical, Routing, Slave};
use crate::reproduce::tolerance::Class::{Component, Exact, Order, Ratio, Total};
use crate::reproduce::verdict::Finding;

fn total(results: &Results) -> Known<Finding> {
    number(results.read_ns(Remote).map(|ns| ns / 1000.0))
}

fn layer(results: &Results, layer: Layer) -> Known<Finding> {
    number(results.layer_ns(layer))
}

fn share(results: &Results, layers: &[Layer]) -> Known<Finding> {
    let mut sum = 0.0;
    for &layer in layers {
        sum += results.layer_ns(layer)?;
    }
    number(Ok(100.0 * sum / results.read_ns(Remote)?))
}

fn over_local(results: &Results) -> Known<Finding> {
    number(Ok(results.read_ns(Remote)? / results.read_ns(Local)?))
}

/// Cycles in which all slots of the table are compared.
fn lookup_cycles(results: &Results) -> Known<Finding> {
    let slots = results.number("extension.amt_slots")?;
    number(Ok((slots / results.number("extension.amt_slots_per_cycle")?).ceil()))
}

/// The largest and the smallest component of the four on the critical path: one way of the link.
fn balance(results: &Results) -> Known<Finding> {
    let all = [
        results.layer_ns(Master)?,
        results.layer_ns(Slave)?,
        results.layer_ns(Link)? / 2.0,
        results.layer_ns(Physical)?,
        results.read_ns(Local)?,
    ];
    let most = all.into_iter().fold(0.0, f64::max);
    let half = results.read_ns(Remote)? / 2.0;
    Ok(Finding::fact(most < half).remark(format!(
        "the largest of five components takes {most:.0} ns of {:.0} ns: none is a bottleneck",
        2.0 * half
    )))
}

const SHARES: &str =
    "the printed shares count 224.0 ns once for each direction, 185.2 ns once for both";

pub(super) const CHECKS: &[Check] = &[
    check("abstract/remote-read-latency", Total, total),
    check("fig4/total/round-trip", Total, total),
    check("fig4/transaction-layer/master", Component, |r| layer(r, Master)),
    check("fig4/transaction-layer/slave", Component, |r| layer(r, Slave)),
    check("fig4/transaction-layer/share", Ratio, |r| share(r, &[Master, Slave])),
    check("fig4/routing-layer/latency", Component, |r| layer(r, Routing)),
    check("fig4/routing-layer/cycles", Exact, lookup_cycles),
    check("fig4/link-layer/latency", Component, |r| number(Ok(r.layer_ns(Link)? / 2.0)))
        .reading(SHARES),
    check("fig4/link-layer/share", Ratio, |r| share(r, &[Link])).reading(SHARES),
    check("fig4/physical-layer/latency", Component, |r| layer(r, Physical)).reading(SHARES),
    check("fig4/physical-layer/share", Ratio, |r| share(r, &[Physical])).reading(SHARES),
    check("fig4/accounted", Total, |r| {
        let layers = [Master, Slave, Link, Physical];
        let sum: Known<f64> = layers.into_iter().map(|layer| r.layer_ns(layer)).sum();
        number(sum)
    }),
    check("fig4/local-access", Ratio, |r| number(r.read_ns(Local))),
    check("fig4/remote-over-local", Ratio, over_local),
    check("intro/remote-over-local", Ratio, over_local),
    check("fig4/balance", Order, balance)
        .reading("no component is more than half of the whole, as the paper's are not"),
];
