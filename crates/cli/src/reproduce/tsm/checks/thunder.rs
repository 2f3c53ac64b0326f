//! Section 4.2, Table 4 and figures 10 and 11: the customised protocol, its machine and its queue pairs.

use super::{Check, Known, Results, check, number};
use crate::reproduce::tolerance::Class::{
    Bandwidth, Bound, Exact, Order, Overhead, Ratio, Rounded, UpTo,
};
use crate::reproduce::tsm::thunder::Way::{self, Cached, CachedMmu, Ethernet, OcmMmu, Uncached};
use crate::reproduce::tsm::thunder::{LARGE, QUEUE_PAIRS, SIZES, SMALL};
use crate::reproduce::verdict::Finding;

fn setting(results: &Results, path: &str, factor: f64) -> Known<Finding> {
    number(results.thunder_number(path).map(|value| value * factor))
}

/// Transfers a second of a speed grade.
fn rate(results: &Results) -> Known<Finding> {
    let grade = results.thunder_word("dram", "grade")?;
    let digits = grade.strip_prefix("ddr3-").and_then(|digits| digits.parse().ok());
    number(digits.ok_or_else(|| format!("{grade} is no speed grade")))
}

fn coding(results: &Results) -> Known<Finding> {
    let code = results.thunder_word("extension", "line_code")?;
    number(Ok(if code == "8b10b" { 80.0 } else { 6400.0 / 66.0 }))
}

/// Both protocol engines, both transceivers and the cable.
fn link_latency(results: &Results) -> Known<Finding> {
    let of = |key| results.thunder_number(&format!("extension.{key}"));
    let period_ns = of("lane_bytes")? * 10.0 / of("lane_gbps")?;
    let cycles = of("link_cycles")? + of("transceiver_cycles")?;
    number(Ok((cycles * period_ns + of("flight_ns")?) / 1000.0))
}

fn latency(results: &Results, left: Way, right: Way) -> Known<Finding> {
    let of = |way| results.message_us(way, SMALL);
    Ok(Finding::sides(of(left)?, of(right)?).unit("us"))
}

fn bandwidth(results: &Results, left: Way, right: Way, bytes: u32) -> Known<Finding> {
    let of = |way| results.message_mb_per_s(way, bytes);
    Ok(Finding::sides(of(left)?, of(right)?).unit("MB/s"))
}

/// The best of all others, Ethernet too.
fn others(of: impl Fn(Way) -> Known<f64>, better: fn(f64, f64) -> f64) -> Known<f64> {
    let mut best = of(Ethernet)?;
    for way in QUEUE_PAIRS.into_iter().filter(|&way| way != OcmMmu) {
        best = better(best, of(way)?);
    }
    Ok(best)
}

fn lowest_latency(results: &Results) -> Known<Finding> {
    let of = |way| results.message_us(way, SMALL);
    Ok(Finding::sides(of(OcmMmu)?, others(of, f64::min)?)
        .unit("us")
        .remark("right: the best of the others"))
}

fn highest_bandwidth(results: &Results) -> Known<Finding> {
    let of = |way| results.message_mb_per_s(way, LARGE);
    Ok(Finding::sides(of(OcmMmu)?, others(of, f64::max)?)
        .unit("MB/s")
        .remark("right: the best of the others"))
}

/// Mean over all packet sizes of what on-chip memory and translation gain, in per cent.
fn gain(results: &Results) -> Known<Finding> {
    let mut sum = 0.0;
    for bytes in SIZES {
        let of = |way| results.message_mb_per_s(way, bytes);
        sum += of(OcmMmu)? / of(Cached)? - 1.0;
    }
    number(Ok(100.0 * sum / SIZES.len() as f64))
}

/// Without the library of the receiver.
fn until_received(results: &Results) -> Known<Finding> {
    let library_us = results.thunder_number("qpair.library_ns")? / 1000.0;
    number(Ok(results.message_us(OcmMmu, SMALL)? - library_us))
}

