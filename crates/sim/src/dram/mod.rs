//! A DRAM channel, command by command (JESD79-3, -4, -5): the model behind a memory controller with
//! `memory.model = "ddr3"`.
//!
//! | file | content |
//! |---|---|
//! | `spec` | the section of a machine file |
//! | `grades` | speed grades of the standards, as data |
//! | `timing` | times between commands: a grade's, and a machine file's own settings |
//! | `mapping` | addresses to ranks, banks and rows |
//! | `clocks` | the chip's clock and the channel's |
//! | `devices` | banks and ranks: the earliest tick of each command |
//! | `queues` | requests that wait |
//! | `channel` | the channel as its controller sees it: time goes by, requests come and go |
//! | `schedule` | the choice of the next command: first ready, first come |
//! | `round_robin` | the same if ranks take turns |
//! | `bank_queues` | the same if banks take turns |
//! | `command` | commands, and their record |
//! | `stats` | counters |
//!
//! Times are ticks of the channel's clock. The command wires take a command a tick. Nothing is done in
//! a tick without one: after each command and each arrival the channel knows which command is next, and
//! when. Refreshes of a channel without requests are made up for when the next one comes, at the ticks
//! at which they were due.
//!
//! Left out: power-down, self-refresh, calibration (ZQ), on-die termination as a time of its own,
//! postponed refreshes (each is made as soon as it is due), and failures of cells.
//!
//! # Decisions
//!
//! The default is FR-FCFS with an age limit, writes in batches, and open rows. DRAMSim2 as it is shipped does what
//! `dram.scheduler = "rank-then-bank-round-robin"` does (`round_robin`). The paper on soNUMA used DRAMSim2 and names no
//! settings, so its machine has those that DRAMSim2 and its one file for DDR3-1600 have.
//!
//! The controller's own time is a parameter (`dram.controller_ns`), so a latency is the sum of its
//! commands.
//! Reads and writes of a block take effect in the order of arrival at the controller.

mod bank_queues;
mod channel;
mod clocks;
mod command;
mod devices;
mod grades;
mod mapping;
mod queues;
mod round_robin;
mod schedule;
pub(crate) mod spec;
mod stats;
mod timing;

pub use channel::{Channel, Done, Request};
pub use clocks::Clocks;
pub use command::{Command, Issued};
pub use mapping::{Mapping, Place};
pub use spec::{DramGrade, DramMapping, DramPagePolicy, DramScheduler, DramSpec};
pub use stats::ChannelStats;
pub use timing::{Kind, Timing};

/// Time, in periods of a channel's clock (nCK).
pub type Tick = u64;

#[cfg(test)]
mod tests;
