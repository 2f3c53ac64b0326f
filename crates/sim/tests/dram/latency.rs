//! A single request takes what its commands take.

use rackmem_sim::dram::{Command, Tick};
use rackmem_sim::machine::spec::{DramPagePolicy, DramScheduler, DramSpec};

use super::bench::{Bench, line_of, one_rank};

/// Long enough for all that happened before to have no effect.
const LATER: Tick = 1000;

const BURST: Tick = 4;

#[test]
fn hit_miss_and_conflict_take_what_their_commands_take() {
    for (cl, trcd, trp) in [(11, 11, 11), (9, 10, 13), (14, 7, 5)] {
        let spec = DramSpec { cl_nck: cl, trcd_nck: trcd, trp_nck: trp, ..one_rank() };
        let [cl, trcd, trp] = [cl, trcd, trp].map(Tick::from);
        let mut bench = Bench::new(&spec);
        let miss = bench.read(LATER, line_of(&spec, 3, 5));
        let hit = bench.read(2 * LATER, line_of(&spec, 3, 5) + 1);
        let conflict = bench.read(3 * LATER, line_of(&spec, 3, 6));
        let other_bank = bench.read(4 * LATER, line_of(&spec, 4, 6));
        bench.drain();
        assert_eq!(bench.latency(miss), trcd + cl + BURST);
        assert_eq!(bench.latency(hit), cl + BURST);
        assert_eq!(bench.latency(conflict), trp + trcd + cl + BURST);
        assert_eq!(bench.latency(other_bank), trcd + cl + BURST);
        let stats = bench.stats();
        assert_eq!((stats.row_hits, stats.row_misses, stats.row_conflicts), (1, 2, 1));
        assert_eq!(stats.read_wait_ticks, 0);
    }
}

#[test]
fn writes_take_cwl_and_recover_before_their_row_is_closed() {
    let spec = one_rank();
    let mut bench = Bench::new(&spec);
    let t = *bench.channel.timing();
    let write = bench.write(0, line_of(&spec, 0, 0));
    // Earlier it would go before the write, whose row has not been used.
    let conflict = bench.read(t.trcd + 1, line_of(&spec, 0, 1));
    bench.drain();
    assert_eq!(bench.latency(write), t.trcd + t.cwl + BURST);
    let closed = t.trcd + t.cwl + BURST + t.twr;
    assert_eq!(bench.outcomes[conflict].done, closed + t.trp + t.trcd + t.cl + BURST);
}

#[test]
fn a_row_that_was_just_opened_stays_open_for_tras() {
    let spec = one_rank();
    let mut bench = Bench::new(&spec);
    let t = *bench.channel.timing();
    bench.read(0, line_of(&spec, 0, 0));
    let conflict = bench.read(1, line_of(&spec, 0, 1));
    bench.drain();
    let opened = (t.tras + t.trp).max(t.trc);
    assert_eq!(bench.outcomes[conflict].done, opened + t.trcd + t.cl + BURST);
}

/// tRTP rather than tRAS, if the read is late.
#[test]
fn a_row_stays_open_for_trtp_after_its_last_read() {
    let spec = one_rank();
    let mut bench = Bench::new(&spec);
    let t = *bench.channel.timing();
    bench.read(0, line_of(&spec, 0, 0));
    bench.read(LATER, line_of(&spec, 0, 0) + 1);
    let conflict = bench.read(LATER + 1, line_of(&spec, 0, 1));
    bench.drain();
    let closed = LATER + t.trtp;
    assert_eq!(bench.outcomes[conflict].done, closed + t.trp + t.trcd + t.cl + BURST);
}

#[test]
fn with_closed_pages_every_request_finds_its_bank_closed() {
    let spec = DramSpec { page_policy: DramPagePolicy::Closed, ..one_rank() };
    let mut bench = Bench::new(&spec);
    let t = *bench.channel.timing();
    let all = [(0, 0), (0, 0), (0, 1)].map(|(bank, row)| line_of(&spec, bank, row));
    for (number, line) in (1..).zip(all) {
        let id = bench.read(number * LATER, line);
        bench.advance(number * LATER + 500);
        assert_eq!(bench.latency(id), t.trcd + t.cl + BURST);
    }
    // But a row is not closed while somebody waits for it.
    let first = bench.read(9 * LATER, line_of(&spec, 0, 2));
    let second = bench.read(9 * LATER, line_of(&spec, 0, 2) + 1);
    bench.drain();
    assert_eq!(bench.outcomes[second].done, bench.outcomes[first].done + t.tccd);
}

