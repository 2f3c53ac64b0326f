//! A busy channel moves what its bottleneck lets through.

use rackmem_sim::dram::{Kind, Tick};
use rackmem_sim::engine::Random;
use rackmem_sim::machine::spec::{DramMapping, DramPagePolicy, DramScheduler, DramSpec};

use super::bench::{Bench, Wish, line_of, one_rank};

/// Data of a burst.
const BURST: f64 = 4.0;

/// Share of the time in which data are on the wires when reads never run out.
fn utilisation(spec: &DramSpec, count: u64, line: impl FnMut(u64) -> u64) -> f64 {
    let mut bench = Bench::new(spec);
    let reads = (0..count).map(line).map(|line| Wish { at: 0, kind: Kind::Read, line });
    bench.run(&reads.collect::<Vec<_>>());
    bench.stats().data_ticks as f64 / bench.now as f64
}

fn assert_near(found: f64, expected: f64, percent: f64) {
    let off = (found / expected - 1.0).abs() * 100.0;
    assert!(off < percent, "{found}, not {expected}: {off} % off");
}

/// 12.8 GB/s less refreshes.
#[test]
fn streaming_reads_fill_the_wires_between_refreshes() {
    for (mapping, device_gbit) in
        [(DramMapping::RowRankBankColumn, 2), (DramMapping::RowColumnRankBank, 4)]
    {
        let spec = DramSpec { ranks: 1, mapping, device_gbit, ..DramSpec::default() };
        let timing = *Bench::new(&spec).channel.timing();
        let found = utilisation(&spec, 100_000, |line| line);
        let expected = 1.0 - timing.trfc as f64 / timing.trefi as f64;
        assert_near(found, expected, 1.0);
        assert!(found < expected, "{found} is more than {expected}");
        // 64 wires, two transfers a tick.
        let peak_gbps = 16.0 / (timing.tck_ps as f64 / 1000.0);
        assert_eq!(peak_gbps, 12.8);
    }
}

#[test]
fn streaming_reads_without_refreshes_fill_the_wires() {
    assert_near(utilisation(&one_rank(), 50_000, |line| line), 1.0, 0.2);
}

/// Streams of two ranks wait for each other's strobes once per row.
#[test]
fn two_ranks_stream_as_fast_but_for_the_change() {
    let spec = DramSpec { ranks: 2, mapping: DramMapping::RowBankRankColumn, ..one_rank() };
    let expected = 128.0 * BURST / (128.0 * BURST + 2.0);
    assert_near(utilisation(&spec, 50_000, |line| line), expected, 0.2);
}

#[test]
fn random_reads_of_one_bank_take_trc_each() {
    let spec = one_rank();
    let timing = *Bench::new(&spec).channel.timing();
    let mut random = Random::new(1, 0);
    let found = utilisation(&spec, 5000, |_| line_of(&spec, 3, random.below(1 << 20)));
    assert_near(found, BURST / timing.trc as f64, 1.0);
}

/// Four activations per tFAW in each rank.
#[test]
fn random_reads_of_all_banks_are_limited_by_tfaw() {
    let spec = DramSpec { read_queue: 128, age_limit_ns: 5000.0, ..one_rank() };
    let timing = *Bench::new(&spec).channel.timing();
    let mut random = Random::new(1, 0);
    let found = utilisation(&spec, 20_000, |_| random.below(1 << 30));
    let most = 4.0 * BURST / timing.tfaw as f64;
    assert!(found <= most, "{found} is more than {most}");
    assert_near(found, most, 3.0);
    // With fewer reads in view, some banks have nothing to do.
    let mut random = Random::new(1, 0);
    let few = utilisation(&one_rank(), 20_000, |_| random.below(1 << 30));
    assert!(few < found && few > 3.0 * BURST / timing.trc as f64, "{few}");
}

/// Two streams through the same bank: in the order of arrival each request closes the other's row.
#[test]
fn fr_fcfs_beats_fcfs_where_streams_mix() {
    let of = |scheduler| {
        let spec = DramSpec { scheduler, ..one_rank() };
        let rows = [line_of(&spec, 0, 0), line_of(&spec, 0, 1)];
        utilisation(&spec, 2000, |n| rows[n as usize % 2] + n / 2 % 128)
    };
    let (first_ready, in_order) = (of(DramScheduler::FrFcfs), of(DramScheduler::Fcfs));
    assert!(first_ready > 4.0 * in_order, "{first_ready} and {in_order}");
    let timing = *Bench::new(&one_rank()).channel.timing();
    assert_near(in_order, BURST / timing.trc as f64, 2.0);
}

#[test]
fn open_pages_are_for_streams_and_closed_ones_for_chance() {
    let of = |page_policy, stream: bool| {
        let spec = DramSpec { page_policy, ..one_rank() };
        let mut random = Random::new(1, 0);
        let mut bench = Bench::new(&spec);
        // One at a time: nothing waits.
        for n in 0..2000 {
            let line = if stream { n } else { random.below(1 << 30) };
            bench.read(n * 100, line);
        }
        bench.drain();
        let total: Tick = (0..2000).map(|id| bench.latency(id)).sum();
        total as f64 / 2000.0
    };
    let (open, closed) = (DramPagePolicy::Open, DramPagePolicy::Closed);
    assert!(of(open, true) + 10.0 < of(closed, true));
    assert!(of(closed, false) + 9.0 < of(open, false));
}

/// The wires turn around once per batch of writes, not once per write.
#[test]
fn writes_are_drained_in_batches() {
    let of = |high, low| {
        let spec = DramSpec { write_high: high, write_low: low, ..one_rank() };
        let mut bench = Bench::new(&spec);
        let half = 1 << 20;
        let wish = |n: u64| match n % 2 {
            0 => Wish { at: 0, kind: Kind::Read, line: n / 2 },
            _ => Wish { at: 0, kind: Kind::Write, line: half + n / 2 },
        };
        bench.run(&(0..20_000).map(wish).collect::<Vec<_>>());
        bench.stats().data_ticks as f64 / bench.now as f64
    };
    let (batches, single) = (of(28, 4), of(2, 1));
    assert!(batches > 0.75 && batches > 2.0 * single, "{batches} and {single}");
}
