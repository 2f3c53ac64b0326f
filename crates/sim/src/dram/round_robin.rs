//! The choice of the next command where ranks take turns: DRAMSim2's `CommandQueue`, with a queue per rank,
//! open pages, and ranks before banks.
//!
//! In each tick the command wires take the first of these that can be given:
//!
//! 1. What a refresh that is due needs: its rank serves nothing else. Bank by bank, the access for which
//!    a row was opened, then its precharge; the next bank when that one is closed.
//! 2. A command of a rank's queue, beginning with the rank whose turn it is: the oldest request's that
//!    is ready, be it an activation, a read or a write. Requests for the same row go in order. Whichever
//!    rank it was, the next one has the next turn.
//! 3. A precharge of a row for which nothing waits, or that has had its accesses. Banks take turns here,
//!    one of each rank before the next one.
//!
//! So a row stays open for as long as requests come for it, a little longer if the wires are busy, and
//! not for more than `dram.row_accesses` after the first one.
//!
//! Not DRAMSim2's: a request that has waited for the age limit goes before others, as in `schedule`;
//! there, reads that come put off a write for longer. Left out: that not all of the transactions that
//! wait are in the command queue, and power-down.

use super::Tick;
use super::channel::Channel;
use super::devices::{CLOSED, Rank};
use super::queues::{At, Entry};
use super::schedule::{Deed, Planned, Want};
use super::timing::Kind;
use crate::dram::spec::DramSpec;

/// Order of a request that has become too old: after refreshes, before all others.
const OLD: u64 = 1;

/// Orders commands for requests by the turns of ranks, then by arrival.
const TURN: u64 = 1 << 48;

/// Orders precharges after that.
const LAST: u64 = 1 << 63;

/// A command that a bank needs.
#[derive(Clone, Copy, Debug)]
struct Offer {
    bank: usize,
    /// Earliest tick at which the bank itself allows it.
    ready: Tick,
    want: Want,
    /// For whom: a row may also be closed for nobody.
    entry: Option<At>,
    kind: Kind,
    stamp: u64,
}

/// The turns of ranks and banks.
#[derive(Clone, Debug)]
pub(super) struct RoundRobin {
    most_accesses: u32,
    ranks: usize,
    /// The rank that is looked at first.
    turn: usize,
    /// The bank whose row is closed first, by [`RoundRobin::position`].
    closing: usize,
    /// Accesses to each bank's open row after the first one.
    accesses: Vec<u32>,
    /// By bank.
    offers: Vec<Option<Offer>>,
}

impl RoundRobin {
    pub fn new(spec: &DramSpec) -> RoundRobin {
        let banks = (spec.ranks * spec.banks) as usize;
        RoundRobin {
            most_accesses: spec.row_accesses,
            ranks: spec.ranks as usize,
            turn: 0,
            closing: 0,
            accesses: vec![0; banks],
            offers: vec![None; banks],
        }
    }

    /// So many turns go by without one from a queue.
    pub fn pass(&mut self, commands: u64) {
        self.turn = ((self.turn as u64 + commands) % self.ranks as u64) as usize;
    }

    /// Position of a bank among those that take turns: the first ones of all ranks, then the second ones.
    #[inline]
    fn position(&self, bank: usize, rank: usize) -> usize {
        let in_rank = bank - rank * (self.offers.len() / self.ranks);
        in_rank * self.ranks + rank
    }

    /// Orders offers that are ready at the same tick.
    #[inline]
    fn order(&self, offer: &Offer, rank: usize) -> u64 {
        if offer.want == Want::Precharge {
            let banks = self.offers.len();
            return LAST
                | ((self.position(offer.bank, rank) + banks - self.closing) % banks) as u64;
        }
        let turns = (rank + self.ranks - self.turn) % self.ranks;
        ((turns as u64 + 1) * TURN) | offer.stamp
    }
}

impl Channel {
    /// The next command if nothing more arrives, at `from` at the earliest.
    pub(super) fn plan_in_turn(&mut self, from: Tick) -> Option<Planned> {
        self.offer_again();
        let (old, of_age) = self.ages(from);
        let old = old.and_then(|at| self.offer_for(self.queues.get(at).bank.into(), Some(at)));
        let robin = self.schedule.robin.as_ref().expect("ranks take turns");
        let mut next: Option<Planned> = None;
        for offer in robin.offers.iter().flatten() {
            let planned = match &old {
                Some(old) if old.bank == offer.bank => {
                    self.planned_offer(robin, old, from, Some(OLD))
                }
                // It would be pushed back again and again.
                Some(old) if old.want == offer.want && old.want != Want::Precharge => None,
                _ => self.planned_offer(robin, offer, from, None),
            };
            next = sooner(next, planned);
        }
        if next.is_none_or(|next| next.at >= self.devices.next_refresh_due) {
            for (rank, state) in self.devices.ranks.iter().enumerate() {
                next = sooner(next, self.refresh_in_turn(rank, state, from));
            }
        }
        match next {
            Some(next) if of_age <= next.at => Some(Planned::first(of_age, Deed::Look)),
            next => next,
        }
    }

