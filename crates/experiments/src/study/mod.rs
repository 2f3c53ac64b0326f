//! Studies: a machine with all combinations of some settings, each run in a file of its own.
//!
//! | file | content |
//! |---|---|
//! | [`mod@file`] | a study as a TOML file |
//! | [`points`] | all combinations |
//! | [`run`] | a run, and what decides its result |
//! | [`folder`] | the files of runs |
//! | [`failed`] | the files of runs that failed |
//! | [`shard`] | a share of the points |
//! | [`row`] | a report as a row of numbers |
//!
//! # Decisions
//!
//! - *A run's file is named by what decides its result*: the sources of the model, the machine with all its keys, the
//!   program and its arguments, the number of nodes. So studies may share a folder, go on after they were killed, and
//!   grow. Files that a program has read are in its report with their fingerprints, and those that it looked for in
//!   vain without one; a run whose files have changed, or are there now, is made again.
//! - *No number of threads is part of it*, as no result depends on it; each run has one, as the others are for other
//!   runs.
//! - *A run that fails has no report*: it is made again the next time. A file of another kind has the reason, for
//!   pages about the study.

pub mod failed;
pub mod file;
pub mod folder;
pub mod points;
pub mod row;
pub mod run;
pub mod shard;

pub use failed::Failed;
pub use file::Study;
pub use folder::Folder;
pub use points::Point;
pub use run::Run;
pub use shard::Shard;
