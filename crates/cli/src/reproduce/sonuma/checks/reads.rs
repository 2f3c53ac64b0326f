//! Figure 7 and section 7.2: remote reads; and the headlines that rest on them.

use super::parameters::nominal_gbps;
use super::{Check, check, number, on_host};
use crate::reproduce::sonuma::experiment::Platform::{Host, Model};
use crate::reproduce::sonuma::experiment::{LARGE, SMALL};
use crate::reproduce::sonuma::results::{Known, Results};
use crate::reproduce::tolerance::Class::{Bandwidth, Bound, Exact, Order, Ratio, Reaches, Rounded};
use crate::reproduce::verdict::Finding;

/// The paper's practical maximum of a DDR3 channel: 9.6 of 12.8 GB/s (section 7.2).
const PRACTICAL: f64 = 0.75;

/// A small fraction is less than this.
const SMALL_FRACTION: f64 = 0.1;

/// Reading of "local DRAM".
const LOCAL_DRAM: &str = "local DRAM is what section 7.2 calls so, caches and DRAM combined, 80 ns \
                          there and here as the RRPP of the model measures it; with the 60 ns of Table \
                          1 the paper's own 300 ns would be 5x";

/// Latency of a small read over the part of it that is the access to memory.
fn over_local(results: &Results) -> Known<Finding> {
    let (total, local) = (results.small_read_ns(Model)?, results.remote_memory_ns()?);
    Ok(Finding::number(total / local).remark(format!("{total:.0} ns over {local:.0} ns")))
}

/// The highest bandwidth against the practical one of a channel.
pub(super) fn uses_memory(results: &Results) -> Known<Finding> {
    let nominal = nominal_gbps(results)?;
    Ok(Finding::sides(results.peak_gbps(Model)?, PRACTICAL * nominal)
        .remark(format!("right: {PRACTICAL} of nominal {nominal:.1} GB/s")))
}

/// The reading of "the available bandwidth".
pub(super) const PRACTICALLY: &str = "section 7.2 calls 9.6 GB/s, three quarters of what the wires of \
                                      a DDR3-1600 channel carry, its practical maximum";

pub(super) fn op_rate(results: &Results) -> Known<Finding> {
    number(results.read_mops(Model, false, SMALL))
}

fn double_over_single(results: &Results) -> Known<Finding> {
    let of = |both, bytes| results.read_gbps(Model, both, bytes);
    let ratio = |bytes| Ok::<f64, String>(of(true, bytes)? / of(false, bytes)?);
    let remark = format!("8 KB; at 64 B {:.2}x", ratio(SMALL)?);
    Ok(Finding::number(ratio(LARGE)?).remark(remark))
}

pub(super) const CHECKS: &[Check] = &[
    check("fig7/buffer-exceeds-llc", Exact, |r| {
        let (region, llc) = (r.region_bytes()?, r.parameter("llc.size_bytes")?);
        Ok(Finding::fact(region > llc).remark("on the model; what is read is not cached at all"))
    }),
    check("fig7a/small-latency", Rounded, |r| number(r.small_read_ns(Model))),
    check("fig7a/remote-memory-part", Rounded, |r| number(r.remote_memory_ns())),
    check("fig7a/within-4x", Bound, over_local).reading(LOCAL_DRAM),
    check("abstract/remote-read-within-4x", Bound, over_local).reading(LOCAL_DRAM),
    check("sec10/within-4x", Bound, over_local).reading(LOCAL_DRAM),
    check("sec1/remote-vs-local-4x", Ratio, over_local).reading(LOCAL_DRAM),
    check("fig7a/double-vs-single", Order, |r| {
        let of = |both| r.read_ns(Model, both, LARGE);
        Ok(Finding::sides(of(true)?, of(false)?).remark("8 KB"))
    }),
    check("fig7b/op-rate-64b", Bandwidth, op_rate),
    check("abstract/op-rate-per-core", Bandwidth, op_rate),
    check("sec10/op-rate", Bandwidth, op_rate),
    check("fig7b/bandwidth-8kb", Bandwidth, |r| number(r.read_gbps(Model, false, LARGE)))
        .reading("printed as Gbps, but Table 2 has 77 Gbps, which is 9.6 GB/s"),
    check("fig7b/practical-maximum", Reaches, uses_memory).reading(PRACTICALLY),
    check("abstract/full-memory-bandwidth", Reaches, uses_memory).reading(PRACTICALLY),
    check("sec1/saturates-bandwidth", Reaches, uses_memory).reading(PRACTICALLY),
    check("fig7b/double-sided", Ratio, double_over_single),
    check("fig7b/small-fraction", Order, |r| {
        Ok(Finding::sides(r.read_gbps(Model, false, SMALL)?, SMALL_FRACTION * r.peak_gbps(Model)?)
            .remark("right: a tenth of the highest bandwidth"))
    })
    .reading("a small fraction is less than a tenth"),
    check("sec1/emulation-within-5x", Bound, |r| {
        on_host(r, |r| number(Ok(r.read_ns(Host, false, SMALL)? / r.small_read_ns(Model)?)))
    })
    .reading("the runtime with packets on this host, over the model"),
    check("fig7c/latency-grows", Order, |r| {
        on_host(r, |r| {
            let growth =
                |at| Ok::<f64, String>(r.read_ns(at, false, LARGE)? / r.read_ns(at, false, SMALL)?);
            let remark = format!(
                "8 KB against 64 B: {:.1}x here, {:.1}x on the model",
                growth(Host)?,
                growth(Model)?
            );
            let of = |bytes| Ok::<f64, String>(r.read_ns(Host, false, bytes)? * 1e-3);
            Ok(Finding::sides(of(LARGE)?, of(SMALL)?).remark(remark))
        })
    }),
];
