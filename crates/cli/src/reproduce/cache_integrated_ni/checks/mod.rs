//! The measurement of each claim.

mod interface;
mod kernels;
mod simulated;
mod stream;
mod table1;

use super::experiment::Experiment;
use super::parts;
use super::results::{Known, Results};
use crate::reproduce::paper::{self, Part, check, number};
use crate::reproduce::verdict::Finding;

/// A check of a claim of this paper.
pub type Check = paper::Check<Experiment>;

/// All checks by the part of the paper that they are shown with.
pub const ALL: &[(Part, &[Check])] = &[
    (parts::INTERFACE, interface::CHECKS),
    (parts::TABLE1, table1::CHECKS),
    (parts::STREAM, stream::CHECKS),
    (parts::BITONIC, kernels::BITONIC),
    (parts::FFT, kernels::FFT),
    (parts::LOCKS, simulated::LOCKS),
    (parts::BARRIERS, simulated::BARRIERS),
];

/// A value that tests of the interface show: without it, they are not passed.
fn shown(results: &Results, tests: &[&str], value: f64) -> Known<Finding> {
    results.passed(tests)?;
    Ok(Finding::number(value).remark(format!("scr_test: {}", tests.join(", "))))
}

/// Words that they show to be true.
fn true_by(results: &Results, tests: &[&str]) -> Known<Finding> {
    results.passed(tests)?;
    Ok(Finding::fact(true).remark(format!("scr_test: {}", tests.join(", "))))
}
