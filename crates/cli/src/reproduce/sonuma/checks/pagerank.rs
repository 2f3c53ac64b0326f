//! Figure 9 and section 7.5: PageRank.

use super::{Check, check, number, on_host};
use crate::console;
use crate::reproduce::sonuma::experiment::Platform::{self, Host, Model};
use crate::reproduce::sonuma::experiment::Variant::{Bulk, Fine, Shm};
use crate::reproduce::sonuma::experiment::{MOST_NODES, Variant, host_nodes};
use crate::reproduce::sonuma::results::{Known, Results};
use crate::reproduce::tolerance::Class::{Exact, Order, Ratio, UpTo};
use crate::reproduce::verdict::Finding;

/// Speed-ups that differ by less count as alike, as for claims that the paper marks with ~.
const ALIKE: f64 = 0.10;

/// Nodes of the runtime at most.
fn most_on_host(results: &Results) -> u16 {
    host_nodes(results.setting.cores).last().unwrap_or(1)
}

/// Two variants at the number of nodes where their ratio, left over right, is most extreme.
fn worst(
    results: &Results,
    left: Variant,
    right: Variant,
    extreme: fn(f64) -> f64,
) -> Known<Finding> {
    let mut worst: Option<(f64, f64, u16)> = None;
    for &nodes in results.effort.model_nodes() {
        let of = |variant| results.speedup(Model, variant, nodes);
        let (left, right) = (of(left)?, of(right)?);
        if worst.is_none_or(|(l, r, _)| extreme(left / right) > extreme(l / r)) {
            worst = Some((left, right, nodes));
        }
    }
    let (left, right, nodes) = worst.ok_or("no nodes")?;
    Ok(Finding::sides(left, right).remark(format!("{nodes} nodes, where it is least so")))
}

/// By which factors speed-up stays below the number of nodes: partitions that are not equal, and all
/// else.
fn losses(results: &Results) -> Known<Finding> {
    let imbalance = results.of_graph(Model, MOST_NODES, "imbalance")?;
    let of = |variant| results.speedup(Model, variant, MOST_NODES);
    let rest = f64::from(MOST_NODES) / of(Shm)?.min(of(Bulk)?) / imbalance;
    Ok(Finding::sides(imbalance, rest).remark(
        "left: edges of the largest part over the mean; right: what else is lost, by the worse of \
         SHM and bulk; 8 nodes",
    ))
}

/// Remote operations over the edges that are expected between random parts.
fn reads_per_edge(results: &Results) -> Known<Finding> {
    let edges = results.of_graph(Model, MOST_NODES, "edges")?;
    let crossing = edges * (1.0 - 1.0 / f64::from(MOST_NODES));
    Ok(Finding::number(results.remote_operations(Fine, MOST_NODES)? / crossing)
        .remark("8 nodes; edges between random parts: 7 of 8"))
}

/// Vertices that bulk fetches: each node all of its peers.
fn operations(results: &Results) -> Known<Finding> {
    let fetched = results.of_graph(Model, MOST_NODES, "vertices")? * f64::from(MOST_NODES - 1);
    Ok(Finding::sides(results.remote_operations(Fine, MOST_NODES)?, fetched)
        .remark("8 nodes, a superstep"))
}

/// The faster of two: 1 the left one, -1 the right one, 0 neither.
fn order(results: &Results, at: Platform, pair: (Variant, Variant), nodes: u16) -> Known<i8> {
    let of = |variant| results.speedup(at, variant, nodes);
    let ratio = of(pair.0)? / of(pair.1)?;
    Ok(i8::from(ratio > 1.0 + ALIKE) - i8::from(ratio < 1.0 / (1.0 + ALIKE)))
}

/// Nodes at which both platforms have been run.
fn common_nodes(results: &Results) -> Vec<u16> {
    let model = results.effort.model_nodes();
    host_nodes(results.setting.cores).filter(|nodes| model.contains(nodes)).collect()
}

