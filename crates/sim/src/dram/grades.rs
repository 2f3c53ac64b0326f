//! Speed grades: the least times of parts of 8 data wires with rows of 1 KB.
//!
//! DDR3: JESD79-3F, tables "Speed Bins and Operating Conditions" and "Timing Parameters by Speed Bin"; data
//! sheets of parts such as Micron's MT41J256M8 give the same numbers. DDR4: JESD79-4B, the tables of the same
//! names; Micron's MT40A1G8. DDR5: JESD79-5, "Speed Bins" and "Core timing parameters"; Micron's MT60B2G8.

use super::Tick;
use crate::dram::spec::DramGrade;

/// A time as standards give it: ps, and periods of the clock that it lasts at least.
pub(super) type Least = (u64, Tick);

/// Times of a speed bin, by their names in the standards.
pub(super) struct Grade {
    pub tck_ps: u64,
    /// Half of the burst's length. It is tCCD, or tCCD_S, too.
    pub burst: Tick,
    pub cl: Tick,
    pub cwl: Tick,
    pub trcd: Least,
    pub trp: Least,
    pub tras: Least,
    pub trc: Least,
    pub trrd: Least,
    pub trrd_l: Least,
    pub tfaw: Least,
    pub twr: Least,
    pub twtr: Least,
    pub twtr_l: Least,
    pub trtp: Least,
    pub tccd_l: Least,
    pub tccd_l_wr: Least,
    pub trefi_ps: u64,
    /// Capacity of a part in Gbit, and the time of a refresh of all banks of it.
    pub trfc: &'static [(u32, u64)],
    /// Periods of a clock for a time: ps, then the period.
    round: fn(u64, u64) -> Tick,
}

impl Grade {
    /// A time in periods of a clock.
    pub fn ticks(&self, (ps, nck): Least, tck_ps: u64) -> Tick {
        (self.round)(ps, tck_ps).max(nck)
    }

    /// The time of a refresh; that of the largest part if there is no such part.
    pub fn trfc_ps(&self, gbit: u32) -> u64 {
        let known = self.trfc.iter().find(|&&(size, _)| size >= gbit).or(self.trfc.last());
        known.map_or(0, |&(_, ps)| ps)
    }
}

/// JESD79-4, "Rounding Algorithms": a period more only for what exceeds whole ones by 2.6 % of one.
fn round_ddr4(ps: u64, tck_ps: u64) -> Tick {
    (ps * 1000 / tck_ps + 974) / 1000
}

/// JESD79-5, "Rounding Definitions and Algorithms": 0.3 % of a time are not counted.
fn round_ddr5(ps: u64, tck_ps: u64) -> Tick {
    ps * 997 / (tck_ps * 1000) + 1
}

pub(super) fn grade(grade: DramGrade) -> Grade {
    match grade {
        DramGrade::Ddr3_1066 => Grade {
            tck_ps: 1875,
            cl: 7,
            cwl: 6,
            trcd: (13_125, 0),
            trp: (13_125, 0),
            tras: (37_500, 0),
            trc: (50_625, 0),
            trrd: (7_500, 4),
            tfaw: (37_500, 0),
            ..DDR3_1600
        },
        DramGrade::Ddr3_1333 => Grade {
            tck_ps: 1500,
            cl: 9,
            cwl: 7,
            trcd: (13_500, 0),
            trp: (13_500, 0),
            tras: (36_000, 0),
            trc: (49_500, 0),
            ..DDR3_1600
        },
        DramGrade::Ddr3_1600 => DDR3_1600,
        DramGrade::Ddr4_2400 => DDR4_2400,
        DramGrade::Ddr4_3200 => Grade {
            tck_ps: 625,
            cl: 22,
            cwl: 16,
            trcd: (13_750, 0),
            trp: (13_750, 0),
            trc: (45_750, 0),
            trrd: (2_500, 4),
            ..DDR4_2400
        },
        DramGrade::Ddr5_4800 => DDR5_4800,
    }
}

/// 11-11-11, speed bin K. It has no bank groups.
const DDR3_1600: Grade = Grade {
    tck_ps: 1250,
    burst: 4,
    cl: 11,
    cwl: 8,
    trcd: (13_750, 0),
    trp: (13_750, 0),
    tras: (35_000, 0),
    trc: (48_750, 0),
    trrd: (6_000, 4),
    trrd_l: (0, 0),
    tfaw: (30_000, 0),
    twr: (15_000, 0),
    twtr: (7_500, 4),
    twtr_l: (0, 0),
    trtp: (7_500, 4),
    tccd_l: (0, 0),
    tccd_l_wr: (0, 0),
    trefi_ps: 7_800_000,
    trfc: &[(1, 110_000), (2, 160_000), (4, 260_000), (8, 350_000)],
    round: u64::div_ceil,
};

/// 17-17-17, speed bin T; CWL of the first set (preamble of 1 tCK).
const DDR4_2400: Grade = Grade {
    tck_ps: 833,
    burst: 4,
    cl: 17,
    cwl: 12,
    trcd: (14_160, 0),
    trp: (14_160, 0),
    tras: (32_000, 0),
    trc: (46_160, 0),
    trrd: (3_300, 4),
    trrd_l: (4_900, 4),
    tfaw: (21_000, 20),
    twr: (15_000, 0),
    twtr: (2_500, 2),
    twtr_l: (7_500, 4),
    trtp: (7_500, 4),
    tccd_l: (5_000, 5),
    tccd_l_wr: (5_000, 5),
    trefi_ps: 7_800_000,
    trfc: &[(2, 160_000), (4, 260_000), (8, 350_000), (16, 550_000)],
    round: round_ddr4,
};

/// 40-39-39, speed bin B. tCCD_L_WR is that of writes that need not read first: parts of 8 wires write whole words
/// of their error correction.
const DDR5_4800: Grade = Grade {
    tck_ps: 416,
    burst: 8,
    cl: 40,
    cwl: 38,
    trcd: (16_000, 0),
    trp: (16_000, 0),
    tras: (32_000, 0),
    trc: (48_000, 0),
    trrd: (0, 8),
    trrd_l: (5_000, 8),
    tfaw: (13_333, 32),
    twr: (30_000, 0),
    twtr: (2_500, 4),
    twtr_l: (10_000, 16),
    trtp: (7_500, 12),
    tccd_l: (5_000, 8),
    tccd_l_wr: (10_000, 16),
    trefi_ps: 3_900_000,
    trfc: &[(8, 195_000), (16, 295_000), (32, 410_000)],
    round: round_ddr5,
};
