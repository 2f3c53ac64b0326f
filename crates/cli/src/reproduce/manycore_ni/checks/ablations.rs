//! Claims that the paper states and does not measure: something left out or added.

use super::{Check, check};
use crate::reproduce::manycore_ni::experiment::{Design, Experiment, LARGE, Twist};
use crate::reproduce::manycore_ni::results::{Known, Results};
use crate::reproduce::tolerance::Class::Order;
use crate::reproduce::verdict::Finding;

/// Reads of a block by the split design, one after the other.
fn block() -> Experiment {
    Experiment::latency(Design::Split, 64)
}

/// A counter of queue blocks per read.
fn per_read(results: &Results, run: Experiment, path: &str) -> Known<f64> {
    Ok(results.stat(run, path)? / results.stat(run, "core.reads")?)
}

fn app(results: &Results, run: Experiment) -> Known<f64> {
    results.app(run)
}

pub(super) const CHECKS: &[Check] = &[
    check("sec3-4/ni-cache/owned-saves-writeback", Order, |r| {
        let writebacks = |run| per_read(r, run, "home.writebacks_queues");
        Ok(Finding::sides(writebacks(block())?, writebacks(block().with(Twist::NoOwnedState))?)
            .unit("per read")
            .remark("queue blocks written back to the LLC per read, split design, 64 B"))
    }),
    check("sec3-4/naive-collocation", Order, |r| {
        let requests = |run| per_read(r, run, "home.requests_queues");
        Ok(Finding::sides(requests(block().with(Twist::SeparateCache))?, requests(block())?)
            .unit("per read")
            .remark("requests for queue blocks at their homes per read, split design, 64 B"))
    })
    .reading("zero is what the cache at the back side leaves, here as measured"),
    check("fig6/wider-noc", Order, |r| {
        let run = Experiment::latency(Design::PerTile, 16384);
        Ok(Finding::sides(r.total(run.with(Twist::WideNoc))?, r.total(run)?)
            .remark("latency of a 16 KB read, links of 32 against 16 bytes"))
    }),
    check("fig7/flow-control-not-enough", Order, |r| {
        let per_tile = Experiment::bandwidth(Design::PerTile, LARGE);
        let mut best = (app(r, per_tile)?, "no limit".to_owned());
        for &lines in r.effort.flow_limits() {
            let gbps = app(r, per_tile.with(Twist::FlowControl(lines)))?;
            if gbps > best.0 {
                best = (gbps, format!("{lines} lines under way per tile"));
            }
        }
        let other = |design| app(r, Experiment::bandwidth(design, LARGE));
        Ok(Finding::sides(best.0, other(Design::Edge)?.min(other(Design::Split)?))
            .remark(format!("8 KB; best with {}", best.1)))
    }),
    check("sec5/noc-is-bottleneck", Order, |r| {
        let run = Experiment::bandwidth(Design::Split, LARGE);
        Ok(Finding::sides(app(r, run)?, app(r, run.with(Twist::WideNoc))?)
            .remark("split design, 8 KB: with links of twice the width, memory and network let more through"))
    }),
];
