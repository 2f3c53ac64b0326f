//! Do whole programs run as they should, and do wrong ones end with one clear error?

mod applications;
mod compiled;
mod confined;
mod crashes;
mod dynamic;
mod errors;
mod kernel;
mod locked;
mod network;
mod official;
mod rig;
mod shown;
mod space;
mod start;
#[path = "../support/mod.rs"]
mod support;
mod timed;
