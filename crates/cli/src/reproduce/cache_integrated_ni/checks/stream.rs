//! Figure 8: STREAM triad.

use super::{Check, check, number};
use crate::reproduce::cache_integrated_ni::experiment::BUFFER;
use crate::reproduce::cache_integrated_ni::experiment::Buffers::{self, Of};
use crate::reproduce::cache_integrated_ni::experiment::Mechanism::{Dma, Stores};
use crate::reproduce::cache_integrated_ni::results::{Known, Results};
use crate::reproduce::tolerance::Class::{Bound, Exact, Order, Range, Ratio};
use crate::reproduce::verdict::Finding;

/// Part of the maximum that counts as saturation.
const SATURATED: f64 = 0.9;

/// The paper's buffers.
const THREE: Buffers = Of(3, BUFFER);

/// Reading of saturation by buffers.
const KNEE: &str = "the fewest buffers of 1 KB with which nine tenths are reached of what more of them \
                    give";

/// Reading of saturation by cores.
const OF_FEASIBLE: &str = "nine tenths of what copies give if nothing is computed";

/// Feasible bandwidth of copies over that of remote stores: on chip and off chip.
fn ratios(results: &Results) -> Known<(f64, f64)> {
    let of = |servers| {
        Ok::<f64, String>(results.feasible(servers, Dma)? / results.feasible(servers, Stores)?)
    };
    Ok((of(1)?, of(0)?))
}

fn places(on_chip: f64, off_chip: f64) -> String {
    format!("on chip {on_chip:.1}x, off chip {off_chip:.1}x")
}

/// The fewest buffers with which no more is gained by others; and what part of the feasible maximum
/// that is.
fn knee(results: &Results, servers: u16) -> Known<(f64, String)> {
    let of = |buffers| results.stream(4 - servers, servers, Dma, Of(buffers, BUFFER));
    let mut all = Vec::new();
    for &buffers in results.effort.buffers() {
        all.push((buffers, of(buffers)?));
    }
    let most = all.iter().map(|&(_, rate)| rate).fold(0.0, f64::max);
    let enough = |&&(_, rate): &&(u32, f64)| rate >= SATURATED * most;
    let (buffers, rate) = *all.iter().find(enough).ok_or("no bandwidth")?;
    let part = 100.0 * rate / results.feasible(servers, Dma)?;
    Ok((
        f64::from(buffers),
        format!("{rate:.2} bytes per cycle, {part:.0} % of the feasible maximum"),
    ))
}

/// The fewest buffers for both places.
fn space(results: &Results) -> Known<Finding> {
    let ((on, _), (off, _)) = (knee(results, 1)?, knee(results, 0)?);
    Ok(Finding::number(on.max(off)).remark(format!("on chip {on} KB, off chip {off} KB")))
}

fn buffers(results: &Results, servers: u16) -> Known<Finding> {
    let (buffers, remark) = knee(results, servers)?;
    Ok(Finding::number(buffers).remark(remark))
}

/// The fewest cores that reach nine tenths of the feasible maximum with three buffers.
fn cores(results: &Results, servers: u16) -> Known<Finding> {
    let feasible = results.feasible(servers, Dma)?;
    let mut found = None;
    let mut rate = 0.0;
    for streaming in 1..=4 - servers {
        rate = results.stream(streaming, servers, Dma, THREE)?;
        if found.is_none() && rate >= SATURATED * feasible {
            found = Some(f64::from(streaming));
        }
    }
    let remark = format!("all of them: {rate:.2} of {feasible:.2} bytes per cycle");
    let finding = found.map_or(Finding::fact(false), Finding::number);
    Ok(finding.remark(remark))
}

pub(super) const CHECKS: &[Check] = &[
    check("stream/max-bandwidth/dma-over-remote-store/min", Range, |r| {
        let (on, off) = ratios(r)?;
        Ok(Finding::number(on.min(off)).remark(places(on, off)))
    }),
    check("stream/max-bandwidth/dma-over-remote-store/max", Range, |r| {
        let (on, off) = ratios(r)?;
        Ok(Finding::number(on.max(off)).remark(places(on, off)))
    }),
    check("stream/order/dma-above-remote-store", Order, |r| {
        let (on, off) = ratios(r)?;
        Ok(Finding::sides(on.min(off), 1.0).unit("x").remark(places(on, off)))
    }),
    check("stream/remote-store/instructions-per-word", Ratio, |r| number(r.stores_per_word())),
    check("stream/off-chip/saturation-cores", Exact, |r| cores(r, 0)).reading(OF_FEASIBLE),
    check("stream/off-chip/saturation-buffers", Exact, |r| buffers(r, 0)).reading(KNEE),
    check("stream/on-chip/saturation-cores", Exact, |r| cores(r, 1)).reading(OF_FEASIBLE),
    check("stream/on-chip/saturation-buffers", Exact, |r| buffers(r, 1)).reading(KNEE),
    check("stream/buffer-space/min", Exact, space).reading(KNEE),
    check("stream/buffer-space/max", Bound, space).reading(KNEE),
    check("intro/buffer-space", Exact, space).reading(KNEE),
    check("conclusion/rdma-saturation", Exact, |r| {
        let (rate, feasible) = (r.stream(3, 1, Dma, THREE)?, r.feasible(1, Dma)?);
        let remark = format!("{rate:.2} of {feasible:.2} bytes per cycle");
        let saturates = rate >= SATURATED * feasible;
        let finding = if saturates { Finding::number(3.0) } else { Finding::fact(false) };
        Ok(finding.remark(remark))
    })
    .reading(OF_FEASIBLE),
];
