//! The choice of the next command where banks take turns: DRAMsim3's controller, with a queue of commands per
//! bank and a refresh rank by rank.
//!
//! In each tick two things happen, in this order:
//!
//! 1. A command is given. A refresh that is due comes first: banks of its rank serve nothing else, are closed
//!    one by one, then refreshed. Else the banks are asked in turn, from the one after the last that had a
//!    command, and the first goes that has one ready. A bank looks through its queue in the order of arrival.
//!    It closes its row for its oldest request alone, and only if nothing in the queue wants the row, or if the
//!    row has had its accesses.
//! 2. A request passes into the queue of its bank: the oldest one whose queue has room. Reads pass, until as
//!    many writes wait as the high watermark says, or more than the low one and all queues of banks are empty.
//!    Then all writes pass that wait at that time.
//!
//! A read of a block that waits to be written, and a request like one that waits, take no command of their own.
//!
//! Not DRAMsim3's: writes also pass when one has waited for the age limit, or when no more requests will come;
//! there, a few never go. And a write that has to wait for a read of its block lets a read pass before it is
//! looked at again; there, nothing passes any more if the write buffer is full.

use std::collections::VecDeque;

use super::Tick;
use super::channel::{Channel, Done, Request};
use super::devices::CLOSED;
use super::mapping::Place;
use super::queues::{At, Entry};
use super::schedule::{Deed, Planned, Want};
use super::timing::Kind;
use crate::dram::spec::DramSpec;

/// A command that a bank could give.
#[derive(Clone, Copy, Debug)]
struct Offer {
    want: Want,
    kind: Kind,
    entry: At,
}

/// A request that is done with another one.
#[derive(Clone, Copy, Debug)]
struct Twin {
    of: At,
    id: u32,
}

/// What a bank has to do: the commands that it could give, those of older requests first. It has at most a
/// precharge, a read and a write.
#[derive(Clone, Debug, Default)]
struct Bank {
    queue: Vec<At>,
    offers: [Option<Offer>; 3],
    /// Accesses to its open row.
    accesses: u32,
}

/// Requests on their way to their banks, and whose turn it is.
#[derive(Clone, Debug)]
pub(super) struct BankQueues {
    depth: usize,
    capacities: [usize; 2],
    write_high: usize,
    write_low: usize,
    most_accesses: u32,
    age_limit: Tick,
    /// Not yet in the queue of a bank, by kind.
    waiting: [VecDeque<At>; 2],
    banks: Vec<Bank>,
    /// Banks with requests.
    busy: u64,
    twins: Vec<Twin>,
    /// Writes that pass before reads do again.
    draining: usize,
    /// A write has to wait for a read, so reads pass next.
    gives_way: bool,
    finished: bool,
    /// The bank that had the last command.
    turn: usize,
    /// First tick in which a request may pass: one a tick.
    free: Tick,
    /// Tick in which one is to pass.
    pass: Tick,
    /// The next command, as long as nothing changes it.
    command: Option<Option<Planned>>,
}

impl BankQueues {
    pub fn new(spec: &DramSpec, age_limit: Tick) -> BankQueues {
        let capacities = [spec.read_queue as usize, spec.write_queue as usize];
        let bank = Bank { queue: Vec::with_capacity(spec.bank_queue as usize), ..Bank::default() };
        BankQueues {
            depth: spec.bank_queue as usize,
            capacities,
            write_high: spec.write_high as usize,
            write_low: spec.write_low as usize,
            most_accesses: spec.row_accesses + 1,
            age_limit,
            waiting: capacities.map(VecDeque::with_capacity),
            banks: vec![bank; (spec.ranks * spec.banks) as usize],
            busy: 0,
            twins: Vec::new(),
            draining: 0,
            gives_way: false,
            finished: false,
            turn: 0,
            free: 0,
            pass: Tick::MAX,
            command: None,
        }
    }

    /// Entries of each kind that there are at most, on both sides.
    pub fn entries(spec: &DramSpec) -> [usize; 2] {
        let queues = (spec.ranks * spec.banks * spec.bank_queue) as usize;
        [spec.read_queue as usize + queues, spec.write_queue as usize + queues]
    }

    #[inline]
    pub fn has_room(&self, kind: Kind) -> bool {
        self.waiting[kind.index()].len() < self.capacities[kind.index()]
    }

    /// Commands have to be looked for again.
    #[inline]
    pub fn forget(&mut self) {
        self.command = None;
    }

    /// Something may pass from `at` on.
    #[inline]
    fn wake(&mut self, at: Tick) {
        self.pass = self.pass.min(at.max(self.free));
    }

