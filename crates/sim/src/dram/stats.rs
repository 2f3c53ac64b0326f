use super::Tick;

/// Counters of a channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelStats {
    /// Reads that have had their command.
    pub reads: u64,
    /// Writes that have had their command.
    pub writes: u64,
    /// Reads that were answered from the write queue.
    pub forwarded: u64,
    /// Requests that were done with another one for the same block.
    pub merged: u64,
    /// Requests that found their row open.
    pub row_hits: u64,
    /// Requests that found their bank closed.
    pub row_misses: u64,
    /// Requests for which another row had to be closed.
    pub row_conflicts: u64,
    /// Refreshes, each of a rank.
    pub refreshes: u64,
    /// Ticks in which data were on the wires.
    pub data_ticks: Tick,
    /// Time from a read's arrival to the first command for it, summed.
    pub read_wait_ticks: Tick,
    /// The longest time from a request's arrival to its command.
    pub longest_ticks: Tick,
}
