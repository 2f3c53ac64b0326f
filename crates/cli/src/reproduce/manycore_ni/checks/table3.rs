//! Table 3 and section 6.1.1: the latency of a block, part by part.

use super::{Check, check, number};
use crate::reproduce::manycore_ni::experiment::{Design, Experiment};
use crate::reproduce::manycore_ni::results::{Known, Results};
use crate::reproduce::tolerance::Class::{Component, Order, Overhead, Total};
use crate::reproduce::verdict::Finding;

fn read(design: Design) -> Experiment {
    Experiment::latency(design, 64)
}

fn edge(results: &Results, stage: &str) -> Known<Finding> {
    number(results.stage(read(Design::Edge), stage))
}

fn per_tile(results: &Results, stage: &str) -> Known<Finding> {
    number(results.stage(read(Design::PerTile), stage))
}

fn split(results: &Results, stage: &str) -> Known<Finding> {
    number(results.stage(read(Design::Split), stage))
}

/// Cycles that cores execute and wait at their queues.
fn software(results: &Results, design: Design) -> Known<f64> {
    results.stages(read(design), &["wq_write", "cq_read"])
}

fn totals(results: &Results, left: Design, right: Design) -> Known<Finding> {
    Ok(Finding::sides(results.projected(left, 1)?, results.projected(right, 1)?))
}

