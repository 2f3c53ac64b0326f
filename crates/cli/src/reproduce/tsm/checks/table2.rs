//! Table 2 and section 2.1: the bandwidth and latency of loads, stores and DMA over PCIe.

use super::{Check, Finding, Known, Results, check, number};
use crate::reproduce::tolerance::Class::{Bandwidth, Bound, Exact, Order, Ratio, Rounded};
use crate::reproduce::tsm::experiment::Mechanism::{self, Dma, Load, Store};
use crate::reproduce::tsm::experiment::{BLOCKS, Machine, Share};

/// Time that the paper's analyser shows of the link, in ns.
const WINDOW_NS: f64 = 17_000.0;

/// The part of the most bandwidth from which on it is full, as near as bandwidths are measured.
const FULL: f64 = 0.9;

fn mb(results: &Results, mechanism: Mechanism, bytes: u32) -> Known<Finding> {
    number(results.bandwidth(mechanism, bytes))
}

fn above(results: &Results, left: Mechanism, right: Mechanism, bytes: u32) -> Known<Finding> {
    let of = |mechanism| results.bandwidth(mechanism, bytes);
    Ok(Finding::sides(of(left)?, of(right)?))
}

/// Loads at their best against the others at their worst.
fn load_below_all(results: &Results) -> Known<Finding> {
    let mut least = f64::INFINITY;
    for (_, bytes) in BLOCKS {
        least = least.min(results.bandwidth(Store, bytes)?).min(results.bandwidth(Dma, bytes)?);
    }
    Ok(Finding::sides(results.most_bandwidth(Load)?, least))
}

/// The blocks for which stores bring more than DMA does.
fn stores_win(results: &Results) -> Known<Vec<(u32, bool)>> {
    let of =
        |(_, bytes)| Ok((bytes, results.bandwidth(Store, bytes)? > results.bandwidth(Dma, bytes)?));
    BLOCKS.into_iter().map(of).collect()
}

fn largest_for_stores(results: &Results) -> Known<Finding> {
    let wins = stores_win(results)?;
    number(Ok(wins
        .iter()
        .filter(|(_, wins)| *wins)
        .map(|&(bytes, _)| bytes.into())
        .fold(0.0, f64::max)))
}

fn smallest_for_dma(results: &Results) -> Known<Finding> {
    let wins = stores_win(results)?;
    let lost = wins.iter().filter(|(_, wins)| !wins).map(|&(bytes, _)| f64::from(bytes));
    number(Ok(lost.fold(f64::INFINITY, f64::min)))
}

fn saturation(results: &Results) -> Known<Finding> {
    let most = results.most_bandwidth(Dma)?;
    for (_, bytes) in BLOCKS {
        if results.bandwidth(Dma, bytes)? >= FULL * most {
            return Ok(Finding::number(bytes.into()).remark("at least 90 % of the most"));
        }
    }
    Err("no block has the most".to_owned())
}

fn tlps(results: &Results, mechanism: Mechanism) -> Known<f64> {
    results.tlps(mechanism, WINDOW_NS)
}

fn machine(results: &Results, path: &str, unit: f64) -> Known<Finding> {
    number(Ok(results.number_of(Machine::Prototype, path)? / unit))
}

pub(super) const BACKGROUND: &[Check] = &[
    check("table1/pcie/peak-bandwidth", Bandwidth, |r| number(r.most_bandwidth(Dma)))
        .reading("of the prototype's DMA engine; the paper quotes the maker's manual"),
    check("table1/pcie/application-latency", Rounded, |r| {
        number(Ok(r.shared(Machine::Prototype, Share::Message, "one_way_ns")? / 1000.0))
    })
    .reading("of a small message by the user-level library, one way"),
];

