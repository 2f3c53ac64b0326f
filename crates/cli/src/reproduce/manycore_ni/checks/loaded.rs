//! Figure 7 and section 6.2: bandwidth on the mesh.

use super::{Check, check, number};
use crate::reproduce::manycore_ni::experiment::{Chip, Design, Experiment, LARGE};
use crate::reproduce::manycore_ni::results::{Known, Results};
use crate::reproduce::tolerance::Class::{Bandwidth, Bound, Exact, Order, Ratio, Reaches};
use crate::reproduce::verdict::Finding;

/// The size at which queue pairs matter most.
const SMALL: u32 = 64;

fn app(results: &Results, design: Design, bytes: u32) -> Known<f64> {
    results.app(Experiment::bandwidth(design, bytes))
}

fn peak(results: &Results, design: Design) -> Known<(f64, Experiment)> {
    results.peak(design, Chip::Mesh)
}

fn peak_of(results: &Results, design: Design) -> Known<Finding> {
    let (gbps, run) = peak(results, design)?;
    Ok(Finding::number(gbps).remark(format!("reached with reads of {} bytes", run.bytes)))
}

fn compare(results: &Results, left: Design, right: Design, bytes: u32) -> Known<Finding> {
    Ok(Finding::sides(app(results, left, bytes)?, app(results, right, bytes)?)
        .remark(format!("reads of {bytes} bytes")))
}

/// Traffic per byte of application data.
fn traffic_share(results: &Results, design: Design, bytes: u32) -> Known<f64> {
    let report = results.report(Experiment::bandwidth(design, bytes))?;
    Ok(report.noc_gbps / report.app_gbps)
}

fn bisection(results: &Results) -> Known<f64> {
    let machine = results.mesh()?;
    let links = 2.0 * f64::from(machine.tiles.rows);
    Ok(links * f64::from(machine.noc.link_bytes) * machine.clock_ghz)
}

/// Traffic at the peak against the bisection; how busy the links across it are is said, too.
fn full_bisection(results: &Results, design: Design) -> Known<Finding> {
    let (_, run) = peak(results, design)?;
    let (report, machine) = (results.report(run)?, results.mesh()?);
    // The column of network interfaces comes first in the drawing.
    let middle = machine.tiles.columns / 2;
    let across = report.links.iter().filter(|link| {
        let columns = (link.from.0.min(link.to.0), link.from.0.max(link.to.0));
        columns == (middle, middle + 1)
    });
    let loads: Vec<f64> = across.map(|link| link.utilisation).collect();
    let mean = 100.0 * loads.iter().sum::<f64>() / loads.len().max(1) as f64;
    Ok(Finding::sides(report.noc_gbps, bisection(results)?)
        .remark(format!("links across the bisection are busy in {mean:.0} % of the cycles")))
}

/// Reading of "uses the full bisection bandwidth".
const TRAFFIC: &str = "section 6.2 gives the figures: traffic on chip at the peak (there 594 GB/s, not \
                       all of which crosses) comes up to the bisection's bandwidth";

/// The loss of the edge design against the split one, in per cent.
fn queue_effect(results: &Results, bytes: u32) -> Known<f64> {
    let (edge, split) = (app(results, Design::Edge, bytes)?, app(results, Design::Split, bytes)?);
    Ok(100.0 * (1.0 - edge / split))
}

