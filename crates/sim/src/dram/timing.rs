use serde::Serialize;

use super::Tick;
use super::grades::grade;
use crate::dram::spec::DramSpec;

/// Ticks between data of a read and of a write that follows in the same rank (JESD79-3: a write may
/// follow a read by RL + tCCD + 2 nCK - WL).
const TURNAROUND: Tick = 2;

/// A property of the module, so in no standard: a period for the preamble of the other rank's strobe
/// and one between the two.
const TRTRS: Tick = 2;

/// Whether data are read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// From memory.
    Read,
    /// To memory.
    Write,
}

impl Kind {
    /// Both, in the order of their indices.
    pub const ALL: [Kind; 2] = [Kind::Read, Kind::Write];

    #[inline]
    pub(super) fn index(self) -> usize {
        self as usize
    }
}

/// How near two accesses are to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Near {
    OtherRank,
    OtherGroup,
    SameGroup,
}

impl Near {
    /// All, in the order of their indices.
    pub const ALL: [Near; 3] = [Near::OtherRank, Near::OtherGroup, Near::SameGroup];
}

/// Times between commands of a channel, in ticks, by their names in JESD79-3 and its successors. Where
/// banks are in groups, `_l` is for two banks of the same group and the name without it for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Timing {
    /// Period of the clock, in ps.
    pub tck_ps: u64,
    /// A burst on the data wires, with two transfers a tick.
    pub burst: Tick,
    /// CL: read to its data.
    pub cl: Tick,
    /// CWL: write to its data.
    pub cwl: Tick,
    /// tRCD: activation to read or write.
    pub trcd: Tick,
    /// tRP: precharge to activation.
    pub trp: Tick,
    /// tRAS: activation to precharge.
    pub tras: Tick,
    /// tRC: activation to activation, same bank.
    pub trc: Tick,
    /// tRRD: activation to activation, other bank of the rank.
    pub trrd: Tick,
    /// tRRD_L: the same within a bank group.
    pub trrd_l: Tick,
    /// tFAW: window with four activations of a rank at most.
    pub tfaw: Tick,
    /// tWR: end of written data to precharge.
    pub twr: Tick,
    /// tWTR: end of written data to read, same rank.
    pub twtr: Tick,
    /// tWTR_L: the same within a bank group.
    pub twtr_l: Tick,
    /// tRTP: read to precharge.
    pub trtp: Tick,
    /// tCCD: read to read, or write to write, same rank.
    pub tccd: Tick,
    /// tCCD_L: read to read within a bank group.
    pub tccd_l: Tick,
    /// tCCD_L_WR: write to write within a bank group.
    pub tccd_l_wr: Tick,
    /// Read to write, same rank.
    pub trtw: Tick,
    /// Write to write, other rank.
    pub twrwr_dr: Tick,
    /// tRTRS: pause of the data wires between two ranks.
    pub trtrs: Tick,
    /// tREFI: from refresh to refresh.
    pub trefi: Tick,
    /// tRFC: time of a refresh.
    pub trfc: Tick,
}

impl Timing {
    /// The times of a machine's channels: its own settings, and else those of the standard.
    pub fn of(spec: &DramSpec) -> Timing {
        let grade = grade(spec.grade);
        let tck_ps = if spec.tck_ps == 0 { grade.tck_ps } else { spec.tck_ps };
        let or = |nck: u32, default: Tick| if nck == 0 { default } else { Tick::from(nck) };
        let ticks = |time| grade.ticks(time, tck_ps);
        let (burst, cl, cwl) =
            (grade.burst, or(spec.cl_nck, grade.cl), or(spec.cwl_nck, grade.cwl));
        let trrd = or(spec.trrd_nck, ticks(grade.trrd));
        let twtr = or(spec.twtr_nck, ticks(grade.twtr));
        let tccd = or(spec.tccd_nck, burst);
        let trtrs = or(spec.trtrs_nck, TRTRS);
        // Two banks of a group are never nearer than two others; without groups there are no others.
        let long = |nck: u32, default, short: Tick| match spec.bank_groups {
            0 | 1 => short,
            _ => or(nck, ticks(default).max(short)),
        };
        let tccd_l = long(spec.tccd_l_nck, grade.tccd_l, tccd);
        let gap = burst.max(tccd);
        Timing {
            tck_ps,
            burst,
            cl,
            cwl,
            trcd: or(spec.trcd_nck, ticks(grade.trcd)),
            trp: or(spec.trp_nck, ticks(grade.trp)),
            tras: or(spec.tras_nck, ticks(grade.tras)),
            trc: or(spec.trc_nck, ticks(grade.trc)),
            trrd,
            trrd_l: long(spec.trrd_l_nck, grade.trrd_l, trrd),
            tfaw: or(spec.tfaw_nck, ticks(grade.tfaw)),
            twr: or(spec.twr_nck, ticks(grade.twr)),
            twtr,
            twtr_l: long(spec.twtr_l_nck, grade.twtr_l, twtr),
            trtp: or(spec.trtp_nck, ticks(grade.trtp)),
            tccd,
            tccd_l,
            tccd_l_wr: long(spec.tccd_l_wr_nck, grade.tccd_l_wr, tccd),
            trtw: or(spec.trtw_nck, (cl + gap + TURNAROUND).saturating_sub(cwl)),
            twrwr_dr: or(spec.twrwr_dr_nck, burst + trtrs),
            trtrs,
            // The average must not be exceeded, so this one is rounded down.
            trefi: or(spec.trefi_nck, grade.trefi_ps / tck_ps),
            trfc: or(spec.trfc_nck, ticks((grade.trfc_ps(spec.device_gbit), 0))),
        }
    }

    /// From a read or write to the next one.
    pub(super) fn cas_gap(&self, first: Kind, second: Kind, near: Near) -> Tick {
        let latency = |kind| if kind == Kind::Read { self.cl } else { self.cwl };
        // Data wires: the second burst begins a pause after the end of the first.
        let after =
            |pause: Tick| (latency(first) + self.burst + pause).saturating_sub(latency(second));
        match (first, second, near) {
            (Kind::Write, Kind::Write, Near::OtherRank) => self.twrwr_dr,
            (_, _, Near::OtherRank) => after(self.trtrs),
            (Kind::Read, Kind::Write, _) => self.trtw,
            (Kind::Write, Kind::Read, Near::OtherGroup) => self.cwl + self.burst + self.twtr,
            (Kind::Write, Kind::Read, Near::SameGroup) => self.cwl + self.burst + self.twtr_l,
            (_, _, Near::OtherGroup) => self.tccd,
            (Kind::Read, Kind::Read, Near::SameGroup) => self.tccd_l,
            (Kind::Write, Kind::Write, Near::SameGroup) => self.tccd_l_wr,
        }
    }

    /// From a read or write to the precharge of its bank.
    #[inline]
    pub(super) fn until_precharge(&self, kind: Kind) -> Tick {
        match kind {
            Kind::Read => self.trtp,
            Kind::Write => self.cwl + self.burst + self.twr,
        }
    }

    /// From a read or write to the end of its data.
    #[inline]
    pub(super) fn until_data_end(&self, kind: Kind) -> Tick {
        self.burst + if kind == Kind::Read { self.cl } else { self.cwl }
    }

    /// A time in whole ticks, rounded down.
    pub fn ticks(&self, time_ns: f64) -> Tick {
        (time_ns * 1000.0).round() as u64 / self.tck_ps
    }
}