pub(super) const CHECKS: &[Check] = &[
    check("table2/load/64", Bandwidth, |r| mb(r, Load, 64)),
    check("table2/load/128", Bandwidth, |r| mb(r, Load, 128)),
    check("table2/load/512", Bandwidth, |r| mb(r, Load, 512)),
    check("table2/load/1k", Bandwidth, |r| mb(r, Load, 1024)),
    check("table2/load/4k", Bandwidth, |r| mb(r, Load, 4096)),
    check("table2/load/16k", Bandwidth, |r| mb(r, Load, 16384)),
    check("table2/load/64k", Bandwidth, |r| mb(r, Load, 65536)),
    check("table2/load/256k", Bandwidth, |r| mb(r, Load, 262144)),
    check("table2/load/1m", Bandwidth, |r| mb(r, Load, 1048576)),
    check("table2/store/64", Bandwidth, |r| mb(r, Store, 64)),
    check("table2/store/128", Bandwidth, |r| mb(r, Store, 128)),
    check("table2/store/512", Bandwidth, |r| mb(r, Store, 512)),
    check("table2/store/1k", Bandwidth, |r| mb(r, Store, 1024)),
    check("table2/store/4k", Bandwidth, |r| mb(r, Store, 4096)),
    check("table2/store/16k", Bandwidth, |r| mb(r, Store, 16384)),
    check("table2/store/64k", Bandwidth, |r| mb(r, Store, 65536)),
    check("table2/store/256k", Bandwidth, |r| mb(r, Store, 262144)),
    check("table2/store/1m", Bandwidth, |r| mb(r, Store, 1048576)),
    check("table2/dma/64", Bandwidth, |r| mb(r, Dma, 64)),
    check("table2/dma/128", Bandwidth, |r| mb(r, Dma, 128)),
    check("table2/dma/512", Bandwidth, |r| mb(r, Dma, 512)),
    check("table2/dma/1k", Bandwidth, |r| mb(r, Dma, 1024)),
    check("table2/dma/4k", Bandwidth, |r| mb(r, Dma, 4096)),
    check("table2/dma/16k", Bandwidth, |r| mb(r, Dma, 16384)),
    check("table2/dma/64k", Bandwidth, |r| mb(r, Dma, 65536)),
    check("table2/dma/256k", Bandwidth, |r| mb(r, Dma, 262144)),
    check("table2/dma/1m", Bandwidth, |r| mb(r, Dma, 1048576)),
    check("table2/order/store-above-dma/64", Order, |r| above(r, Store, Dma, 64)),
    check("table2/order/store-above-dma/128", Order, |r| above(r, Store, Dma, 128)),
    check("table2/order/store-above-dma/512", Order, |r| above(r, Store, Dma, 512)),
    check("table2/order/store-above-dma/1k", Order, |r| above(r, Store, Dma, 1024)),
    check("table2/order/dma-above-store/4k", Order, |r| above(r, Dma, Store, 4096)),
    check("table2/order/dma-above-store/16k", Order, |r| above(r, Dma, Store, 16384)),
    check("table2/order/dma-above-store/64k", Order, |r| above(r, Dma, Store, 65536)),
    check("table2/order/dma-above-store/256k", Order, |r| above(r, Dma, Store, 262144)),
    check("table2/order/dma-above-store/1m", Order, |r| above(r, Dma, Store, 1048576)),
    check("table2/order/load-below-all", Order, load_below_all),
    check("table2/order/load-flat", Order, |r| {
        Ok(Finding::sides(r.bandwidth(Load, 1 << 20)?, r.bandwidth(Load, 64)?))
    }),
    check("table2/crossover/store-dma-lower", Bound, largest_for_stores),
    check("table2/crossover/store-dma-upper", Bound, smallest_for_dma),
    check("table2/ratio/dma-over-load-max", Ratio, |r| {
        number(Ok(r.most_bandwidth(Dma)? / r.most_bandwidth(Load)?))
    }),
    check("table2/ratio/store-over-load-64", Ratio, |r| {
        number(Ok(r.bandwidth(Store, 64)? / r.bandwidth(Load, 64)?))
    }),
    check("table2/dma-saturation", Bound, saturation),
    check("sect212/load-max-bandwidth", Bandwidth, |r| number(r.most_bandwidth(Load))),
    check("sect212/dma-max-bandwidth", Bandwidth, |r| number(r.most_bandwidth(Dma))),
    check("tlp/dma-count", Ratio, |r| number(tlps(r, Dma)))
        .reading("of the engine's writes to the borrowing node, whose data are the paper's"),
    check("tlp/load-count", Ratio, |r| number(tlps(r, Load)))
        .reading("requests and completions: 12 requests would be 26 MB/s only with 37 bytes each"),
    check("tlp/ratio-dma-over-load", Ratio, |r| number(Ok(tlps(r, Dma)? / tlps(r, Load)?))),
    check("tlp/load-interval", Ratio, |r| number(Ok(WINDOW_NS / 1000.0 / tlps(r, Load)?)))
        .reading("between TLPs of loads, completions among them"),
    check("tlp/outstanding-loads", Bound, |r| number(r.most_loads())),
    check("tlp/order/parallel-dma-and-writes", Order, |r| {
        let least = r.bandwidth(Dma, 1 << 20)?.min(r.bandwidth(Store, 1 << 20)?);
        Ok(Finding::sides(least, r.bandwidth(Load, 1 << 20)?).unit("MB/s"))
    }),
    check("sect212/order/store-vs-load-small", Order, |r| {
        let ns = |mechanism| Ok::<f64, String>(64.0 / r.bandwidth(mechanism, 64)? * 1000.0);
        Ok(Finding::sides(ns(Load)?, ns(Store)?).unit("ns per 64 B"))
    }),
    check("pcie/nodes", Exact, |r| machine(r, "network.nodes", 1.0)),
    check("pcie/cpu-clock", Exact, |r| machine(r, "clock_ghz", 1.0)),
    check("pcie/dram", Exact, |r| machine(r, "memory.size_bytes", f64::from(1 << 30))),
    check("pcie/generation", Exact, |r| {
        // 2.5 gigatransfers a second, doubled once.
        let rate = r.number_of(Machine::Prototype, "window.link_gtps")?;
        number(Ok((rate / 2.5).log2() + 1.0))
    }),
];
