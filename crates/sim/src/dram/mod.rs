//! A DDR3 channel, command by command (JESD79-3): what a memory controller does with
//! `memory.model = "ddr3"`.
//!
//! | file | what |
//! |---|---|
//! | `timing` | times between commands: speed grades, and what a machine file says instead |
//! | `mapping` | addresses to ranks, banks and rows |
//! | `clocks` | the chip's clock and the channel's |
//! | `devices` | banks and ranks: when which command is allowed |
//! | `queues` | requests that wait |
//! | `channel` | the channel as its controller sees it: time goes by, requests come and go |
//! | `schedule` | which command is next: first ready, first come |
//! | `round_robin` | the same where ranks take turns |
//! | `command` | commands, and their record |
//! | `stats` | what is counted |
//!
//! Times are ticks of the channel's clock. The command wires take a command a tick. Nothing is done in
//! a tick without one: after each command and each arrival the channel knows which command is next, and
//! when. Refreshes of a channel without requests are made up for when the next one comes, at the ticks
//! at which they were due.
//!
//! Left out: power-down, self-refresh, calibration (ZQ), on-die termination as a time of its own,
//! postponed refreshes (each is made as soon as it is due), and failures of cells.

mod channel;
mod clocks;
mod command;
mod devices;
mod mapping;
mod queues;
mod round_robin;
mod schedule;
mod stats;
mod timing;

pub use channel::{Channel, Done, Request};
pub use clocks::Clocks;
pub use command::{Command, Issued};
pub use mapping::{Mapping, Place};
pub use stats::ChannelStats;
pub use timing::{BURST, Kind, Timing};

/// Time, in periods of a channel's clock (nCK).
pub type Tick = u64;

#[cfg(test)]
mod tests;
