//! Table 1 and section 3.1: queue pairs at the edge against loads and stores.

use super::{Check, EDGE_QP, check, number};
use crate::reproduce::manycore_ni::experiment::{Design, Experiment};
use crate::reproduce::manycore_ni::results::{Known, Results};
use crate::reproduce::tolerance::Class::{Component, Order, Overhead, Total};
use crate::reproduce::verdict::Finding;

/// A read of a block by the edge design.
fn edge() -> Experiment {
    Experiment::latency(Design::Edge, 64)
}

fn stage(results: &Results, name: &str) -> Known<Finding> {
    number(results.stage(edge(), name))
}

fn sum(results: &Results, stages: &[&str]) -> Known<Finding> {
    number(results.stages(edge(), stages))
}

/// Instructions of software around its accesses, in cycles.
fn instructions(results: &Results) -> Known<f64> {
    results.stages(Experiment::latency(Design::PerTile, 64), &["wq_write", "cq_read"])
}

pub(super) const CHECKS: &[Check] = &[
    check("table1/qp/a1-wq-write", Component, |r| stage(r, "wq_write")),
    check("table1/qp/a2-wq-read", Component, |r| stage(r, "wq_read_rgp")),
    check("table1/qp/a3-network", Component, |r| stage(r, "network_out")),
    check("table1/qp/a4-memory", Component, |r| stage(r, "rrpp")),
    check("table1/qp/a5-network", Component, |r| stage(r, "network_back")),
    check("table1/qp/a6-cq-write", Component, |r| stage(r, "rcp_cq_write")),
    check("table1/qp/a7-cq-read", Component, |r| stage(r, "cq_read")),
    check("table1/qp/total", Total, |r| number(r.total(edge()))),
    check("table1/numa/b1-load", Component, |r| number(r.numa().map(|numa| numa.load))),
    check("table1/numa/b2-to-edge", Component, |r| number(r.numa().map(|numa| numa.to_edge))),
    check("table1/numa/b3-network", Component, |r| number(r.numa().map(|numa| numa.network_out))),
    check("table1/numa/b4-memory", Component, |r| number(r.numa().map(|numa| numa.rrpp))),
    check("table1/numa/b5-network", Component, |r| number(r.numa().map(|numa| numa.network_back))),
    check("table1/numa/b6-to-core", Component, |r| number(r.numa().map(|numa| numa.to_core))),
    check("table1/numa/total", Total, |r| number(r.numa().map(|numa| numa.total()))),
    check("table1/qp/overhead-over-numa", Overhead, |r| number(r.overhead(Design::Edge, 1))),
    check("sec3-1/wq-write-plus-read", Component, |r| sum(r, &["wq_write", "wq_read_rgp"])),
    check("sec3-1/numa-request-to-edge", Component, |r| {
        number(r.numa().map(|numa| numa.load + numa.to_edge))
    }),
    check("sec3-1/cq-write-plus-read", Component, |r| sum(r, &["rcp_cq_write", "cq_read"])),
    check("sec3-1/overhead-almost-80", Overhead, |r| number(r.overhead(Design::Edge, 1))),
    check("sec3-1/software-negligible", Order, |r| {
        Ok(Finding::sides(instructions(r)?, r.stages(edge(), &EDGE_QP)?).remark(
            "instructions: WQ write and CQ read of the per-tile design, which has them alone",
        ))
    }),
    check("sec3-1/qp-dominates", Order, |r| {
        let others = ["network_out", "rrpp", "network_back"];
        let others: Known<Vec<f64>> = others.iter().map(|name| r.stage(edge(), name)).collect();
        let largest = others?.into_iter().fold(0.0, f64::max);
        Ok(Finding::sides(r.stages(edge(), &EDGE_QP)?, largest))
    }),
    check("intro/coherence-dominates", Order, |r| {
        let machine = r.mesh()?;
        let memory = machine.cycles(machine.memory.latency_ns) as f64;
        let network = r.stages(edge(), &["network_out", "network_back"])?;
        let software = instructions(r)?;
        Ok(Finding::sides(r.total(edge())? - network - memory - software, software)
            .remark("left: the total without the network between chips, memory and instructions"))
    }),
    check("fig2/cq-message-count", Order, |r| {
        let about = |queue: &str| r.stat(edge(), &format!("home.messages_{queue}"));
        Ok(Finding::sides(about("cq")?, about("wq")?)
            .remark("coherence messages about CQ and about WQ blocks in the same run"))
    }),
];
