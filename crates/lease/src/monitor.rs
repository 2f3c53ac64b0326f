//! The monitor: chooses lenders, and keeps the ledger of all leases (DE-08).
//!
//! It keeps nothing that lenders do not know better: a new one has the whole ledger as soon as they
//! have reported to it. Memory that it has promised counts as used until the lender reports the lease, or
//! the borrower's connection to the monitor ends.

use std::collections::BTreeMap;

use super::messages::{Listing, Offer, Piece, Record, Ticket, Want};
use super::placement::{self, Free};

/// Lenders that one monitor knows.
pub const MAX_LENDERS: usize = 256;

/// A connection to the monitor.
pub type Caller = u64;

/// Input of the monitor's state machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A lender reports, for the first time or anew.
    Offer(Caller, Offer, Vec<Record>),
    /// A lender has a new lease.
    Leased(Caller, Record),
    /// One of a lender's leases is over.
    Ended(Caller, u64),
    /// A borrower wants memory.
    Want(Caller, Want),
    /// A connection has ended.
    Gone(Caller),
}

/// Output of the monitor's state machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Send the borrower its pieces, with the lenders to ask.
    Grant(Caller, Vec<Vec<Piece>>),
    /// Tell the caller no.
    Refuse(Caller, String),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Lender {
    offer: Offer,
    leases: Vec<Record>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Promise {
    to: Caller,
    lender: Caller,
    ticket: Ticket,
    size_bytes: u64,
    /// The borrower's node.
    node: Option<u16>,
}

/// The monitor's books: lenders, their leases, and promises. A pure state machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Monitor {
    epoch: u64,
    tickets: u64,
    lenders: BTreeMap<Caller, Lender>,
    promises: Vec<Promise>,
}

impl Monitor {
    /// A monitor that knows nobody; `epoch` tells it from others before and after it.
    pub fn new(epoch: u64) -> Monitor {
        Monitor { epoch, tickets: 0, lenders: BTreeMap::new(), promises: Vec::new() }
    }

    /// Handles an event. Returns the actions.
    pub fn step(&mut self, event: Event) -> Vec<Action> {
        match event {
            Event::Offer(caller, offer, leases) => return self.offer(caller, offer, leases),
            Event::Leased(caller, record) => self.leased(caller, record),
            Event::Ended(caller, base) => {
                if let Some(lender) = self.lenders.get_mut(&caller) {
                    lender.leases.retain(|record| record.base != base);
                }
            }
            Event::Want(caller, want) => {
                self.promises.retain(|promise| promise.to != caller);
                return vec![match self.decide(caller, &want) {
                    Ok(pieces) => Action::Grant(caller, pieces),
                    Err(why) => Action::Refuse(caller, why),
                }];
            }
            Event::Gone(caller) => {
                self.lenders.remove(&caller);
                self.promises.retain(|promise| promise.to != caller && promise.lender != caller);
            }
        }
        Vec::new()
    }

    fn offer(&mut self, caller: Caller, offer: Offer, leases: Vec<Record>) -> Vec<Action> {
        if self.lenders.len() == MAX_LENDERS && !self.lenders.contains_key(&caller) {
            let why = format!("the monitor knows {MAX_LENDERS} lenders, the most that it can");
            return vec![Action::Refuse(caller, why)];
        }
        self.promises.retain(|promise| promise.lender != caller || !has(&leases, promise.ticket));
        self.lenders.insert(caller, Lender { offer, leases });
        Vec::new()
    }

    fn leased(&mut self, caller: Caller, mut record: Record) {
        let Some(lender) = self.lenders.get_mut(&caller) else { return };
        let mut promises = self.promises.iter();
        let promise =
            promises.find(|promise| promise.lender == caller && promise.ticket == record.ticket);
        // A lender does not know the node of a process of its own host; its own node borrows nothing of others there.
        let node = promise.and_then(|promise| promise.node).filter(|_| record.node.is_none());
        record.node = node.filter(|node| lender.offer.node != Some(*node)).or(record.node);
        let keeps = |promise: &Promise| promise.lender != caller || promise.ticket != record.ticket;
        self.promises.retain(keeps);
        lender.leases.retain(|other| other.base != record.base);
        lender.leases.push(record);
    }

    fn decide(&mut self, caller: Caller, want: &Want) -> Result<Vec<Vec<Piece>>, String> {
        if let Some(account) = want.account {
            let wanted = want.size_bytes.saturating_mul(want.copies.into());
            account.check(self.held_bytes(account.node), wanted)?;
        }
        let node = want.account.map(|account| account.node);
        let staying = self.lenders.iter().filter(|(_, lender)| !lender.offer.is_leaving);
        let free: Vec<Free<'_>> = staying
            .map(|(&number, lender)| Free {
                lender: number,
                party: &lender.offer.lender,
                bytes: self.free_bytes(number, lender),
            })
            .collect();
        let shares = placement::place(want, &free)?;
        let mut pieces = Vec::new();
        for copy in shares {
            let copy =
                copy.into_iter().map(|(lender, bytes)| self.promise((caller, node), lender, bytes));
            pieces.push(copy.collect());
        }
        Ok(pieces)
    }

    /// Bytes that a node has or was promised. What it has of a lender that leaves, it is about to move.
    fn held_bytes(&self, node: u16) -> u64 {
        let staying = self.lenders.values().filter(|lender| !lender.offer.is_leaving);
        let leases = staying.flat_map(|lender| &lender.leases);
        let leased =
            leases.filter(|record| record.node == Some(node)).map(|record| record.size_bytes);
        let promises = self.promises.iter().filter(|promise| promise.node == Some(node));
        let promised = promises.map(|promise| promise.size_bytes);
        leased.chain(promised).fold(0, u64::saturating_add)
    }

    fn promise(
        &mut self,
        (to, node): (Caller, Option<u16>),
        lender: Caller,
        size_bytes: u64,
    ) -> Piece {
        let ticket = Ticket { epoch: self.epoch, number: self.tickets };
        self.tickets += 1;
        self.promises.push(Promise { to, lender, ticket, size_bytes, node });
        let offer = &self.lenders[&lender].offer;
        let (lender, addresses) = (offer.lender.clone(), offer.addresses.clone());
        Piece { lender, addresses, size_bytes, ticket }
    }

    fn promised_bytes(&self, lender: Caller) -> u64 {
        let promises = self.promises.iter().filter(|promise| promise.lender == lender);
        promises.map(|promise| promise.size_bytes).fold(0, u64::saturating_add)
    }

    fn free_bytes(&self, number: Caller, lender: &Lender) -> u64 {
        let leased =
            lender.leases.iter().map(|record| record.size_bytes).fold(0, u64::saturating_add);
        let used = leased.saturating_add(self.promised_bytes(number));
        lender.offer.size_bytes.saturating_sub(used)
    }

    /// All lenders with their leases and promised bytes.
    pub fn listings(&self) -> Vec<Listing> {
        let listing = |(&number, lender): (&Caller, &Lender)| Listing {
            offer: lender.offer.clone(),
            leases: lender.leases.clone(),
            promised_bytes: self.promised_bytes(number),
        };
        self.lenders.iter().map(listing).collect()
    }

    /// Callers that are lenders.
    pub fn lenders(&self) -> impl Iterator<Item = Caller> {
        self.lenders.keys().copied()
    }

    /// Promises that nobody has taken up or given up yet.
    pub fn promises(&self) -> usize {
        self.promises.len()
    }
}

fn has(leases: &[Record], ticket: Ticket) -> bool {
    leases.iter().any(|record| record.ticket == ticket)
}
