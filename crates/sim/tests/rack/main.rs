//! The rack of simplified nodes: latency and bandwidth against formulas, nothing lost, no deadlock,
//! congestion where it has to be, the same run for the same seed.

mod bandwidth;
mod congestion;
mod conservation;
mod determinism;
mod latency;
mod machines;
