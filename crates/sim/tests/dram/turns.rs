//! Rules that hold if ranks take turns.

use proptest::prelude::*;
use rackmem_sim::dram::{Command, Issued, Kind, Tick};
use rackmem_sim::engine::Random;
use rackmem_sim::machine::spec::{DramMapping, DramScheduler, DramSpec};

use super::bench::{Bench, Traffic, Wish, line_of, one_rank};
use super::checker::check;
use super::tick_by_tick;

const BURST: Tick = 4;

/// Long enough for all that happened before to have no effect.
const LATER: Tick = 1000;

fn in_turn(spec: DramSpec) -> DramSpec {
    DramSpec { scheduler: DramScheduler::RankThenBankRoundRobin, ..spec }
}

/// The settings of DRAMSim2 as it is shipped.
fn shipped() -> DramSpec {
    let mapping = DramMapping::RowColumnBankRank;
    in_turn(DramSpec { mapping, row_accesses: 4, trtrs_nck: 1, ..DramSpec::default() })
}

fn of_kind(commands: &[Issued], is_it: impl Fn(Command) -> bool) -> Vec<Issued> {
    commands.iter().copied().filter(|issued| is_it(issued.command)).collect()
}

fn activations(bench: &Bench) -> Vec<Issued> {
    of_kind(bench.commands(), |command| matches!(command, Command::Activate { .. }))
}

fn accesses(bench: &Bench) -> Vec<Issued> {
    let is_it = |command| matches!(command, Command::Read { .. } | Command::Write { .. });
    of_kind(bench.commands(), is_it)
}

#[test]
fn a_row_for_which_nothing_waits_is_closed_as_soon_as_it_may_be() {
    let spec = in_turn(one_rank());
    let mut bench = Bench::recording(&spec);
    let t = *bench.channel.timing();
    bench.read(0, line_of(&spec, 3, 5));
    bench.advance(LATER);
    let closed = bench.commands().last().expect("commands");
    assert_eq!((closed.at, closed.bank, closed.command), (t.tras, 3, Command::Precharge));
    // So the same row has to be opened again.
    let again = bench.read(2 * LATER, line_of(&spec, 3, 5) + 1);
    bench.drain();
    assert_eq!(bench.latency(again), t.trcd + t.cl + BURST);
    assert_eq!(bench.stats().row_misses, 2);
}

#[test]
fn a_row_has_its_accesses_and_is_opened_again() {
    for row_accesses in [1, 4, 7] {
        let spec = DramSpec { row_accesses, ..in_turn(one_rank()) };
        let mut bench = Bench::recording(&spec);
        for n in 0..24 {
            bench.read(0, line_of(&spec, 0, 0) + n);
        }
        bench.drain();
        let of_row = 1 + row_accesses as usize;
        assert_eq!(activations(&bench).len(), 24_usize.div_ceil(of_row));
        let order: Vec<u32> = accesses(&bench).iter().filter_map(|issued| issued.id).collect();
        assert!(order.is_sorted(), "requests for a row go in order");
        check(&bench);
    }
}

#[test]
fn ranks_take_turns() {
    let spec = DramSpec { ranks: 4, refresh: false, ..in_turn(DramSpec::default()) };
    let mut bench = Bench::recording(&spec);
    // Those of a rank come after each other.
    for bank in 0..32 {
        bench.read(0, line_of(&spec, bank, 0));
    }
    bench.drain();
    let ranks: Vec<usize> = activations(&bench).iter().map(|issued| issued.rank).collect();
    assert_eq!(ranks[..12], [0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3]);
    check(&bench);
}

/// In one rank the oldest goes that is ready, whatever it needs.
#[test]
fn reads_and_writes_go_as_they_come() {
    let spec = DramSpec { write_high: 1, write_low: 0, ..in_turn(one_rank()) };
    let mut bench = Bench::recording(&spec);
    let kinds = [Kind::Read, Kind::Write, Kind::Read, Kind::Write];
    for (bank, kind) in (0..).zip(kinds) {
        bench.ask(Wish { at: 0, kind, line: line_of(&spec, bank, 0) });
    }
    // A read of what waits to be written is a read.
    let same = bench.read(1, line_of(&spec, 3, 0));
    bench.drain();
    assert_eq!(bench.stats().forwarded, 0);
    assert!(bench.outcomes[same].done > bench.outcomes[3].done);
    let order: Vec<u32> = activations(&bench).iter().filter_map(|issued| issued.id).collect();
    assert_eq!(order, [0, 1, 2, 3]);
    check(&bench);
}

/// Share of the time in which data are on the wires.
fn utilisation(spec: &DramSpec, wishes: &[Wish]) -> f64 {
    let mut bench = Bench::new(spec);
    bench.run(wishes);
    bench.stats().data_ticks as f64 / bench.now as f64
}

fn reads(count: u64, line: impl FnMut(u64) -> u64) -> Vec<Wish> {
    (0..count).map(line).map(|line| Wish { at: 0, kind: Kind::Read, line }).collect()
}

