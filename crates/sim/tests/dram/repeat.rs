//! The same requests have the same result, however time is stepped through.

use proptest::prelude::*;
use rackmem_sim::dram::Issued;
use rackmem_sim::machine::spec::{DramScheduler, DramSpec};

use super::bench::{Bench, Traffic};

const TRAFFIC: Traffic =
    Traffic { lines: 1 << 20, writes_percent: 30, gap: 8, runs_percent: 60, pause: 3000 };

const SCHEDULERS: [DramScheduler; 3] =
    [DramScheduler::FrFcfs, DramScheduler::RankThenBankRoundRobin, DramScheduler::BankQueues];

#[test]
fn same_requests_same_commands() {
    let run = |seed| {
        let mut bench = Bench::recording(&DramSpec::default());
        bench.run(&TRAFFIC.wishes(3000, seed));
        format!("{:?}", bench.commands())
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

/// The channel's commands for these requests are known: a change of it shows here, and a build with
/// optimisation, which leaves out the checks of short cuts, does the same.
#[test]
fn nothing_has_changed() {
    let expected = [
        ((5699, 0xdb0e_c043_fe0f_ea4f), (1611, 257, 1132)),
        ((5702, 0x5d61_5356_575a_e439), (1660, 1078, 262)),
        ((5743, 0x1b80_8caa_ef2f_37e9), (1634, 192, 1174)),
    ];
    for (scheduler, (commands, rows)) in SCHEDULERS.into_iter().zip(expected) {
        let mut bench = Bench::recording(&DramSpec { scheduler, ..DramSpec::default() });
        bench.run(&TRAFFIC.wishes(3000, 1));
        let mix = |sum: u64, issued: &Issued| sum.wrapping_mul(31).wrapping_add(issued.at);
        let times = bench.commands().iter().fold(0, mix);
        let stats = bench.stats();
        assert_eq!((bench.commands().len(), times), commands, "{times:#x} {stats:?}");
        assert_eq!((stats.row_hits, stats.row_misses, stats.row_conflicts), rows);
    }
}

#[test]
fn ticks_may_be_skipped() {
    for scheduler in SCHEDULERS {
        let spec = DramSpec { scheduler, ..DramSpec::default() };
        let wishes = TRAFFIC.wishes(3000, 4);
        let mut skipping = Bench::recording(&spec);
        skipping.run(&wishes);
        let mut stepping = Bench::recording(&spec);
        for wish in wishes {
            (stepping.now..wish.at).for_each(|tick| stepping.advance(tick));
            stepping.ask(wish);
        }
        stepping.drain();
        assert_eq!(skipping.commands(), stepping.commands());
        assert_eq!(skipping.outcomes, stepping.outcomes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Refreshes that are made up for are those that would have been.
    #[test]
    fn idle_times_cost_nothing_and_change_nothing(
        ranks in prop::sample::select(vec![1_u32, 2, 4]),
        scheduler in prop::sample::select(SCHEDULERS.to_vec()),
        pause in 0_u64..200_000,
        seed: u64,
    ) {
        let spec = DramSpec { ranks, scheduler, ..DramSpec::default() };
        let wishes = Traffic { pause, gap: 100, ..TRAFFIC }.wishes(500, seed);
        let (mut lazy, mut recording) = (Bench::new(&spec), Bench::recording(&spec));
        for bench in [&mut lazy, &mut recording] {
            bench.run(&wishes);
            let end = bench.now + 1_000_000;
            bench.advance(end);
        }
        prop_assert_eq!(lazy.stats(), recording.stats());
        prop_assert_eq!(lazy.outcomes, recording.outcomes);
    }
}
