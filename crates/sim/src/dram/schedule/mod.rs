//! The choice of the next command, and its tick.
//!
//! Each bank proposes one command: a read or write of its open row if one waits (first ready), else
//! what its oldest request needs. Of those that can be given first the accesses go before the others,
//! then the older ones (first come): FR-FCFS (Rixner et al., ISCA 2000). Reads go before writes until
//! as many writes wait as the high watermark says; then writes go until no more wait than the low one
//! says, so that the data wires turn around rarely. Writes also go when there is nothing to read.
//!
//! A request that has waited for the age limit goes first: its bank serves nothing else, and no command
//! of the kind that it needs is given to another bank, which could push it back again and again. A
//! refresh that is due goes before everything in its rank. FCFS is the same with the oldest request as
//! the one that goes first, always. Where ranks or banks take turns, [`RoundRobin`] or [`BankQueues`]
//! says what is next.
//!
//! This file has the controller's state and the plan, `proposals` what each bank proposes, `first` which of it goes
//! first.

mod first;
mod proposals;

use self::proposals::{BANK_BITS, NO_ACCESS, NONE, Proposal};
use super::Tick;
use super::bank_queues::BankQueues;
use super::channel::Channel;
use super::devices::Rank;
use super::queues::At;
use super::round_robin::RoundRobin;
use super::timing::Kind;
use crate::dram::spec::{DramScheduler, DramSpec};

/// The command that a request needs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Want {
    /// Its row is open.
    Access,
    /// Its bank is closed.
    Activate,
    /// Another row is open.
    Precharge,
}

/// Something to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    /// A request has become too old, or a refresh is due: look again.
    Look,
    /// A request passes into the queue of its bank.
    Pass,
    /// A rank's rows are closed for its refresh.
    PrechargeAll(usize),
    /// A bank's row is closed, for nobody.
    Close(usize),
    /// A rank is refreshed.
    Refresh(usize),
    /// A command for a request.
    Serve(Want, At),
}

/// Something to do, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Planned {
    pub at: Tick,
    /// Orders deeds of the same tick; smaller goes first.
    pub rank: u64,
    pub deed: Deed,
}

impl Planned {
    /// Before all that is for a request.
    pub fn first(at: Tick, deed: Deed) -> Planned {
        Planned { at, rank: 0, deed }
    }

    /// Orders everything that can be done: the smallest key goes first.
    pub fn key(&self) -> (Tick, u64) {
        (self.at, self.rank)
    }
}

/// The controller's state from command to command.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    /// Instead of all else here but `stale`.
    pub robin: Option<RoundRobin>,
    /// The same.
    pub banks: Option<Box<BankQueues>>,
    in_order: bool,
    write_high: usize,
    write_low: usize,
    age_limit: Tick,
    /// Writes go first until the low watermark.
    draining: bool,
    /// Kind that is served now.
    kind: Kind,
    /// Whether somebody goes before all others now.
    is_urgent: bool,
    /// By kind and bank.
    proposals: [Vec<Proposal>; 2],
    /// Banks with a proposal.
    proposing: [u64; 2],
    /// Banks whose proposals have to be made again.
    stale: [u64; 2],
    /// The first command of each bank group for what is served now, where a bit says so: most commands change
    /// nothing for other ranks.
    firsts: Vec<u128>,
    fresh: u64,
}

impl Schedule {
    pub fn new(spec: &DramSpec, age_limit: Tick) -> Schedule {
        let banks = (spec.ranks * spec.banks) as usize;
        let of_banks = spec.scheduler == DramScheduler::BankQueues;
        let in_turn = spec.scheduler == DramScheduler::RankThenBankRoundRobin;
        Schedule {
            banks: of_banks.then(|| Box::new(BankQueues::new(spec, age_limit))),
            robin: in_turn.then(|| RoundRobin::new(spec)),
            in_order: spec.scheduler == DramScheduler::Fcfs,
            write_high: spec.write_high as usize,
            write_low: spec.write_low as usize,
            age_limit,
            draining: false,
            kind: Kind::Read,
            is_urgent: false,
            proposals: [vec![NONE; banks], vec![NONE; banks]],
            proposing: [0; 2],
            stale: [0; 2],
            firsts: vec![u128::MAX; (spec.ranks * spec.bank_groups) as usize],
            fresh: 0,
        }
    }

    /// Any bank's row or requests may have changed.
    pub fn all_changed(&mut self) {
        (0..self.proposals[0].len()).for_each(|bank| self.changed(bank));
        self.fresh = 0;
    }

    /// The earliest ticks of a bank group's commands have changed.
    #[inline]
    pub fn group_changed(&mut self, group: usize) {
        self.fresh &= !(1 << group);
    }

    /// The same of all groups.
    #[inline]
    pub fn groups_changed(&mut self) {
        self.fresh = 0;
    }

    #[inline]
    fn serve(&mut self, kind: Kind) {
        if self.kind != kind {
            self.kind = kind;
            self.fresh = 0;
        }
    }

    /// A bank's row or its requests have changed.
    #[inline]
    pub fn changed(&mut self, bank: usize) {
        self.stale[0] |= 1 << bank;
        self.stale[1] |= 1 << bank;
    }

    /// Banks of which that has been said since this was last asked.
    #[inline]
    pub fn take_changed(&mut self) -> u64 {
        let [reads, writes] = std::mem::take(&mut self.stale);
        reads | writes
    }
}

