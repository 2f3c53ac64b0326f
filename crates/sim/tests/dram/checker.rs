//! Looks at the commands of a channel and says which rule of JESD79-3, -4 or -5 they break. It knows nothing of
//! how the channel keeps its times: every two commands are compared.

use rackmem_sim::dram::{Command, Issued, Kind, Mapping, Tick, Timing};
use rackmem_sim::machine::spec::{DramScheduler, DramSpec};

use super::bench::{Bench, Outcome};

/// The effect of a command on its bank, with auto-precharges as commands of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Activate,
    Precharge,
    Read,
    Write,
    Refresh,
}

#[derive(Clone, Copy, Debug)]
struct Event {
    at: Tick,
    rank: usize,
    group: usize,
    bank: usize,
    act: Act,
}

/// Checks everything that holds of commands and requests once a channel has come to rest.
pub fn check(bench: &Bench) {
    let (spec, commands) = (&bench.spec, bench.commands());
    one_command_a_tick(commands);
    states(spec, commands, &bench.outcomes);
    accesses_to_rows(spec, commands);
    let timing = bench.channel.timing();
    obey(timing, spec, commands);
    refreshes(timing, spec, commands, bench.now);
    let accessed = requests(timing, spec, commands, &bench.outcomes);
    same_block_in_order(&bench.outcomes, &accessed);
    counters(bench);
}

/// Checks the distances of commands.
pub fn obey(timing: &Timing, spec: &DramSpec, commands: &[Issued]) {
    let events = events(timing, spec, commands);
    distances(timing, &events);
    four_activations(timing, spec, &events);
    data_wires(timing, spec, commands);
}

fn one_command_a_tick(commands: &[Issued]) {
    for pair in commands.windows(2) {
        assert!(pair[0].at < pair[1].at, "{pair:?}");
    }
}

/// Rows are open when they are used, closed when they are opened or refreshed, and the right ones.
fn states(spec: &DramSpec, commands: &[Issued], outcomes: &[Outcome]) {
    let mapping = Mapping::new(spec);
    let banks = spec.banks as usize;
    let mut rows: Vec<Option<u64>> = vec![None; spec.ranks as usize * banks];
    for issued in commands {
        let Issued { rank, bank, command, id, .. } = *issued;
        assert_eq!(bank / banks, rank, "{issued:?}");
        let place = id.map(|id| mapping.place(outcomes[id as usize].line));
        assert!(place.is_none_or(|place| (place.rank, place.bank) == (rank, bank)), "{issued:?}");
        match command {
            Command::Activate { row } => {
                assert_eq!(place.map(|place| place.row), Some(row), "{issued:?}");
                assert_eq!(rows[bank].replace(row), None, "{issued:?}");
            }
            Command::Precharge => assert!(rows[bank].take().is_some(), "{issued:?}"),
            Command::PrechargeAll => rows[rank * banks..(rank + 1) * banks].fill(None),
            Command::Refresh => {
                let open = rows[rank * banks..(rank + 1) * banks].iter().flatten().count();
                assert_eq!(open, 0, "{issued:?}");
            }
            Command::Read { auto } | Command::Write { auto } => {
                assert_eq!(rows[bank], place.map(|place| place.row), "{issued:?}");
                if auto {
                    rows[bank] = None;
                }
            }
        }
    }
}

/// If ranks take turns, a row is closed after some accesses.
fn accesses_to_rows(spec: &DramSpec, commands: &[Issued]) {
    if spec.scheduler != DramScheduler::RankThenBankRoundRobin {
        return;
    }
    let mut accesses = vec![0; (spec.ranks * spec.banks) as usize];
    for issued in commands {
        match issued.command {
            Command::Activate { .. } => accesses[issued.bank] = 0,
            Command::Read { .. } | Command::Write { .. } => accesses[issued.bank] += 1,
            _ => {}
        }
        assert!(accesses[issued.bank] <= 1 + spec.row_accesses, "{issued:?}");
    }
}

/// The commands by bank, in the order of their times; commands to a rank as one for each of its banks.
fn events(timing: &Timing, spec: &DramSpec, commands: &[Issued]) -> Vec<Event> {
    let banks = spec.banks as usize;
    let mut events = Vec::new();
    // Ticks at which banks close themselves: not before all accesses in them allow it.
    let mut closes = vec![0; spec.ranks as usize * banks];
    for &Issued { at, rank, bank, command, .. } in commands {
        let in_group = banks / spec.bank_groups as usize;
        let mut note =
            |at, bank, act| events.push(Event { at, rank, group: bank / in_group, bank, act });
        match command {
            Command::Activate { .. } => {
                closes[bank] = at + timing.tras;
                note(at, bank, Act::Activate);
            }
            Command::Precharge => note(at, bank, Act::Precharge),
            Command::PrechargeAll => {
                (rank * banks..(rank + 1) * banks).for_each(|bank| note(at, bank, Act::Precharge));
            }
            Command::Refresh => {
                (rank * banks..(rank + 1) * banks).for_each(|bank| note(at, bank, Act::Refresh));
            }
            Command::Read { auto } => {
                note(at, bank, Act::Read);
                closes[bank] = closes[bank].max(at + timing.trtp);
                if auto {
                    note(closes[bank], bank, Act::Precharge);
                }
            }
            Command::Write { auto } => {
                note(at, bank, Act::Write);
                closes[bank] = closes[bank].max(at + timing.cwl + timing.burst + timing.twr);
                if auto {
                    note(closes[bank], bank, Act::Precharge);
                }
            }
        }
    }
    events.sort_by_key(|event| event.at);
    events
}

