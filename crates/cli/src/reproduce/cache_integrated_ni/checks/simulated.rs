//! Figure 11: locks and barriers of up to 128 cores.

use super::{Check, check, number};
use crate::reproduce::cache_integrated_ni::experiment::Barrier::{Counter, Tree};
use crate::reproduce::cache_integrated_ni::experiment::Lock::{Mcs, Queue};
use crate::reproduce::cache_integrated_ni::experiment::Work;
use crate::reproduce::cache_integrated_ni::results::Step::Total;
use crate::reproduce::cache_integrated_ni::results::{Known, Results};
use crate::reproduce::tolerance::Class::{Bound, Order, Simulated, UpTo};
use crate::reproduce::verdict::Finding;

/// Reading of improvements of both.
const BOTH: &str = "over locks and barriers, with all numbers of cores";

/// Count of directory requests.
const REQUESTS: &str = "lines that cores ask directories for, less those of the same program with the \
                        other kind, which asks for none but in its set-up";

fn lock_ratio(results: &Results, cores: u16) -> Known<f64> {
    let of = |lock| results.lock(true, lock, cores, Total);
    Ok(of(Mcs)? / of(Queue)?)
}

fn barrier_ratio(results: &Results, cores: u16) -> Known<f64> {
    let of = |barrier| results.barrier(true, barrier, cores);
    Ok(of(Tree)? / of(Counter)?)
}

/// The least and the most with any number of cores.
fn range(results: &Results, of: fn(&Results, u16) -> Known<f64>) -> Known<(f64, f64)> {
    let mut range = (f64::INFINITY, 0.0_f64);
    for &cores in results.effort.many_cores() {
        let ratio = of(results, cores)?;
        range = (range.0.min(ratio), range.1.max(ratio));
    }
    Ok(range)
}

fn improvement(results: &Results) -> Known<(f64, f64)> {
    let (locks, barriers) = (range(results, lock_ratio)?, range(results, barrier_ratio)?);
    Ok((locks.0.min(barriers.0), locks.1.max(barriers.1)))
}

fn fewest(results: &Results) -> u16 {
    results.effort.many_cores()[0]
}

fn most(results: &Results) -> u16 {
    results.effort.many_cores().last().copied().unwrap_or(1)
}

/// Lines that a core asks for each time, with coherent memory and without, less those of the set-up.
fn mcs_requests(results: &Results) -> Known<Finding> {
    let cores = fewest(results);
    let of = |lock| results.requests(Work::Lock(lock), cores);
    number(Ok(of(Mcs)? - of(Queue)?)).map(|finding| finding.remark(format!("{cores} cores")))
}

pub(super) const LOCKS: &[Check] = &[
    check("sim/lock/mrq-over-mcs/min", Simulated, |r| number(Ok(range(r, lock_ratio)?.0))),
    check("sim/lock/mrq-over-mcs/max", Simulated, |r| number(Ok(range(r, lock_ratio)?.1))),
    check("sim/order/mrq-below-mcs", Order, |r| {
        Ok(Finding::sides(1.0 / range(r, lock_ratio)?.0, 1.0)
            .unit("x")
            .remark("left: mr-Q over MCS, at the worst number of cores"))
    }),
    check("sim/mcs/misses-per-iteration/min", Bound, mcs_requests).reading(REQUESTS),
    check("sim/mcs/misses-per-iteration/max", Bound, mcs_requests).reading(REQUESTS),
    check("intro/sync-improvement/min", Simulated, |r| number(Ok(improvement(r)?.0))).reading(BOTH),
    check("intro/sync-improvement/max", Simulated, |r| number(Ok(improvement(r)?.1))).reading(BOTH),
    check("sim/param/max-cores", UpTo, |r| {
        let of = |path| r.machine_number(true, path);
        number(Ok(of("tiles.columns")? * of("tiles.rows")?))
    }),
    check("conclusion/scalability", Bound, |r| {
        let mut last = 0.0;
        for &cores in r.effort.many_cores() {
            if lock_ratio(r, cores)? > 1.0 && barrier_ratio(r, cores)? > 1.0 {
                last = f64::from(cores);
            }
        }
        Ok(Finding::number(last))
    })
    .reading("the most cores with which both primitives take less time than in coherent memory"),
];

pub(super) const BARRIERS: &[Check] = &[
    check("sim/barrier/counter-over-tree/16cpu", Simulated, |r| number(barrier_ratio(r, 16))),
    check("sim/barrier/counter-over-tree/128cpu", Simulated, |r| number(barrier_ratio(r, 128))),
    check("sim/order/barrier-advantage-grows", Order, |r| {
        let of = |cores| barrier_ratio(r, cores);
        Ok(Finding::sides(of(most(r))?, of(fewest(r))?).unit("x"))
    }),
    check("sim/tree-barrier/cause", Order, |r| {
        let of = |barrier| r.requests(Work::Barrier(barrier), fewest(r));
        Ok(Finding::sides(of(Tree)?, of(Counter)?)
            .unit("requests")
            .remark("of each core, each time; the counters' are those of the set-up"))
    })
    .reading("lines that cores ask directories for"),
];
