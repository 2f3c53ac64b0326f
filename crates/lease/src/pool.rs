//! A lender's pool: its leases and their borrowers (DE-08, DE-09).
//!
//! The pool gives each lease one user: addresses are handed out once and never again, the sum of all leases stays
//! within the memory that is lent, and a connection has at most one lease. A lease is known by its first address. It
//! outlives a connection that broke, until the borrower has another one or its time is over; it ends with a connection
//! that was closed.

use super::messages::{Party, Record, Ticket};
use super::quota::Account;

/// Leases that one lender has at a time.
pub const MAX_LEASES: usize = 256;

/// A borrower's connection.
pub type User = u64;

/// Input of the lender's state machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A borrower, of this node if it is known, asks for a lease.
    Ask(User, Option<Account>, Ticket, u64, Party),
    /// The memory that was to be made for the lease with this base is there.
    Made(u64),
    /// The memory could not be made; with the reason.
    NotMade(u64, String),
    /// The borrower gives its lease back.
    Return(User),
    /// The borrower has closed its connection, or its process has ended.
    Gone(User),
    /// The way to the borrower broke; it may be there still.
    Broken(User),
    /// A connection says that it is the borrower of the lease with this base, and has proved it.
    Resume(User, u64),
    /// The borrower of the lease with this base had its time to come back.
    Expire(u64),
    /// The lender is about to end.
    Leave,
    /// Grace is over.
    Close,
}

/// Output of the lender's state machine, to be carried out in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Make memory for the lease with this base, so many bytes; tell by [`Event::Made`].
    Make(u64, u64),
    /// Tell the user that the lease is his; tell the monitor.
    Grant(User, Record),
    /// Tell the user no.
    Refuse(User, String),
    /// Let the memory of the lease with this base go, and close its lanes.
    Destroy(u64),
    /// Nobody has the lease with this base; tell by [`Event::Expire`] when that has lasted long enough.
    Orphan(u64),
    /// Tell the user that the lease with this base is his again.
    Resumed(User, u64),
    /// Tell the user that there is no such lease.
    NoLease(User),
    /// Tell the monitor that the lease with this base has ended.
    Report(u64),
    /// Tell the user that his lease is over.
    Returned(User),
    /// Tell the user that his lease will be over after the grace time.
    Notify(User),
    /// Close the user's connection.
    HangUp(User),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Lease {
    /// The borrower's connection, if there is one.
    user: Option<User>,
    record: Record,
    is_made: bool,
    /// Its borrower went while it was being made.
    is_over: bool,
}

/// The lender's books: its leases. A pure state machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pool {
    size_bytes: u64,
    next_base: u64,
    leases: Vec<Lease>,
    is_leaving: bool,
}

impl Pool {
    /// A pool of so many bytes, none leased. Addresses begin at `first_base`.
    pub fn new(size_bytes: u64, first_base: u64) -> Pool {
        Pool { size_bytes, next_base: first_base, leases: Vec::new(), is_leaving: false }
    }

    /// Bytes that are lent, leased or not.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Bytes that are leased.
    pub fn leased_bytes(&self) -> u64 {
        self.leases.iter().map(|lease| lease.record.size_bytes).sum()
    }

    /// Whether there are no new leases.
    pub fn is_leaving(&self) -> bool {
        self.is_leaving
    }

