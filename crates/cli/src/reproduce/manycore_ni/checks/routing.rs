//! Sections 4.3 and 6.2: routing on the mesh, and which RRPP serves a request.

use std::collections::BTreeMap;

use rackmem_sim::machine::spec::NocRouting;
use rackmem_sim::report::LinkLoad;

use super::{Check, check, number};
use crate::reproduce::manycore_ni::experiment::{Design, Experiment, LARGE, Routing};
use crate::reproduce::manycore_ni::results::{Known, Results};
use crate::reproduce::tolerance::Class::{Bandwidth, Bound, Exact, Order};
use crate::reproduce::verdict::Finding;

/// The peak of the best of XY, YX and O1Turn, and what each of them reaches.
fn without_classes(results: &Results) -> Known<(f64, String)> {
    let mut best = f64::NEG_INFINITY;
    let mut each = Vec::new();
    for routing in Routing::WITHOUT_CLASSES {
        let (gbps, run) = results.routed_peak(routing)?;
        best = best.max(gbps);
        each.push(format!("{} {gbps:.1} GB/s ({})", routing.name(), run.design.title()));
    }
    Ok((best, each.join(", ")))
}

fn with_classes(results: &Results) -> Known<f64> {
    Ok(results.routed_peak(Routing::CdrDirectory)?.0)
}

/// Mean load of the links along each column.
pub(crate) fn columns(links: &[LinkLoad]) -> BTreeMap<u16, f64> {
    let mut loads: BTreeMap<u16, Vec<f64>> = BTreeMap::new();
    let along = |link: &&LinkLoad| link.from.0 == link.to.0 && link.from.1 != link.to.1;
    for link in links.iter().filter(along) {
        loads.entry(link.from.0).or_default().push(link.utilisation);
    }
    let mean = |loads: Vec<f64>| loads.iter().sum::<f64>() / loads.len() as f64;
    loads.into_iter().map(|(column, loads)| (column, mean(loads))).collect()
}

/// Mean load of a link as a share of the highest load of any: 1 is perfect balance.
fn balance(results: &Results, routing: Routing) -> Known<f64> {
    let run = Experiment::bandwidth(Design::Split, LARGE).routed(routing);
    let links = &results.report(run)?.links;
    let most = links.iter().map(|link| link.utilisation).fold(0.0, f64::max);
    if most == 0.0 {
        return Err(format!("{} reports no load of links", run.name()));
    }
    Ok(links.iter().map(|link| link.utilisation).sum::<f64>() / links.len() as f64 / most)
}

/// Correlation of bandwidths over all designs and sizes, with and without classes.
fn likeness(results: &Results) -> Known<f64> {
    let mut pairs = Vec::new();
    for design in Design::MESSAGING {
        for &bytes in results.effort.shape_sizes() {
            let run = Experiment::bandwidth(design, bytes);
            pairs.push((results.app(run.routed(Routing::Xy))?, results.app(run)?));
        }
    }
    Ok(correlation(&pairs))
}

/// Pearson's coefficient; 0 if one side does not vary.
pub(crate) fn correlation(pairs: &[(f64, f64)]) -> f64 {
    let count = pairs.len() as f64;
    let mean_a = pairs.iter().map(|pair| pair.0).sum::<f64>() / count;
    let mean_b = pairs.iter().map(|pair| pair.1).sum::<f64>() / count;
    let (mut ab, mut aa, mut bb) = (0.0, 0.0, 0.0);
    for (a, b) in pairs {
        let (a, b) = (a - mean_a, b - mean_b);
        ab += a * b;
        aa += a * a;
        bb += b * b;
    }
    if aa == 0.0 || bb == 0.0 { 0.0 } else { ab / (aa * bb).sqrt() }
}

/// Reading of "without CDR".
const ANY_ROUTING: &str = "which routing replaces CDR is not said; this is the best of XY, YX and \
                           O1Turn, and of all three designs";

pub(super) const CHECKS: &[Check] = &[
    check("sec4-3/routing/directory-class", Exact, |r| {
        Ok(Finding::fact(r.mesh()?.noc.routing == NocRouting::CdrDirectory))
    }),
    check("sec4-3/routing/no-edge-turns", Bound, |r| {
        number(r.stat(Experiment::bandwidth(Design::Split, LARGE), "noc.edge_turns_directory"))
    }),
    check("sec4-3/dor-throttles", Order, |r| {
        let (best, each) = without_classes(r)?;
        Ok(Finding::sides(best, with_classes(r)?).remark(each))
    })
    .reading(ANY_ROUTING),
    check("fig7/no-cdr/peak", Bandwidth, |r| {
        let (best, each) = without_classes(r)?;
        Ok(Finding::number(best).remark(each))
    })
    .reading(ANY_ROUTING),
    check("fig7/no-cdr/peak-ratio", Bound, |r| {
        let (best, each) = without_classes(r)?;
        Ok(Finding::number(best / with_classes(r)?).remark(each))
    })
    .reading(ANY_ROUTING),
    check(
        "fig7/no-cdr/shape",
        Order,
        |r| Ok(Finding::sides(likeness(r)?, 1.0).unit("correlation")),
    )
    .reading(
        "\"qualitatively similar\": the bandwidths of all designs and sizes under XY and under CDR \
         correlate, within 10 % of perfectly",
    ),
    check("sec4-3/mc-column-bottleneck-xy", Order, |r| {
        let run = Experiment::bandwidth(Design::Split, LARGE).routed(Routing::Xy);
        let mut columns = columns(&r.report(run)?.links);
        // Memory controllers are at the right of the drawing.
        let (column, load) = columns.pop_last().ok_or("no loads of links")?;
        let others = columns.into_values().fold(0.0, f64::max);
        Ok(Finding::sides(load, others).unit("flits/cycle").remark(format!(
            "mean load of the links of column {column}, at the memory controllers, and of the \
             busiest other column; 8 KB, split design"
        )))
    }),
    check("sec4-3/cdr-mc-policy-insufficient", Order, |r| {
        Ok(Finding::sides(balance(r, Routing::Cdr)?, balance(r, Routing::CdrDirectory)?)
            .unit("mean/busiest")
            .remark("mean load of a link as a share of the busiest one's; 8 KB, split design"))
    }),
    check("sec4-3/incoming-mostly-dram", Order, |r| {
        let share =
            100.0 * r.stat(Experiment::bandwidth(Design::Split, LARGE), "rrpp.dram_share")?;
        Ok(Finding::sides(share, 100.0 - share).remark("remote requests"))
    }),
    check("sec4-3/rrpp-interleave/min-hops", Order, |r| {
        let hops = r.stat(Experiment::bandwidth(Design::Split, LARGE), "rrpp.hops_mean")?;
        let columns = f64::from(r.mesh()?.tiles.columns);
        // Along the row of its home a request passes half the columns on average; from any other
        // row it is at least one hop more.
        Ok(Finding::sides(hops, (columns + 1.0) / 2.0 + 1.0)
            .remark("right: from the nearest row that is not the home's"))
    }),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn correlation_is_one_for_the_same_shape() {
        let double: Vec<(f64, f64)> = [1.0, 5.0, 3.0].map(|x| (x, 2.0 * x + 1.0)).into();
        assert!((correlation(&double) - 1.0).abs() < 1e-12);
        assert!((correlation(&[(1.0, 2.0), (2.0, 1.0)]) + 1.0).abs() < 1e-12);
        assert_eq!(correlation(&[(1.0, 2.0), (2.0, 2.0)]), 0.0);
    }
}
