//! The measurement of each claim.

mod interface;
mod messages;
mod pagerank;
mod parameters;
mod reads;
mod rivals;

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
    (parts::TABLE1, parameters::CHECKS),
    (parts::FIG7, reads::CHECKS),
    (parts::FIG8, messages::CHECKS),
    (parts::TABLE2, rivals::CHECKS),
    (parts::FIG9, pagerank::CHECKS),
];

/// A finding on the runtime, if this host can run it.
fn on_host(results: &Results, measure: impl FnOnce(&Results) -> Known<Finding>) -> Known<Finding> {
    match results.host() {
        Ok(_) => measure(results),
        Err(why) => Ok(Finding::nothing(why)),
    }
}
