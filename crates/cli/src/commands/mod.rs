//! One file per command, and `spread`: what those share whose processes run on several hosts.

pub mod access;
pub mod bench;
pub mod blk;
pub mod borrow;
pub mod cc;
pub mod context;
pub mod daemon;
pub mod demo;
pub mod down;
pub mod info;
pub mod key;
pub mod leases;
pub mod lend;
pub mod manual;
pub mod monitor;
pub mod nic;
pub mod noc;
pub mod program;
pub mod reproduce;
pub mod run;
pub mod sim;
pub mod sockets;
pub mod spread;
pub mod status;
pub mod top;
pub mod up;
