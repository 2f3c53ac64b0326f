//! The measurement of each claim.

mod ablations;
mod hops;
mod loaded;
mod noc_out;
mod parameters;
mod routing;
mod sizes;
mod table1;
mod table3;

use super::experiment::Experiment;
use super::parts;
use crate::reproduce::paper::{self, Part, check, number};

pub(super) use hops::HOPS;
pub(super) use routing::columns;

/// A check of a claim of this paper.
pub type Check = paper::Check<Experiment>;

/// All checks by the part of the paper that they are shown with.
pub const ALL: &[(Part, &[Check])] = &[
    (parts::TABLE1, table1::CHECKS),
    (parts::TABLE2, parameters::CHECKS),
    (parts::TABLE3, table3::CHECKS),
    (parts::FIG5, hops::CHECKS),
    (parts::FIG6, sizes::CHECKS),
    (parts::FIG7, loaded::CHECKS),
    (parts::ROUTING, routing::CHECKS),
    (parts::FIG9, noc_out::LATENCY),
    (parts::FIG10, noc_out::BANDWIDTH),
    (parts::ABLATIONS, ablations::CHECKS),
];

/// The stages in which an edge design interacts with its queue pairs.
const EDGE_QP: [&str; 4] = ["wq_write", "wq_read_rgp", "rcp_cq_write", "cq_read"];
