//! Ranks that take turns, told in another way: every tick, all queues are looked through from their
//! beginnings, as DRAMSim2 does it. It puts off a refresh by tRRD as well, and forgets one when another
//! rank's becomes due before it; neither is so here.

use rackmem_sim::dram::{Command, Kind, Mapping, Tick, Timing};
use rackmem_sim::machine::spec::DramSpec;

use super::bench::Wish;

const BURST: Tick = 4;

/// A request: a pair of an activation and an access, or what is left of it.
#[derive(Clone, Copy, Debug)]
struct Pair {
    kind: Kind,
    bank: usize,
    row: u64,
    /// The activation has not been given.
    whole: bool,
}

#[derive(Clone, Debug, Default)]
struct Bank {
    row: Option<u64>,
    activate: Tick,
    precharge: Tick,
    /// By kind.
    access: [Tick; 2],
    hits: u32,
}

/// The commands until a tick, with their banks. Queues have room for everything.
pub fn commands(
    spec: &DramSpec,
    timing: &Timing,
    wishes: &[Wish],
    until: Tick,
) -> Vec<(Tick, usize, Command)> {
    let mapping = Mapping::new(spec);
    let ranks = spec.ranks as usize;
    let due = |rank: u64| match spec.refresh {
        true => timing.trefi * rank / u64::from(spec.ranks),
        false => Tick::MAX,
    };
    let mut controller = Controller {
        timing: *timing,
        row_accesses: spec.row_accesses,
        per_rank: spec.banks as usize,
        banks: vec![Bank::default(); ranks * spec.banks as usize],
        queues: vec![Vec::new(); ranks],
        activations: vec![Vec::new(); ranks],
        due: (1..=spec.ranks.into()).map(due).collect(),
        next_rank: 0,
        next_closed: (0, 0),
        given: Vec::new(),
    };
    let mut wishes = wishes.iter().peekable();
    for now in 0..=until {
        while let Some(wish) = wishes.next_if(|wish| wish.at == now) {
            let place = mapping.place(wish.line);
            let pair = Pair { kind: wish.kind, bank: place.bank, row: place.row, whole: true };
            controller.queues[place.rank].push(pair);
        }
        if controller.refresh(now) || controller.serve(now) || controller.close_one(now) {
            controller.next_rank = (controller.next_rank + 1) % ranks;
        }
    }
    controller.given
}

struct Controller {
    timing: Timing,
    row_accesses: u32,
    per_rank: usize,
    banks: Vec<Bank>,
    queues: Vec<Vec<Pair>>,
    activations: Vec<Vec<Tick>>,
    due: Vec<Tick>,
    next_rank: usize,
    /// Rank, and bank of it.
    next_closed: (usize, usize),
    given: Vec<(Tick, usize, Command)>,
}

impl Controller {
    fn refresh(&mut self, now: Tick) -> bool {
        (0..self.due.len()).any(|rank| self.due[rank] <= now && self.refresh_rank(now, rank))
    }

    fn refresh_rank(&mut self, now: Tick, rank: usize) -> bool {
        for bank in rank * self.per_rank..(rank + 1) * self.per_rank {
            let Some(row) = self.banks[bank].row else {
                if self.banks[bank].activate > now {
                    return false;
                }
                continue;
            };
            let same = |pair: &Pair| pair.bank == bank && pair.row == row;
            return match self.queues[rank].iter().position(same) {
                Some(at) if !self.queues[rank][at].whole => {
                    let may = self.may_access(now, self.queues[rank][at]);
                    may && self.access(now, rank, at)
                }
                _ => now >= self.banks[bank].precharge && self.precharge(now, bank),
            };
        }
        for bank in rank * self.per_rank..(rank + 1) * self.per_rank {
            self.banks[bank].activate = now + self.timing.trfc;
        }
        self.due[rank] += self.timing.trefi;
        self.given.push((now, rank * self.per_rank, Command::Refresh));
        true
    }

