//! Figures 7 and 8: a key-value cache with additional memory.

use super::{Check, Known, Results, check, number};
use crate::reproduce::deoi::experiment::{EXTRA, Experiment, LATENCIES, VALUES};
use crate::reproduce::tolerance::Class::{Exact, Order, Ratio, UpTo};
use crate::reproduce::verdict::Finding;

/// The most that 512 MB gain, in per cent: their best interval over the run without.
fn most_gain(results: &Results) -> Known<f64> {
    let (mean, _) = results.gets(Experiment::extra(0))?;
    let (_, best) = results.gets(Experiment::extra(512))?;
    Ok(100.0 * (best / mean - 1.0))
}

fn more_is_better(results: &Results, more: u32, less: u32) -> Known<Finding> {
    let of = |mb| Ok::<f64, String>(results.gets(Experiment::extra(mb))?.0);
    Ok(Finding::sides(of(more)?, of(less)?).unit("GET/s"))
}

/// The largest additional memory that is full in the first half of the run.
fn early(results: &Results) -> Known<Finding> {
    let mut most = 0;
    for mb in EXTRA {
        let full = results.key_value(Experiment::extra(mb))?.full_at;
        if full.is_some_and(|at| at <= 0.5) {
            most = mb;
        }
    }
    number(Ok(f64::from(most)))
}

/// The worst interval with the least additional memory, and the mean without.
fn sustains(results: &Results) -> Known<Finding> {
    let report = results.key_value(Experiment::extra(128))?;
    let worst = report.per_second.iter().copied().fold(f64::INFINITY, f64::min);
    Ok(Finding::sides(worst, results.gets(Experiment::extra(0))?.0).unit("GET/s"))
}

fn evictions(results: &Results) -> Known<Finding> {
    let of = |mb| Ok::<f64, String>(results.key_value(Experiment::extra(mb))?.evictions_per_get);
    let most = EXTRA[1..].iter().map(|&mb| of(mb)).collect::<Known<Vec<f64>>>()?;
    let most = most.into_iter().fold(0.0, f64::max);
    Ok(Finding::sides(most, of(0)?).unit("evictions per GET"))
}

fn least_gain(results: &Results) -> Known<Finding> {
    let mut least = f64::INFINITY;
    for value in VALUES {
        for latency in LATENCIES {
            least = least.min(results.gain(value, latency)?);
        }
    }
    Ok(Finding::sides(least, 1.0).unit("x").remark("left: the least of all combinations"))
}

/// The least, over all values, of the gain at the longest latency over the best one at others.
fn longest_most(results: &Results) -> Known<Finding> {
    let mut least = f64::INFINITY;
    for value in VALUES {
        let longest = results.gain(value, LATENCIES[2])?;
        for latency in &LATENCIES[..2] {
            least = least.min(longest / results.gain(value, *latency)?);
        }
    }
    Ok(Finding::sides(least, 1.0).unit("x").remark("left: the least ratio to another latency"))
}

/// The most, over all latencies, of a larger value's gain over that of the next smaller one.
fn larger_less(results: &Results) -> Known<Finding> {
    let mut most = 0.0_f64;
    for latency in LATENCIES {
        for pair in VALUES.windows(2) {
            let of = |value| results.gain(value, latency);
            most = most.max(of(pair[1])? / of(pair[0])?);
        }
    }
    Ok(Finding::sides(most, 1.0).unit("x").remark("left: the most of all neighbouring values"))
}

fn extra(megabytes: u32) -> Known<Finding> {
    let found = EXTRA.into_iter().find(|&mb| mb == megabytes);
    number(found.map(f64::from).ok_or_else(|| "not run".to_owned()))
}

pub(super) const CAPACITY: &[Check] = &[
    check("abstract/redis/improvement", Ratio, |r| number(most_gain(r))),
    check("intro/redis/improvement", UpTo, |r| number(most_gain(r))),
    check("fig7/redis/extra-512mb", UpTo, |r| number(most_gain(r))),
    check("fig7/order/512mb-above-384mb", Order, |r| more_is_better(r, 512, 384)),
    check("fig7/order/384mb-above-256mb", Order, |r| more_is_better(r, 384, 256)),
    check("fig7/order/256mb-above-128mb", Order, |r| more_is_better(r, 256, 128)),
    check("fig7/order/128mb-above-0mb", Order, |r| more_is_better(r, 128, 0)),
    check("fig7/early-drop-limit", UpTo, early).reading("full in the first half of the run"),
    check("fig7/order/deoi-sustains", Order, sustains)
        .reading("the worst interval with 128 MB more, and the mean without"),
    check("fig7/order/eviction-cost", Order, evictions)
        .reading("items that are dropped, the most of all with additional memory"),
    check("redis/param/initial-region", Exact, |r| {
        number(Ok(r.number("kv.local_bytes")? / f64::from(1 << 30)))
    }),
    check("redis/param/additional-region/128mb", Exact, |_| extra(128)),
    check("redis/param/additional-region/256mb", Exact, |_| extra(256)),
    check("redis/param/additional-region/384mb", Exact, |_| extra(384)),
    check("redis/param/additional-region/512mb", Exact, |_| extra(512)),
    check("redis/param/query-latency", Exact, |r| number(r.number("kv.database_us"))),
    check("redis/param/value-size", Exact, |r| number(r.number("kv.value_bytes"))),
    check("redis/param/phases", Exact, |r| {
        Ok(Finding::fact(r.number("kv.warm_up")? > 0.0 && r.number("kv.intervals")? > 1.0))
    }),
];

pub(super) const SENSITIVITY: &[Check] = &[
    check("fig8/order/always-improves", Order, least_gain),
    check("fig8/order/longest-latency-most", Order, longest_most),
    check("fig8/order/larger-values-less", Order, larger_less),
    check("fig8/max-combination", Ratio, |r| number(r.gain(VALUES[2], LATENCIES[2]))).reading(
        "value sizes, as the text has it; sizes and latencies are not printed: 512, 1024 and 2048 bytes, 0, \
         100 and 200 us",
    ),
    check("fig8/param/value-sizes", Exact, |_| Ok(Finding::number(VALUES.len() as f64))),
    check("fig8/param/ideal-latency", Exact, |_| Ok(Finding::number(f64::from(LATENCIES[0])))),
];
