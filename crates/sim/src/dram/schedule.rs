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
//! the one that goes first, always. Where ranks or banks take turns, [`RoundRobin`] or
//! [`BankQueues`] says what is next.

use super::Tick;
use super::bank_queues::BankQueues;
use super::channel::Channel;
use super::devices::{CLOSED, Rank};
use super::queues::{At, Entry};
use super::round_robin::RoundRobin;
use super::timing::Kind;
use crate::machine::spec::{DramScheduler, DramSpec};

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

/// The command that a bank proposes. A bank without one is never ready.
#[derive(Clone, Copy, Debug)]
struct Proposal {
    /// Earliest tick at which the bank itself allows it.
    ready: Tick,
    /// Accesses first, then by age; the lowest bits are the bank.
    rank: u64,
    entry: At,
    want: Want,
}

const NONE: Proposal = Proposal { ready: Tick::MAX, rank: u64::MAX, entry: 0, want: Want::Access };

/// Bits of [`Proposal::rank`] for the bank.
const BANK_BITS: u32 = 6;

/// Bit of [`Proposal::rank`] of commands that are no access.
const NO_ACCESS: u64 = 1 << 63;

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

    /// Serves this now.
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
        // Whoever becomes urgent before that may want something else to be done then.
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

    /// Makes stale proposals of the kind served now again.
    #[inline]
    fn propose(&mut self) {
        let kind = self.schedule.kind;
        let index = kind.index();
        let mut stale = std::mem::take(&mut self.schedule.stale[index]);
        while stale != 0 {
            let bank = stale.trailing_zeros() as usize;
            stale &= stale - 1;
            let proposal = self.proposal_of(kind, bank);
            self.schedule.group_changed(self.devices.group_of(bank));
            let bit = u64::from(proposal.is_some()) << bank;
            self.schedule.proposals[index][bank] = proposal.unwrap_or(NONE);
            self.schedule.proposing[index] = self.schedule.proposing[index] & !(1 << bank) | bit;
        }
    }

    /// A bank goes on with the request that it has proposed: it was the oldest one.
    #[inline]
    pub(super) fn go_on_with(&mut self, at: At) {
        let entry = *self.queues.get(at);
        let (kind, bank) = (entry.kind.index(), usize::from(entry.bank));
        if self.schedule.robin.is_some() || self.schedule.banks.is_some() {
            return self.schedule.changed(bank);
        }
        self.schedule.proposals[kind][bank] = self.proposal(at, &entry);
        self.schedule.stale[1 - kind] |= 1 << bank;
        for group in self.devices.groups_of(self.devices.rank_of(bank)) {
            self.schedule.group_changed(group);
        }
    }

    /// The oldest request of the open row, or the oldest one.
    fn proposal_of(&self, kind: Kind, bank: usize) -> Option<Proposal> {
        let row = self.devices.banks[bank].row;
        let hits_first = row != CLOSED && !self.schedule.in_order;
        let mut oldest = None;
        let mut next = self.queues.first(kind, bank);
        while let Some(at) = next {
            let entry = self.queues.get(at);
            next = self.queues.after(at);
            if self.queues.is_held(entry) {
                continue;
            }
            if entry.row == row || !hits_first {
                return Some(self.proposal(at, entry));
            }
            oldest = oldest.or(Some(at));
        }
        oldest.map(|at| self.proposal(at, self.queues.get(at)))
    }

    #[inline]
    fn proposal(&self, at: At, entry: &Entry) -> Proposal {
        let bank = &self.devices.banks[usize::from(entry.bank)];
        let (want, ready) = match bank.row {
            row if row == entry.row => (Want::Access, bank.access),
            CLOSED => (Want::Activate, bank.activate),
            _ => (Want::Precharge, bank.precharge),
        };
        let class = if want == Want::Access { 0 } else { NO_ACCESS };
        let rank = class | entry.stamp << BANK_BITS | u64::from(entry.bank);
        Proposal { ready, rank, entry: at, want }
    }

    /// The first command for a request, and of several at the same tick the one that matters most.
    #[inline]
    fn best(&mut self, from: Tick) -> Option<Planned> {
        let mut best = u128::MAX;
        for group in 0..self.devices.groups.len() {
            let known = self.schedule.firsts[group];
            let fresh = self.schedule.fresh >> group & 1 != 0 && (known >> 64) as Tick >= from;
            let first = if fresh { known } else { self.first_of(group, from, |_| true) };
            self.schedule.firsts[group] = first;
            best = best.min(first);
        }
        self.schedule.fresh = u64::MAX;
        self.planned(best)
    }

    /// The same in one bank group, of what is `allowed`: tick and rank of the proposal.
    #[inline]
    fn first_of(&self, number: usize, from: Tick, allowed: impl Fn(Want) -> bool) -> u128 {
        let kind = self.schedule.kind.index();
        let proposals = &self.schedule.proposals[kind][self.devices.banks_of_group(number)];
        let group = &self.devices.groups[number];
        let rank = &self.devices.ranks[self.devices.rank_of_group(number)];
        let gate = |want, at: Tick| if allowed(want) { at.max(from) } else { Tick::MAX };
        let gates = [
            gate(Want::Access, group.access[kind]),
            gate(Want::Activate, group.activate),
            gate(Want::Precharge, 0),
        ];
        // Without branches: which bank is next cannot be predicted. Four at a time, as each minimum
        // has to wait for the one before.
        let key = |proposal: &Proposal| {
            let at = proposal.ready.max(gates[proposal.want as usize]);
            u128::from(at) << 64 | u128::from(proposal.rank)
        };
        let (fours, rest) = proposals.as_chunks::<4>();
        let of_four = |[a, b, c, d]: &[Proposal; 4]| key(a).min(key(b)).min(key(c).min(key(d)));
        let first = fours.iter().map(of_four).fold(u128::MAX, u128::min);
        let first = rest.iter().map(key).fold(first, u128::min);
        // A command that would come after a refresh is not looked at before it.
        if ((first >> 64) as Tick) < rank.refresh_due { first } else { u128::MAX }
    }

    /// The proposal that is first.
    #[inline]
    fn planned(&self, first: u128) -> Option<Planned> {
        let (at, rank) = ((first >> 64) as Tick, first as u64);
        if at == Tick::MAX {
            return None;
        }
        let proposals = &self.schedule.proposals[self.schedule.kind.index()];
        let Proposal { want, entry, .. } = proposals[(rank % (1 << BANK_BITS)) as usize];
        Some(Planned { at, rank, deed: Deed::Serve(want, entry) })
    }

    /// The same with a request that goes before all others.
    fn best_beside(&mut self, urgent: At, from: Tick) -> Option<Planned> {
        let entry = *self.queues.get(urgent);
        let (kind, bank) = (self.schedule.kind.index(), usize::from(entry.bank));
        let proposal = self.proposal(urgent, &entry);
        let mine = self.ready(&proposal, bank, from).map(|at| {
            let deed = Deed::Serve(proposal.want, urgent);
            Planned { at, rank: 0, deed }
        });
        let in_order = self.schedule.in_order;
        let allowed = |want| match want {
            Want::Access => !in_order && proposal.want != Want::Access,
            Want::Activate => proposal.want != Want::Activate,
            Want::Precharge => true,
        };
        // Its bank is for it alone.
        let theirs = std::mem::replace(&mut self.schedule.proposals[kind][bank], NONE);
        let groups = 0..self.devices.groups.len();
        let others = groups.map(|group| self.first_of(group, from, allowed)).min();
        let others = self.planned(others.unwrap_or(u128::MAX));
        self.schedule.proposals[kind][bank] = theirs;
        match (mine, others) {
            (Some(mine), Some(others)) if others.key() < mine.key() => Some(others),
            (mine, others) => mine.or(others),
        }
    }

    /// The command that a bank proposes, with its tick.
    #[inline]
    fn offer(&self, bank: usize, from: Tick) -> Option<Planned> {
        let proposal = &self.schedule.proposals[self.schedule.kind.index()][bank];
        let at = self.ready(proposal, bank, from)?;
        Some(Planned { at, rank: proposal.rank, deed: Deed::Serve(proposal.want, proposal.entry) })
    }

    /// The tick at which a bank can have a command, unless a refresh comes before it.
    #[inline]
    fn ready(&self, proposal: &Proposal, bank: usize, from: Tick) -> Option<Tick> {
        let rank = &self.devices.ranks[self.devices.rank_of(bank)];
        let group = &self.devices.groups[self.devices.group_of(bank)];
        let gate = match proposal.want {
            Want::Access => group.access[self.schedule.kind.index()],
            Want::Activate => group.activate,
            Want::Precharge => 0,
        };
        let at = proposal.ready.max(gate).max(from);
        (at < rank.refresh_due).then_some(at)
    }
}