    /// Takes note of whose turn it is after a command, and counts accesses to rows.
    #[inline]
    pub(super) fn take_turn(&mut self, planned: &Planned) {
        let Some(robin) = &mut self.schedule.robin else { return };
        let of_entry = |at| {
            let entry: &Entry = self.queues.get(at);
            (usize::from(entry.bank), entry.activated)
        };
        let (want, bank) = match planned.deed {
            Deed::Look | Deed::Pass => return,
            Deed::Refresh(_) | Deed::PrechargeAll(_) => return robin.pass(1),
            Deed::Close(bank) => (Want::Precharge, bank),
            Deed::Serve(want, at) => (want, of_entry(at).0),
        };
        match planned.deed {
            Deed::Serve(Want::Activate, _) => robin.accesses[bank] = 0,
            Deed::Serve(Want::Access, at) => robin.accesses[bank] += u32::from(!of_entry(at).1),
            _ => {}
        }
        let for_refresh = planned.rank == 0;
        let rank = self.devices.rank_of(bank);
        match want {
            _ if for_refresh => robin.pass(1),
            Want::Precharge => {
                robin.closing = robin.position(bank, rank);
                robin.pass(1);
            }
            Want::Access | Want::Activate => {
                robin.turn = rank;
                robin.pass(1);
            }
        }
    }

    /// Asks banks again of which something has changed.
    #[inline]
    fn offer_again(&mut self) {
        let mut changed = self.schedule.take_changed();
        while changed != 0 {
            let bank = changed.trailing_zeros() as usize;
            changed &= changed - 1;
            let row = self.devices.banks[bank].row;
            let hit = self.oldest_of(bank, |entry| entry.row == row);
            let entry = match hit.filter(|_| !self.is_used_up(bank)) {
                None => self.oldest_of(bank, |_| true),
                hit => hit,
            };
            let offer = self.offer_for(bank, entry);
            if let Some(robin) = &mut self.schedule.robin {
                robin.offers[bank] = offer;
            }
        }
    }

    /// The command that a bank needs for a request, or for none.
    #[inline]
    fn offer_for(&self, bank: usize, at: Option<At>) -> Option<Offer> {
        let state = &self.devices.banks[bank];
        let entry = at.map(|at| self.queues.get(at));
        let (want, ready) = match (state.row, entry) {
            (CLOSED, None) => return None,
            (CLOSED, Some(_)) => (Want::Activate, state.activate),
            (row, Some(entry)) if entry.row == row && !self.is_used_up(bank) => {
                (Want::Access, state.access)
            }
            _ => (Want::Precharge, state.precharge),
        };
        let (kind, stamp) = entry.map_or((Kind::Read, 0), |entry| (entry.kind, entry.stamp));
        Some(Offer { bank, ready, want, entry: at, kind, stamp })
    }

    /// Whether a bank's row has had its accesses.
    #[inline]
    fn is_used_up(&self, bank: usize) -> bool {
        let robin = self.schedule.robin.as_ref();
        robin.is_some_and(|robin| robin.accesses[bank] >= robin.most_accesses)
    }

    /// The oldest request of a bank, of either kind, of which `is_it` holds.
    #[inline]
    fn oldest_of(&self, bank: usize, is_it: impl Fn(&Entry) -> bool) -> Option<At> {
        let [read, write] = Kind::ALL.map(|kind| self.queues.find(kind, bank, &is_it));
        let stamp = |at: &At| self.queues.get(*at).stamp;
        read.into_iter().chain(write).min_by_key(stamp)
    }

    /// The tick at which an offer can be taken, unless a refresh comes before it. Rows may be closed beside
    /// one.
    #[inline]
    fn planned_offer(
        &self,
        robin: &RoundRobin,
        offer: &Offer,
        from: Tick,
        order: Option<u64>,
    ) -> Option<Planned> {
        let number = self.devices.rank_of(offer.bank);
        let rank = &self.devices.ranks[number];
        let group = &self.devices.groups[self.devices.group_of(offer.bank)];
        let (gate, until) = match offer.want {
            Want::Access => (group.access[offer.kind.index()], rank.refresh_due),
            Want::Activate => (group.activate, rank.refresh_due),
            Want::Precharge => (0, Tick::MAX),
        };
        let at = offer.ready.max(gate).max(from);
        let deed = offer.entry.map_or(Deed::Close(offer.bank), |at| Deed::Serve(offer.want, at));
        let rank = order.unwrap_or_else(|| robin.order(offer, number));
        (at < until).then_some(Planned { at, rank, deed })
    }

    /// The next command of a rank's refresh.
    fn refresh_in_turn(&self, number: usize, rank: &Rank, from: Tick) -> Option<Planned> {
        if rank.refresh_due == Tick::MAX {
            return None;
        }
        let mut at = from.max(rank.refresh_due);
        for bank in self.devices.banks_of(number) {
            let state = &self.devices.banks[bank];
            if state.row == CLOSED {
                at = at.max(state.activate);
                continue;
            }
            let opened = |entry: &Entry| entry.activated && entry.row == state.row;
            let (ready, deed) = match self.oldest_of(bank, opened) {
                Some(at) => {
                    let group = &self.devices.groups[self.devices.group_of(bank)];
                    let gate = group.access[self.queues.get(at).kind.index()];
                    (state.access.max(gate), Deed::Serve(Want::Access, at))
                }
                None => (state.precharge, Deed::Close(bank)),
            };
            return Some(Planned::first(at.max(ready), deed));
        }
        Some(Planned::first(at, Deed::Refresh(number)))
    }
}

/// The one of two that comes first.
#[inline]
fn sooner(a: Option<Planned>, b: Option<Planned>) -> Option<Planned> {
    match (a, b) {
        (Some(first), Some(second)) if second.key() < first.key() => b,
        (None, _) => b,
        _ => a,
    }
}
