//! The measurement of each claim.

mod prototype;
mod runtime;
mod simulator;
mod table2;
mod thunder;

use super::experiment::Experiment;
use super::parts;
use super::results::{Known, Results};
use crate::reproduce::paper::{self, Part, check, number};
use crate::reproduce::verdict::Finding;

/// A check of a claim of this paper.
pub type Check = paper::Check<Experiment>;

/// All checks by the part of the paper that they are shown with.
pub const ALL: &[(Part, &[Check])] = &[
    (parts::BACKGROUND, table2::BACKGROUND),
    (parts::TABLE2, table2::CHECKS),
    (parts::FIG5, prototype::FIG5),
    (parts::COMM, prototype::COMM),
    (parts::FIG8, simulator::FIG8),
    (parts::FIG9, simulator::FIG9),
    (parts::THUNDER, thunder::THUNDER),
    (parts::QPAIR, thunder::QPAIR),
];

/// Claims that the runtime of this host shows, too.
pub const RUNTIME: &[(Part, &[Check])] = &[
    (parts::TABLE2, runtime::TABLE2),
    (parts::FIG5, runtime::FIG5),
    (parts::FIG8, runtime::FIG8),
    (parts::FIG9, runtime::FIG9),
    (parts::QPAIR, runtime::QPAIR),
];
