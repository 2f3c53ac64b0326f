//! Figures 9 and 10 and section 6.3: the same on NOC-Out.

use super::{Check, EDGE_QP, check, number};
use crate::reproduce::manycore_ni::experiment::{Chip, Design, Experiment, LARGE};
use crate::reproduce::manycore_ni::results::{Known, Results};
use crate::reproduce::tolerance::Class::{Exact, Order, Ratio, UpTo};
use crate::reproduce::verdict::Finding;

/// Transfers that count as small: up to the largest of the paper's typical objects.
const SMALL: u32 = 512;
/// Share of a latency, in per cent, below which it would be negligible.
const NEGLIGIBLE: f64 = 10.0;

fn total(results: &Results, chip: Chip, design: Design, bytes: u32) -> Known<f64> {
    results.total(Experiment::latency(design, bytes).on(chip))
}

/// The largest value of a function over all sizes, and its size.
fn most(sizes: &[u32], of: impl Fn(u32) -> Known<f64>) -> Known<(f64, u32)> {
    let mut best: Option<(f64, u32)> = None;
    for &bytes in sizes {
        let value = of(bytes)?;
        if best.is_none_or(|(most, _)| value > most) {
            best = Some((value, bytes));
        }
    }
    best.ok_or_else(|| "no sizes".to_owned())
}

/// Excess of the edge design over another one on NOC-Out, in per cent, at most.
fn edge_above(results: &Results, other: Design) -> Known<Finding> {
    let (percent, bytes) = most(results.effort.latency_sizes(), |bytes| {
        let at = |design| total(results, Chip::NocOut, design, bytes);
        Ok(100.0 * (at(Design::Edge)? / at(other)? - 1.0))
    })?;
    Ok(Finding::number(percent).remark(format!("most with reads of {bytes} bytes")))
}

/// The gap of the edge design to the mean of the other two, a block, in per cent.
fn gap(results: &Results, chip: Chip) -> Known<f64> {
    let at = |design| total(results, chip, design, 64);
    let others = f64::midpoint(at(Design::PerTile)?, at(Design::Split)?);
    Ok(100.0 * (at(Design::Edge)? / others - 1.0))
}

/// Share of a block's latency on the source's chip, summed over the designs.
fn source(results: &Results, chip: Chip) -> Known<f64> {
    let mut sum = 0.0;
    for design in Design::MESSAGING {
        let run = Experiment::latency(design, 64).on(chip);
        sum +=
            results.total(run)? - results.stages(run, &["network_out", "rrpp", "network_back"])?;
    }
    Ok(sum)
}

fn rrpp(results: &Results, chip: Chip) -> Known<f64> {
    results.stage(Experiment::latency(Design::Split, 64).on(chip), "rrpp")
}

pub(super) const LATENCY: &[Check] = &[
    check("fig9/small/vs-mesh", UpTo, |r| {
        let mut best = (f64::NEG_INFINITY, String::new());
        for design in Design::MESSAGING {
            let sizes = r.effort.latency_sizes().iter().copied().filter(|&bytes| bytes <= SMALL);
            for bytes in sizes {
                let at = |chip| total(r, chip, design, bytes);
                let percent = 100.0 * (1.0 - at(Chip::NocOut)? / at(Chip::Mesh)?);
                if percent > best.0 {
                    best = (percent, format!("most: {}, {bytes} bytes", design.title()));
                }
            }
        }
        Ok(Finding::number(best.0).remark(best.1))
    })
    .reading("the largest reduction of any design with reads of up to 512 bytes"),
    check("fig9/remote/llc-mc-access", Ratio, |r| {
        let (mesh, noc_out) = (rrpp(r, Chip::Mesh)?, rrpp(r, Chip::NocOut)?);
        Ok(Finding::number(100.0 * (1.0 - noc_out / mesh)))
    })
    .reading("less time, of what a request takes at the remote node (RRPP servicing)"),
    check("fig9/edge-gap-narrower", Order, |r| {
        Ok(Finding::sides(gap(r, Chip::NocOut)?, gap(r, Chip::Mesh)?)
            .remark("edge design over the mean of the other two, 64 B"))
    }),
    check("fig9/edge-vs-split", UpTo, |r| edge_above(r, Design::Split))
        .reading("the largest excess of any size"),
    check("fig9/edge-vs-per-tile", UpTo, |r| edge_above(r, Design::PerTile))
        .reading("the largest excess of any size"),
    check("fig9/source-improvement", Order, |r| {
        Ok(Finding::sides(source(r, Chip::NocOut)?, source(r, Chip::Mesh)?)
            .remark("all but network and RRPP, 64 B, sum of the three designs"))
    }),
    check("fig9/qp-still-considerable", Order, |r| {
        let run = Experiment::latency(Design::Edge, 64).on(Chip::NocOut);
        Ok(Finding::sides(100.0 * r.stages(run, &EDGE_QP)? / r.total(run)?, NEGLIGIBLE))
    })
    .reading("negligible would be a tenth of the latency"),
];

/// Number of the orderings of Figure 7 that a chip shows.
fn trends(results: &Results, chip: Chip) -> Known<(u32, String)> {
    let app = |design, bytes| results.app(Experiment::bandwidth(design, bytes).on(chip));
    let (edge, split) = (app(Design::Edge, LARGE)?, app(Design::Split, LARGE)?);
    let shown = [
        ("per-tile above edge at 64 B", app(Design::PerTile, 64)? > app(Design::Edge, 64)?),
        ("split above edge at 64 B", app(Design::Split, 64)? > app(Design::Edge, 64)?),
        ("split like edge at 8 KB", (split / edge - 1.0).abs() <= 0.10),
        ("per-tile below both at 8 KB", app(Design::PerTile, LARGE)? < edge.min(split)),
    ];
    let absent: Vec<&str> = shown.iter().filter(|(_, is)| !is).map(|&(what, _)| what).collect();
    let count = shown.len() - absent.len();
    let remark = if absent.is_empty() {
        "all four orderings of Figure 7 hold".to_owned()
    } else {
        format!("not so: {}", absent.join(", "))
    };
    Ok((count as u32, remark))
}

fn highest(results: &Results, chip: Chip) -> Known<f64> {
    Ok(results.peak(Design::Edge, chip)?.0.max(results.peak(Design::Split, chip)?.0))
}

pub(super) const BANDWIDTH: &[Check] = &[
    check("fig10/trends", Order, |r| {
        let (count, remark) = trends(r, Chip::NocOut)?;
        Ok(Finding::sides(f64::from(count), 4.0).unit("orderings").remark(remark))
    })
    .reading("the four orderings of the designs that section 6.2 states for the mesh"),
    check("fig10/peak-vs-mesh", Order, |r| {
        Ok(Finding::sides(highest(r, Chip::NocOut)?, highest(r, Chip::Mesh)?))
    }),
    check("noc-out/llc-contention", Order, |r| {
        let banks = |machine: rackmem_sim::machine::Machine| f64::from(machine.llc_banks());
        Ok(Finding::sides(banks(r.noc_out()?), banks(r.mesh()?)))
    }),
    check("noc-out/rrpp-placement", Exact, |r| number(Ok(r.noc_out()?.edge_places().into()))),
    check("noc-out/split-placement", Exact, |r| number(Ok(r.noc_out()?.edge_places().into()))),
];
