//! Table 2 and section 7.4: against InfiniBand.

use super::reads::{PRACTICALLY, op_rate, uses_memory};
use super::{Check, check, number};
use crate::reproduce::sonuma::experiment::Platform::Model;
use crate::reproduce::sonuma::experiment::SMALL;
use crate::reproduce::sonuma::results::{Known, Results};
use crate::reproduce::tolerance::Class::{Bandwidth, Order, Ratio, Reaches, Rounded};
use crate::reproduce::verdict::Finding;

fn read_us(results: &Results) -> Known<f64> {
    Ok(1e-3 * results.small_read_ns(Model)?)
}

/// Fetch-and-add and a read on the same platform; of model and runtime, where they differ more.
fn alike(results: &Results) -> Known<Finding> {
    let model = (results.fetch_and_add_ns(Model)?, results.small_read_ns(Model)?);
    let mut all = vec![(model, "on the model")];
    if let Ok(host) = results.host() {
        let runtime = (results.fetch_and_add_ns(host)?, results.read_ns(host, false, SMALL)?);
        all.push((runtime, "on the runtime"));
    }
    let apart = |(left, right): (f64, f64)| (left / right).ln().abs();
    let worst = all.into_iter().max_by(|a, b| apart(a.0).total_cmp(&apart(b.0)));
    let ((left, right), place) = worst.ok_or("no platform")?;
    Ok(Finding::sides(1e-3 * left, 1e-3 * right).remark(format!("{place}, where it is less so")))
}

pub(super) const CHECKS: &[Check] = &[
    check("table2/hw/max-bw", Bandwidth, |r| number(r.peak_gbps(Model).map(|gbps| 8.0 * gbps))),
    check("table2/hw/read-rtt", Rounded, |r| number(read_us(r))),
    check("table2/hw/fetch-and-add", Rounded, |r| {
        number(r.fetch_and_add_ns(Model).map(|ns| 1e-3 * ns))
    }),
    check("table2/hw/iops", Bandwidth, op_rate),
    check("sec7-4/latency-vs-rdma", Ratio, |r| {
        let rdma = r.published("table2/rdma/read-rtt")?;
        Ok(Finding::number(rdma / read_us(r)?)
            .remark(format!("InfiniBand as published, {rdma} us, over the model")))
    }),
    check("sec7-4/peak-memory-bandwidth", Reaches, uses_memory).reading(PRACTICALLY),
    check("sec7-4/per-core-ops", Bandwidth, op_rate),
    check("sec7-4/faa-equals-read", Order, alike),
];
