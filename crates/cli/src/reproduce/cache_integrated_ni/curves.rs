//! The paper's figures as curves.

use super::experiment::Buffers::{self, Of};
use super::experiment::Mechanism::{self, Dma, Stores};
use super::experiment::{Barrier, Experiment, Kernel, Lock, PARALLEL};
use super::parts;
use super::results::Time::{Communication, Computation};
use super::results::{Known, Results, Step};
use crate::plot::lines::{Plot, Series};
use crate::reproduce::paper::Sheet;

/// All, by name.
pub const SHEETS: &[Sheet<Experiment>] = &[
    ("fig8-on-chip", parts::STREAM, |r| stream(r, 1, "Figure 8: STREAM triad, on chip")),
    ("fig8-off-chip", parts::STREAM, |r| stream(r, 0, "Figure 8: STREAM triad, off chip")),
    ("fig9", parts::BITONIC, |r| speedups(r, Kernel::Bitonic, "Figure 9: bitonic sort")),
    ("fig9-breakdown", parts::BITONIC, |r| {
        breakdown(r, Kernel::Bitonic, "Figure 9: bitonic sort on 4 cores")
    }),
    ("fig10", parts::FFT, |r| speedups(r, Kernel::Fft, "Figure 10: FFT")),
    ("fig10-breakdown", parts::FFT, |r| breakdown(r, Kernel::Fft, "Figure 10: FFT on 4 cores")),
    ("fig11a", parts::LOCKS, fig11a),
    ("fig11b", parts::BARRIERS, fig11b),
];

fn plot(title: &str, x: &str, y: &str, series: Vec<Series>) -> Plot {
    Plot { title: title.to_owned(), x: x.to_owned(), y: y.to_owned(), log_x: true, series }
}

fn series<X: Into<f64> + Copy>(name: &str, xs: &[X], y: impl Fn(X) -> Known<f64>) -> Known<Series> {
    let points: Known<Vec<(f64, f64)>> = xs.iter().map(|&x| Ok((x.into(), y(x)?))).collect();
    Ok(Series { name: name.to_owned(), dashed: false, points: points? })
}

fn stream(results: &Results, servers: u16, title: &str) -> Known<Plot> {
    let mut all = Vec::new();
    let numbers = results.effort.buffers();
    let of = |mechanism: Mechanism, buffers: Buffers| {
        results.stream(4 - servers, servers, mechanism, buffers)
    };
    for mechanism in [Dma, Stores] {
        // Off chip, remote stores have no buffers.
        let sizes = match (mechanism, servers) {
            (Stores, 0) => &[],
            _ => results.effort.buffer_sizes(),
        };
        for &bytes in sizes {
            let name = format!("{}, {bytes} B", mechanism.name());
            all.push(series(&name, numbers, |count| of(mechanism, Of(count, bytes)))?);
        }
        let name = format!("{}, feasible", mechanism.name());
        let feasible = results.feasible(servers, mechanism)?;
        all.push(Series { dashed: true, ..series(&name, numbers, |_| Ok(feasible))? });
    }
    Ok(plot(title, "buffers", "bytes per cycle", all))
}

fn speedups(results: &Results, kernel: Kernel, title: &str) -> Known<Plot> {
    let mut all = Vec::new();
    for cores in PARALLEL {
        for mechanism in [Dma, Stores] {
            let name = format!("{cores} cores, {}", mechanism.name());
            let of = |n| results.speedup(kernel, n, cores, mechanism);
            all.push(series(&name, results.effort.inputs(kernel), of)?);
        }
    }
    Ok(plot(title, "N", "speed-up", all))
}

fn breakdown(results: &Results, kernel: Kernel, title: &str) -> Known<Plot> {
    let mut all = Vec::new();
    for mechanism in [Dma, Stores] {
        for (what, time) in [("computation", Computation), ("communication", Communication)] {
            let name = format!("{}: {what}", mechanism.name());
            let of = |n| results.kernel(kernel, n, 4, mechanism, time);
            all.push(series(&name, results.effort.inputs(kernel), of)?);
        }
    }
    Ok(plot(title, "N", "cycles", all))
}

fn fig11a(results: &Results) -> Known<Plot> {
    let of = |name, lock| {
        let cycles = |cores| results.lock(true, lock, cores, Step::Total);
        series(name, results.effort.many_cores(), cycles)
    };
    let all = vec![of("MCS lock", Lock::Mcs)?, of("mr-Q lock", Lock::Queue)?];
    Ok(plot("Figure 11a: contended lock and unlock", "cores", "cycles", all))
}

fn fig11b(results: &Results) -> Known<Plot> {
    let of = |name, barrier| {
        series(name, results.effort.many_cores(), |cores| results.barrier(true, barrier, cores))
    };
    let all = vec![of("tree barrier", Barrier::Tree)?, of("counter barrier", Barrier::Counter)?];
    Ok(plot("Figure 11b: barriers", "cores", "cycles", all))
}