#[test]
fn directions_and_ranks_change_as_soon_as_they_may() {
    // Direction and rank of the second of two accesses to open rows, and their distance.
    let distance = |writes: [bool; 2], ranks: u32| {
        let spec = DramSpec { ranks, scheduler: DramScheduler::FrFcfs, ..one_rank() };
        let mut bench = Bench::recording(&spec);
        let t = *bench.channel.timing();
        let second = if ranks == 1 { 1 } else { 8 };
        let lines = [line_of(&spec, 0, 0), line_of(&spec, second, 0)];
        for line in lines {
            bench.read(0, line);
        }
        bench.advance(LATER);
        for (number, (line, write)) in (0..).zip(lines.into_iter().zip(writes)) {
            let at = LATER + 1 + number;
            if write {
                bench.write(at, line + 1)
            } else {
                bench.read(at, line + 1)
            };
            bench.advance(at);
        }
        bench.drain();
        let commands = bench.commands();
        (commands[commands.len() - 1].at - commands[commands.len() - 2].at, t)
    };
    let (read_read, t) = distance([false, false], 1);
    assert_eq!(read_read, t.tccd);
    assert_eq!(distance([true, true], 1).0, t.tccd);
    assert_eq!(distance([false, true], 1).0, t.cl + t.tccd + 2 - t.cwl);
    assert_eq!(distance([true, false], 1).0, t.cwl + BURST + t.twtr);
    assert_eq!(distance([false, false], 2).0, BURST + t.trtrs);
    assert_eq!(distance([true, true], 2).0, BURST + t.trtrs);
    assert_eq!(distance([false, true], 2).0, t.cl + BURST + t.trtrs - t.cwl);
    assert_eq!(distance([true, false], 2).0, t.cwl + BURST + t.trtrs - t.cl);
}

#[test]
fn four_activations_fill_a_window() {
    let spec = one_rank();
    let mut bench = Bench::recording(&spec);
    let t = *bench.channel.timing();
    for bank in 0..5 {
        bench.read(0, line_of(&spec, bank, 0));
    }
    bench.drain();
    let is_activate = |command| matches!(command, Command::Activate { .. });
    let commands = bench.commands().iter().filter(|issued| is_activate(issued.command));
    let times: Vec<Tick> = commands.map(|issued| issued.at).collect();
    assert_eq!(times, [0, t.trrd, 2 * t.trrd, 3 * t.trrd, t.tfaw.max(4 * t.trrd)]);
}

#[test]
fn a_read_behind_a_refresh_waits_for_it() {
    let spec = DramSpec { refresh: true, ..one_rank() };
    let mut bench = Bench::new(&spec);
    let t = *bench.channel.timing();
    let during = bench.read(t.trefi + 5, line_of(&spec, 0, 0));
    bench.drain();
    assert_eq!(bench.latency(during), t.trfc - 5 + t.trcd + t.cl + BURST);
    // An open row is closed for it.
    let before = bench.read(2 * t.trefi - 1, line_of(&spec, 0, 0));
    bench.drain();
    assert_eq!(bench.latency(before), t.cl + BURST);
    let after = bench.read(2 * t.trefi, line_of(&spec, 0, 0) + 1);
    bench.drain();
    let refreshed = t.trtp - 1 + t.trp + t.trfc;
    assert_eq!(bench.latency(after), refreshed + t.trcd + t.cl + BURST);
    assert_eq!(bench.stats().refreshes, 2);
}

#[test]
fn a_read_of_what_waits_to_be_written_is_answered_at_once() {
    let spec = one_rank();
    let mut bench = Bench::new(&spec);
    let line = line_of(&spec, 0, 0);
    bench.write(0, line);
    let same = bench.read(1, line);
    let neighbour = bench.read(2, line + 1);
    bench.drain();
    assert_eq!(bench.latency(same), 0);
    assert!(bench.latency(neighbour) > 0);
    assert_eq!(bench.stats().forwarded, 1);
}

#[test]
fn writes_wait_for_older_reads_of_their_block() {
    // Writes are to go first as soon as there is one.
    let spec = DramSpec { write_high: 1, write_low: 0, ..one_rank() };
    let mut bench = Bench::new(&spec);
    let line = line_of(&spec, 0, 0);
    let read = bench.read(0, line);
    let write = bench.write(0, line);
    let other = bench.write(0, line + 1);
    bench.drain();
    assert!(bench.outcomes[other].done < bench.outcomes[read].done);
    assert!(bench.outcomes[read].done < bench.outcomes[write].done);
}
