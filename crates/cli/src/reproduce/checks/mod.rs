//! How each claim is measured.

mod ablations;
mod hops;
mod loaded;
mod noc_out;
mod parameters;
mod routing;
mod sizes;
mod table1;
mod table3;

use super::experiment::Effort;
use super::figure::Figure;
use super::results::{Known, Results};
use super::tolerance::Class;
use super::verdict::Finding;

pub(super) use hops::HOPS;
pub(super) use routing::columns;

/// How a claim is measured and judged.
#[derive(Clone, Copy)]
pub struct Check {
    /// Name of the claim, without that of the paper.
    pub id: &'static str,
    /// How it is judged.
    pub class: Class,
    /// How it is measured.
    pub measure: fn(&Results) -> Known<Finding>,
    /// For claims that can be read in several ways: how it is read here, and why. Else empty.
    pub reading: &'static str,
}

/// A claim that can be read in one way only.
const fn check(id: &'static str, class: Class, measure: fn(&Results) -> Known<Finding>) -> Check {
    Check { id, class, measure, reading: "" }
}

impl Check {
    /// Whether it takes a run: else it is about a parameter.
    pub fn needs_run(&self) -> bool {
        let results = Results::planning(Effort::Quick);
        // Only what it asks for matters.
        let _ = (self.measure)(&results);
        !results.asked().is_empty()
    }

    /// The same, read so.
    const fn reading(self, reading: &'static str) -> Check {
        Check { reading, ..self }
    }
}

/// All checks by the part of the paper that they are shown with.
pub const ALL: [(Figure, &[Check]); 10] = [
    (Figure::Table1, table1::CHECKS),
    (Figure::Table2, parameters::CHECKS),
    (Figure::Table3, table3::CHECKS),
    (Figure::Fig5, hops::CHECKS),
    (Figure::Fig6, sizes::CHECKS),
    (Figure::Fig7, loaded::CHECKS),
    (Figure::Routing, routing::CHECKS),
    (Figure::Fig9, noc_out::LATENCY),
    (Figure::Fig10, noc_out::BANDWIDTH),
    (Figure::Ablations, ablations::CHECKS),
];

/// The stages in which an edge design interacts with its queue pairs.
const EDGE_QP: [&str; 4] = ["wq_write", "wq_read_rgp", "rcp_cq_write", "cq_read"];

fn number(value: Known<f64>) -> Known<Finding> {
    value.map(Finding::number)
}
