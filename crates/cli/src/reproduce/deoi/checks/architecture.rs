//! Section III and Table I: the structure of module and prototype.

use rackmem_sim::interconnect::INTERRUPT_LINES;

use super::{Check, Known, Results, check, number};
use crate::reproduce::tolerance::Class::{Bound, Exact, Order, UpTo};
use crate::reproduce::verdict::Finding;

fn setting(results: &Results, path: &str, factor: f64) -> Known<Finding> {
    number(results.number(path).map(|value| value * factor))
}

/// Hops between any two nodes, at most.
fn hops(results: &Results) -> Known<Finding> {
    let (nodes, topology) =
        (results.number("extension.nodes")?, results.word("extension.topology")?);
    number(Ok(if topology == "full" { 1.0 } else { nodes - 1.0 }))
}

/// Transfers a second of a speed grade.
fn rate(results: &Results) -> Known<Finding> {
    let grade = results.word("dram.grade")?;
    let digits = grade.strip_prefix("ddr3-").and_then(|digits| digits.parse().ok());
    number(digits.ok_or_else(|| format!("{grade} is no speed grade")))
}

/// The virtual channel that is drained first: 1 for interrupts, 0 for others.
fn priority(results: &Results) -> Known<Finding> {
    let first = results.flag("extension.interrupts_first")?;
    let of = f64::from(u8::from(first));
    Ok(Finding::sides(of, 1.0 - of).unit("priority"))
}

/// Words of a packet's header beyond one that names the requesting node.
fn headers(results: &Results) -> Known<Finding> {
    let words =
        results.number("extension.header_bytes")? / results.number("extension.oci_bytes")?;
    number(Ok(words - 1.0))
}

pub(super) const CHECKS: &[Check] = &[
    check("arch/hops", Bound, hops),
    check("arch/lva-window", Exact, |r| setting(r, "extension.lva_bytes", 1.0 / f64::from(1 << 30))),
    check("arch/interrupts", UpTo, |_| Ok(Finding::number(INTERRUPT_LINES as f64))),
    check("arch/interrupt-priority", Order, priority),
    check("arch/amt-entries-per-borrowing", Exact, |r| {
        number(r.amt_slots())
    }),
    check("arch/added-headers", Exact, headers).reading(
        "one word in front of the signals of a channel names the requesting node, as section III has it; \
         counted is what there is beyond that",
    ),
    check("arch/granularity", Exact, |r| {
        number(Ok(r.number("soc.line_bytes")? / 32.0))
    }),
    check("arch/reference-address", Exact, |r| {
        let end = r.number("extension.lva_base_bytes")? + r.number("extension.lva_bytes")?;
        number(Ok(end.log2()))
    }),
    check("arch/evaluated-topology", Exact, hops),
    check("table1/cores", Exact, |r| setting(r, "soc.cores", 1.0)),
    check("table1/cpu-clock", Exact, |r| setting(r, "soc.core_mhz", 1.0)),
    check("table1/dram/remote-memory/rate", Exact, rate),
    check("table1/deoi/width", Exact, |r| setting(r, "extension.oci_bytes", 8.0)),
    check("table1/deoi/clock", Exact, |r| setting(r, "extension.oci_mhz", 1.0)),
    check("table1/deoi/lane-rate", Exact, |r| setting(r, "extension.lane_gbps", 1.0)),
    check("table1/deoi/lanes", Exact, |r| number(Ok(r.number("extension.lane_gbps")? / 10.0))),
    check("proto/nodes", Exact, |r| setting(r, "extension.nodes", 1.0)),
];
