//! Banks and ranks: open rows, and the earliest tick of each command.

use super::Tick;
use super::timing::{Kind, Near, Timing};
use crate::dram::spec::DramSpec;

/// No row is open.
pub(super) const CLOSED: u64 = u64::MAX;

/// Activations that tFAW looks at.
const WINDOW: usize = 4;

#[derive(Clone, Copy, Debug)]
pub(super) struct Bank {
    /// The open row, or [`CLOSED`].
    pub row: u64,
    /// Earliest tick of its next activation, as far as it is concerned itself; likewise the others.
    pub activate: Tick,
    pub access: Tick,
    pub precharge: Tick,
}

/// What the banks of a group have in common. Without bank groups, those of a rank are one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    /// Earliest tick of the next activation of any of its banks.
    pub activate: Tick,
    /// Earliest ticks at which its data may be read and written, by [`Kind`].
    pub access: [Tick; 2],
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Rank {
    /// Tick at which its next refresh is due.
    pub refresh_due: Tick,
    /// Ends of the windows of the last activations, and which is the oldest one.
    windows: [Tick; WINDOW],
    oldest: usize,
    /// Banks with an open row.
    pub open: u32,
}

/// All banks and ranks of a channel.
#[derive(Clone, Debug)]
pub(super) struct Devices {
    pub timing: Timing,
    pub banks: Vec<Bank>,
    /// Of all ranks.
    pub groups: Vec<Group>,
    pub ranks: Vec<Rank>,
    /// Bits of a bank's number within its rank, and within its group.
    bank_bits: u32,
    group_bits: u32,
    /// Tick at which the next refresh of any rank is due.
    pub next_refresh_due: Tick,
    /// Tick from which on the command wires are free.
    pub command: Tick,
    /// Distance of reads and writes: first, second, by [`Near`].
    gaps: [[[Tick; 3]; 2]; 2],
}

impl Devices {
    pub fn new(timing: Timing, spec: &DramSpec) -> Devices {
        let (ranks, banks) = (spec.ranks as usize, (spec.ranks * spec.banks) as usize);
        let bank = Bank { row: CLOSED, activate: 0, access: 0, precharge: 0 };
        // Ranks take turns, so that one works while another one is refreshed.
        let due = |rank: usize| match spec.refresh {
            true => timing.trefi * (rank as u64 + 1) / ranks as u64,
            false => Tick::MAX,
        };
        let rank = |rank| Rank { refresh_due: due(rank), windows: [0; WINDOW], oldest: 0, open: 0 };
        let gap = |first, second| Near::ALL.map(|near| timing.cas_gap(first, second, near));
        let groups = ranks * spec.bank_groups as usize;
        Devices {
            timing,
            next_refresh_due: due(0),
            banks: vec![bank; banks],
            groups: vec![Group { activate: 0, access: [0; 2] }; groups],
            ranks: (0..ranks).map(rank).collect(),
            bank_bits: spec.banks.trailing_zeros(),
            group_bits: (spec.banks / spec.bank_groups).trailing_zeros(),
            command: 0,
            gaps: Kind::ALL.map(|first| Kind::ALL.map(|second| gap(first, second))),
        }
    }

    #[inline]
    pub fn rank_of(&self, bank: usize) -> usize {
        bank >> self.bank_bits
    }

    /// Number of a bank's group, counted over all ranks.
    #[inline]
    pub fn group_of(&self, bank: usize) -> usize {
        bank >> self.group_bits
    }

    #[inline]
    pub fn banks_of_group(&self, group: usize) -> std::ops::Range<usize> {
        group << self.group_bits..(group + 1) << self.group_bits
    }

    #[inline]
    pub fn groups_of(&self, rank: usize) -> std::ops::Range<usize> {
        let bits = self.bank_bits - self.group_bits;
        rank << bits..(rank + 1) << bits
    }

    #[inline]
    pub fn rank_of_group(&self, group: usize) -> usize {
        group >> (self.bank_bits - self.group_bits)
    }

    #[inline]
    pub fn banks_of(&self, rank: usize) -> std::ops::Range<usize> {
        rank << self.bank_bits..(rank + 1) << self.bank_bits
    }

    /// Earliest tick at which all banks of a rank may be closed. Those that are about to close themselves must
    /// have begun to: a precharge means them too.
    pub fn may_precharge_all(&self, rank: usize) -> Tick {
        let banks = &self.banks[self.banks_of(rank)];
        banks.iter().map(|bank| bank.precharge).max().unwrap_or(0)
    }

