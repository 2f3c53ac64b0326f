//! The memory of a machine without the machine.

use proptest::prelude::*;
use rackmem_sim::dram::{Kind, Tick};
use rackmem_sim::machine::{DEVICES, Machine, Override, load};
use rackmem_sim::reference::queueing::outstanding;
use rackmem_sim::run::memory::{Access, Generator, Outcome, Pattern, Report, run};

fn device(name: &str, set: &[&str]) -> Machine {
    let set: Vec<Override> = set.iter().map(|text| text.parse().unwrap()).collect();
    load(name, &set).unwrap()
}

fn outcomes(machine: &Machine, requests: impl Iterator<Item = Access>) -> (Report, Vec<Outcome>) {
    let mut all = Vec::new();
    let each = |outcome: &Outcome| {
        all.push(*outcome);
        Ok::<_, String>(())
    };
    let report = run(machine, requests.map(Ok), None, each).unwrap();
    (report, all)
}

fn generated(machine: &Machine, pattern: Pattern, interval: Tick) -> (Report, Vec<Outcome>) {
    outcomes(machine, Generator::new(pattern, interval, 20_000, machine.memory.size_bytes, 1))
}

/// Outstanding requests, counted clock by clock, times a block by the latency is the bandwidth.
#[test]
fn bandwidth_is_what_is_outstanding_by_latency() {
    for device in DEVICES {
        for (pattern, interval) in
            [(Pattern::Random, 30), (Pattern::RandomWriteThird, 5), (Pattern::Stream, 1)]
        {
            let machine = load(device.name, &[]).unwrap();
            let (report, all) = generated(&machine, pattern, interval);
            let outstanding = outstanding(&all);
            let count = (report.reads.count + report.writes.count) as f64;
            let latency = (report.reads.mean * report.reads.count as f64
                + report.writes.mean * report.writes.count as f64)
                / count;
            let tck_ns = rackmem_sim::run::memory::timing(&machine).tck_ps as f64 / 1000.0;
            let expected = outstanding * 64.0 / (latency * tck_ns);
            let off = report.bandwidth_gbps / expected - 1.0;
            assert!(off.abs() < 1e-6, "{}, {pattern:?}: {off}", device.name);
            assert!((report.outstanding_mean / outstanding - 1.0).abs() < 1e-6);
        }
    }
}

#[test]
fn outcomes_come_in_order_and_one_a_clock() {
    let machine = device("ddr5-4800", &[]);
    let (report, all) = generated(&machine, Pattern::RandomWriteThird, 1);
    assert_eq!(all.len(), 20_000);
    assert!((0..).zip(&all).all(|(index, outcome)| outcome.index == index));
    assert!(all.windows(2).all(|pair| pair[0].arrival < pair[1].arrival));
    assert!(report.held_up_mean > 0.0);
}

/// Two sub-channels carry twice as much.
#[test]
fn sub_channels_share_the_blocks() {
    let of = |set: &[&str]| generated(&device("ddr5-4800", set), Pattern::Stream, 1).0;
    let (two, one) = (of(&[]), of(&["memory.controllers=1"]));
    assert!((1.8..2.1).contains(&(two.bandwidth_gbps / one.bandwidth_gbps)), "{two:?}, {one:?}");
}

/// An open row is read from every tCCD_L, rows of other bank groups every tCCD_S. Few reads wait, so that a stream
/// seldom has two rows to read from.
#[test]
fn bank_groups_limit_streams_through_a_row() {
    let of = |key: &str| {
        let set = ["dram.refresh=false", "dram.scheduler=fr-fcfs", key];
        generated(&device("ddr4-3200", &set), Pattern::Stream, 1).0.bus_use
    };
    let (row, spread) = (of("dram.read_queue=4"), of("dram.mapping=row-column-rank-bank"));
    assert!((0.49..0.53).contains(&row), "tCCD_L is twice the burst: {row}");
    assert!(spread > 0.95, "{spread}");
}

#[test]
fn a_run_may_end_before_its_requests() {
    let machine = device("ddr4-2400", &[]);
    let all = Generator::new(Pattern::Random, 1, 1_000_000, 1 << 30, 1);
    let report = run(&machine, all.map(Ok::<_, String>), Some(10_000), |_| Ok(())).unwrap();
    assert!(report.clocks <= 10_000 && report.unfinished > 0, "{report:?}");
    assert!(report.reads.count > 1500, "{report:?}");
}

/// Every request that was due is done or unfinished, be it held up before the channel when the run ends.
#[test]
fn nothing_that_was_due_is_left_out() {
    let machine = device("ddr4-2400", &["dram.read_queue=2", "dram.bank_queue=2"]);
    let report = |traffic: Vec<Access>, clocks| {
        let traffic = traffic.into_iter().map(Ok::<_, String>);
        run(&machine, traffic, Some(clocks), |_| Ok(())).unwrap()
    };
    let all: Vec<Access> = Generator::new(Pattern::Random, 1, 1_000, 1 << 30, 1).collect();
    for clocks in [1, 2, 10, 50, 500, 999, 1_000, 1_001, 20_000] {
        let found = report(all.clone(), clocks);
        // The request of clock 0 is seen in tick 1.
        let due = clocks.min(1_000);
        assert_eq!(found.reads.count + found.unfinished, due, "{clocks} clocks: {found:?}");
    }
    // Without a clock, one comes when the one before was taken.
    let endless: Vec<Access> = all.iter().map(|access| Access { at: None, ..*access }).collect();
    let found = report(endless, 500);
    assert!((3..=50).contains(&found.unfinished), "{found:?}");
}

/// Writes without reads behind them, and a write that waits for a read of its block while the write buffer is full.
#[test]
fn every_request_is_done_in_the_end() {
    let machine =
        device("ddr3-1600", &["dram.write_queue=1", "dram.write_high=1", "dram.write_low=0"]);
    let access = |at, address, kind| Access { at: Some(at), address, kind };
    let held = [access(0, 0, Kind::Read), access(0, 0, Kind::Write), access(0, 64, Kind::Write)];
    let (report, all) = outcomes(&machine, held.into_iter());
    assert_eq!((report.writes.count, all.len()), (2, 3));
    let few = (0..5).map(|n| access(n, n << 20, Kind::Write));
    assert_eq!(outcomes(&device("ddr3-1600", &[]), few).0.writes.count, 5);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn any_requests_are_done(
        device in prop::sample::select(DEVICES.to_vec()),
        requests in prop::collection::vec((0_u64..200, any::<bool>(), 0_u64..40), 1..300),
        queue in 1_u32..4,
    ) {
        let set = [
            format!("dram.write_queue={queue}"),
            format!("dram.write_high={queue}"),
            "dram.write_low=0".to_owned(),
            format!("dram.bank_queue={queue}"),
            format!("dram.read_queue={queue}"),
        ];
        let set: Vec<Override> = set.iter().map(|text| text.parse().unwrap()).collect();
        let machine = load(device.name, &set).unwrap();
        let mut at = 0;
        let count = requests.len();
        let requests = requests.into_iter().map(|(block, write, gap)| {
            at += gap;
            let kind = if write { Kind::Write } else { Kind::Read };
            Access { at: Some(at), address: block * 64, kind }
        });
        let (report, all) = outcomes(&machine, requests);
        prop_assert_eq!((all.len(), report.unfinished), (count, 0));
    }
}
