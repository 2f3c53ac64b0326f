//! Looks at the commands of a channel and says which rule of JESD79-3 they break. It knows nothing of
//! how the channel keeps its times: every two commands are compared.

use rackmem_sim::dram::{Command, Issued, Kind, Mapping, Tick, Timing};
use rackmem_sim::machine::spec::{DramScheduler, DramSpec};

use super::bench::{Bench, Outcome};

/// Data of a burst of 8 at two transfers a tick.
const DATA: Tick = 4;

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
    requests(timing, commands, &bench.outcomes);
    same_block_in_order(&bench.outcomes);
    counters(bench);
}

/// Checks the distances of commands.
pub fn obey(timing: &Timing, spec: &DramSpec, commands: &[Issued]) {
    let events = events(timing, spec, commands);
    distances(timing, &events);
    four_activations(timing, spec, &events);
    data_wires(timing, commands);
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
        let mut note = |at, bank, act| events.push(Event { at, rank, bank, act });
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
                closes[bank] = closes[bank].max(at + timing.cwl + DATA + timing.twr);
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
    let of_bank = match (first.act, second.act) {
        _ if !same_bank => NONE,
        (Activate, Activate) => ("tRC", t.trc),
        (Activate, Read | Write) => ("tRCD", t.trcd),
        (Activate, Precharge) => ("tRAS", t.tras),
        (Activate, Refresh) => ("tRC before REF", t.trc),
        (Precharge, Activate) => ("tRP", t.trp),
        (Precharge, Refresh) => ("tRP before REF", t.trp),
        (Read, Precharge) => ("tRTP", t.trtp),
        (Write, Precharge) => ("WL + BL/2 + tWR", t.cwl + DATA + t.twr),
        (Refresh, Activate) => ("tRFC", t.trfc),
        (Refresh, Refresh) => ("tRFC before REF", t.trfc),
        _ => NONE,
    };
    let of_rank = match (first.act, second.act) {
        _ if !same_rank => NONE,
        (Activate, Activate) if !same_bank => ("tRRD", t.trrd),
        (Read, Read) | (Write, Write) => ("tCCD", t.tccd),
        (Read, Write) => ("RL + tCCD + 2 - WL", (t.cl + t.tccd + 2).saturating_sub(t.cwl)),
        (Write, Read) => ("WL + BL/2 + tWTR", t.cwl + DATA + t.twtr),
        _ => NONE,
    };
    [of_bank, of_rank]
}

fn distances(timing: &Timing, events: &[Event]) {
    let t = timing;
    let longest = t.trfc + t.trc + t.tfaw + t.cl + t.cwl + t.twr + t.twtr + t.tccd + 10;
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
fn data_wires(timing: &Timing, commands: &[Issued]) {
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
            _ if first_rank != second_rank => timing.trtrs,
            (Kind::Read, Kind::Write) => 2,
            _ => 0,
        };
        assert!(second >= first + DATA + pause, "data: {pair:?}");
    }
}

/// Every rank is refreshed once in tREFI, as soon as what goes on there lets it.
fn refreshes(timing: &Timing, spec: &DramSpec, commands: &[Issued], now: Tick) {
    let t = timing;
    let latest = match spec.scheduler {
        // A bank after the other. As many refreshes as may be postponed.
        DramScheduler::RankThenBankRoundRobin => 8 * t.trefi,
        _ => t.trc + t.tras + t.cwl + DATA + t.twr + t.trp + t.trtp + t.trfc,
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

/// Every request has one access, of its kind, and is done with its data; the others were forwarded.
fn requests(timing: &Timing, commands: &[Issued], outcomes: &[Outcome]) {
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
        assert_eq!(outcomes[id].done, issued.at + latency + DATA);
    }
    for (id, outcome) in outcomes.iter().enumerate() {
        if accesses[id].is_some() {
            continue;
        }
        assert_eq!((outcome.kind, outcome.done), (Kind::Read, outcome.arrival), "request {id}");
        let waits = |write: usize| {
            let at = accesses[write];
            outcomes[write].kind == Kind::Write
                && outcomes[write].line == outcome.line
                && at.is_some_and(|at| at >= outcome.arrival)
        };
        assert!((0..id).any(waits), "request {id}: nothing to forward");
    }
}

/// Accesses to a block are carried out in the order in which they were asked for.
fn same_block_in_order(outcomes: &[Outcome]) {
    let mut order: Vec<&Outcome> = outcomes.iter().collect();
    order.sort_by_key(|outcome| outcome.line);
    for block in order.chunk_by(|a, b| a.line == b.line) {
        let carried_out = |outcome: &&&Outcome| outcome.done > outcome.arrival;
        let accesses: Vec<&&Outcome> = block.iter().filter(carried_out).collect();
        for pair in accesses.windows(2) {
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
    assert_eq!(stats.reads + stats.writes + stats.forwarded, bench.outcomes.len() as u64);
    assert_eq!(stats.data_ticks, DATA * (reads + writes));
    assert_eq!(stats.refreshes, count(|command| *command == Command::Refresh));
}
