//! Claims that the runtime of this host shows, too: orderings and ratios.

use super::{Check, Finding, Known, Results, check};
use crate::reproduce::runtime::kernels::DEGREES;
use crate::reproduce::runtime::messages::{self, Figure};
use crate::reproduce::runtime::transfers;
use crate::reproduce::runtime::window::OUTSTANDING;
use crate::reproduce::tolerance::Class::Host;
use crate::reproduce::tsm::experiment::Mechanism::{self, Dma, Load, Store};
use crate::reproduce::tsm::experiment::{BLOCKS, DEGREE, Trial};

/// A finding, if this host lets the runtime measure.
fn on_host(results: &Results, measure: impl FnOnce() -> Known<Finding>) -> Known<Finding> {
    match &results.setting.host {
        Ok(()) => measure(),
        Err(why) => Ok(Finding::nothing(why)),
    }
}

/// A benchmark's time in borrowed memory over that in local memory.
fn slowdown(results: &Results, benchmark: &str, remark: &str) -> Known<Finding> {
    on_host(results, || {
        let sides = Finding::sides(results.on_host(Trial::Slowdowns, benchmark)?, 1.0);
        Ok(sides
            .unit("x")
            .remark(format!("time in borrowed memory over that in local memory; {remark}")))
    })
}

fn reads_per_ms(results: &Results, outstanding: usize) -> Known<f64> {
    results.on_host(Trial::Outstanding, &outstanding.to_string())
}

/// Sixteen reads against one.
fn more_at_once(results: &Results) -> Known<Finding> {
    on_host(results, || {
        let of = |outstanding| reads_per_ms(results, outstanding);
        Ok(Finding::sides(of(OUTSTANDING[1])?, of(OUTSTANDING[0])?)
            .unit("reads per ms")
            .remark("random pages, 16 or 1 of which are asked for ahead of their answers"))
    })
}

/// The same as a ratio.
fn gain_of_more(results: &Results) -> Known<Finding> {
    on_host(results, || {
        let of = |outstanding| reads_per_ms(results, outstanding);
        Ok(Finding::number(of(OUTSTANDING[1])? / of(OUTSTANDING[0])?)
            .remark("random pages, 16 of which are asked for ahead of their answers, over 1"))
    })
}

/// Sixteen reads against as many as there may be.
fn sixteen_are_enough(results: &Results) -> Known<Finding> {
    on_host(results, || {
        let of = |outstanding| reads_per_ms(results, outstanding);
        let [_, some, most] = OUTSTANDING;
        Ok(Finding::sides(of(some)?, of(most)?).unit("reads per ms").remark(format!(
            "{most}, the most that a lane may have outstanding, stand for 1024; over sockets requests that are \
             under way together share system calls and wake-ups, which hardware does without, so that more go on \
             to help where nothing waits for a wire"
        )))
    })
}

/// Speedup over a run without prefetching.
fn speedup(results: &Results, degree: usize) -> Known<f64> {
    let of = |degree: usize| results.on_host(Trial::Prefetching, &degree.to_string());
    Ok(of(0)? / of(degree)?)
}

/// A sequential pass with prefetching, over the same without.
fn prefetched(results: &Results) -> Known<Finding> {
    on_host(results, || {
        let degree = DEGREE as usize - 1;
        Ok(Finding::number(speedup(results, degree)?)
            .remark(format!("a sequential pass over borrowed pages, {degree} of them ahead")))
    })
}

/// The largest degree against the smallest one.
fn degree_helps(results: &Results) -> Known<Finding> {
    on_host(results, || {
        let most = DEGREES[DEGREES.len() - 1];
        Ok(Finding::sides(speedup(results, most)?, speedup(results, 1)?)
            .unit("x")
            .remark(format!("speed-up of a sequential pass with {most} pages ahead, and with 1")))
    })
}

fn bandwidth(results: &Results, mechanism: Mechanism, bytes: u32) -> Known<f64> {
    results.on_host(Trial::Transfers, &transfers::name(mechanism.name(), bytes as usize))
}

