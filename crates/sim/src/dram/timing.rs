use super::Tick;
use crate::machine::spec::{DramGrade, DramSpec};

/// Ticks for which a burst of 8 (BL8) takes the data wires: two transfers a tick.
pub const BURST: Tick = 4;

/// Least distances that JESD79-3 gives in clock periods, whatever these last.
const LEAST_TRRD: Tick = 4;
const LEAST_TWTR: Tick = 4;
const LEAST_TRTP: Tick = 4;

/// Ticks between data of a read and of a write that follows in the same rank (JESD79-3: a write may
/// follow a read by RL + tCCD + 2 nCK - WL).
const TURNAROUND: Tick = 2;

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

    /// For tables.
    #[inline]
    pub(super) fn index(self) -> usize {
        self as usize
    }
}

/// Times between commands of a channel, in ticks, by their names in JESD79-3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Period of the clock, in ps.
    pub tck_ps: u64,
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
    /// tFAW: window with four activations of a rank at most.
    pub tfaw: Tick,
    /// tWR: end of written data to precharge.
    pub twr: Tick,
    /// tWTR: end of written data to read, same rank.
    pub twtr: Tick,
    /// tRTP: read to precharge.
    pub trtp: Tick,
    /// tCCD: read to read, or write to write, same rank.
    pub tccd: Tick,
    /// tRTRS: pause of the data wires between two ranks.
    pub trtrs: Tick,
    /// tREFI: from refresh to refresh.
    pub trefi: Tick,
    /// tRFC: time of a refresh.
    pub trfc: Tick,
}

/// Times of a speed bin in JESD79-3, for parts with rows of 1 KB: eight of them, 8 bits wide each, make the
/// channel's 64 bits and rows of 8 KB.
struct Grade {
    tck_ps: u64,
    cl: Tick,
    cwl: Tick,
    trcd_ps: u64,
    trp_ps: u64,
    tras_ps: u64,
    trc_ps: u64,
    trrd_ps: u64,
    tfaw_ps: u64,
}

/// Alike in all grades.
const TWR_PS: u64 = 15_000;
const TWTR_PS: u64 = 7_500;
const TRTP_PS: u64 = 7_500;
const TREFI_PS: u64 = 7_800_000;
const TCCD: Tick = 4;
/// A property of the module, so not in JESD79-3: a period for the preamble of the other rank's strobe
/// and one between the two.
const TRTRS: Tick = 2;

/// Speed bins of JESD79-3 (tables "Speed Bins and Operating Conditions" and "Timing Parameters by Speed
/// Bin"); data sheets of DDR3 parts, such as Micron's MT41J256M8, give the same numbers.
fn grade(grade: DramGrade) -> Grade {
    match grade {
        DramGrade::Ddr3_1066 => Grade {
            tck_ps: 1875,
            cl: 7,
            cwl: 6,
            trcd_ps: 13_125,
            trp_ps: 13_125,
            tras_ps: 37_500,
            trc_ps: 50_625,
            trrd_ps: 7_500,
            tfaw_ps: 37_500,
        },
        DramGrade::Ddr3_1333 => Grade {
            tck_ps: 1500,
            cl: 9,
            cwl: 7,
            trcd_ps: 13_500,
            trp_ps: 13_500,
            tras_ps: 36_000,
            trc_ps: 49_500,
            trrd_ps: 6_000,
            tfaw_ps: 30_000,
        },
        DramGrade::Ddr3_1600 => Grade {
            tck_ps: 1250,
            cl: 11,
            cwl: 8,
            trcd_ps: 13_750,
            trp_ps: 13_750,
            tras_ps: 35_000,
            trc_ps: 48_750,
            trrd_ps: 6_000,
            tfaw_ps: 30_000,
        },
    }
}

/// JESD79-3, "Refresh parameters by device density".
fn trfc_ps(device_gbit: u32) -> u64 {
    match device_gbit {
        1 => 110_000,
        2 => 160_000,
        4 => 260_000,
        _ => 350_000,
    }
}

impl Timing {
    /// The times of a machine's channels: its own settings, and else those of the standard.
    pub fn of(spec: &DramSpec) -> Timing {
        let grade = grade(spec.grade);
        let tck_ps = if spec.tck_ps == 0 { grade.tck_ps } else { spec.tck_ps };
        let or = |nck: u32, default: Tick| if nck == 0 { default } else { Tick::from(nck) };
        let ticks = |ps: u64| ps.div_ceil(tck_ps);
        Timing {
            tck_ps,
            cl: or(spec.cl_nck, grade.cl),
            cwl: or(spec.cwl_nck, grade.cwl),
            trcd: or(spec.trcd_nck, ticks(grade.trcd_ps)),
            trp: or(spec.trp_nck, ticks(grade.trp_ps)),
            tras: or(spec.tras_nck, ticks(grade.tras_ps)),
            trc: or(spec.trc_nck, ticks(grade.trc_ps)),
            trrd: or(spec.trrd_nck, ticks(grade.trrd_ps).max(LEAST_TRRD)),
            tfaw: or(spec.tfaw_nck, ticks(grade.tfaw_ps)),
            twr: or(spec.twr_nck, ticks(TWR_PS)),
            twtr: or(spec.twtr_nck, ticks(TWTR_PS).max(LEAST_TWTR)),
            trtp: or(spec.trtp_nck, ticks(TRTP_PS).max(LEAST_TRTP)),
            tccd: or(spec.tccd_nck, TCCD),
            trtrs: or(spec.trtrs_nck, TRTRS),
            // The average must not be exceeded, so this one is rounded down.
            trefi: or(spec.trefi_nck, TREFI_PS / tck_ps),
            trfc: or(spec.trfc_nck, ticks(trfc_ps(spec.device_gbit))),
        }
    }

    /// From a read or write to the next one, in the same rank or another one.
    pub(super) fn cas_gap(&self, first: Kind, second: Kind, same_rank: bool) -> Tick {
        let latency = |kind| if kind == Kind::Read { self.cl } else { self.cwl };
        // Data wires: the second burst begins a pause after the end of the first.
        let after = |pause: Tick| (latency(first) + BURST + pause).saturating_sub(latency(second));
        match (first, second, same_rank) {
            (_, _, false) => after(self.trtrs),
            (Kind::Read, Kind::Write, true) => {
                after(TURNAROUND).max((self.cl + self.tccd + TURNAROUND).saturating_sub(self.cwl))
            }
            (Kind::Write, Kind::Read, true) => self.cwl + BURST + self.twtr,
            (_, _, true) => self.tccd,
        }
    }

    /// From a read or write to the precharge of its bank.
    #[inline]
    pub(super) fn until_precharge(&self, kind: Kind) -> Tick {
        match kind {
            Kind::Read => self.trtp,
            Kind::Write => self.cwl + BURST + self.twr,
        }
    }

    /// From a read or write to the end of its data.
    #[inline]
    pub(super) fn until_data_end(&self, kind: Kind) -> Tick {
        BURST + if kind == Kind::Read { self.cl } else { self.cwl }
    }

    /// A time in whole ticks, rounded down.
    pub fn ticks(&self, time_ns: f64) -> Tick {
        (time_ns * 1000.0).round() as u64 / self.tck_ps
    }
}