/// Least distances of two commands, by name and in ticks.
fn rules(timing: &Timing, first: &Event, second: &Event) -> [(&'static str, Tick); 2] {
    use Act::{Activate, Precharge, Read, Refresh, Write};
    const NONE: (&str, Tick) = ("", 0);
    let t = timing;
    let same_bank = first.bank == second.bank;
    let same_rank = first.rank == second.rank;
    let of_group = |long, short| if first.group == second.group { long } else { short };
    let of_bank = match (first.act, second.act) {
        _ if !same_bank => NONE,
        (Activate, Activate) => ("tRC", t.trc),
        (Activate, Read | Write) => ("tRCD", t.trcd),
        (Activate, Precharge) => ("tRAS", t.tras),
        (Activate, Refresh) => ("tRC before REF", t.trc),
        (Precharge, Activate) => ("tRP", t.trp),
        (Precharge, Refresh) => ("tRP before REF", t.trp),
        (Read, Precharge) => ("tRTP", t.trtp),
        (Write, Precharge) => ("WL + BL/2 + tWR", t.cwl + t.burst + t.twr),
        (Refresh, Activate) => ("tRFC", t.trfc),
        (Refresh, Refresh) => ("tRFC before REF", t.trfc),
        _ => NONE,
    };
    let of_rank = match (first.act, second.act) {
        _ if !same_rank => NONE,
        (Activate, Activate) if !same_bank => ("tRRD", of_group(t.trrd_l, t.trrd)),
        (Read, Read) => ("tCCD", of_group(t.tccd_l, t.tccd)),
        (Write, Write) => ("tCCD_WR", of_group(t.tccd_l_wr, t.tccd)),
        (Read, Write) => ("tRTW", t.trtw),
        (Write, Read) => ("WL + BL/2 + tWTR", t.cwl + t.burst + of_group(t.twtr_l, t.twtr)),
        _ => NONE,
    };
    [of_bank, of_rank]
}

fn distances(timing: &Timing, events: &[Event]) {
    let t = timing;
    let gaps = t.twtr.max(t.twtr_l) + t.tccd.max(t.tccd_l).max(t.tccd_l_wr) + t.trtw;
    let longest = t.trfc + t.trc + t.tfaw + t.cl + t.cwl + t.twr + t.trrd_l + gaps + 10;
    for (number, second) in events.iter().enumerate() {
        let near = events[..number].iter().rev();
        for first in near.take_while(|first| second.at - first.at < longest) {
            for (rule, least) in rules(timing, first, second) {
                let distance = second.at - first.at;
                assert!(distance >= least, "{rule} = {least}: {first:?}, {second:?}");
            }
        }
    }
}

fn four_activations(timing: &Timing, spec: &DramSpec, events: &[Event]) {
    for rank in 0..spec.ranks as usize {
        let mine = events.iter().filter(|event| event.rank == rank && event.act == Act::Activate);
        let times: Vec<Tick> = mine.map(|event| event.at).collect();
        for five in times.windows(5) {
            assert!(five[4] - five[0] >= timing.tfaw, "tFAW = {}: {five:?}", timing.tfaw);
        }
    }
}

/// Bursts do not touch each other on the wires.
fn data_wires(timing: &Timing, spec: &DramSpec, commands: &[Issued]) {
    let mut bursts = Vec::new();
    for &Issued { at, rank, command, .. } in commands {
        match command {
            Command::Read { .. } => bursts.push((at + timing.cl, rank, Kind::Read)),
            Command::Write { .. } => bursts.push((at + timing.cwl, rank, Kind::Write)),
            _ => {}
        }
    }
    bursts.sort_by_key(|&(start, ..)| start);
    for pair in bursts.windows(2) {
        let [(first, first_rank, before), (second, second_rank, after)] = [pair[0], pair[1]];
        let pause = match (before, after) {
            (Kind::Write, Kind::Write) if first_rank != second_rank => {
                timing.twrwr_dr - timing.burst
            }
            _ if first_rank != second_rank => timing.trtrs,
            (Kind::Read, Kind::Write) if spec.trtw_nck == 0 => 2,
            _ => 0,
        };
        assert!(second >= first + timing.burst + pause, "data: {pair:?}");
    }
}

/// Every rank is refreshed once in tREFI, as soon as what goes on there lets it.
fn refreshes(timing: &Timing, spec: &DramSpec, commands: &[Issued], now: Tick) {
    let t = timing;
    let latest = match spec.scheduler {
        // A bank after the other. As many refreshes as may be postponed.
        DramScheduler::RankThenBankRoundRobin | DramScheduler::BankQueues => 8 * t.trefi,
        _ => t.trc + t.tras + t.cwl + t.burst + t.twr + t.trp + t.trtp + t.trfc,
    };
    for rank in 0..spec.ranks {
        let is_it =
            |issued: &&Issued| issued.rank == rank as usize && issued.command == Command::Refresh;
        let times: Vec<Tick> = commands.iter().filter(is_it).map(|issued| issued.at).collect();
        if !spec.refresh {
            assert!(times.is_empty());
            continue;
        }
        let due =
            |number: u64| t.trefi * u64::from(rank + 1) / u64::from(spec.ranks) + number * t.trefi;
        for (number, &at) in (0..).zip(&times) {
            let range = due(number)..=due(number) + latest;
            assert!(range.contains(&at), "refresh {number} of rank {rank} at {at}, not {range:?}");
        }
        let next = due(times.len() as u64);
        assert!(next + latest >= now, "refresh of rank {rank} due at {next}, now {now}");
    }
}

/// Every request has one access, of its kind, and is done with its data; the others were forwarded, or are
/// done with one that has. Whether it had an access.
fn requests(
    timing: &Timing,
    spec: &DramSpec,
    commands: &[Issued],
    outcomes: &[Outcome],
) -> Vec<bool> {
    let of_banks = spec.scheduler == DramScheduler::BankQueues;
    let mut accesses: Vec<Option<Tick>> = vec![None; outcomes.len()];
    for issued in commands {
        let (kind, latency) = match issued.command {
            Command::Read { .. } => (Kind::Read, timing.cl),
            Command::Write { .. } => (Kind::Write, timing.cwl),
            _ => continue,
        };
        let id = issued.id.expect("an access is for a request") as usize;
        assert_eq!(outcomes[id].kind, kind);
        assert!(issued.at >= outcomes[id].arrival, "{issued:?} before its request");
        assert_eq!(accesses[id].replace(issued.at), None, "{issued:?} again");
        assert_eq!(outcomes[id].done, issued.at + latency + timing.burst);
    }
    for (id, outcome) in outcomes.iter().enumerate() {
        if accesses[id].is_some() {
            continue;
        }
        let twin = |other: usize| {
            let Outcome { kind, line, arrival, done } = outcomes[other];
            accesses[other].is_some()
                && (kind, line, done) == (outcome.kind, outcome.line, outcome.done)
                && arrival <= outcome.arrival
        };
        if of_banks && (0..id).any(twin) {
            continue;
        }
        let answered = outcome.arrival + u64::from(of_banks);
        assert_eq!((outcome.kind, outcome.done), (Kind::Read, answered), "request {id}");
        let waits = |write: usize| {
            let at = accesses[write];
            outcomes[write].kind == Kind::Write
                && outcomes[write].line == outcome.line
                && at.is_some_and(|at| at >= outcome.arrival)
        };
        assert!((0..id).any(waits), "request {id}: nothing to forward");
    }
    accesses.iter().map(Option::is_some).collect()
}

/// Accesses to a block are carried out in the order in which they were asked for.
fn same_block_in_order(outcomes: &[Outcome], accessed: &[bool]) {
    let carried_out = outcomes.iter().zip(accessed).filter(|&(_, &accessed)| accessed);
    let mut order: Vec<&Outcome> = carried_out.map(|(outcome, _)| outcome).collect();
    order.sort_by_key(|outcome| outcome.line);
    for block in order.chunk_by(|a, b| a.line == b.line) {
        for pair in block.windows(2) {
            let reads = pair.iter().all(|outcome| outcome.kind == Kind::Read);
            assert!(reads || pair[0].done < pair[1].done, "{pair:?}");
        }
    }
}

fn counters(bench: &Bench) {
    let count = |is_it: fn(&Command) -> bool| {
        bench.commands().iter().filter(|issued| is_it(&issued.command)).count() as u64
    };
    let stats = bench.stats();
    let reads = count(|command| matches!(command, Command::Read { .. }));
    let writes = count(|command| matches!(command, Command::Write { .. }));
    assert_eq!((stats.reads, stats.writes), (reads, writes));
    assert_eq!(stats.row_hits + stats.row_misses + stats.row_conflicts, reads + writes);
    let answered = stats.reads + stats.writes + stats.forwarded + stats.merged;
    assert_eq!(answered, bench.outcomes.len() as u64);
    let burst = bench.channel.timing().burst;
    assert_eq!(stats.data_ticks, burst * (reads + writes));
    assert_eq!(stats.refreshes, count(|command| *command == Command::Refresh));
}