    fn serve(&mut self, now: Tick) -> bool {
        let ranks = self.queues.len();
        for turn in 0..ranks {
            let rank = (self.next_rank + turn) % ranks;
            if self.due[rank] <= now {
                continue;
            }
            for at in 0..self.queues[rank].len() {
                let pair = self.queues[rank][at];
                let same = |other: &Pair| other.bank == pair.bank && other.row == pair.row;
                if self.queues[rank][..at].iter().any(same) {
                    continue;
                }
                if pair.whole && self.may_activate(now, rank, pair.bank) {
                    self.next_rank = rank;
                    return self.activate(now, rank, at);
                }
                if self.may_access(now, pair) {
                    self.next_rank = rank;
                    return self.access(now, rank, at);
                }
            }
        }
        false
    }

    fn close_one(&mut self, now: Tick) -> bool {
        for _ in 0..self.banks.len() {
            let (rank, in_rank) = self.next_closed;
            let bank = rank * self.per_rank + in_rank;
            if let Some(row) = self.banks[bank].row {
                let same = |pair: &Pair| pair.bank == bank && pair.row == row;
                let waits = self.queues[rank].iter().any(same);
                let done = !waits || self.banks[bank].hits == self.row_accesses;
                if done && now >= self.banks[bank].precharge {
                    return self.precharge(now, bank);
                }
            }
            self.next_closed = match (rank + 1, in_rank + 1) {
                (next, _) if next < self.queues.len() => (next, in_rank),
                (_, next) => (0, next % self.per_rank),
            };
        }
        false
    }

    fn may_activate(&self, now: Tick, rank: usize, bank: usize) -> bool {
        let Timing { trrd, tfaw, .. } = self.timing;
        let within = |ticks| self.activations[rank].iter().filter(move |&&at| now < at + ticks);
        let bank = &self.banks[bank];
        let ready = bank.row.is_none() && now >= bank.activate;
        ready && within(trrd).count() == 0 && within(tfaw).count() < 4
    }

    fn may_access(&self, now: Tick, pair: Pair) -> bool {
        let bank = &self.banks[pair.bank];
        let ready = now >= bank.access[pair.kind as usize];
        ready && bank.row == Some(pair.row) && bank.hits < self.row_accesses
    }

    fn activate(&mut self, now: Tick, rank: usize, at: usize) -> bool {
        let Timing { trcd, tras, trc, .. } = self.timing;
        let pair = &mut self.queues[rank][at];
        pair.whole = false;
        let (bank, row) = (pair.bank, pair.row);
        let state = &mut self.banks[bank];
        state.row = Some(row);
        state.activate = state.activate.max(now + trc);
        state.hits = 0;
        state.precharge = state.precharge.max(now + tras);
        state.access = state.access.map(|access| access.max(now + trcd));
        self.activations[rank].push(now);
        self.given.push((now, bank, Command::Activate { row }));
        true
    }

    fn precharge(&mut self, now: Tick, bank: usize) -> bool {
        let state = &mut self.banks[bank];
        state.row = None;
        state.activate = state.activate.max(now + self.timing.trp);
        self.given.push((now, bank, Command::Precharge));
        true
    }

    fn access(&mut self, now: Tick, rank: usize, at: usize) -> bool {
        let t = self.timing;
        let Pair { kind, bank, whole, .. } = self.queues[rank].remove(at);
        self.banks[bank].hits += u32::from(whole);
        for (number, other) in self.banks.iter_mut().enumerate() {
            let same = number / self.per_rank == rank;
            let after = match (kind, same) {
                (Kind::Read, true) => [t.tccd, t.cl + t.tccd + 2 - t.cwl],
                (Kind::Read, false) => [BURST + t.trtrs, t.cl + BURST + t.trtrs - t.cwl],
                (Kind::Write, true) => [t.cwl + BURST + t.twtr, t.tccd],
                (Kind::Write, false) => [t.cwl + BURST + t.trtrs - t.cl, BURST + t.trtrs],
            };
            for (access, after) in other.access.iter_mut().zip(after) {
                *access = (*access).max(now + after);
            }
        }
        let (closed, command) = match kind {
            Kind::Read => (t.trtp, Command::Read { auto: false }),
            Kind::Write => (t.cwl + BURST + t.twr, Command::Write { auto: false }),
        };
        let state = &mut self.banks[bank];
        state.precharge = state.precharge.max(now + closed);
        self.given.push((now, bank, command));
        true
    }
}
