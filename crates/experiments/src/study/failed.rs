//! Files of runs that failed.

/// How the names of these files end.
pub const EXTENSION: &str = "failed";
