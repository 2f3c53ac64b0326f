//! The command that each bank proposes.

use super::Want;
use crate::dram::Tick;
use crate::dram::channel::Channel;
use crate::dram::devices::CLOSED;
use crate::dram::queues::{At, Entry};
use crate::dram::timing::Kind;

/// The command that a bank proposes. A bank without one is never ready.
#[derive(Clone, Copy, Debug)]
pub(super) struct Proposal {
    /// Earliest tick at which the bank itself allows it.
    pub ready: Tick,
    /// Accesses first, then by age; the lowest bits are the bank.
    pub rank: u64,
    pub entry: At,
    pub want: Want,
}

pub(super) const NONE: Proposal =
    Proposal { ready: Tick::MAX, rank: u64::MAX, entry: 0, want: Want::Access };

/// Bits of [`Proposal::rank`] for the bank.
pub(super) const BANK_BITS: u32 = 6;

/// Bit of [`Proposal::rank`] of commands that are no access.
pub(super) const NO_ACCESS: u64 = 1 << 63;

impl Channel {
    /// Makes stale proposals of the kind served now again.
    #[inline]
    pub(super) fn propose(&mut self) {
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
    pub(in crate::dram) fn go_on_with(&mut self, at: At) {
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
    pub(super) fn proposal(&self, at: At, entry: &Entry) -> Proposal {
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
}
