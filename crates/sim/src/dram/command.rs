use super::Tick;

/// A command to a channel's parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// ACT: opens a row.
    Activate {
        /// Row of the bank, as in [`Place`](super::Place).
        row: u64,
    },
    /// PRE: closes a bank's row.
    Precharge,
    /// PREA: closes the rows of all banks of a rank.
    PrechargeAll,
    /// RD, or RDA if the row is closed with it.
    Read {
        /// Auto-precharge.
        auto: bool,
    },
    /// WR, or WRA if the row is closed with it.
    Write {
        /// Auto-precharge.
        auto: bool,
    },
    /// REF: refreshes some rows of all banks of a rank.
    Refresh,
}

/// A command that has been given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Issued {
    /// Tick in which the command is on the command wires.
    pub at: Tick,
    /// Number of the rank, below `dram.ranks`.
    pub rank: usize,
    /// To which bank, counted over all ranks; the first one of its rank for commands to all of them.
    pub bank: usize,
    /// ACT, PRE, PREA, RD, WR or REF.
    pub command: Command,
    /// The request for which it was given.
    pub id: Option<u32>,
}
