//! The memory of a machine without the machine: requests from a trace or a generator, the latency of each.
//!
//! One request a clock reaches the channels, in order; one for which there is no room holds up those behind it.
//! Latency is from there to the end of the data on the wires. The channels' clock is one ahead of the trace's:
//! a request of clock 0 is seen in tick 1, as in DRAMsim3, so that latencies are the same ones.

mod latency;
mod pattern;
mod run;
mod trace;

use serde::Serialize;

use crate::block::BLOCK_BYTES;
use crate::dram::{Kind, Tick, Timing};
use crate::machine::Machine;

pub use latency::Latency;
pub use pattern::{Generator, Pattern};
pub use run::run;
pub use trace::{Trace, TraceError};

/// A request that is to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Clock in which it comes; without one, as soon as it can.
    pub at: Option<Tick>,
    /// Byte address; the block that has it is read or written.
    pub address: u64,
    /// Read or write.
    pub kind: Kind,
}

/// A request with its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Its place in the trace, from 0.
    pub index: u64,
    /// Clock in which the channel took it.
    pub arrival: Tick,
    /// As in the trace.
    pub address: u64,
    /// Read or write.
    pub kind: Kind,
    /// Clocks from then to the end of its data.
    pub latency: Tick,
}

/// Result of a run. Times are in clocks of the channel.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Latency of reads.
    pub reads: Latency,
    /// Latency of writes.
    pub writes: Latency,
    /// Requests that were due, but not done when the run was stopped: in a channel, or held up before it.
    pub unfinished: u64,
    /// Time from the first request to the end of the last data, or to the end of the run.
    pub clocks: Tick,
    /// Mean time for which requests were held up, as there was no room.
    pub held_up_mean: f64,
    /// Requests in the channels, on average.
    pub outstanding_mean: f64,
    /// Bytes of all requests that were done, in GB/s.
    pub bandwidth_gbps: f64,
    /// Share of the time in which data are on the wires.
    pub bus_use: f64,
    /// Requests that found their row open.
    pub row_hits: u64,
    /// Requests that found their bank closed.
    pub row_misses: u64,
    /// Requests for which another row had to be closed.
    pub row_conflicts: u64,
    /// Reads answered from the writes that wait.
    pub forwarded: u64,
    /// Requests that were done with another one for the same block.
    pub merged: u64,
    /// Refreshes, each of a rank.
    pub refreshes: u64,
}

/// The times of a machine's channels.
pub fn timing(machine: &Machine) -> Timing {
    Timing::of(&machine.dram)
}

/// The most that a machine's channels carry, in GB/s.
pub fn peak_gbps(machine: &Machine) -> f64 {
    let timing = timing(machine);
    let burst_ps = (timing.burst * timing.tck_ps) as f64;
    f64::from(machine.memory.controllers) * BLOCK_BYTES as f64 * 1000.0 / burst_ps
}
