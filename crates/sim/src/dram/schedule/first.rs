//! The proposal that goes first.

use super::proposals::{BANK_BITS, NONE, Proposal};
use super::{Deed, Planned, Want};
use crate::dram::Tick;
use crate::dram::channel::Channel;
use crate::dram::queues::At;

impl Channel {
    /// The first command for a request, and of several at the same tick the one that matters most.
    #[inline]
    pub(super) fn best(&mut self, from: Tick) -> Option<Planned> {
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
    pub(super) fn best_beside(&mut self, urgent: At, from: Tick) -> Option<Planned> {
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
    pub(super) fn offer(&self, bank: usize, from: Tick) -> Option<Planned> {
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
