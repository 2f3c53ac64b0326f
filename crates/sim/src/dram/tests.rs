//! Times that follow from the tables, and places of addresses.

use proptest::prelude::*;

use super::*;
use crate::dram::spec::{DramGrade, DramMapping, DramSpec};

/// JESD79-3's numbers at DDR3-1600 11-11-11, in clock periods.
#[test]
fn ddr3_1600_has_the_times_of_its_data_sheet() {
    let of = |gbit| Timing::of(&DramSpec { device_gbit: gbit, ..DramSpec::default() });
    let expected = Timing {
        tck_ps: 1250,
        burst: 4,
        cl: 11,
        cwl: 8,
        trcd: 11,
        trp: 11,
        tras: 28,
        trc: 39,
        trrd: 5,
        trrd_l: 5,
        tfaw: 24,
        twr: 12,
        twtr: 6,
        twtr_l: 6,
        trtp: 6,
        tccd: 4,
        tccd_l: 4,
        tccd_l_wr: 4,
        trtw: 9,
        twrwr_dr: 6,
        trtrs: 2,
        trefi: 6240,
        trfc: 128,
    };
    assert_eq!(of(2), expected);
    assert_eq!(of(4), Timing { trfc: 208, ..expected });
}

/// The same in slower bins, where minima in clock periods take over.
#[test]
fn slower_grades_round_up_and_keep_minima() {
    let of = |grade| Timing::of(&DramSpec { grade, ..DramSpec::default() });
    let slow = of(DramGrade::Ddr3_1066);
    assert_eq!((slow.cl, slow.trcd, slow.trp, slow.tras, slow.trc), (7, 7, 7, 20, 27));
    assert_eq!((slow.trrd, slow.tfaw, slow.twtr, slow.trtp, slow.trefi), (4, 20, 4, 4, 4160));
    let middle = of(DramGrade::Ddr3_1333);
    assert_eq!((middle.cl, middle.trcd, middle.trp, middle.tras, middle.trc), (9, 9, 9, 24, 33));
    assert_eq!((middle.trrd, middle.tfaw, middle.twtr, middle.trfc), (4, 20, 5, 107));
}

/// JESD79-4's at DDR4-2400 17-17-17 and DDR4-3200 22-22-22, JESD79-5's at DDR5-4800 40-39-39.
#[test]
fn ddr4_and_ddr5_have_the_times_of_their_data_sheets() {
    let of = |grade, bank_groups, device_gbit| {
        Timing::of(&DramSpec { grade, bank_groups, device_gbit, ..DramSpec::default() })
    };
    let ddr4_2400 = Timing {
        tck_ps: 833,
        burst: 4,
        cl: 17,
        cwl: 12,
        trcd: 17,
        trp: 17,
        tras: 39,
        trc: 56,
        trrd: 4,
        trrd_l: 6,
        tfaw: 26,
        twr: 18,
        twtr: 3,
        twtr_l: 9,
        trtp: 9,
        tccd: 4,
        tccd_l: 6,
        tccd_l_wr: 6,
        trtw: 11,
        twrwr_dr: 6,
        trtrs: 2,
        trefi: 9363,
        trfc: 421,
    };
    assert_eq!(of(DramGrade::Ddr4_2400, 4, 8), ddr4_2400);
    let ddr4_3200 = Timing {
        tck_ps: 625,
        cl: 22,
        cwl: 16,
        trcd: 22,
        trp: 22,
        tras: 52,
        trc: 74,
        trrd_l: 8,
        tfaw: 34,
        twr: 24,
        twtr: 4,
        twtr_l: 12,
        trtp: 12,
        tccd_l: 8,
        tccd_l_wr: 8,
        trtw: 12,
        trefi: 12_480,
        trfc: 560,
        ..ddr4_2400
    };
    assert_eq!(of(DramGrade::Ddr4_3200, 4, 8), ddr4_3200);
    let ddr5_4800 = Timing {
        tck_ps: 416,
        burst: 8,
        cl: 40,
        cwl: 38,
        trcd: 39,
        trp: 39,
        tras: 77,
        trc: 116,
        trrd: 8,
        trrd_l: 12,
        tfaw: 32,
        twr: 72,
        twtr: 6,
        twtr_l: 24,
        trtp: 18,
        tccd: 8,
        tccd_l: 12,
        tccd_l_wr: 24,
        trtw: 12,
        twrwr_dr: 10,
        trtrs: 2,
        trefi: 9375,
        trfc: 708,
    };
    assert_eq!(of(DramGrade::Ddr5_4800, 8, 16), ddr5_4800);
    // Without groups, there is nothing for which the longer times hold.
    let alone = of(DramGrade::Ddr4_2400, 1, 8);
    assert_eq!((alone.trrd_l, alone.tccd_l, alone.twtr_l), (alone.trrd, alone.tccd, alone.twtr));
}

