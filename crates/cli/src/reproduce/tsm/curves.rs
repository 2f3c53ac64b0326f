//! The paper's figures as curves.

use super::experiment::Mechanism::{Dma, Load, Store};
use super::experiment::Place::Remote;
use super::experiment::{APPLICATIONS, BLOCKS, DEGREES, Experiment, Kernel};
use super::parts;
use super::results::{Known, Results};
use crate::plot::lines::{Plot, Series};
use crate::reproduce::paper::Sheet;

/// All, by name.
pub const SHEETS: &[Sheet<Experiment>] =
    &[("table2", parts::TABLE2, table2), ("fig9", parts::FIG9, fig9)];

fn series(name: &str, xs: &[u32], y: impl Fn(u32) -> Known<f64>) -> Known<Series> {
    let points: Known<Vec<(f64, f64)>> = xs.iter().map(|&x| Ok((x.into(), y(x)?))).collect();
    Ok(Series { name: name.to_owned(), dashed: false, points: points? })
}

fn plot(title: &str, x: &str, y: &str, log_x: bool, series: Vec<Series>) -> Plot {
    Plot { title: title.to_owned(), x: x.to_owned(), y: y.to_owned(), log_x, series }
}

fn table2(results: &Results) -> Known<Plot> {
    let sizes = BLOCKS.map(|(_, bytes)| bytes);
    let mut all = Vec::new();
    for mechanism in [Load, Store, Dma] {
        let of = |bytes| results.bandwidth(mechanism, bytes);
        all.push(series(mechanism.name(), &sizes, of)?);
    }
    Ok(plot("Table 2: transfers between two nodes", "block, bytes", "MB/s", true, all))
}

fn fig9(results: &Results) -> Known<Plot> {
    let mut all = Vec::new();
    for kernel in [Kernel::B3].into_iter().chain(APPLICATIONS) {
        let of = |degree| results.speedup(kernel, Remote, degree);
        all.push(series(kernel.name(), &DEGREES, of)?);
    }
    Ok(plot("Figure 9: prefetching remote memory", "degree, lines", "speed-up", false, all))
}