pub(super) const CHECKS: &[Check] = &[
    check("fig7/bisection", Exact, |r| number(bisection(r))),
    check("fig7/ni-edge/peak", Bandwidth, |r| peak_of(r, Design::Edge)),
    check("fig7/ni-split/peak", Bandwidth, |r| peak_of(r, Design::Split)),
    check("fig7/peak-per-direction", Bandwidth, |r| {
        let report = r.report(peak(r, Design::Split)?.1)?;
        Ok(Finding::number(f64::midpoint(report.rcp_gbps, report.rrpp_gbps)).remark(format!(
            "split design: {:.1} received by RCPs, {:.1} sent by RRPPs",
            report.rcp_gbps, report.rrpp_gbps
        )))
    }),
    check("fig7/noc-aggregate", Bandwidth, |r| {
        let report = r.report(peak(r, Design::Split)?.1)?;
        Ok(Finding::number(report.noc_gbps).remark("split design; what entered the network"))
    })
    .reading("what the paper's counters count is not said; here every flit once, as it enters"),
    check("fig7/traffic-amplification", Ratio, |r| {
        let report = r.report(peak(r, Design::Split)?.1)?;
        Ok(Finding::number(report.noc_gbps / report.app_gbps))
    })
    .reading("594 / 214: aggregate as a multiple of application bandwidth, not the excess over it"),
    check("fig7/rates-balanced", Ratio, |r| {
        let report = r.report(peak(r, Design::Split)?.1)?;
        Ok(Finding::number(report.rcp_gbps / report.rrpp_gbps))
    }),
    check("sec5/traffic-generator/rate-ratio", Ratio, |r| {
        let (_, run) = peak(r, Design::Split)?;
        Ok(Finding::number(r.stat(run, "rrpp.lines")? / r.stat(run, "rcp.lines")?)
            .remark("lines served by RRPPs per line completed by RCPs, whole run"))
    }),
    check("fig7/small/per-tile-vs-edge", Order, |r| {
        compare(r, Design::PerTile, Design::Edge, SMALL)
    }),
    check("fig7/small/split-vs-edge", Order, |r| compare(r, Design::Split, Design::Edge, SMALL)),
    check("fig7/qp-effect-fades", Order, |r| {
        Ok(Finding::sides(queue_effect(r, LARGE)?, queue_effect(r, SMALL)?)
            .remark("loss of the edge design against the split one, 8 KB against 64 B"))
    }),
    check("fig7/large/per-tile-degrades", Order, |r| {
        let others = app(r, Design::Edge, LARGE)?.min(app(r, Design::Split, LARGE)?);
        Ok(Finding::sides(app(r, Design::PerTile, LARGE)?, others)
            .remark("8 KB; right: the lower of the two"))
    }),
    check("intro/ni-per-tile/bandwidth-25pct-of-edge-8kb", Bound, |r| {
        number(Ok(app(r, Design::PerTile, LARGE)? / app(r, Design::Edge, LARGE)?))
    })
    .reading("\"can only reach\" is a limit from above"),
    check("intro/ni-split/bandwidth-matches-edge", Order, |r| {
        compare(r, Design::Split, Design::Edge, LARGE)
    }),
    check("sec8/ni-split/bandwidth-of-edge", Order, |r| {
        Ok(Finding::sides(peak(r, Design::Split)?.0, peak(r, Design::Edge)?.0).remark("peaks"))
    }),
    check("intro/placement/bulk-at-edge", Order, |r| {
        compare(r, Design::Edge, Design::PerTile, LARGE)
    }),
    check("sec3-2/per-tile-vs-edge-bandwidth", Order, |r| {
        compare(r, Design::PerTile, Design::Edge, LARGE)
    }),
    check("sec3-3/split/traffic", Order, |r| {
        Ok(Finding::sides(
            traffic_share(r, Design::Split, LARGE)?,
            traffic_share(r, Design::PerTile, LARGE)?,
        )
        .unit("byte/byte")
        .remark("traffic on chip per byte of application data, 8 KB"))
    }),
    check("abstract/best-design/full-bisection", Reaches, |r| full_bisection(r, Design::Split))
        .reading(TRAFFIC),
    check("intro/ni-edge/full-bisection", Reaches, |r| full_bisection(r, Design::Edge))
        .reading(TRAFFIC),
    check("sec4-2/split/backend-scaling", Reaches, |r| full_bisection(r, Design::Split))
        .reading(TRAFFIC),
];
