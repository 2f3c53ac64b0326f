//! Racks over several hosts, which are addresses of this one.

#[path = "../common/mod.rs"]
mod common;
mod files;
mod here;
mod keys;
mod launched;
mod lent;
mod linked;
mod rig;
