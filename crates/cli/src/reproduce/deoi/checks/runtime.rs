//! Claims that the runtime of this host shows, too: orderings and ratios.

use super::{Check, Known, Results, check};
use crate::reproduce::deoi::experiment::{EXTRA, LATENCIES, Trial, VALUES};
use crate::reproduce::tolerance::Class::Host;
use crate::reproduce::verdict::Finding;

/// A finding, if this host lets the runtime measure.
fn on_host(results: &Results, measure: impl FnOnce() -> Known<Finding>) -> Known<Finding> {
    match &results.setting.host {
        Ok(()) => measure(),
        Err(why) => Ok(Finding::nothing(why)),
    }
}

/// A remote read over a local one.
fn over_local(results: &Results) -> Known<Finding> {
    on_host(results, || {
        let of = |figure| results.on_host(Trial::Reads, figure);
        Ok(Finding::number(of("remote")? / of("local")?).remark(
            "random reads of borrowed memory, each of which brings a page over TCP, over those of local memory: \
             there is no path for a line between hosts",
        ))
    })
}

fn more_is_better(results: &Results, more: u32, less: u32) -> Known<Finding> {
    on_host(results, || {
        let sides = Finding::sides(results.gets_on_host(more)?, results.gets_on_host(less)?);
        Ok(sides.unit("GET/s").remark(
            "a cache of 4 MB before a database of 100 us, with as many 256ths of the additional memory borrowed of a \
             lender that is mapped here; hardly a page of it stays with the borrower",
        ))
    })
}

fn sustains(results: &Results) -> Known<Finding> {
    on_host(results, || {
        let most = EXTRA[EXTRA.len() - 1];
        let sides = Finding::sides(results.gets_on_host(most)?, results.gets_on_host(0)?);
        Ok(sides.unit("GET/s").remark("the most borrowed memory and none, all caches full"))
    })
}

fn evictions(results: &Results) -> Known<Finding> {
    on_host(results, || {
        let mut most = 0.0_f64;
        for &megabytes in &EXTRA[1..] {
            most = most.max(results.evictions_on_host(megabytes)?);
        }
        let sides = Finding::sides(most, results.evictions_on_host(0)?).unit("evictions per GET");
        Ok(sides.remark("items that are dropped, the most of all with borrowed memory"))
    })
}

/// The least gain of all values and latencies.
fn least_gain(results: &Results) -> Known<Finding> {
    on_host(results, || {
        let mut least = f64::INFINITY;
        for value in VALUES {
            for latency in LATENCIES {
                least = least.min(results.gain_on_host(value, latency)?);
            }
        }
        Ok(Finding::sides(least, 1.0).unit("x").remark(
            "left: the least of all combinations. With a database that answers at once a miss costs a copy, and \
             a hit in borrowed memory a page that comes and one that goes; the paper's cache takes tens of \
             microseconds for each request whatever it finds, and reads lines",
        ))
    })
}

/// The best gain at the longest latency, and at the others.
fn longest_most(results: &Results) -> Known<Finding> {
    on_host(results, || {
        let best = |latencies: &[u32]| {
            let mut best = 0.0_f64;
            for value in VALUES {
                for &latency in latencies {
                    best = best.max(results.gain_on_host(value, latency)?);
                }
            }
            Ok::<f64, String>(best)
        };
        let (others, longest) = LATENCIES.split_at(LATENCIES.len() - 1);
        let sides = Finding::sides(best(longest)?, best(others)?).unit("x");
        Ok(sides.remark("the best gain of all values at the longest latency, and at the others"))
    })
}

/// A larger value's gain over the smallest one's, at the longest latency.
fn larger_less(results: &Results) -> Known<Finding> {
    on_host(results, || {
        let of = |value| results.gain_on_host(value, LATENCIES[2]);
        let sides = Finding::sides(of(VALUES[2])?, of(VALUES[0])?).unit("x");
        Ok(sides.remark("gains with values of 2048 and 512 bytes, at the longest latency"))
    })
}

pub(super) const FIG4: &[Check] = &[check("fig4/remote-over-local", Host, over_local)];

pub(super) const FIG7: &[Check] = &[
    check("fig7/order/512mb-above-384mb", Host, |r| more_is_better(r, 512, 384)),
    check("fig7/order/384mb-above-256mb", Host, |r| more_is_better(r, 384, 256)),
    check("fig7/order/256mb-above-128mb", Host, |r| more_is_better(r, 256, 128)),
    check("fig7/order/128mb-above-0mb", Host, |r| more_is_better(r, 128, 0)),
    check("fig7/order/deoi-sustains", Host, sustains),
    check("fig7/order/eviction-cost", Host, evictions),
];

pub(super) const FIG8: &[Check] = &[
    check("fig8/order/always-improves", Host, least_gain),
    check("fig8/order/longest-latency-most", Host, longest_most),
    check("fig8/order/larger-values-less", Host, larger_less),
];