fn software(results: &Results) -> Known<Finding> {
    let software = results.library_us(OcmMmu, SMALL)?;
    Ok(Finding::sides(software, results.message_us(OcmMmu, SMALL)? - software).unit("us"))
}

pub(super) const THUNDER: &[Check] = &[
    check("table4/cpu-clock", Exact, |r| setting(r, "soc.core_mhz", 1.0)),
    check("table4/memory-rate", Exact, rate),
    check("table4/ocm", Exact, |r| setting(r, "qpair.ocm_bytes", 1.0 / 1024.0)),
    check("table4/link-rate", Exact, |r| setting(r, "extension.lane_gbps", 1.0)),
    check("table4/link-coding", Exact, coding),
    check("fpga/link-latency", Rounded, link_latency),
    check("fpga/cores", Exact, |r| setting(r, "soc.cores", 1.0)),
    check("fpga/nodes", Exact, |r| setting(r, "extension.nodes", 1.0)),
    check("fpga/switch-radix", Exact, |r| setting(r, "extension.switch_ports", 1.0)),
    check("fpga/qpair-connections", UpTo, |r| setting(r, "qpair.connections", 1.0)),
];

pub(super) const QPAIR: &[Check] = &[
    check("qpair/ocm-mmu/latency-64b", Rounded, |r| number(r.message_us(OcmMmu, SMALL)))
        .reading("one way, half a round trip"),
    check("qpair/ocm-mmu/latency-vs-gige", Ratio, |r| {
        number(Ok(r.message_us(Ethernet, SMALL)? / r.message_us(OcmMmu, SMALL)?))
    }),
    check("qpair/latency-hw", Rounded, until_received).reading(
        "from the socket call to the message in its buffer: without the receiver's library",
    ),
    check("qpair/ocm-mmu/bandwidth-vs-gige", Bound, |r| {
        let of = |way| r.message_mb_per_s(way, LARGE);
        number(Ok(of(OcmMmu)? / of(Ethernet)?))
    }),
    check("qpair/gige/bandwidth", Bandwidth, |r| number(r.message_mb_per_s(Ethernet, LARGE))),
    check("qpair/ocm-mmu/bandwidth-vs-cache", Overhead, gain)
        .reading("the packet size is not said: the mean over all"),
    check("qpair/order/ocm-mmu-lowest-latency", Order, lowest_latency),
    check("qpair/order/ocm-mmu-highest-bandwidth", Order, highest_bandwidth),
    check("qpair/order/cached-vs-uncached-latency", Order, |r| latency(r, Cached, Uncached)),
    check("qpair/order/cached-vs-uncached-bandwidth", Order, |r| {
        bandwidth(r, Cached, Uncached, LARGE)
    }),
    check("qpair/order/mmu-improves", Order, |r| bandwidth(r, CachedMmu, Cached, LARGE))
        .reading("bandwidth of the largest packets"),
    check("qpair/order/ocm-above-cache-large", Order, |r| bandwidth(r, OcmMmu, CachedMmu, LARGE)),
    check("qpair/ocm-vs-l2", Order, |r| latency(r, OcmMmu, CachedMmu))
        .reading("as messages of 64 B see it, whose buffers are in either"),
    check("qpair/ocm-vs-dram-bandwidth", Order, |r| bandwidth(r, OcmMmu, Uncached, LARGE)),
    check("qpair/ocm-vs-dram-latency", Order, |r| latency(r, OcmMmu, Uncached)),
    check("qpair/ocm/max-packet", Bound, |r| {
        let of = |key| r.thunder_number(&format!("qpair.{key}"));
        number(Ok((of("ocm_bytes")? - of("ocm_reserved_bytes")?) / 1024.0))
    }),
    check("qpair/l2-hit-limit", Bound, |r| {
        number(Ok((r.thunder_number("qpair.l2_message_bytes")? + 1.0) / 1024.0))
    })
    .reading("the smallest packet whose data may miss"),
    check("qpair/param/configurations", Exact, |_| Ok(Finding::number(QUEUE_PAIRS.len() as f64))),
    check("qpair/order/software-dominates", Order, software),
];