    /// A request has had its access; the requests that are done with it.
    pub fn leave(
        &mut self,
        at: Tick,
        bank: usize,
        entry: At,
        done: Done,
        all: &mut Vec<Done>,
    ) -> u64 {
        let Bank { queue, accesses, .. } = &mut self.banks[bank];
        queue.retain(|&other| other != entry);
        *accesses += 1;
        self.busy &= !(u64::from(queue.is_empty()) << bank);
        if self.waiting.iter().any(|waiting| !waiting.is_empty()) {
            self.wake(at);
        }
        let before = all.len();
        if !self.twins.is_empty() {
            let twins = self.twins.extract_if(.., |twin| twin.of == entry);
            all.extend(twins.map(|twin| Done { id: twin.id, ..done }));
        }
        (all.len() - before) as u64
    }
}

impl Channel {
    /// A request arrives.
    pub(super) fn push_to_bank(
        &mut self,
        now: Tick,
        request: Request,
        place: Place,
        done: &mut Vec<Done>,
    ) {
        let Request { id, line, kind } = request;
        let same = |entry: &Entry| entry.line == line;
        if kind == Kind::Read && self.queues.find(Kind::Write, place.bank, same).is_some() {
            self.stats.forwarded += 1;
            return done.push(Done { id, kind, at: now + 1 });
        }
        let twin = self.queues.find(kind, place.bank, same);
        let Some(banks) = &mut self.schedule.banks else { return };
        match twin {
            Some(of) => banks.twins.push(Twin { of, id }),
            None => {
                let at = self.queues.push(id, line, kind, place, now);
                banks.waiting[kind.index()].push_back(at);
                banks.wake(now);
                self.next = self.plan(now);
            }
        }
    }

    /// The next thing to do if nothing more arrives, at `from` at the earliest.
    pub(super) fn plan_of_banks(&mut self, from: Tick) -> Option<Planned> {
        let known = self.schedule.banks.as_ref().and_then(|banks| banks.command);
        let (pass, free) = self.schedule.banks.as_ref().map(|banks| (banks.pass, banks.free))?;
        // What passes in a tick has its command in the next one.
        let from = from.max(free);
        let command = self.next_of_banks(known, from);
        if let Some(banks) = &mut self.schedule.banks {
            banks.command = Some(command);
        }
        match command {
            Some(command) if command.at <= pass => Some(command),
            _ if pass == Tick::MAX => None,
            _ => Some(Planned { at: pass, rank: u64::MAX, deed: Deed::Pass }),
        }
    }

    /// The next command; before some banks changed, it was `known`.
    fn next_of_banks(&mut self, known: Option<Option<Planned>>, from: Tick) -> Option<Planned> {
        let changed = self.offer_of_banks();
        let due = self.devices.next_refresh_due;
        let refreshed = (due <= from).then(|| {
            let is_it = |rank: &usize| self.devices.ranks[*rank].refresh_due == due;
            (0..self.devices.ranks.len()).find(is_it).unwrap_or(0)
        });
        let banks = self.schedule.banks.as_ref()?;
        let is_changed = |planned: &Planned| match planned.deed {
            Deed::Serve(_, at) => changed >> self.queues.get(at).bank & 1 != 0,
            _ => false,
        };
        let (mut best, mut asked) = match known {
            Some(known) if !known.as_ref().is_some_and(is_changed) => (known, changed & banks.busy),
            _ => (refreshed.map(|rank| self.refresh_of_banks(rank, from)), banks.busy),
        };
        while asked != 0 {
            let bank = asked.trailing_zeros() as usize;
            asked &= asked - 1;
            if refreshed.is_some_and(|rank| rank == self.devices.rank_of(bank)) {
                continue;
            }
            let planned = self.first_of_bank(banks, bank, from);
            if planned.is_some_and(|planned| best.is_none_or(|best| planned.key() < best.key())) {
                best = planned;
            }
        }
        let in_time =
            refreshed.is_some() || due == Tick::MAX || best.is_some_and(|best| best.at < due);
        if in_time { best } else { Some(Planned::first(due, Deed::Look)) }
    }

    /// The command that a bank can give first; of those of a tick, that for the oldest request.
    #[inline]
    fn first_of_bank(&self, banks: &BankQueues, bank: usize, from: Tick) -> Option<Planned> {
        let state = &self.devices.banks[bank];
        let group = &self.devices.groups[self.devices.group_of(bank)];
        let ready = |offer: &Offer| match offer.want {
            Want::Access => state.access.max(group.access[offer.kind.index()]),
            Want::Activate => state.activate.max(group.activate),
            Want::Precharge => state.precharge,
        };
        let offers = || banks.banks[bank].offers.iter().flatten();
        let at = offers().map(ready).min()?.max(from);
        let offer = offers().find(|offer| ready(offer) <= at)?;
        let count = banks.banks.len();
        let turns = if bank > banks.turn { bank - banks.turn } else { bank + count - banks.turn };
        Some(Planned { at, rank: turns as u64, deed: Deed::Serve(offer.want, offer.entry) })
    }

