//! The measurement of each claim.

mod architecture;
mod card;
mod reads;
mod redis;
mod runtime;

use super::experiment::Experiment;
use super::parts;
use super::results::{Known, Results};
use crate::reproduce::paper::{self, Part, check, number};

/// A check of a claim of this paper.
pub type Check = paper::Check<Experiment>;

/// All checks by the part of the paper that they are shown with.
pub const ALL: &[(Part, &[Check])] = &[
    (parts::TABLE1, architecture::CHECKS),
    (parts::FIG4, reads::CHECKS),
    (parts::FIG5, card::CHECKS),
    (parts::FIG7, redis::CAPACITY),
    (parts::FIG8, redis::SENSITIVITY),
];

/// Claims that the runtime of this host shows, too.
pub const RUNTIME: &[(Part, &[Check])] =
    &[(parts::FIG4, runtime::FIG4), (parts::FIG7, runtime::FIG7), (parts::FIG8, runtime::FIG8)];
