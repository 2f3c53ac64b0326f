//! DRAM channels as a machine file describes them.

use serde::{Deserialize, Serialize};

use crate::section::section;

/// A speed grade of a JEDEC standard: clock and the least times of its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DramGrade {
    /// 533 MHz, 7-7-7 (speed bin F).
    #[serde(rename = "ddr3-1066")]
    Ddr3_1066,
    /// 667 MHz, 9-9-9 (speed bin H).
    #[serde(rename = "ddr3-1333")]
    Ddr3_1333,
    /// 800 MHz, 11-11-11 (speed bin K).
    #[serde(rename = "ddr3-1600")]
    Ddr3_1600,
    /// 1200 MHz, 17-17-17 (speed bin T of JESD79-4).
    #[serde(rename = "ddr4-2400")]
    Ddr4_2400,
    /// 1600 MHz, 22-22-22 (speed bin AA of JESD79-4).
    #[serde(rename = "ddr4-3200")]
    Ddr4_3200,
    /// 2400 MHz, 40-39-39 (speed bin B of JESD79-5). Bursts of 16 on half of a module's wires.
    #[serde(rename = "ddr5-4800")]
    Ddr5_4800,
}

/// The fields of an address, from the most significant bits down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DramMapping {
    /// Neighbours fill a row, then the same row of the next bank: streams hit open rows.
    RowRankBankColumn,
    /// Neighbours fill a row, then one of the next rank.
    RowBankRankColumn,
    /// Neighbours are in different banks: streams use all banks at once.
    RowColumnRankBank,
    /// Neighbours are in different ranks.
    RowColumnBankRank,
}

/// The state of a row after an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DramPagePolicy {
    /// It stays open until another one is needed, or for a refresh.
    Open,
    /// It is closed with its last access (auto-precharge), unless another one waits for it.
    Closed,
}

/// The order in which waiting requests are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DramScheduler {
    /// First ready, first come: those that find their row open before older ones.
    FrFcfs,
    /// In the order of arrival; rows for later ones are opened in the meantime.
    Fcfs,
    /// Ranks take turns, command by command; within one the oldest that is ready goes, read or write,
    /// access or activation. Rows are closed when nothing waits for them, and after some accesses: what
    /// DRAMSim2 does as it is shipped.
    RankThenBankRoundRobin,
    /// Requests pass one a tick into a queue of their bank, reads before writes until the writes are
    /// many; banks take turns, command by command: what DRAMsim3 does as it is shipped.
    BankQueues,
}

section! {
    /// A channel per memory controller: 64 data wires and bursts of 8, or DDR5's 32 and 16, so a block is a
    /// burst. Used with `memory.model = "ddr3"`, whatever the grade.
    ///
    /// Times that end in `_nck` count periods of the channel's clock, as JESD79-3 does; 0 = what the speed
    /// grade and the parts say. Those with `_l` are for two banks of a bank group.
    pub struct DramSpec {
        /// Speed grade: clock and latencies of the parts.
        grade: DramGrade = DramGrade::Ddr3_1600,
        /// Capacity of a part: 1, 2, 4, 8, 16 or 32 Gbit. It decides how long a refresh takes.
        device_gbit: u32 = 2,
        /// Ranks of the channel.
        ranks: u32 = 2,
        /// Banks of a rank.
        banks: u32 = 8,
        /// Bank groups of a rank: 1 for DDR3, 4 for DDR4, 8 for DDR5.
        bank_groups: u32 = 1,
        /// A row of a bank, over all parts of its rank.
        row_bytes: u64 = 8 << 10,
        /// Order of row, rank, bank and column in an address.
        mapping: DramMapping = DramMapping::RowRankBankColumn,
        /// Whether the number of the bank is mixed with the lowest bits of the row's, so that strides meet
        /// all banks.
        bank_hash: bool = false,
        /// Whether rows stay open after an access.
        page_policy: DramPagePolicy = DramPagePolicy::Open,
        /// Order in which waiting requests are served.
        scheduler: DramScheduler = DramScheduler::FrFcfs,
        /// Accesses to an open row after the one for which it was opened, until it is closed. For
        /// `scheduler = "rank-then-bank-round-robin"`; `"bank-queues"` closes one then if another row is
        /// needed, whatever still waits for it. Others serve all that waits for an open row first.
        row_accesses: u32 = 4,
        /// Reads that wait at a controller; more wait in the network.
        read_queue: u32 = 32,
        /// Writes that wait at a controller; more wait in the network.
        write_queue: u32 = 32,
        /// Requests in the queue of a bank, with `scheduler = "bank-queues"`.
        bank_queue: u32 = 8,
        /// Writes that wait when they begin to go before reads. Where ranks take turns, writes and reads go
        /// as they come, and this means nothing. With bank queues all that wait then go.
        write_high: u32 = 24,
        /// Writes that still wait when reads go first again. With bank queues, more than these go as soon as
        /// these queues are empty.
        write_low: u32 = 8,
        /// A request that has waited so long goes before all others. If full queues take longer than that,
        /// requests are served in order and open rows are of little use. With bank queues it holds for writes.
        age_limit_ns: f64 = 1000.0,
        /// Time of a read besides the DRAM: controller and wires, to the memory and back.
        controller_ns: f64 = 20.0,
        /// Whether rows are refreshed.
        refresh: bool = true,
        /// tCK: period of the clock; 0 = the grade's.
        tck_ps: u64 = 0,
        /// CL: read to its data.
        cl_nck: u32 = 0,
        /// CWL: write to its data.
        cwl_nck: u32 = 0,
        /// tRCD: activation to read or write.
        trcd_nck: u32 = 0,
        /// tRP: precharge to activation.
        trp_nck: u32 = 0,
        /// tRAS: activation to precharge.
        tras_nck: u32 = 0,
        /// tRC: activation to activation, same bank.
        trc_nck: u32 = 0,
        /// tRRD: activation to activation, other bank of the rank.
        trrd_nck: u32 = 0,
        /// tRRD_L: activation to activation, same bank group.
        trrd_l_nck: u32 = 0,
        /// tFAW: window with four activations of a rank at most.
        tfaw_nck: u32 = 0,
        /// tWR: end of written data to precharge.
        twr_nck: u32 = 0,
        /// tWTR: end of written data to read, same rank.
        twtr_nck: u32 = 0,
        /// tWTR_L: end of written data to read, same bank group.
        twtr_l_nck: u32 = 0,
        /// tRTP: read to precharge.
        trtp_nck: u32 = 0,
        /// tCCD: read to read, or write to write, same rank.
        tccd_nck: u32 = 0,
        /// tCCD_L: read to read, same bank group.
        tccd_l_nck: u32 = 0,
        /// tCCD_L_WR: write to write, same bank group.
        tccd_l_wr_nck: u32 = 0,
        /// tRTW: read to write, same rank.
        trtw_nck: u32 = 0,
        /// tWRWR_dr: write to write, other rank.
        twrwr_dr_nck: u32 = 0,
        /// tRTRS: pause of the data wires between two ranks.
        trtrs_nck: u32 = 0,
        /// tREFI: from refresh to refresh.
        trefi_nck: u32 = 0,
        /// tRFC: time of a refresh.
        trfc_nck: u32 = 0,
    }
}