#[test]
fn neighbouring_banks_are_in_different_groups() {
    let mapping = Mapping::new(&DramSpec { banks: 16, bank_groups: 4, ..DramSpec::default() });
    let banks: Vec<usize> = (0..6).map(|bank| mapping.place(bank * 128).bank).collect();
    assert_eq!(banks, [0, 4, 8, 12, 1, 5]);
}

#[test]
fn a_machine_may_say_something_else() {
    let spec = DramSpec { trcd_nck: 9, trfc_nck: 200, tck_ps: 1500, ..DramSpec::default() };
    let timing = Timing::of(&spec);
    assert_eq!((timing.trcd, timing.trfc), (9, 200));
    // Times that JESD79-3 gives in ns keep their length: fewer ticks.
    assert_eq!((timing.trp, timing.tras, timing.trefi), (10, 24, 5200));
}

#[test]
fn mappings_spread_neighbours_as_they_say() {
    let place = |mapping, line| {
        let mapping = Mapping::new(&DramSpec { mapping, ..DramSpec::default() });
        let Place { rank, bank, row } = mapping.place(line);
        (rank, bank, row)
    };
    // 128 blocks fill a row; 2 ranks of 8 banks.
    for (mapping, block, row) in [
        (DramMapping::RowRankBankColumn, (0, 0, 0), (0, 1, 0)),
        (DramMapping::RowBankRankColumn, (0, 0, 0), (1, 8, 0)),
        (DramMapping::RowColumnRankBank, (0, 1, 0), (0, 0, 0)),
        (DramMapping::RowColumnBankRank, (1, 8, 0), (0, 0, 0)),
    ] {
        assert_eq!(place(mapping, 1), block, "{mapping:?}");
        assert_eq!(place(mapping, 128), row, "{mapping:?}");
        assert_eq!(place(mapping, 128 * 16), (0, 0, 1), "{mapping:?}");
    }
}

#[test]
fn hashed_banks_differ_between_rows() {
    let mapping = Mapping::new(&DramSpec { bank_hash: true, ..DramSpec::default() });
    let banks: Vec<usize> = (0..8).map(|row| mapping.place(row * 128 * 16).bank).collect();
    assert_eq!(banks, [0, 1, 2, 3, 4, 5, 6, 7]);
}

proptest! {
    /// Every place of a bank's row holds as many blocks as fit into it.
    #[test]
    fn mappings_fill_rows(
        mapping in prop::sample::select(vec![
            DramMapping::RowRankBankColumn,
            DramMapping::RowBankRankColumn,
            DramMapping::RowColumnRankBank,
            DramMapping::RowColumnBankRank,
        ]),
        ranks in prop::sample::select(vec![1_u32, 2, 4]),
        bank_hash: bool,
        row in 0_u64..1000,
    ) {
        let spec = DramSpec { mapping, ranks, row_bytes: 512, bank_hash, ..DramSpec::default() };
        let mapping = Mapping::new(&spec);
        let mut blocks = vec![0; ranks as usize * 8];
        let all = u64::from(ranks) * 8 * 8;
        for line in row * all..(row + 1) * all {
            let place = mapping.place(line);
            prop_assert_eq!((place.row, place.bank / 8), (row, place.rank));
            blocks[place.bank] += 1;
        }
        prop_assert!(blocks.iter().all(|&count| count == 8), "{blocks:?}");
    }
}
