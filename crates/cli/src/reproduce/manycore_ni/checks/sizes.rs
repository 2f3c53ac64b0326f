//! Figure 6 and section 6.1.3: latency by size, unloaded.

use super::{Check, check, number};
use crate::reproduce::manycore_ni::experiment::{Design, Experiment};
use crate::reproduce::manycore_ni::results::{Known, Results};
use crate::reproduce::tolerance::Class::{Component, Order};
use crate::reproduce::verdict::Finding;

/// The largest size of Figure 6.
const LARGEST: u32 = 16384;

fn at(results: &Results, design: Design, bytes: u32) -> Known<f64> {
    match design {
        Design::Numa => results.numa_at(bytes),
        design => results.total(Experiment::latency(design, bytes)),
    }
}

/// Excess of the slowest of edge, split and NUMA over the fastest, in per cent.
fn spread(results: &Results, bytes: u32) -> Known<f64> {
    let designs = [Design::Edge, Design::Split, Design::Numa];
    let latencies: Known<Vec<f64>> =
        designs.iter().map(|&design| at(results, design, bytes)).collect();
    let latencies = latencies?;
    let most = latencies.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let least = latencies.iter().copied().fold(f64::INFINITY, f64::min);
    Ok(100.0 * (most / least - 1.0))
}

pub(super) const CHECKS: &[Check] = &[
    check("fig6/numa-projection", Component, |r| {
        let split = r.total(Experiment::latency(Design::Split, 64))?;
        number(Ok(split - r.numa()?.total()))
    }),
    check("fig6/edge-gap-shrinks", Order, |r| {
        Ok(Finding::sides(spread(r, LARGEST)?, spread(r, 64)?)
            .remark("slowest of edge, split and NUMA over the fastest, 16 KB against 64 B"))
    }),
    check("fig6/per-tile-highest-at-large", Order, |r| {
        let others = at(r, Design::Edge, LARGEST)?.max(at(r, Design::Split, LARGEST)?);
        let others = others.max(at(r, Design::Numa, LARGEST)?);
        Ok(Finding::sides(at(r, Design::PerTile, LARGEST)?, others)
            .remark("16 KB; right: the slowest of the others"))
    }),
    check("sec3-1/edge-amortises-with-size", Order, |r| {
        let over = |bytes| {
            Ok::<_, String>(100.0 * (at(r, Design::Edge, bytes)? / r.numa_at(bytes)? - 1.0))
        };
        Ok(Finding::sides(over(LARGEST)?, over(64)?).remark("over NUMA, 16 KB against 64 B"))
    }),
];