    /// The next command of a rank's refresh.
    fn refresh_of_banks(&self, rank: usize, from: Tick) -> Planned {
        let range = self.devices.banks_of(rank);
        let open = range.filter(|&bank| self.devices.banks[bank].row != CLOSED);
        let close = |bank: usize| {
            let at = self.devices.banks[bank].precharge.max(from);
            Planned::first(at, Deed::Close(bank))
        };
        let refresh =
            || Planned::first(self.devices.may_refresh(rank).max(from), Deed::Refresh(rank));
        open.map(close).min_by_key(|planned| planned.at).unwrap_or_else(refresh)
    }

    /// Asks banks again of which something has changed; a bit for each.
    fn offer_of_banks(&mut self) -> u64 {
        let changed = self.schedule.take_changed();
        let Some(banks) = &mut self.schedule.banks else { return 0 };
        let mut rest = changed;
        while rest != 0 {
            let number = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            let row = self.devices.banks[number].row;
            let bank = &mut banks.banks[number];
            bank.offers = [None; 3];
            let Some(&first) = bank.queue.first() else { continue };
            let offer = |want, entry| Offer { want, kind: self.queues.get(entry).kind, entry };
            if row == CLOSED {
                bank.offers[0] = Some(offer(Want::Activate, first));
                continue;
            }
            let hit = |kind| {
                let mut places = bank.queue.iter().copied().enumerate();
                places.find(|&(_, at)| {
                    let entry = self.queues.get(at);
                    entry.row == row && entry.kind == kind
                })
            };
            let mut hits = Kind::ALL.map(hit);
            if hits[1].is_some_and(|(write, _)| hits[0].is_none_or(|(read, _)| write < read)) {
                hits.swap(0, 1);
            }
            let used_up = bank.accesses >= banks.most_accesses;
            let misses = self.queues.get(first).row != row;
            let closes = misses && (used_up || hits == [None; 2]);
            bank.offers = [
                closes.then(|| offer(Want::Precharge, first)),
                hits[0].map(|(_, at)| offer(Want::Access, at)),
                hits[1].map(|(_, at)| offer(Want::Access, at)),
            ];
        }
        changed
    }

    /// A command is given to a bank for a request.
    #[inline]
    pub(super) fn bank_has_turn(&mut self, planned: &Planned) {
        let Some(banks) = &mut self.schedule.banks else { return };
        if planned.deed != Deed::Pass {
            banks.forget();
        }
        if let Deed::Serve(want, at) = planned.deed {
            banks.turn = self.queues.get(at).bank.into();
            if want == Want::Activate {
                banks.banks[banks.turn].accesses = 0;
            }
        }
    }

    /// A request passes into the queue of its bank, if one can.
    pub(super) fn pass(&mut self, at: Tick) {
        let Some(banks) = &mut self.schedule.banks else { return };
        (banks.free, banks.pass) = (at + 1, Tick::MAX);
        let [reads, writes] = [0, 1].map(|kind| banks.waiting[kind].len());
        let of_age = banks.waiting[1].front().map(|&write| {
            let entry = self.queues.get(write);
            entry.arrival.saturating_add(banks.age_limit)
        });
        if banks.draining == 0 && !banks.gives_way {
            let unused =
                banks.busy == 0 && (writes > banks.write_low || banks.finished && reads == 0);
            let old = of_age.is_some_and(|of_age| of_age <= at);
            if writes >= banks.write_high || unused || old {
                banks.draining = writes;
            }
        }
        let gave_way = std::mem::take(&mut banks.gives_way);
        let kind = if banks.draining > 0 { Kind::Write } else { Kind::Read };
        let waiting = &banks.waiting[kind.index()];
        let bank_of = |at: &At| usize::from(self.queues.get(*at).bank);
        let has_room = |at: &At| banks.banks[bank_of(at)].queue.len() < banks.depth;
        let Some(place) = waiting.iter().position(has_room) else {
            // Until something changes, or a write becomes too old. The read that a write waited for may
            // just have had its access: nothing else would change then.
            let write = banks.waiting[1].iter().find(|at| has_room(at));
            let freed = write.is_some_and(|&at| !self.queues.is_held(self.queues.get(at)));
            banks.pass = match of_age {
                _ if gave_way && freed => at + 1,
                Some(of_age) if of_age > at && banks.draining == 0 => of_age,
                _ => Tick::MAX,
            };
            return;
        };
        let entry = waiting[place];
        let bank = bank_of(&entry);
        banks.pass = if reads + writes > 1 { at + 1 } else { Tick::MAX };
        if kind == Kind::Write {
            if self.queues.is_held(self.queues.get(entry)) {
                (banks.draining, banks.gives_way, banks.pass) = (0, true, at + 1);
                return;
            }
            banks.draining -= 1;
        }
        banks.waiting[kind.index()].remove(place);
        banks.banks[bank].queue.push(entry);
        banks.busy |= 1 << bank;
        self.schedule.changed(bank);
    }

    /// No more requests come, so that nothing needs to wait for others.
    pub(super) fn finish_banks(&mut self, now: Tick) {
        let Some(banks) = &mut self.schedule.banks else { return };
        banks.finished = true;
        banks.wake(now);
        self.next = self.plan(now);
    }
}