/// The most of the ratios of loads to the slower of both others, over all blocks.
fn loads_are_slow(results: &Results) -> Known<Finding> {
    on_host(results, || {
        let mut most = 0.0_f64;
        for (_, bytes) in BLOCKS {
            let of = |mechanism| bandwidth(results, mechanism, bytes);
            most = most.max(of(Load)? / of(Store)?.min(of(Dma)?));
        }
        Ok(Finding::sides(most, 1.0).unit("x").remark(
            "reads of 64 bytes of the lender, one after the other, over the slower of writes of 64 bytes, which \
             are not waited for, and of whole blocks; the most of all block sizes",
        ))
    })
}

/// The largest and the smallest block by loads.
fn loads_are_flat(results: &Results) -> Known<Finding> {
    on_host(results, || {
        let of = |bytes| bandwidth(results, Load, bytes);
        let (smallest, largest) = (BLOCKS[0].1, BLOCKS[BLOCKS.len() - 1].1);
        Ok(Finding::sides(of(largest)?, of(smallest)?).unit("MB/s").remark(
            "reads of 64 bytes of the lender, one after the other: the largest and the smallest block",
        ))
    })
}

/// One way for blocks of a size against another.
fn faster(results: &Results, ways: [Mechanism; 2], bytes: u32) -> Known<Finding> {
    on_host(results, || {
        let [left, right] = ways;
        let sides =
            Finding::sides(bandwidth(results, left, bytes)?, bandwidth(results, right, bytes)?);
        Ok(sides.unit("MB/s").remark(
            "writes of 64 bytes, which are not waited for, and whole blocks, up to eight of which are under way: of \
             all block sizes the smallest and the largest are judged, as where they cross is the host's",
        ))
    })
}

fn message(results: &Results, way: &str, figure: Figure, bytes: usize) -> Known<f64> {
    results.on_host(Trial::Messages, &messages::name(way, figure, bytes))
}

const STACK: &str =
    "two threads of this host by a queue pair, and by TCP, which stands for the paper's Ethernet";

/// TCP's latency over a queue pair's.
fn sooner(results: &Results) -> Known<Finding> {
    on_host(results, || {
        let of = |way| message(results, way, Figure::Latency, 64);
        Ok(Finding::number(of("tcp")? / of("qpair")?).remark(STACK))
    })
}

/// A queue pair's bandwidth over TCP's, with the largest messages.
fn more(results: &Results) -> Known<Finding> {
    on_host(results, || {
        let of = |way| message(results, way, Figure::Bandwidth, 128 << 10);
        Ok(Finding::number(of("qpair")? / of("tcp")?).remark(STACK))
    })
}

pub(super) const TABLE2: &[Check] = &[
    check("table2/order/load-below-all", Host, loads_are_slow),
    check("table2/order/load-flat", Host, loads_are_flat),
    check("table2/order/store-above-dma/64", Host, |r| faster(r, [Store, Dma], 64)),
    check("table2/order/dma-above-store/1m", Host, |r| faster(r, [Dma, Store], 1 << 20)),
];

pub(super) const QPAIR: &[Check] = &[
    check("qpair/ocm-mmu/latency-vs-gige", Host, sooner),
    check("qpair/ocm-mmu/bandwidth-vs-gige", Host, more),
];

pub(super) const FIG5: &[Check] = &[
    check("fig5/order/b1-remote-about-local", Host, |r| {
        slowdown(r, "b1", "it fits into the local cache")
    }),
    check("fig5/order/b3-remote-about-local", Host, |r| {
        slowdown(
            r,
            "b3",
            "a page is read hundreds of times before the next, and pages come ahead of need",
        )
    }),
    check("fig5/order/b4-remote-slower", Host, |r| {
        slowdown(r, "b4", "eight times the local cache")
    }),
];

pub(super) const FIG8: &[Check] = &[
    check("fig8/order/larger-orq-better", Host, more_at_once),
    check("fig8/b4/orq16-over-orq1", Host, gain_of_more),
    check("fig8/order/orq16-equals-orq1024", Host, sixteen_are_enough),
];

pub(super) const FIG9: &[Check] = &[
    check("fig9/b3/prefetch5", Host, prefetched),
    check("fig9/order/b3-degree-helps", Host, degree_helps),
];
