//! The paper's figures as curves.

use super::experiment::Card::{Receive, Send};
use super::experiment::Place::{Local, Remote};
use super::experiment::{EXTRA, Experiment, LATENCIES, VALUES};
use super::parts;
use super::results::{Known, Results};
use crate::plot::lines::{Plot, Series};
use crate::reproduce::paper::Sheet;

/// All, by name.
pub const SHEETS: &[Sheet<Experiment>] = &[
    ("fig5a", parts::FIG5, bandwidth),
    ("fig5b", parts::FIG5, latency),
    ("fig7", parts::FIG7, capacity),
    ("fig8", parts::FIG8, gains),
];

fn plot(title: &str, x: &str, y: &str, log_x: bool, series: Vec<Series>) -> Plot {
    Plot { title: title.to_owned(), x: x.to_owned(), y: y.to_owned(), log_x, series }
}

fn series(name: String, xs: &[u32], y: impl Fn(u32) -> Known<f64>) -> Known<Series> {
    let points: Known<Vec<(f64, f64)>> = xs.iter().map(|&x| Ok((x.into(), y(x)?))).collect();
    Ok(Series { name, dashed: false, points: points? })
}

fn bandwidth(results: &Results) -> Known<Plot> {
    let mut all = Vec::new();
    for (direction, card) in [("outbound", Send), ("inbound", Receive)] {
        for place in [Local, Remote] {
            let name = format!("{direction}, {}", place.name());
            all.push(series(name, results.effort.calls(), |bytes| {
                results.mbps(card, place, bytes)
            })?);
        }
    }
    Ok(plot("Figure 5a: bandwidth of a network interface", "bytes of a call", "Mbps", true, all))
}

fn latency(results: &Results) -> Known<Plot> {
    let mut all = Vec::new();
    for place in [Local, Remote] {
        let of = |bytes| results.ping_pong_us(place, bytes);
        all.push(series(place.name().to_owned(), results.effort.messages(), of)?);
    }
    Ok(plot("Figure 5b: latency of a network interface", "bytes", "us", true, all))
}

fn capacity(results: &Results) -> Known<Plot> {
    let mut all = Vec::new();
    for mb in EXTRA {
        let report = results.key_value(Experiment::extra(mb))?;
        let points = report.per_second.iter().enumerate();
        let points = points.map(|(interval, &gets)| (interval as f64, gets)).collect();
        all.push(Series { name: format!("{mb} MB"), dashed: false, points });
    }
    Ok(plot("Figure 7: Redis with additional memory", "interval", "GET/s", false, all))
}

fn gains(results: &Results) -> Known<Plot> {
    let mut all = Vec::new();
    for value in VALUES {
        let of = |latency| results.gain(value, latency);
        all.push(series(format!("{value} B"), &LATENCIES, of)?);
    }
    Ok(plot("Figure 8: gain of 512 MB more", "us of the database", "x", false, all))
}
