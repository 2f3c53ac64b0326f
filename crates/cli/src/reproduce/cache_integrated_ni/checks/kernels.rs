//! Figures 9 and 10: bitonic sort and FFT, whose data stay on the chip.

use super::{Check, check, number};
use crate::reproduce::cache_integrated_ni::experiment::Kernel::{self, Bitonic, Fft};
use crate::reproduce::cache_integrated_ni::experiment::Mechanism::{self, Dma, Stores};
use crate::reproduce::cache_integrated_ni::experiment::PARALLEL;
use crate::reproduce::cache_integrated_ni::results::Time::{
    self, Communication, Computation, Total,
};
use crate::reproduce::cache_integrated_ni::results::{Known, Results};
use crate::reproduce::tolerance::Class::{Bound, Order, Range, Ratio};
use crate::reproduce::verdict::Finding;

/// Reading of ranges.
const RANGE: &str = "over all these inputs, on two and on four cores";

/// Reading of FFT's communication, of which the paper does not say what its per cent are of.
const SHARE: &str = "as of bitonic sort: the part of the time that is saved";

/// Saved part of a time in per cent, the least and the most: by remote stores if the input is small, else by copies.
fn saved(results: &Results, kernel: Kernel, is_small: bool, time: Time) -> Known<(f64, f64)> {
    let (least, most) = results.stores_over_copies(kernel, is_small, time)?;
    Ok(match is_small {
        true => (100.0 * (1.0 - most), 100.0 * (1.0 - least)),
        false => (100.0 * (1.0 - 1.0 / least), 100.0 * (1.0 - 1.0 / most)),
    })
}

/// By how much performance is higher, in per cent; likewise.
fn gained(results: &Results, kernel: Kernel, is_small: bool) -> Known<(f64, f64)> {
    let (least, most) = results.stores_over_copies(kernel, is_small, Total)?;
    Ok(match is_small {
        true => (100.0 * (1.0 / most - 1.0), 100.0 * (1.0 / least - 1.0)),
        false => (100.0 * (least - 1.0), 100.0 * (most - 1.0)),
    })
}

fn least(range: Known<(f64, f64)>) -> Known<Finding> {
    let (least, most) = range?;
    Ok(Finding::number(least).remark(format!("{least:.1} to {most:.1} %")))
}

fn most(range: Known<(f64, f64)>) -> Known<Finding> {
    let (least, most) = range?;
    Ok(Finding::number(most).remark(format!("{least:.1} to {most:.1} %")))
}

/// The largest input up to which remote stores communicate in less time, on two and on four cores.
fn last_for_stores(results: &Results, kernel: Kernel) -> Known<f64> {
    let mut last = 0.0;
    for &n in results.effort.inputs(kernel) {
        for cores in PARALLEL {
            let of = |mechanism| results.kernel(kernel, n, cores, mechanism, Communication);
            if of(Stores)? >= of(Dma)? {
                return Ok(last);
            }
        }
        last = f64::from(n);
    }
    Ok(last)
}

fn task(results: &Results, mechanisms: &[Mechanism]) -> Known<Finding> {
    let (n, cycles) = results.finest(Bitonic, mechanisms)?;
    Ok(Finding::number(cycles).remark(format!("N = {n}")))
}

/// The best of both mechanisms.
fn efficiency(results: &Results, cores: u16) -> Known<Finding> {
    let of = |mechanism| results.efficiency(Bitonic, cores, mechanism);
    let (dma, stores) = (of(Dma)?, of(Stores)?);
    let remark = format!("copies {dma:.0} %, remote stores {stores:.0} %");
    Ok(Finding::number(dma.max(stores)).remark(remark))
}

fn both(results: &Results, cores: u16) -> Known<Finding> {
    let of = |mechanism| results.efficiency(Fft, cores, mechanism);
    Ok(Finding::sides(of(Dma)?, of(Stores)?).unit("%"))
}

/// Time in all parallel runs.
fn sum(results: &Results, kernel: Kernel, time: Time) -> Known<f64> {
    let mut sum = 0.0;
    for &n in results.effort.inputs(kernel) {
        for cores in PARALLEL {
            for mechanism in [Dma, Stores] {
                sum += results.kernel(kernel, n, cores, mechanism, time)?;
            }
        }
    }
    Ok(sum)
}

/// The most that more than one core gives for small inputs.
fn small_speedup(results: &Results) -> Known<Finding> {
    let mut best = (0.0, String::new());
    for n in results.inputs(Fft, true) {
        for cores in PARALLEL {
            for mechanism in [Dma, Stores] {
                let speedup = results.speedup(Fft, n, cores, mechanism)?;
                if speedup > best.0 {
                    best = (speedup, format!("N = {n}, {cores} cores, {}", mechanism.name()));
                }
            }
        }
    }
    Ok(Finding::number(best.0).remark(best.1))
}

/// The advantage of copies with the largest input against that with the smallest large one, at the
/// number of cores where it grows least.
fn advantage_grows(results: &Results) -> Known<Finding> {
    let inputs = results.inputs(Fft, false);
    let (Some(&first), Some(&last)) = (inputs.first(), inputs.last()) else {
        return Err("no large inputs".to_owned());
    };
    let advantage = |n, cores| {
        let of = |mechanism| results.kernel(Fft, n, cores, mechanism, Total);
        Ok::<f64, String>(100.0 * (of(Stores)? / of(Dma)? - 1.0))
    };
    let mut worst: Option<(f64, f64)> = None;
    for cores in PARALLEL {
        let (left, right) = (advantage(last, cores)?, advantage(first, cores)?);
        if worst.is_none_or(|(least, before)| left - right < least - before) {
            worst = Some((left, right));
        }
    }
    let (left, right) = worst.ok_or("no cores")?;
    Ok(Finding::sides(left, right).unit("%").remark(format!("N = {last} against {first}")))
}

