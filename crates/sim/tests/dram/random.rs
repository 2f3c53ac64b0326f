//! Random traffic on random channels breaks no rule.

use proptest::prelude::*;
use rackmem_sim::machine::spec::{DramGrade, DramMapping, DramPagePolicy, DramScheduler, DramSpec};
use rackmem_sim::machine::{DEVICES, load};

use super::bench::{Bench, Traffic};
use super::checker::check;

fn shape() -> impl Strategy<Value = DramSpec> {
    (
        prop::sample::select(vec![1, 2, 4]),
        prop::sample::select(vec![1, 2, 8]),
        prop::sample::select(vec![
            DramMapping::RowRankBankColumn,
            DramMapping::RowBankRankColumn,
            DramMapping::RowColumnRankBank,
            DramMapping::RowColumnBankRank,
        ]),
        prop::sample::select(vec![DramPagePolicy::Open, DramPagePolicy::Closed]),
        schedulers(),
        any::<bool>(),
        (1_u32..40, 1_u32..40),
        (prop::sample::select(vec![1_u32, 2, 4]), 1_u32..12),
        (0_u32..40, 0_u32..40),
        prop::sample::select(vec![30.0, 300.0, 3000.0]),
    )
        .prop_map(
            |(
                ranks,
                banks,
                mapping,
                policy,
                (scheduler, row_accesses),
                hash,
                (reads, writes),
                (bank_groups, bank_queue),
                marks,
                age,
            )| {
                let high = 1 + marks.0 % writes;
                DramSpec {
                    ranks,
                    banks,
                    bank_groups: bank_groups.min(banks),
                    bank_queue,
                    mapping,
                    page_policy: policy,
                    scheduler,
                    row_accesses,
                    bank_hash: hash,
                    read_queue: reads,
                    write_queue: writes,
                    write_high: high,
                    write_low: marks.1 % high,
                    age_limit_ns: age,
                    ..DramSpec::default()
                }
            },
        )
}

/// A scheduler, and the accesses after which a row is closed if ranks take turns.
fn schedulers() -> impl Strategy<Value = (DramScheduler, u32)> {
    use DramScheduler::{BankQueues, Fcfs, FrFcfs, RankThenBankRoundRobin};
    let which = prop::sample::select(vec![FrFcfs, Fcfs, RankThenBankRoundRobin, BankQueues]);
    (which, prop::sample::select(vec![1_u32, 4, 100]))
}

/// Times that no grade has: each rule is the strictest one now and then.
fn times() -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(0_u32..30, 19)
}

fn with_times(spec: DramSpec, times: &[u32]) -> DramSpec {
    let &[
        cl,
        cwl,
        trcd,
        trp,
        tras,
        trc,
        trrd,
        tfaw,
        twr,
        twtr,
        trtp,
        tccd,
        trtrs,
        trfc,
        ref more @ ..,
    ] = times
    else {
        panic!("too few times");
    };
    let &[trrd_l, twtr_l, tccd_l, tccd_l_wr, twrwr_dr] = more else { panic!("five more") };
    let or_burst = |nck: u32| if nck == 0 { 0 } else { nck.max(4) };
    DramSpec {
        cl_nck: cl,
        cwl_nck: cwl,
        trcd_nck: trcd,
        trp_nck: trp,
        tras_nck: tras,
        trc_nck: trc * 2,
        trrd_nck: trrd,
        tfaw_nck: if tfaw == 0 { 0 } else { tfaw + trrd.max(5) },
        twr_nck: twr,
        twtr_nck: twtr,
        trtp_nck: trtp,
        tccd_nck: or_burst(tccd),
        trrd_l_nck: trrd_l,
        twtr_l_nck: twtr_l,
        tccd_l_nck: or_burst(tccd_l),
        tccd_l_wr_nck: or_burst(tccd_l_wr),
        twrwr_dr_nck: or_burst(twrwr_dr),
        trtrs_nck: trtrs,
        trfc_nck: trfc * 5,
        // Often, so that refreshes meet everything.
        trefi_nck: 500,
        ..spec
    }
}

fn traffic() -> impl Strategy<Value = Traffic> {
    (
        prop::sample::select(vec![4_u64, 100, 5000, 1 << 24]),
        prop::sample::select(vec![0_u64, 10, 30, 50, 90, 100]),
        prop::sample::select(vec![0_u64, 2, 5, 20, 100]),
        prop::sample::select(vec![0_u64, 50, 95]),
        prop::sample::select(vec![0_u64, 2000, 20_000]),
    )
        .prop_map(|(lines, writes_percent, gap, runs_percent, pause)| Traffic {
            lines,
            writes_percent,
            gap,
            runs_percent,
            pause,
        })
}

fn run(spec: &DramSpec, traffic: Traffic, count: usize, seed: u64) {
    let mut bench = Bench::recording(spec);
    bench.run(&traffic.wishes(count, seed));
    let end = bench.now + 5000;
    bench.advance(end);
    check(&bench);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn grades_break_no_rule(
        spec in shape(),
        traffic in traffic(),
        grade in prop::sample::select(vec![
            DramGrade::Ddr3_1066, DramGrade::Ddr3_1333, DramGrade::Ddr3_1600,
            DramGrade::Ddr4_2400, DramGrade::Ddr4_3200, DramGrade::Ddr5_4800,
        ]),
        seed: u64,
    ) {
        run(&DramSpec { grade, ..spec }, traffic, 400, seed);
    }

    /// As they are built in, with each scheduler.
    #[test]
    fn devices_break_no_rule(
        device in prop::sample::select(DEVICES.to_vec()),
        (scheduler, row_accesses) in schedulers(),
        traffic in traffic(),
        seed: u64,
    ) {
        let spec = load(device.name, &[]).expect("a device").dram;
        run(&DramSpec { scheduler, row_accesses, ..spec }, traffic, 1000, seed);
    }

    #[test]
    fn any_times_break_no_rule(
        spec in shape(), times in times(), traffic in traffic(), seed: u64,
    ) {
        run(&with_times(spec, &times), traffic, 400, seed);
    }
}
