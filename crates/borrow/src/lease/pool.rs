//! A lender's pool: what is leased to whom (DE-08, DE-09).
//!
//! Here is where a lease has one user: addresses are handed out once and never again, the sum of
//! all leases stays within what is lent, and a connection has at most one lease.

use super::messages::{Party, Record, Ticket};

/// Leases that one lender has at a time.
pub const MAX_LEASES: usize = 256;

/// A borrower's connection.
pub type User = u64;

/// What happens to a lender.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A borrower asks for a lease.
    Ask(User, Ticket, u64, Party),
    /// The memory that was to be made is there.
    Made(User),
    /// There is no memory.
    NotMade(User, String),
    /// The borrower gives its lease back.
    Return(User),
    /// The borrower's connection has ended.
    Gone(User),
    /// The lender is about to end.
    Leave,
    /// Grace is over.
    Close,
}

/// What the lender has to do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Make memory for this user; tell by [`Event::Made`].
    Make(User, u64, u64),
    /// Tell the user that the lease is his; tell the monitor.
    Grant(User, Record),
    /// Tell the user no.
    Refuse(User, String),
    /// Throw the memory away, if it was made, and close its lanes.
    Destroy(User, u64),
    /// Tell the monitor that the lease with this base has ended.
    Report(u64),
    /// Tell the user that his lease is over.
    Returned(User),
    /// Tell the user that his lease will be over after the grace time.
    Notify(User),
    /// Hang up.
    HangUp(User),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Lease {
    user: User,
    record: Record,
    is_made: bool,
    /// Its borrower went while it was being made.
    is_over: bool,
}

/// What a lender has in its books.
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

    /// Takes in what has happened; returns what is to be done, in this order.
    pub fn step(&mut self, event: Event) -> Vec<Action> {
        match event {
            Event::Ask(user, ticket, size_bytes, borrower) => {
                self.ask(user, Record { base: self.next_base, size_bytes, ticket, borrower })
            }
            Event::Made(user) => self.made(user),
            Event::NotMade(user, reason) => self.not_made(user, reason),
            Event::Return(user) => self.returned(user),
            Event::Gone(user) => self.gone(user),
            Event::Leave => {
                self.is_leaving = true;
                let made = self.leases.iter().filter(|lease| lease.is_made);
                made.map(|lease| Action::Notify(lease.user)).collect()
            }
            Event::Close => self.close(),
        }
    }

    fn ask(&mut self, user: User, record: Record) -> Vec<Action> {
        let size_bytes = record.size_bytes;
        if let Err(why) = self.may_lease(user, size_bytes) {
            return vec![Action::Refuse(user, why)];
        }
        let base = record.base;
        self.next_base += size_bytes;
        self.leases.push(Lease { user, record, is_made: false, is_over: false });
        vec![Action::Make(user, base, size_bytes)]
    }

    fn may_lease(&self, user: User, size_bytes: u64) -> Result<(), String> {
        let free = self.size_bytes - self.leased_bytes();
        if self.leases.iter().any(|lease| lease.user == user) {
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

    fn position(&self, user: User) -> Option<usize> {
        self.leases.iter().position(|lease| lease.user == user && !lease.is_over)
    }

    fn made(&mut self, user: User) -> Vec<Action> {
        let Some(at) = self.leases.iter().position(|l| l.user == user && !l.is_made) else {
            return Vec::new();
        };
        if self.leases[at].is_over {
            let lease = self.leases.remove(at);
            return vec![Action::Destroy(user, lease.record.base)];
        }
        self.leases[at].is_made = true;
        let mut actions = vec![Action::Grant(user, self.leases[at].record.clone())];
        if self.is_leaving {
            actions.push(Action::Notify(user));
        }
        actions
    }

    fn not_made(&mut self, user: User, reason: String) -> Vec<Action> {
        let Some(at) = self.leases.iter().position(|l| l.user == user && !l.is_made) else {
            return Vec::new();
        };
        let lease = self.leases.remove(at);
        if lease.is_over { Vec::new() } else { vec![Action::Refuse(user, reason)] }
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
        let base = self.leases.remove(at).record.base;
        vec![Action::Destroy(user, base), Action::Report(base)]
    }

    fn close(&mut self) -> Vec<Action> {
        let users: Vec<User> = self.leases.iter().filter(|l| !l.is_over).map(|l| l.user).collect();
        let mut actions = Vec::new();
        for user in users {
            actions.extend(self.gone(user));
            actions.push(Action::HangUp(user));
        }
        actions
    }
}
