//! Why claims are missed, written by hand after looking at the runs.

use crate::reproduce::paper::Remarks;

/// Claims and explanations. A missed claim that is not here is explained by its figures alone.
pub const EXPLANATIONS: Remarks = &[];
