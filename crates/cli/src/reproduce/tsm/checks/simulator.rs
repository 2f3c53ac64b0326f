//! Table 3, figures 8 and 9: write policy, outstanding requests and prefetching on the simulator.

use super::{Check, Finding, Known, Results, check, number};
use crate::reproduce::tolerance::Class::{Exact, Order, Ratio, Simulated, Total};
use crate::reproduce::tsm::experiment::Kernel::{self, B2, B3, B4, Gap, Gcc, Gzip, Mcf};
use crate::reproduce::tsm::experiment::Machine::Simulator;
use crate::reproduce::tsm::experiment::Place::{Local, Remote};
use crate::reproduce::tsm::experiment::{DEGREE, OUTSTANDING, Policy};

const ORQ16: u32 = OUTSTANDING[1];

fn kilobytes(results: &Results, path: &str) -> Known<Finding> {
    number(Ok(results.number_of(Simulator, path)? / 1024.0))
}

fn write_back_below_through(results: &Results, kernel: Kernel) -> Known<Finding> {
    let of = |policy| results.borrowed(kernel, policy, ORQ16);
    Ok(Finding::sides(of(Policy::WriteBack)?, of(Policy::Invalidate)?).unit("ns"))
}

/// Of benchmark 4, where loads miss.
fn per_ms(results: &Results, outstanding: u32) -> Known<f64> {
    Ok(1e6 / results.borrowed(B4, Policy::WriteBack, outstanding)?)
}

/// The largest degree against the smallest one.
fn degree_helps(results: &Results, kernel: Kernel) -> Known<Finding> {
    let of = |degree| results.speedup(kernel, Remote, degree);
    Ok(Finding::sides(of(DEGREE)?, of(1)?).unit("x").remark("speed-up with degrees 5 and 1"))
}

pub(super) const FIG8: &[Check] = &[
    check("table3/local-latency", Exact, |r| number(r.number_of(Simulator, "memory.latency_ns"))),
    check("table3/remote-latency", Total, |r| number(r.remote_latency())),
    check("table3/latency-ratio", Ratio, |r| {
        number(Ok(r.remote_latency()? / r.number_of(Simulator, "memory.latency_ns")?))
    }),
    check("table3/l1d", Exact, |r| kilobytes(r, "l1.size_bytes")),
    check("table3/l1i", Exact, |r| kilobytes(r, "cpu.icache_bytes")),
    check("table3/l2", Exact, |r| {
        number(Ok(r.number_of(Simulator, "llc.size_bytes")? / f64::from(1 << 20)))
    }),
    check("fig8/order/b2-write-back-better", Order, |r| write_back_below_through(r, B2)),
    check("fig8/order/b4-write-back-better", Order, |r| write_back_below_through(r, B4)),
    check("fig8/order/larger-orq-better", Order, |r| {
        Ok(Finding::sides(per_ms(r, ORQ16)?, per_ms(r, OUTSTANDING[0])?).unit("runs per ms"))
    }),
    check("fig8/b4/orq16-over-orq1", Simulated, |r| {
        number(Ok(per_ms(r, ORQ16)? / per_ms(r, OUTSTANDING[0])?))
    }),
    check("fig8/order/orq16-equals-orq1024", Order, |r| {
        Ok(Finding::sides(per_ms(r, ORQ16)?, per_ms(r, OUTSTANDING[2])?).unit("runs per ms"))
    }),
];

pub(super) const FIG9: &[Check] = &[
    check("fig9/b3/prefetch5", Simulated, |r| number(r.speedup(B3, Remote, DEGREE))),
    check("intro/prefetch5", Simulated, |r| number(r.speedup(B3, Remote, DEGREE))),
    check("fig9/order/b3-degree-helps", Order, |r| degree_helps(r, B3)),
    check("fig9/order/gzip-degree-helps", Order, |r| degree_helps(r, Gzip)),
    check("fig9/order/gcc-degree-helps", Order, |r| degree_helps(r, Gcc)),
    check("fig9/order/mcf-degree-helps", Order, |r| degree_helps(r, Mcf)),
    check("fig9/order/gap-degree-helps", Order, |r| degree_helps(r, Gap)),
    check("prefetch/order/remote-degree", Order, |r| {
        let of = |place| r.best_degree(B3, place);
        Ok(Finding::sides(of(Remote)?, of(Local)?)
            .unit("lines")
            .remark("the smallest degree within 2 % of the best, benchmark 3"))
    }),
];