impl Channel {
    /// The next command if nothing more arrives, at `from` at the earliest.
    pub(super) fn plan(&mut self, from: Tick) -> Option<Planned> {
        let from = from.max(self.devices.command);
        if self.schedule.robin.is_some() {
            return self.plan_in_turn(from);
        }
        if self.schedule.banks.is_some() {
            return self.plan_of_banks(from);
        }
        self.schedule.is_urgent = false;
        if self.queues.is_empty() {
            return self.next_refresh(from);
        }
        let (starved, of_age) = self.ages(from);
        let urgent = self.choose(starved);
        let served = match urgent {
            Some(urgent) => self.best_beside(urgent, from),
            None => self.best(from),
        };
        let mut next = served;
        if next.is_none_or(|next| next.at >= self.devices.next_refresh_due) {
            let refresh = self.next_refresh(from);
            let sooner = |a: Planned, b: Planned| if b.key() < a.key() { b } else { a };
            next = next.map_or(refresh, |next| {
                Some(refresh.map_or(next, |refresh| sooner(next, refresh)))
            });
        }
        // A request that becomes urgent before that may need another command then.
        match next {
            Some(next) if of_age <= next.at => Some(Planned::first(of_age, Deed::Look)),
            next => next,
        }
    }

    /// The next command now that a request has arrived; before, it was `next`.
    #[inline]
    pub(super) fn plan_arrival(
        &mut self,
        next: Option<Planned>,
        now: Tick,
        kind: Kind,
        bank: usize,
        row: u64,
    ) -> Option<Planned> {
        if self.schedule.robin.is_some() {
            self.schedule.changed(bank);
            return self.plan(now);
        }
        let known = &self.schedule.proposals[kind.index()][bank];
        let hit = row == self.devices.banks[bank].row && known.want != Want::Access;
        let same = known.ready != Tick::MAX && !hit;
        let schedule = &mut self.schedule;
        schedule.stale[kind.index()] |= u64::from(!same) << bank;
        let first = self.queues.len(kind) == 1;
        let drains = self.queues.len(Kind::Write) >= schedule.write_high && !schedule.draining;
        let turns = match kind {
            Kind::Read => schedule.kind == Kind::Write && !schedule.draining,
            Kind::Write => schedule.kind == Kind::Read && schedule.draining,
        };
        let looks = next.is_some_and(|next| next.deed == Deed::Look && next.at <= now);
        let long = first || drains || turns || looks || schedule.is_urgent || schedule.in_order;
        let Some(next) = next.filter(|_| !long) else { return self.plan(now) };
        if kind != schedule.kind || same {
            return Some(next);
        }
        // Only its bank may propose something else than before.
        self.propose();
        let from = now.max(self.devices.command);
        let offer = self.offer(bank, from);
        if next.rank != 0 && next.rank % (1 << BANK_BITS) == bank as u64 && offer != Some(next) {
            // Its former proposal is withdrawn.
            return self.plan(now);
        }
        match offer {
            Some(offer) if offer.key() < next.key() => Some(offer),
            _ => Some(next),
        }
    }

    /// The next command of a refresh.
    fn next_refresh(&self, from: Tick) -> Option<Planned> {
        let planned = |(rank, &Rank { refresh_due, open, .. }): (usize, &Rank)| {
            if refresh_due == Tick::MAX {
                return None;
            }
            let (ready, deed) = if open == 0 {
                (self.devices.may_refresh(rank), Deed::Refresh(rank))
            } else if refresh_due <= from {
                (self.devices.may_precharge_all(rank), Deed::PrechargeAll(rank))
            } else {
                // The rows that are open then have to be seen then.
                (0, Deed::Look)
            };
            Some(Planned::first(ready.max(refresh_due).max(from), deed))
        };
        let ranks = self.devices.ranks.iter().enumerate();
        ranks.filter_map(planned).min_by_key(|planned| planned.at)
    }

    /// The oldest request that has become too old, and when the next one does.
    #[inline]
    pub(super) fn ages(&self, from: Tick) -> (Option<At>, Tick) {
        let mut starved: Option<At> = None;
        let mut next = Tick::MAX;
        for kind in Kind::ALL {
            let Some(at) = self.queues.oldest(kind) else { continue };
            let entry = self.queues.get(at);
            let of_age = entry.arrival + self.schedule.age_limit;
            if of_age > from {
                next = next.min(of_age);
            } else if starved.is_none_or(|other| entry.stamp < self.queues.get(other).stamp) {
                starved = Some(at);
            }
        }
        (starved, next)
    }

    /// Decides whether to read or to write. Returns the request that goes before all others.
    #[inline]
    fn choose(&mut self, starved: Option<At>) -> Option<At> {
        let reads = self.queues.len(Kind::Read);
        let writes = self.queues.len(Kind::Write);
        let schedule = &mut self.schedule;
        if writes >= schedule.write_high {
            schedule.draining = true;
        } else if writes <= schedule.write_low {
            schedule.draining = false;
        }
        let write = match starved {
            Some(at) => self.queues.get(at).kind == Kind::Write,
            None => writes > 0 && (reads == 0 || schedule.draining),
        };
        schedule.serve(if write { Kind::Write } else { Kind::Read });
        self.propose();
        if starved.is_none() && self.schedule.proposing[self.schedule.kind.index()] == 0 {
            // All writes wait for reads of their blocks.
            self.schedule.serve(Kind::Read);
            self.propose();
        }
        let urgent =
            if self.schedule.in_order { starved.or(self.oldest_proposed()) } else { starved };
        self.schedule.is_urgent = urgent.is_some();
        urgent
    }

    /// The oldest request of the kind served now that need not wait for another one.
    fn oldest_proposed(&self) -> Option<At> {
        let proposals = &self.schedule.proposals[self.schedule.kind.index()];
        let proposed = proposals.iter().filter(|proposal| proposal.ready != Tick::MAX);
        // Without the first bit: by age alone.
        let oldest = proposed.min_by_key(|proposal| proposal.rank & !NO_ACCESS);
        oldest.map(|proposal| proposal.entry)
    }
}