pub(super) const BITONIC: &[Check] = &[
    check("bitonic/finest-profitable-task", Bound, |r| task(r, &[Dma, Stores])),
    check("bitonic/finest-input", Bound, |r| {
        let (n, cycles) = r.finest(Bitonic, &[Dma, Stores])?;
        Ok(Finding::number(n).remark(format!("{cycles:.0} cycles on one core")))
    }),
    check("intro/fine-grain-task", Bound, |r| task(r, &[Stores])),
    check("conclusion/fine-grain-task", Bound, |r| task(r, &[Stores])),
    check("bitonic/small/comm-time-saving-remote-store/min", Range, |r| {
        least(saved(r, Bitonic, true, Communication))
    })
    .reading(RANGE),
    check("bitonic/small/comm-time-saving-remote-store/max", Range, |r| {
        most(saved(r, Bitonic, true, Communication))
    })
    .reading(RANGE),
    check("bitonic/small/overall-gain-remote-store/min", Range, |r| {
        least(gained(r, Bitonic, true))
    })
    .reading(RANGE),
    check("bitonic/small/overall-gain-remote-store/max", Range, |r| most(gained(r, Bitonic, true)))
        .reading(RANGE),
    check("bitonic/large/comm-time-saving-dma/min", Range, |r| {
        least(saved(r, Bitonic, false, Communication))
    })
    .reading(RANGE),
    check("bitonic/large/comm-time-saving-dma/max", Range, |r| {
        most(saved(r, Bitonic, false, Communication))
    })
    .reading(RANGE),
    check("bitonic/large/overall-gain-dma/max", Bound, |r| most(gained(r, Bitonic, false)))
        .reading(RANGE),
    check("bitonic/order/small-comm", Order, |r| {
        let (_, worst) = r.stores_over_copies(Bitonic, true, Communication)?;
        Ok(Finding::sides(worst, 1.0)
            .unit("x")
            .remark("left: stores over copies, at the worst input"))
    }),
    check("bitonic/order/large-comm", Order, |r| {
        let (worst, _) = r.stores_over_copies(Bitonic, false, Communication)?;
        Ok(Finding::sides(1.0 / worst, 1.0)
            .unit("x")
            .remark("left: copies over stores, at the worst input"))
    }),
    check("bitonic/crossover", Ratio, |r| number(last_for_stores(r, Bitonic)))
        .reading("the largest input up to which remote stores win, on two and on four cores"),
    check("bitonic/parallel-efficiency/2cpu", Ratio, |r| efficiency(r, 2)),
    check("bitonic/parallel-efficiency/4cpu", Ratio, |r| efficiency(r, 4)),
    check("bitonic/param/on-chip-limit", Bound, |r| {
        number(Ok(r.machine_number(false, "l2.size_bytes")? / 1024.0))
    })
    .reading("the private L2 of a core"),
    check("bench/param/bitonic-computation-bound", Order, |r| {
        Ok(Finding::sides(sum(r, Bitonic, Computation)?, sum(r, Bitonic, Communication)?)
            .unit("cycles")
            .remark("of all inputs, on two and four cores, with both mechanisms"))
    }),
    check("conclusion/order/rdma-dominates", Order, |r| {
        let mut least = f64::INFINITY;
        for kernel in [Bitonic, Fft] {
            least = least.min(r.stores_over_copies(kernel, false, Communication)?.0);
        }
        Ok(Finding::sides(least, 1.0)
            .unit("x")
            .remark("left: time of communication, stores over copies, at the worst input above 64"))
    }),
];

pub(super) const FFT: &[Check] = &[
    check("fft/small/comm-gain-remote-store/min", Range, |r| {
        least(saved(r, Fft, true, Communication))
    })
    .reading(SHARE),
    check("fft/small/comm-gain-remote-store/max", Range, |r| {
        most(saved(r, Fft, true, Communication))
    })
    .reading(SHARE),
    check("fft/small/overall-gain-remote-store/min", Range, |r| least(gained(r, Fft, true)))
        .reading(RANGE),
    check("fft/small/overall-gain-remote-store/max", Range, |r| most(gained(r, Fft, true)))
        .reading(RANGE),
    check("fft/small/no-parallel-gain", Bound, small_speedup),
    check("fft/large/overall-gain-dma/min", Range, |r| least(gained(r, Fft, false))).reading(RANGE),
    check("fft/large/overall-gain-dma/max", Range, |r| most(gained(r, Fft, false))).reading(RANGE),
    check("fft/crossover", Ratio, |r| {
        let last = last_for_stores(r, Fft)?;
        let next = r.effort.inputs(Fft).iter().find(|&&n| f64::from(n) > last);
        number(Ok(next.map_or(2.0 * last, |&n| f64::from(n))))
    })
    .reading("the smallest input for which copies win, on two or on four cores"),
    check("fft/order/dma-advantage-grows", Order, advantage_grows),
    check("fft/parallel-efficiency/dma/2cpu", Ratio, |r| number(r.efficiency(Fft, 2, Dma))),
    check("fft/parallel-efficiency/dma/4cpu", Ratio, |r| number(r.efficiency(Fft, 4, Dma))),
    check("fft/parallel-efficiency/remote-store/2cpu", Ratio, |r| {
        number(r.efficiency(Fft, 2, Stores))
    }),
    check("fft/parallel-efficiency/remote-store/4cpu", Ratio, |r| {
        number(r.efficiency(Fft, 4, Stores))
    }),
    check("fft/order/efficiency-dma-above-remote-store/2cpu", Order, |r| both(r, 2)),
    check("fft/order/efficiency-dma-above-remote-store/4cpu", Order, |r| both(r, 4)),
];
