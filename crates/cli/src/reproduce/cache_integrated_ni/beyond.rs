//! Results of the runs that the paper does not print in words.

use super::experiment::Experiment;
use super::experiment::Mechanism::{Dma, Stores};
use super::experiment::{BUFFER, Barrier, Buffers, Lock};
use super::parts;
use super::results::{Known, Results, Step};
use crate::reproduce::paper::{Part, Row, Rows};

/// All, by the part of the paper that they are shown with.
pub const ALL: &[(Part, Rows<Experiment>)] =
    &[(parts::STREAM, stream), (parts::LOCKS, locks), (parts::BARRIERS, barriers)];

fn row(name: &str, value: Known<f64>, unit: &'static str) -> Row {
    (name.to_owned(), value, unit)
}

fn stream(results: &Results) -> Vec<Row> {
    let feasible = |servers, mechanism| results.feasible(servers, mechanism);
    let three = |servers| results.stream(4 - servers, servers, Dma, Buffers::Of(3, BUFFER));
    vec![
        row("on chip, feasible with copies", feasible(1, Dma), "bytes/cycle"),
        row("on chip, three buffers of 1 KB", three(1), "bytes/cycle"),
        row("on chip, feasible with remote stores", feasible(1, Stores), "bytes/cycle"),
        row("off chip, feasible with copies", feasible(0, Dma), "bytes/cycle"),
        row("off chip, three buffers of 1 KB", three(0), "bytes/cycle"),
        row("off chip, feasible with loads and stores", feasible(0, Stores), "bytes/cycle"),
    ]
}

fn locks(results: &Results) -> Vec<Row> {
    let of = |lock, cores| results.lock(true, lock, cores, Step::Total);
    let rows = |&cores: &u16| {
        [
            row(&format!("MCS lock, {cores} cores"), of(Lock::Mcs, cores), "cycles"),
            row(&format!("mr-Q lock, {cores} cores"), of(Lock::Queue, cores), "cycles"),
        ]
    };
    results.effort.many_cores().iter().flat_map(rows).collect()
}

fn barriers(results: &Results) -> Vec<Row> {
    let of = |barrier, cores| results.barrier(true, barrier, cores);
    let rows = |&cores: &u16| {
        [
            row(&format!("tree barrier, {cores} cores"), of(Barrier::Tree, cores), "cycles"),
            row(&format!("counter barrier, {cores} cores"), of(Barrier::Counter, cores), "cycles"),
        ]
    };
    results.effort.many_cores().iter().flat_map(rows).collect()
}