/// Number of orderings of two variants that are the same on both platforms, and of all.
fn trends(results: &Results) -> Known<Finding> {
    let (mut same, mut all) = (0, 0);
    for nodes in common_nodes(results) {
        for pair in [(Shm, Bulk), (Shm, Fine), (Bulk, Fine)] {
            let of = |at| order(results, at, pair, nodes);
            same += u32::from(of(Host)? == of(Model)?);
            all += 1;
        }
    }
    let nodes = console::count(common_nodes(results).len(), "number");
    Ok(Finding::sides(same.into(), all.into())
        .unit("orderings")
        .remark(format!("of two variants each, at {nodes} of nodes: the same on both, and all")))
}

/// Runtime and model, at the nodes and the variant where the runtime does best.
fn limited(results: &Results) -> Known<Finding> {
    let mut best: Option<(f64, f64, String)> = None;
    for nodes in common_nodes(results) {
        for variant in [Bulk, Fine] {
            let of = |at| results.speedup(at, variant, nodes);
            let (host, model) = (of(Host)?, of(Model)?);
            if best.as_ref().is_none_or(|(h, m, _)| host / model > h / m) {
                best = Some((host, model, format!("{}, {nodes} nodes", variant.title())));
            }
        }
    }
    let (host, model, place) = best.ok_or("no nodes")?;
    Ok(Finding::sides(host, model).remark(format!("{place}, where it is least so")))
}

fn nodes_on_host(results: &Results) -> Known<Finding> {
    let nodes = most_on_host(results);
    if f64::from(nodes) < results.published("fig9/dev-nodes")? {
        let cores = console::count(results.setting.cores, "core");
        return Ok(Finding::nothing(format!(
            "a node of the runtime needs a core of its own, and this host has {cores}"
        )));
    }
    results.speedup(Host, Bulk, nodes)?;
    Ok(Finding::number(nodes.into()))
}

pub(super) const CHECKS: &[Check] = &[
    check("fig9/shm-cores", Exact, |r| {
        r.speedup(Model, Shm, MOST_NODES)?;
        Ok(Finding::number(MOST_NODES.into()))
    }),
    check("fig9/shm-llc-per-core", Exact, |r| {
        number(r.parameter("llc.size_bytes").map(|bytes| bytes / (1024.0 * 1024.0)))
    }),
    check("fig9/sim-supersteps", Exact, |r| number(r.of_graph(Model, MOST_NODES, "supersteps"))),
    check("fig9/sim-nodes", Exact, |r| number(r.of_graph(Model, MOST_NODES, "nodes"))),
    check("fig9/dev-supersteps", Exact, |r| {
        on_host(r, |r| number(r.of_graph(Host, most_on_host(r), "supersteps")))
    }),
    check("fig9/dev-nodes", Exact, nodes_on_host),
    check("fig9/bulk-reads-per-peer", Exact, |r| {
        let peers = f64::from(MOST_NODES) * f64::from(MOST_NODES - 1);
        number(Ok(r.remote_operations(Bulk, MOST_NODES)? / peers))
    }),
    check("fig9/fine-reads-per-vertex", Ratio, reads_per_edge)
        .reading("one read for each edge to a vertex of another node, as in Figure 4"),
    check("fig9/fine-op-scaling", Order, operations),
    check("fig9/sim/shm-vs-bulk", Order, |r| worst(r, Shm, Bulk, |ratio| ratio.ln().abs())),
    check("fig9/sim/fine-vs-bulk", Order, |r| worst(r, Fine, Bulk, |ratio| ratio)),
    check("fig9/sim/imbalance", Order, losses)
        .reading("effects are factors by which speed-up stays below the number of nodes"),
    check("fig9/fine-op-limit", UpTo, |r| {
        let of = |&nodes: &u16| r.fine_mops(nodes);
        let all: Known<Vec<f64>> = r.effort.model_nodes().iter().map(of).collect();
        Ok(Finding::number(all?.into_iter().fold(0.0, f64::max)).remark("the most of all runs"))
    }),
    check("fig9/dev/trends", Order, |r| on_host(r, trends))
        .reading("a trend is which of two variants is faster, if not by less than 10 %"),
    check("fig9/dev/limited", Order, |r| on_host(r, limited)),
];
