//! Promises of a DRAM channel: legal commands, times and bandwidths from first principles, no starvation,
//! the same result always, and DRAMsim3's latencies with its settings.

mod alone;
mod bandwidth;
mod bench;
mod checker;
mod dramsim3;
mod fairness;
mod latency;
mod random;
mod repeat;
mod tick_by_tick;
mod tight;
mod turns;