pub(super) const CHECKS: &[Check] = &[
    check("table3/ni-edge/wq-write", Component, |r| edge(r, "wq_write")),
    check("table3/ni-edge/wq-read-rgp", Component, |r| edge(r, "wq_read_rgp")),
    check("table3/ni-edge/network-out", Component, |r| edge(r, "network_out")),
    check("table3/ni-edge/rrpp", Component, |r| edge(r, "rrpp")),
    check("table3/ni-edge/network-back", Component, |r| edge(r, "network_back")),
    check("table3/ni-edge/rcp-cq-write", Component, |r| edge(r, "rcp_cq_write")),
    check("table3/ni-edge/cq-read", Component, |r| edge(r, "cq_read")),
    check("table3/ni-edge/total", Total, |r| number(r.total(read(Design::Edge)))),
    check("table3/ni-per-tile/wq-write", Component, |r| per_tile(r, "wq_write")),
    check("table3/ni-per-tile/wq-transfer", Component, |r| per_tile(r, "wq_transfer")),
    check("table3/ni-per-tile/rgp", Component, |r| per_tile(r, "rgp")),
    check("table3/ni-per-tile/to-edge", Component, |r| per_tile(r, "to_edge")),
    check("table3/ni-per-tile/network-out", Component, |r| per_tile(r, "network_out")),
    check("table3/ni-per-tile/rrpp", Component, |r| per_tile(r, "rrpp")),
    check("table3/ni-per-tile/network-back", Component, |r| per_tile(r, "network_back")),
    check("table3/ni-per-tile/to-rcp", Component, |r| per_tile(r, "to_rcp")),
    check("table3/ni-per-tile/rcp", Component, |r| per_tile(r, "rcp")),
    check("table3/ni-per-tile/cq-transfer", Component, |r| per_tile(r, "cq_transfer")),
    check("table3/ni-per-tile/cq-read", Component, |r| per_tile(r, "cq_read")),
    check("table3/ni-per-tile/total", Total, |r| number(r.total(read(Design::PerTile)))),
    check("table3/ni-split/wq-write", Component, |r| split(r, "wq_write")),
    check("table3/ni-split/wq-transfer", Component, |r| split(r, "wq_transfer")),
    check("table3/ni-split/rgp-frontend", Component, |r| split(r, "rgp_frontend")),
    check("table3/ni-split/to-backend", Component, |r| split(r, "to_backend")),
    check("table3/ni-split/rgp-backend-inferred", Component, |r| split(r, "rgp_backend")).reading(
        "not printed: what the printed rows leave of the printed total, and one interface stage more \
         than the per-tile design has",
    ),
    check("table3/ni-split/network-out", Component, |r| split(r, "network_out")),
    check("table3/ni-split/rrpp", Component, |r| split(r, "rrpp")),
    check("table3/ni-split/network-back", Component, |r| split(r, "network_back")),
    check("table3/ni-split/rcp-backend", Component, |r| split(r, "rcp_backend")),
    check("table3/ni-split/to-rcp-frontend", Component, |r| split(r, "to_rcp_frontend")),
    check("table3/ni-split/rcp-frontend", Component, |r| split(r, "rcp_frontend")),
    check("table3/ni-split/cq-transfer", Component, |r| split(r, "cq_transfer")),
    check("table3/ni-split/cq-read", Component, |r| split(r, "cq_read")),
    check("table3/ni-split/total", Total, |r| number(r.total(read(Design::Split)))).reading(
        "the printed total, which is that of the printed rows with four cycles of RGP backend that \
         are missing among them",
    ),
    check("table3/numa/load", Component, |r| number(r.numa().map(|numa| numa.load))),
    check("table3/numa/to-edge", Component, |r| number(r.numa().map(|numa| numa.to_edge))),
    check("table3/numa/network-out", Component, |r| number(r.numa().map(|numa| numa.network_out))),
    check("table3/numa/rrpp", Component, |r| number(r.numa().map(|numa| numa.rrpp))),
    check("table3/numa/network-back", Component, |r| number(r.numa().map(|numa| numa.network_back))),
    check("table3/numa/to-core", Component, |r| number(r.numa().map(|numa| numa.to_core))),
    check("table3/numa/total", Total, |r| number(r.numa().map(|numa| numa.total()))),
    check("table3/ni-edge/overhead", Overhead, |r| number(r.overhead(Design::Edge, 1))),
    check("table3/ni-per-tile/overhead", Overhead, |r| number(r.overhead(Design::PerTile, 1))),
    check("table3/ni-split/overhead", Overhead, |r| number(r.overhead(Design::Split, 1))),
    check("table3/order/edge-vs-split", Order, |r| totals(r, Design::Edge, Design::Split)),
    check("table3/order/split-vs-per-tile", Order, |r| totals(r, Design::Split, Design::PerTile)),
    check("table3/order/per-tile-vs-numa", Order, |r| totals(r, Design::PerTile, Design::Numa)),
    check("sec8/ni-split/latency-of-per-tile", Order, |r| totals(r, Design::Split, Design::PerTile)),
    check("sec3-2/per-tile-vs-edge-latency", Order, |r| {
        let left = ["wq_write", "wq_transfer", "rgp", "to_edge"];
        let right = ["wq_write", "wq_read_rgp"];
        Ok(Finding::sides(
            r.stages(read(Design::PerTile), &left)?,
            r.stages(read(Design::Edge), &right)?,
        )
        .remark("from the first instruction to the moment in which the request leaves the chip"))
    }),
    check("sec6-1-1/numa-load-cycles", Component, |r| {
        number(r.stage(read(Design::Numa), "load"))
    }),
    check("sec6-1-1/numa-shared-terms", Order, |r| {
        let left = ["to_edge", "network_out", "rrpp", "network_back", "to_core"];
        let right = ["to_backend", "network_out", "rrpp", "network_back", "to_rcp_frontend"];
        Ok(Finding::sides(
            r.stages(read(Design::Numa), &left)?,
            r.stages(read(Design::Split), &right)?,
        )
        .remark("left: the NUMA machine really modelled; the projection has them equal"))
    }),
    check("sec6-1-1/ni-edge-software", Component, |r| number(software(r, Design::Edge))),
    check("sec6-1-1/instruction-overhead", Component, |r| {
        let both = software(r, Design::PerTile)? + software(r, Design::Split)?;
        Ok(Finding::number(both / 2.0).remark("mean of the per-tile and the split design"))
    }),
    check("sec6-1-1/coherence-bouncing", Component, |r| {
        number(Ok(software(r, Design::Edge)? - software(r, Design::Split)?))
    }),
];
