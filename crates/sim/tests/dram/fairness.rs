//! Nobody waits for ever.

use rackmem_sim::dram::{Kind, Tick};
use rackmem_sim::engine::Random;
use rackmem_sim::machine::spec::{DramScheduler, DramSpec};

use super::bench::{Bench, Wish, line_of, one_rank};

/// Ticks of the age limit, and how much longer it may take to get to the data then.
const LIMIT: Tick = 800;
const SLACK: Tick = 150;

/// A request at tick 100 among reads that never run out; how long it takes.
fn wait_among(spec: &DramSpec, victim: Wish, mut line: impl FnMut(u64) -> u64) -> Tick {
    let mut bench = Bench::new(spec);
    let mut victim_id = None;
    for n in 0..6000 {
        if bench.now >= victim.at && victim_id.is_none() {
            victim_id = Some(bench.ask(victim));
        }
        bench.read(0, line(n));
    }
    bench.drain();
    bench.latency(victim_id.expect("a victim"))
}

/// A stream of hits: nothing else is ever ready first.
fn waits(spec: &DramSpec, kind: Kind, bank: u64, hits: u64) -> Tick {
    let victim = Wish { at: 100, kind, line: line_of(spec, bank, 7) };
    wait_among(spec, victim, |n| hits + n % 128)
}

#[test]
fn a_row_that_is_always_hit_is_closed_in_the_end() {
    let never = DramSpec { age_limit_ns: 1e9, ..one_rank() };
    let hits = line_of(&never, 0, 0);
    assert!(waits(&never, Kind::Read, 0, hits) > 20_000, "is the test one?");
    let spec = DramSpec { age_limit_ns: 1000.0, ..one_rank() };
    let found = waits(&spec, Kind::Read, 0, hits);
    assert!((LIMIT..LIMIT + SLACK).contains(&found), "{found}");
}

/// The other rank's reads are ready two ticks earlier, each time.
#[test]
fn a_rank_whose_neighbour_is_busy_gets_its_turn() {
    let two = DramSpec { ranks: 2, ..one_rank() };
    let hits = line_of(&two, 0, 0);
    let never = DramSpec { age_limit_ns: 1e9, ..two.clone() };
    assert!(waits(&never, Kind::Read, 8, hits) > 20_000, "is the test one?");
    let found = waits(&two, Kind::Read, 8, hits);
    assert!((LIMIT..LIMIT + SLACK).contains(&found), "{found}");
}

#[test]
fn a_write_among_reads_gets_its_turn() {
    let spec = one_rank();
    let hits = line_of(&spec, 0, 0);
    for bank in [0, 3] {
        let found = waits(&spec, Kind::Write, bank, hits);
        assert!((LIMIT..LIMIT + SLACK).contains(&found), "{found}");
    }
}

/// Writes come as fast as they go, so the low watermark is never reached.
#[test]
fn a_read_among_writes_gets_its_turn() {
    let spec = DramSpec { write_low: 0, ..one_rank() };
    let mut bench = Bench::new(&spec);
    for n in 0..100 {
        bench.write(0, n);
    }
    let read = bench.read(0, line_of(&spec, 5, 9));
    for n in 100..5000 {
        bench.write(0, n);
    }
    bench.drain();
    let found = bench.latency(read);
    assert!((LIMIT..LIMIT + SLACK).contains(&found), "{found}");
}

/// With all queues full of chance, requests that are too old are served in the order of age.
#[test]
fn no_request_waits_much_longer_than_a_full_queue_takes() {
    for ranks in [1, 2] {
        let spec = DramSpec { ranks, age_limit_ns: 500.0, ..DramSpec::default() };
        let mut random = Random::new(3, 0);
        let mut bench = Bench::new(&spec);
        for _ in 0..30_000 {
            let kind = if random.below(3) == 0 { Kind::Write } else { Kind::Read };
            let line = match random.below(4) {
                0 => random.below(1 << 24),
                _ => random.below(512),
            };
            bench.ask(Wish { at: 0, kind, line });
        }
        bench.drain();
        // 64 requests wait, each for a row of its own and a turn of the wires at worst.
        let longest = bench.stats().longest_ticks;
        assert!(longest < 64 * 60, "{longest}");
    }
}

/// Whenever the read has its access, between the ticks in which the write looks for its own, too.
#[test]
fn a_write_goes_once_the_read_of_its_block_is_done() {
    for gap in 0..80 {
        let spec = DramSpec {
            scheduler: DramScheduler::BankQueues,
            write_queue: 1,
            write_high: 1,
            write_low: 0,
            ..one_rank()
        };
        let mut bench = Bench::new(&spec);
        bench.read(0, 0);
        let write = bench.write(gap, 0);
        bench.advance(gap + SLACK);
        assert_ne!(bench.outcomes[write].done, 0, "written {gap} ticks after it was read");
    }
}