    /// Earliest tick at which a rank without open rows may be refreshed.
    pub fn may_refresh(&self, rank: usize) -> Tick {
        let banks = &self.banks[self.banks_of(rank)];
        banks.iter().map(|bank| bank.activate).max().unwrap_or(0)
    }

    pub fn activate(&mut self, at: Tick, bank: usize, row: u64) {
        let Timing { trcd, tras, trc, trrd, trrd_l, tfaw, .. } = self.timing;
        let number = self.rank_of(bank);
        let rank = &mut self.ranks[number];
        rank.windows[rank.oldest] = at + tfaw;
        rank.oldest = (rank.oldest + 1) % WINDOW;
        rank.open += 1;
        let window = rank.windows[rank.oldest];
        let mine = self.group_of(bank);
        for other in self.groups_of(number) {
            let distance = if other == mine { trrd_l } else { trrd };
            let group = &mut self.groups[other];
            group.activate = group.activate.max(at + distance).max(window);
        }
        let bank = &mut self.banks[bank];
        *bank = Bank { row, activate: at + trc, access: at + trcd, precharge: at + tras };
        self.command = at + 1;
    }

    pub fn precharge(&mut self, at: Tick, bank: usize) {
        self.close(at, bank);
        self.command = at + 1;
    }

    pub fn precharge_all(&mut self, at: Tick, rank: usize) {
        let trp = self.timing.trp;
        for bank in self.banks_of(rank) {
            let bank = &mut self.banks[bank];
            // Also of a bank that is closing: JESD79-3 counts tRP from the last precharge.
            bank.activate = bank.activate.max(at + trp);
            bank.row = CLOSED;
        }
        self.ranks[rank].open = 0;
        self.command = at + 1;
    }

    /// Reads or writes a burst of the open row; with `auto` the row is closed as soon as it may be.
    pub fn access(&mut self, at: Tick, bank: usize, kind: Kind, auto: bool) {
        let mine = self.group_of(bank);
        let rank = self.groups_of(self.rank_of(bank));
        let gaps = &self.gaps[kind.index()];
        for (other, group) in self.groups.iter_mut().enumerate() {
            let near = if other == mine {
                Near::SameGroup
            } else if rank.contains(&other) {
                Near::OtherGroup
            } else {
                Near::OtherRank
            };
            for (gate, gap) in group.access.iter_mut().zip(gaps) {
                *gate = (*gate).max(at + gap[near as usize]);
            }
        }
        let ready = at + self.timing.until_precharge(kind);
        self.banks[bank].precharge = self.banks[bank].precharge.max(ready);
        if auto {
            self.close(self.banks[bank].precharge, bank);
        }
        self.command = at + 1;
    }

    /// Refreshes a rank; when the next one is due.
    pub fn refresh(&mut self, at: Tick, rank: usize) {
        let Timing { trfc, trefi, .. } = self.timing;
        for bank in self.banks_of(rank) {
            self.banks[bank].activate = at + trfc;
        }
        self.ranks[rank].refresh_due += trefi;
        let dues = self.ranks.iter().map(|rank| rank.refresh_due);
        self.next_refresh_due = dues.min().unwrap_or(Tick::MAX);
        self.command = self.command.max(at + 1);
    }

    fn close(&mut self, at: Tick, bank: usize) {
        let rank = self.rank_of(bank);
        self.ranks[rank].open -= 1;
        let bank = &mut self.banks[bank];
        bank.row = CLOSED;
        bank.activate = bank.activate.max(at + self.timing.trp);
    }

    /// Makes up for the refreshes until `to` of a channel in which nothing else happens: all of them at
    /// the tick at which they are due. How many; 0 if the next one is not of that kind.
    pub fn refresh_idle(&mut self, to: Tick) -> u64 {
        let on_time = |&rank: &usize| {
            let Rank { open, refresh_due, .. } = self.ranks[rank];
            open == 0 && self.may_refresh(rank) <= refresh_due && self.command <= refresh_due
        };
        if !(0..self.ranks.len()).all(|rank| on_time(&rank)) {
            return 0;
        }
        let mut refreshes = 0;
        for rank in 0..self.ranks.len() {
            let due = self.ranks[rank].refresh_due;
            if due > to {
                continue;
            }
            let before = (to - due) / self.timing.trefi;
            self.ranks[rank].refresh_due += before * self.timing.trefi;
            self.refresh(self.ranks[rank].refresh_due, rank);
            refreshes += before + 1;
        }
        refreshes
    }
}