    /// Leases that their users know of.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.leases.iter().filter(|lease| lease.is_made).map(|lease| &lease.record)
    }

    /// Whether no lease is left.
    pub fn is_empty(&self) -> bool {
        self.leases.is_empty()
    }

    /// Handles an event. Returns the actions, to be carried out in order.
    pub fn step(&mut self, event: Event) -> Vec<Action> {
        match event {
            Event::Ask(user, account, ticket, size_bytes, borrower) => {
                let (base, node) = (self.next_base, account.map(|account| account.node));
                let record = Record { base, size_bytes, ticket, borrower, node };
                self.ask(user, account, record)
            }
            Event::Made(base) => self.made(base),
            Event::NotMade(base, reason) => self.not_made(base, reason),
            Event::Return(user) => self.returned(user),
            Event::Gone(user) => self.gone(user),
            Event::Broken(user) => self.broken(user),
            Event::Resume(user, base) => self.resume(user, base),
            Event::Expire(base) => self.expire(base),
            Event::Leave => {
                self.is_leaving = true;
                let made = self.leases.iter().filter(|lease| lease.is_made);
                made.filter_map(|lease| lease.user).map(Action::Notify).collect()
            }
            Event::Close => self.close(),
        }
    }

    fn ask(&mut self, user: User, account: Option<Account>, record: Record) -> Vec<Action> {
        let size_bytes = record.size_bytes;
        let held = account
            .map_or(Ok(()), |account| account.check(self.held_bytes(account.node), size_bytes));
        if let Err(why) = self.may_lease(user, size_bytes).and(held) {
            return vec![Action::Refuse(user, why)];
        }
        let base = record.base;
        self.next_base += size_bytes;
        self.leases.push(Lease { user: Some(user), record, is_made: false, is_over: false });
        vec![Action::Make(base, size_bytes)]
    }

    fn may_lease(&self, user: User, size_bytes: u64) -> Result<(), String> {
        let free = self.size_bytes - self.leased_bytes();
        if self.leases.iter().any(|lease| lease.user == Some(user)) {
            return Err("this connection has a lease already".to_owned());
        }
        if self.is_leaving {
            return Err("the lender is about to end: ask again for another one".to_owned());
        }
        if size_bytes == 0 || self.next_base.checked_add(size_bytes).is_none() {
            return Err(format!("{size_bytes} bytes cannot be leased"));
        }
        if size_bytes > free {
            return Err(format!("{size_bytes} bytes were asked for, {free} are free"));
        }
        if self.leases.len() == MAX_LEASES {
            return Err(format!("the lender has {MAX_LEASES} leases, the most that it can have"));
        }
        Ok(())
    }

    /// Bytes that a node has.
    fn held_bytes(&self, node: u16) -> u64 {
        let records = self.leases.iter().map(|lease| &lease.record);
        records.filter(|record| record.node == Some(node)).map(|record| record.size_bytes).sum()
    }

    fn position(&self, user: User) -> Option<usize> {
        self.leases.iter().position(|lease| lease.user == Some(user) && !lease.is_over)
    }

    /// The lease that a connection has: its base.
    pub fn base_of(&self, user: User) -> Option<u64> {
        self.position(user).map(|at| self.leases[at].record.base)
    }

    fn position_of(&self, base: u64) -> Option<usize> {
        self.leases.iter().position(|lease| lease.record.base == base)
    }

    fn made(&mut self, base: u64) -> Vec<Action> {
        let Some(at) = self.position_of(base).filter(|&at| !self.leases[at].is_made) else {
            return Vec::new();
        };
        let Some(user) = self.leases[at].user.filter(|_| !self.leases[at].is_over) else {
            self.leases.remove(at);
            return vec![Action::Destroy(base)];
        };
        self.leases[at].is_made = true;
        let mut actions = vec![Action::Grant(user, self.leases[at].record.clone())];
        if self.is_leaving {
            actions.push(Action::Notify(user));
        }
        actions
    }

    fn not_made(&mut self, base: u64, reason: String) -> Vec<Action> {
        let Some(at) = self.position_of(base).filter(|&at| !self.leases[at].is_made) else {
            return Vec::new();
        };
        let lease = self.leases.remove(at);
        match lease.user.filter(|_| !lease.is_over) {
            Some(user) => vec![Action::Refuse(user, reason)],
            None => Vec::new(),
        }
    }

    fn broken(&mut self, user: User) -> Vec<Action> {
        let Some(at) = self.position(user).filter(|&at| self.leases[at].is_made) else {
            return self.gone(user);
        };
        self.leases[at].user = None;
        vec![Action::Orphan(self.leases[at].record.base)]
    }

    fn resume(&mut self, user: User, base: u64) -> Vec<Action> {
        let is_free = self.leases.iter().all(|lease| lease.user != Some(user));
        let Some(at) = self.position_of(base).filter(|&at| self.leases[at].is_made && is_free)
        else {
            return vec![Action::NoLease(user)];
        };
        let before = self.leases[at].user.replace(user);
        let mut actions: Vec<Action> = before.into_iter().map(Action::HangUp).collect();
        actions.push(Action::Resumed(user, base));
        if self.is_leaving {
            actions.push(Action::Notify(user));
        }
        actions
    }

    fn expire(&mut self, base: u64) -> Vec<Action> {
        match self.position_of(base).filter(|&at| self.leases[at].user.is_none()) {
            Some(at) => self.remove(at),
            None => Vec::new(),
        }
    }

    fn remove(&mut self, at: usize) -> Vec<Action> {
        let base = self.leases.remove(at).record.base;
        vec![Action::Destroy(base), Action::Report(base)]
    }

    fn returned(&mut self, user: User) -> Vec<Action> {
        let mut actions = self.gone(user);
        actions.push(Action::Returned(user));
        actions
    }

    fn gone(&mut self, user: User) -> Vec<Action> {
        let Some(at) = self.position(user) else { return Vec::new() };
        if !self.leases[at].is_made {
            self.leases[at].is_over = true;
            return Vec::new();
        }
        self.remove(at)
    }

    fn close(&mut self) -> Vec<Action> {
        let mut actions = Vec::new();
        for at in (0..self.leases.len()).rev() {
            let Lease { user, is_made, .. } = self.leases[at];
            if is_made {
                actions.extend(self.remove(at));
            } else {
                self.leases[at].is_over = true;
            }
            actions.extend(user.map(Action::HangUp));
        }
        actions
    }
}
