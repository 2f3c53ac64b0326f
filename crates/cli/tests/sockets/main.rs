//! `rackmem sockets` between programs that know sockets, in processes that get killed and stopped.

#[path = "../common/mod.rs"]
mod common;
mod rig;

mod carried;
mod ends;
mod wrong;
