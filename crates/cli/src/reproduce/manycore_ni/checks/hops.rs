//! Figure 5 and section 6.1.2: more hops between the chips; and the headlines that rest on it.

use super::{Check, check, number};
use crate::reproduce::manycore_ni::experiment::{Design, Experiment};
use crate::reproduce::manycore_ni::results::{Known, Results};
use crate::reproduce::tolerance::Class::{Bound, Exact, Order, Overhead, UpTo};
use crate::reproduce::verdict::Finding;

/// Hops in Figure 5.
pub(crate) const HOPS: std::ops::RangeInclusive<u32> = 1..=12;

/// Reading of "within 3 % of NUMA".
const AT_TWELVE_HOPS: &str = "no hop count is given; the paper's own tables have it below 3 % only at \
                              12 hops, the diameter of the rack, so it is judged there";

fn within(results: &Results, design: Design) -> Known<Finding> {
    let at = |hops| results.overhead(design, hops);
    Ok(Finding::number(at(12)?).remark(format!(
        "at 1 hop {:.1} %, at 6 hops {:.1} %",
        at(1)?,
        at(6)?
    )))
}

pub(super) const CHECKS: &[Check] = &[
    check("fig5/hop-latency", Exact, |r| number(r.round_trip_hop().map(|cycles| cycles / 2.0))),
    check("fig5/ni-edge/overhead-6hops", Overhead, |r| number(r.overhead(Design::Edge, 6))),
    check("fig5/ni-split/overhead-6hops", Overhead, |r| number(r.overhead(Design::Split, 6))),
    check("fig5/ni-edge/overhead-12hops", Overhead, |r| number(r.overhead(Design::Edge, 12))),
    check("fig5/ni-split/overhead-12hops", Overhead, |r| number(r.overhead(Design::Split, 12))),
    check("fig5/edge-vs-split", Order, |r| {
        // The hop count at which the two are nearest to each other.
        let mut nearest: Option<(f64, f64)> = None;
        for hops in HOPS {
            let (left, right) =
                (r.projected(Design::Edge, hops)?, r.projected(Design::Split, hops)?);
            if nearest.is_none_or(|(l, r)| left - right < l - r) {
                nearest = Some((left, right));
            }
        }
        let (left, right) = nearest.ok_or("no hops")?;
        Ok(Finding::sides(left, right).remark("where the two are nearest, of 1 to 12 hops"))
    }),
    check("fig5/overhead-falls-with-hops", Order, |r| {
        let at = |design, hops| r.overhead(design, hops);
        // Both designs have to fall; the one that falls less is shown.
        let edge = (at(Design::Edge, 12)?, at(Design::Edge, 6)?);
        let split = (at(Design::Split, 12)?, at(Design::Split, 6)?);
        let (left, right) = if edge.0 - edge.1 > split.0 - split.1 { edge } else { split };
        Ok(Finding::sides(left, right))
    }),
    check("abstract/best-design/within-3pct-of-numa", Bound, |r| within(r, Design::Split))
        .reading(AT_TWELVE_HOPS),
    check("intro/ni-per-tile/within-3pct-of-numa", Bound, |r| within(r, Design::PerTile))
        .reading(AT_TWELVE_HOPS),
    check("intro/ni-split/within-3pct-of-numa", Bound, |r| within(r, Design::Split))
        .reading(AT_TWELVE_HOPS),
    check("sec8/ni-per-tile/within-3pct", Bound, |r| within(r, Design::PerTile))
        .reading(AT_TWELVE_HOPS),
    check("intro/ni-edge/overhead-over-numa-min", Bound, |r| number(r.overhead(Design::Edge, 12)))
        .reading("the low end of the range is the overhead at 12 hops (section 6.1.2)"),
    check("intro/ni-edge/overhead-over-numa-max", Bound, |r| number(r.overhead(Design::Edge, 1)))
        .reading("the high end of the range is the overhead at 1 hop (Table 1)"),
    check("intro/on-chip-latency/share-up-to-80pct", UpTo, |r| {
        let edge = Experiment::latency(Design::Edge, 64);
        let total = r.total(edge)?;
        let network = r.stages(edge, &["network_out", "network_back"])?;
        Ok(Finding::number(100.0 * (total - network) / total))
    })
    .reading(
        "a share, as the sentence says: everything but the two network hops, which in Table 3 are \
         80.3 %; read as the overhead over NUMA it is table1/qp/overhead-over-numa",
    ),
];
