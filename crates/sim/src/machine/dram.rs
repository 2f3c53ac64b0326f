//! DRAM channels as a machine file describes them.

use serde::{Deserialize, Serialize};

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

/// A channel per memory controller: 64 data wires and bursts of 8, or DDR5's 32 and 16, so a block is a
/// burst. Used with `memory.model = "ddr3"`, whatever the grade.
///
/// Times that end in `_nck` count periods of the channel's clock, as JESD79-3 does; 0 = what the speed
/// grade and the parts say. Those with `_l` are for two banks of a bank group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DramSpec {
    /// Speed grade: clock and latencies of the parts.
    pub grade: DramGrade,
    /// Capacity of a part: 1, 2, 4, 8, 16 or 32 Gbit. It decides how long a refresh takes.
    pub device_gbit: u32,
    /// Ranks of the channel.
    pub ranks: u32,
    /// Banks of a rank.
    pub banks: u32,
    /// Bank groups of a rank: 1 for DDR3, 4 for DDR4, 8 for DDR5.
    pub bank_groups: u32,
    /// A row of a bank, over all parts of its rank.
    pub row_bytes: u64,
    /// Order of row, rank, bank and column in an address.
    pub mapping: DramMapping,
    /// Whether the number of the bank is mixed with the lowest bits of the row's, so that strides meet
    /// all banks.
    pub bank_hash: bool,
    /// Whether rows stay open after an access.
    pub page_policy: DramPagePolicy,
    /// Order in which waiting requests are served.
    pub scheduler: DramScheduler,
    /// Accesses to an open row after the one for which it was opened, until it is closed. For
    /// `scheduler = "rank-then-bank-round-robin"`; `"bank-queues"` closes one then if another row is
    /// needed, whatever still waits for it. Others serve all that waits for an open row first.
    pub row_accesses: u32,
    /// Reads that wait at a controller; more wait in the network.
    pub read_queue: u32,
    /// Writes that wait at a controller; more wait in the network.
    pub write_queue: u32,
    /// Requests in the queue of a bank, with `scheduler = "bank-queues"`.
    pub bank_queue: u32,
    /// Writes that wait when they begin to go before reads. Where ranks take turns, writes and reads go
    /// as they come, and this means nothing. With bank queues all that wait then go.
    pub write_high: u32,
    /// Writes that still wait when reads go first again. With bank queues, more than these go as soon as
    /// these queues are empty.
    pub write_low: u32,
    /// A request that has waited so long goes before all others. If full queues take longer than that,
    /// requests are served in order and open rows are of little use. With bank queues it holds for writes.
    pub age_limit_ns: f64,
    /// Time of a read besides the DRAM: controller and wires, to the memory and back.
    pub controller_ns: f64,
    /// Whether rows are refreshed.
    pub refresh: bool,
    /// tCK: period of the clock; 0 = the grade's.
    pub tck_ps: u64,
    /// CL: read to its data.
    pub cl_nck: u32,
    /// CWL: write to its data.
    pub cwl_nck: u32,
    /// tRCD: activation to read or write.
    pub trcd_nck: u32,
    /// tRP: precharge to activation.
    pub trp_nck: u32,
    /// tRAS: activation to precharge.
    pub tras_nck: u32,
    /// tRC: activation to activation, same bank.
    pub trc_nck: u32,
    /// tRRD: activation to activation, other bank of the rank.
    pub trrd_nck: u32,
    /// tRRD_L: activation to activation, same bank group.
    pub trrd_l_nck: u32,
    /// tFAW: window with four activations of a rank at most.
    pub tfaw_nck: u32,
    /// tWR: end of written data to precharge.
    pub twr_nck: u32,
    /// tWTR: end of written data to read, same rank.
    pub twtr_nck: u32,
    /// tWTR_L: end of written data to read, same bank group.
    pub twtr_l_nck: u32,
    /// tRTP: read to precharge.
    pub trtp_nck: u32,
    /// tCCD: read to read, or write to write, same rank.
    pub tccd_nck: u32,
    /// tCCD_L: read to read, same bank group.
    pub tccd_l_nck: u32,
    /// tCCD_L_WR: write to write, same bank group.
    pub tccd_l_wr_nck: u32,
    /// tRTW: read to write, same rank.
    pub trtw_nck: u32,
    /// tWRWR_dr: write to write, other rank.
    pub twrwr_dr_nck: u32,
    /// tRTRS: pause of the data wires between two ranks.
    pub trtrs_nck: u32,
    /// tREFI: from refresh to refresh.
    pub trefi_nck: u32,
    /// tRFC: time of a refresh.
    pub trfc_nck: u32,
}

impl Default for DramSpec {
    fn default() -> Self {
        Self {
            grade: DramGrade::Ddr3_1600,
            device_gbit: 2,
            ranks: 2,
            banks: 8,
            bank_groups: 1,
            row_bytes: 8 << 10,
            mapping: DramMapping::RowRankBankColumn,
            bank_hash: false,
            page_policy: DramPagePolicy::Open,
            scheduler: DramScheduler::FrFcfs,
            row_accesses: 4,
            read_queue: 32,
            write_queue: 32,
            bank_queue: 8,
            write_high: 24,
            write_low: 8,
            age_limit_ns: 1000.0,
            controller_ns: 20.0,
            refresh: true,
            tck_ps: 0,
            cl_nck: 0,
            cwl_nck: 0,
            trcd_nck: 0,
            trp_nck: 0,
            tras_nck: 0,
            trc_nck: 0,
            trrd_nck: 0,
            trrd_l_nck: 0,
            tfaw_nck: 0,
            twr_nck: 0,
            twtr_nck: 0,
            twtr_l_nck: 0,
            trtp_nck: 0,
            tccd_nck: 0,
            tccd_l_nck: 0,
            tccd_l_wr_nck: 0,
            trtw_nck: 0,
            twrwr_dr_nck: 0,
            trtrs_nck: 0,
            trefi_nck: 0,
            trfc_nck: 0,
        }
    }
}