/// Five accesses, and then the row is closed and opened again.
#[test]
fn a_stream_through_one_row_pays_for_its_limit() {
    for row_accesses in [2, 4, 9] {
        let spec = DramSpec { row_accesses, ..in_turn(one_rank()) };
        let t = *Bench::new(&spec).channel.timing();
        let found = utilisation(&spec, &reads(5000, |n| n % 128));
        let more = Tick::from(row_accesses) * t.tccd;
        let open = (t.trcd + more + t.trtp).max(t.tras);
        let expected = (BURST + more) as f64 / (open + t.trp) as f64;
        assert!((found / expected - 1.0).abs() < 0.01, "{found}, not {expected}");
    }
}

/// Eight banks open their rows behind each other's data.
#[test]
fn a_stream_through_all_banks_fills_the_wires() {
    let spec = DramSpec { ranks: 1, refresh: false, ..shipped() };
    let found = utilisation(&spec, &reads(50_000, |line| line));
    assert!(found > 0.99, "{found}");
    // Of two ranks there is one that is refreshed, sometimes, and the wires change hands.
    let found = utilisation(&shipped(), &reads(50_000, |line| line));
    assert!((0.94..0.98).contains(&found), "{found}");
}

/// Ticks that a request of tick 100 takes among reads that never run out.
fn wait_among(spec: &DramSpec, victim: Wish, mut line: impl FnMut(u64) -> u64) -> Tick {
    let mut bench = Bench::new(spec);
    let mut id = None;
    for n in 0..6000 {
        if bench.now >= victim.at && id.is_none() {
            id = Some(bench.ask(victim));
        }
        bench.read(0, line(n));
    }
    bench.drain();
    bench.latency(id.expect("a victim"))
}

#[test]
fn a_row_that_is_always_hit_leaves_its_bank_to_others() {
    // Not because of the age limit.
    let spec = DramSpec { age_limit_ns: 1e9, ..in_turn(one_rank()) };
    let t = *Bench::new(&spec).channel.timing();
    let victim = Wish { at: 100, kind: Kind::Read, line: line_of(&spec, 0, 7) };
    let found = wait_among(&spec, victim, |n| n % 128);
    // All that was there before goes before it: 32 reads, five for each time that the row is opened.
    let once = t.trcd + 4 * t.tccd + t.trtp + t.trp;
    assert!(found < 8 * once, "{found}");
}

#[test]
fn a_write_among_reads_waits_for_the_age_limit_at_most() {
    let spec = DramSpec { ranks: 1, refresh: false, ..shipped() };
    let victim = Wish { at: 100, kind: Kind::Write, line: 1 << 20 };
    let found = wait_among(&spec, victim, |n| n);
    assert!(found < 800 + 150, "{found}");
    let never = DramSpec { age_limit_ns: 1e9, ..spec };
    let found = wait_among(&never, victim, |n| n);
    assert!(found > 1000, "is the test one? {found}");
}

/// With all queues full of chance.
#[test]
fn no_request_waits_much_longer_than_a_full_queue_takes() {
    for ranks in [1, 2] {
        let spec = DramSpec { ranks, age_limit_ns: 500.0, ..shipped() };
        let mut random = Random::new(3, 0);
        let mut bench = Bench::new(&spec);
        for _ in 0..30_000 {
            let kind = if random.below(3) == 0 { Kind::Write } else { Kind::Read };
            let line = if random.below(4) == 0 { random.below(1 << 24) } else { random.below(512) };
            bench.ask(Wish { at: 0, kind, line });
        }
        bench.drain();
        let longest = bench.stats().longest_ticks;
        assert!(longest < 64 * 60, "{longest}");
    }
}

/// Command by command what looking at everything in every tick gives.
fn same_tick_by_tick(spec: &DramSpec, traffic: Traffic, seed: u64) {
    let wishes = traffic.wishes(600, seed);
    let mut bench = Bench::recording(spec);
    bench.run(&wishes);
    let end = bench.now + 10_000;
    bench.advance(end);
    let found: Vec<(Tick, usize, Command)> =
        bench.commands().iter().map(|issued| (issued.at, issued.bank, issued.command)).collect();
    let expected = tick_by_tick::commands(spec, bench.channel.timing(), &wishes, end);
    let differs = found.iter().zip(&expected).position(|(found, expected)| found != expected);
    if let Some(at) = differs.or((found.len() != expected.len()).then_some(0)) {
        let near = at.saturating_sub(3)..at + 1;
        panic!("command {at}: {:?}, not {:?}", &found[near.clone()], &expected[near]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn commands_are_those_of_every_tick(
        ranks in prop::sample::select(vec![1, 2, 4]),
        mapping in prop::sample::select(vec![
            DramMapping::RowColumnBankRank, DramMapping::RowBankRankColumn,
        ]),
        row_accesses in prop::sample::select(vec![1, 4, 50]),
        refresh: bool,
        lines in prop::sample::select(vec![40_u64, 5000, 1 << 24]),
        writes_percent in prop::sample::select(vec![0_u64, 10, 50]),
        gap in prop::sample::select(vec![0_u64, 3, 20]),
        runs_percent in prop::sample::select(vec![0_u64, 60, 95]),
        seed: u64,
    ) {
        let spec = DramSpec {
            ranks,
            mapping,
            row_accesses,
            refresh,
            read_queue: 1000,
            write_queue: 1000,
            // It has none.
            age_limit_ns: 1e9,
            ..shipped()
        };
        same_tick_by_tick(&spec, Traffic { lines, writes_percent, gap, runs_percent, pause: 5000 }, seed);
    }
}
