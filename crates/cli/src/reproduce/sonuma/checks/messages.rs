//! Figure 8 and section 7.3: send and receive.

use super::{Check, check, number, on_host};
use crate::reproduce::sonuma::experiment::LARGE;
use crate::reproduce::sonuma::experiment::Platform::{Host, Model};
use crate::reproduce::sonuma::experiment::Threshold::{Pull, Push};
use crate::reproduce::sonuma::results::{Known, Results};
use crate::reproduce::tolerance::Class::{Bandwidth, Bound, Order, Reaches, Rounded};
use crate::reproduce::verdict::Finding;

/// The smallest message.
fn smallest(results: &Results) -> u32 {
    results.effort.message_sizes()[0]
}

fn small(results: &Results) -> Known<Finding> {
    let of = |threshold| results.message_ns(Model, threshold, smallest(results));
    Ok(Finding::sides(of(Push)?, of(Pull)?).remark(format!("{} B", smallest(results))))
}

fn large(results: &Results) -> Known<Finding> {
    let of = |threshold| results.message_gbits(Model, threshold, LARGE);
    Ok(Finding::sides(of(Pull)?, of(Push)?).remark("8 KB"))
}

fn bandwidth(results: &Results, bytes: u32) -> Known<f64> {
    results.message_gbits(Model, results.threshold(Model)?, bytes)
}

/// Bandwidth with both mechanisms and with the better one alone, at the size where both do worst.
fn combined(results: &Results) -> Known<Finding> {
    let mut worst: Option<(f64, f64, u32)> = None;
    for &bytes in results.effort.message_sizes() {
        let alone = |threshold| results.message_gbits(Model, threshold, bytes);
        let (both, best) = (bandwidth(results, bytes)?, alone(Push)?.max(alone(Pull)?));
        if worst.is_none_or(|(left, right, _)| both * right < left * best) {
            worst = Some((both, best, bytes));
        }
    }
    let (both, best, bytes) = worst.ok_or("no sizes")?;
    Ok(Finding::sides(both, best).remark(format!("at {bytes} B, where it is least so")))
}

fn thresholds(results: &Results) -> Known<Finding> {
    Ok(Finding::sides(results.threshold_bytes(Host)?, results.threshold_bytes(Model)?)
        .remark("first size that is pulled; beyond 8 KB: none is"))
}

pub(super) const CHECKS: &[Check] = &[
    check("sec5-3/push-vs-pull-latency", Order, small),
    check("fig8/push-small", Order, small),
    check("sec5-3/pull-vs-push-bandwidth", Order, large),
    check("fig8/pull-large", Order, large),
    check("fig8a/half-duplex-latency", Rounded, |r| {
        number(r.message_ns(Model, r.threshold(Model)?, smallest(r)))
    }),
    check("fig8b/bandwidth-4kb", Bound, |r| number(bandwidth(r, 4096))),
    check("fig8b/bandwidth-8kb", Bandwidth, |r| number(bandwidth(r, LARGE)))
        .reading("in Gbit/s, as printed: 12.8 GB/s would be more than reads reach"),
    check("fig8/combined-vs-single", Reaches, combined)
        .reading("one comparison more per message is not held against it"),
    check("fig8c/threshold-vs-simulated", Order, |r| on_host(r, thresholds)),
];
