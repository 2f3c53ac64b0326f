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

/// Fetch-and-add and a read on the model. Those of the runtime are told, but not judged by: whoever
/// else is busy on this host decides which of them takes longer.
fn alike(results: &Results) -> Known<Finding> {
    let finding = Finding::sides(1e-3 * results.fetch_and_add_ns(Model)?, read_us(results)?);
    let Ok(host) = results.host() else { return Ok(finding) };
    let (left, right) = (results.fetch_and_add_ns(host)?, results.read_ns(host, false, SMALL)?);
    let remark = format!("on the runtime {:.3} : {:.3}", 1e-3 * left, 1e-3 * right);
    Ok(finding.remark(remark))
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
