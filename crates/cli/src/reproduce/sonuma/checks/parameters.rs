//! Table 1 and section 7.1: the machine that is run against the one of the paper.

use super::{Check, check, number};
use crate::reproduce::sonuma::results::{Known, Results};
use crate::reproduce::tolerance::Class::{Bandwidth, Exact, Rounded};
use crate::reproduce::verdict::Finding;

/// A bus of 64 data wires.
const BUS_BYTES: f64 = 8.0;

/// A burst takes so many periods of the clock: eight transfers, two a period.
const BURST_NCK: f64 = 4.0;

/// As sizes of memory count.
const MB: f64 = 1024.0 * 1024.0;
const GB: f64 = 1024.0 * MB;

fn is(results: &Results, path: &str) -> Known<Finding> {
    number(results.parameter(path))
}

fn over(results: &Results, path: &str, unit: f64) -> Known<Finding> {
    number(results.parameter(path).map(|value| value / unit))
}

/// A number that two parts of the machine have in common.
fn both(results: &Results, one: &str, other: &str) -> Known<f64> {
    let (left, right) = (results.parameter(one)?, results.parameter(other)?);
    match left == right {
        true => Ok(left),
        false => Err(format!("{one} is {left}, {other} is {right}")),
    }
}

/// Millions of transfers a second of the DRAM's grade, such as ddr3-1600.
fn transfers(results: &Results) -> Known<f64> {
    let grade = results.word("dram.grade")?;
    let number = grade.rsplit('-').next().and_then(|number| number.parse().ok());
    number.ok_or_else(|| format!("the grade {grade} does not say how fast it is"))
}

/// Bandwidth of the wires of all channels, in GB/s.
pub(super) fn nominal_gbps(results: &Results) -> Known<f64> {
    Ok(transfers(results)? * BUS_BYTES * results.parameter("memory.controllers")? / 1e3)
}

/// A time of the DRAM in periods; 0 stands for that of the grade, which is 11 for DDR3-1600.
fn periods(results: &Results, path: &str) -> Known<f64> {
    let set = results.parameter(path)?;
    match (set == 0.0, results.word("dram.grade")?) {
        (false, _) => Ok(set),
        (true, "ddr3-1600") => Ok(11.0),
        (true, other) => Err(format!("what {path} is for {other} is not written here")),
    }
}

/// An idle channel with its row closed: activation, read, data, and the way there and back.
fn dram_ns(results: &Results) -> Known<Finding> {
    let period_ns = 2e3 / transfers(results)?;
    let periods = periods(results, "dram.trcd_nck")? + periods(results, "dram.cl_nck")?;
    let ns = results.parameter("dram.controller_ns")? + (periods + BURST_NCK) * period_ns;
    Ok(Finding::number(ns).remark("an idle channel, its row closed"))
}

fn fabric_ns(results: &Results) -> Known<f64> {
    Ok(results.parameter("network.hop_latency_ns")? * results.parameter("network.hops")?)
}

/// Accesses that the RMC can have under way: its L1 is made as the core's.
pub(super) fn in_flight(results: &Results) -> Known<f64> {
    Ok(results.parameter("rmc.maq_entries")?.min(results.parameter("l1.mshrs")?))
}

pub(super) const CHECKS: &[Check] = &[
    check("table1/core/type", Exact, |r| {
        Ok(Finding::fact(r.parameter("cpu.rob_entries")? > r.parameter("cpu.dispatch_width")?)
            .remark("a reorder buffer; in RV64GC, see section 7.1 on the instruction set"))
    }),
    check("table1/core/clock", Exact, |r| is(r, "clock_ghz")),
    check("table1/core/width", Exact, |r| {
        number(both(r, "cpu.dispatch_width", "cpu.retire_width"))
    }),
    check("table1/core/rob", Exact, |r| is(r, "cpu.rob_entries")),
    check("table1/l1/size", Exact, |r| {
        number(both(r, "l1.size_bytes", "cpu.icache_bytes").map(|bytes| bytes / 1024.0))
    }),
    check("table1/l1/ways", Exact, |r| number(both(r, "l1.ways", "cpu.icache_ways"))),
    check("table1/l1/block", Exact, |_| {
        Ok(Finding::number(rackmem_sim::machine::BLOCK_BYTES as f64))
    }),
    check("table1/l1/ports", Exact, |r| is(r, "l1.ports")),
    check("table1/l1/mshrs", Exact, |r| is(r, "l1.mshrs")),
    check("table1/l1/latency", Exact, |r| is(r, "l1.latency_cycles")),
    check("table1/l2/size", Exact, |r| over(r, "llc.size_bytes", MB)),
    check("table1/l2/banks", Exact, |r| is(r, "llc.banks")),
    check("table1/l2/ways", Exact, |r| is(r, "llc.ways")),
    check("table1/l2/latency", Exact, |r| is(r, "llc.latency_cycles")),
    check("table1/memory/model", Exact, |r| {
        Ok(Finding::fact(r.word("memory.model")? == "ddr3")
            .remark("a model of the same kind: commands of DDR3, cycle by cycle"))
    }),
    check("table1/memory/size", Exact, |r| over(r, "memory.size_bytes", GB)),
    check("table1/memory/page", Exact, |r| over(r, "rmc.page_bytes", 1024.0)),
    check("table1/memory/channels", Exact, |r| is(r, "memory.controllers")),
    check("table1/memory/latency", Rounded, dram_ns),
    check("table1/memory/bandwidth", Bandwidth, |r| number(nominal_gbps(r)))
        .reading("what the wires of a DDR3-1600 channel carry, 12.8 GB/s, which Table 1 rounds"),
    check("table1/rmc/maq", Exact, |r| is(r, "rmc.maq_entries")),
    check("table1/rmc/tlb", Exact, |r| is(r, "rmc.tlb_entries")),
    check("table1/fabric/delay", Exact, |r| number(fabric_ns(r))),
    check("sec7-1/rmc-inflight", Exact, |r| number(in_flight(r))),
    check("sec7-1/fabric", Exact, |r| number(fabric_ns(r))),
    check("sec7-1/cores-per-node", Exact, |r| {
        Ok(Finding::number(r.parameter("tiles.columns")? * r.parameter("tiles.rows")?))
    }),
    check("fig7a/link-part", Exact, |r| number(fabric_ns(r).map(|ns| 2.0 * ns))),
];
