//! The lender in an agent: its pool, and the memory of its leases.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::config::Lend;
use super::lane::Lanes;
use super::memory::Memory;
use super::{Event as Told, Mail, Mailbox, Tell};
use crate::address::Address;
use crate::error::Result;
use crate::lease::messages::{Offer, Party, Record, Reply, Request};
use crate::lease::pool::{Action, Event, Pool, User};
use crate::net::hub::{Hub, PeerId};
use crate::net::secret;

/// Addresses of leases begin here, so that 0 is none.
const FIRST_BASE: u64 = 1 << 32;

/// A lease that has memory.
struct Held {
    memory: Arc<Memory>,
    token: String,
    record: Record,
    lanes: Lanes,
}

pub(super) struct Lender {
    lend: Lend,
    party: Party,
    addresses: Vec<Address>,
    socket: Option<PathBuf>,
    pool: Pool,
    made: BTreeMap<User, Memory>,
    held: BTreeMap<User, Held>,
    reports: Vec<Request>,
    replies: Vec<(User, Reply, Option<OwnedFd>)>,
    grace: Duration,
    mailbox: Mailbox,
}

impl Lender {
    pub fn new(
        lend: Lend,
        party: Party,
        addresses: Vec<Address>,
        socket: Option<PathBuf>,
        mailbox: Mailbox,
    ) -> Lender {
        Lender {
            lend,
            party,
            addresses,
            socket,
            pool: Pool::new(lend.size_bytes, FIRST_BASE),
            made: BTreeMap::new(),
            held: BTreeMap::new(),
            reports: Vec::new(),
            replies: Vec::new(),
            grace: Duration::ZERO,
            mailbox,
        }
    }

    /// What the monitor is told of this lender.
    pub fn offer(&self) -> Offer {
        Offer {
            lender: self.party.clone(),
            addresses: self.addresses.clone(),
            size_bytes: self.lend.size_bytes,
            is_leaving: self.pool.is_leaving(),
        }
    }

    /// What is leased.
    pub fn records(&self) -> Vec<Record> {
        self.pool.records().cloned().collect()
    }

    /// What the monitor has not been told.
    pub fn reports(&mut self) -> Vec<Request> {
        std::mem::take(&mut self.reports)
    }

    /// Answers the borrowers, after the monitor was told: it must know of a lease, or of its end, before anything
    /// that the borrower does next.
    pub fn answer(&mut self, hub: &mut Hub) {
        for (user, reply, fd) in self.replies.drain(..) {
            hub.send(user, &reply, fd);
        }
    }

    pub fn message(&mut self, peer: PeerId, request: Request, hub: &mut Hub, tell: &mut Tell) {
        match request {
            Request::Lease(ticket, size_bytes, borrower) => {
                self.step(Event::Ask(peer, ticket, size_bytes, borrower), hub, tell);
            }
            Request::Return => self.step(Event::Return(peer), hub, tell),
            Request::Lane(base, token) => self.lane(peer, base, &token, hub),
            _ => {}
        }
    }

    /// A connection becomes a lane of a lease.
    fn lane(&mut self, peer: PeerId, base: u64, token: &str, hub: &mut Hub) {
        let held = self.held.values_mut().find(|held| held.record.base == base);
        let Some(held) = held.filter(|held| secret::is_same(&held.token, token)) else {
            let why = "there is no such lease, or no longer".to_owned();
            return hub.send(peer, &Reply::Refused(why), None);
        };
        hub.send(peer, &Reply::LaneOpen, None);
        let Some(fd) = hub.take_out(peer) else { return };
        held.lanes.open(fd, held.memory.clone(), base, self.lend.spin);
    }

    pub fn made(&mut self, user: User, made: Result<Memory>, hub: &mut Hub, tell: &mut Tell) {
        let event = match made {
            Ok(memory) => {
                self.made.insert(user, memory);
                Event::Made(user)
            }
            Err(error) => Event::NotMade(user, error.to_string()),
        };
        self.step(event, hub, tell);
    }

    pub fn gone(&mut self, peer: PeerId, hub: &mut Hub, tell: &mut Tell) {
        self.step(Event::Gone(peer), hub, tell);
    }

    pub fn leave(&mut self, grace: Duration, hub: &mut Hub, tell: &mut Tell) {
        self.grace = grace;
        self.step(Event::Leave, hub, tell);
    }

    pub fn close(&mut self, hub: &mut Hub, tell: &mut Tell) {
        self.step(Event::Close, hub, tell);
    }

    pub fn is_idle(&self) -> bool {
        self.pool.is_empty()
    }

    pub fn remove_socket(&mut self) {
        if let Some(path) = self.socket.take() {
            let _ = std::fs::remove_file(path);
        }
    }

    fn step(&mut self, event: Event, hub: &mut Hub, tell: &mut Tell) {
        for action in self.pool.step(event) {
            self.act(action, hub, tell);
        }
    }

    fn act(&mut self, action: Action, hub: &mut Hub, tell: &mut Tell) {
        match action {
            Action::Make(user, _, size_bytes) => self.make(user, size_bytes),
            Action::Grant(user, record) => self.grant(user, record, hub, tell),
            Action::Refuse(user, why) => {
                let why = format!("{}: {why}", self.party.name);
                self.reply(user, Reply::Refused(why));
            }
            Action::Destroy(user, _) => self.destroy(user, tell),
            Action::Report(base) => self.reports.push(Request::Ended(base)),
            Action::Returned(user) => self.reply(user, Reply::Returned),
            Action::Notify(user) => self.reply(user, Reply::Notice(self.grace.as_millis() as u64)),
            Action::HangUp(user) => hub.hang_up(user),
        }
    }

    fn reply(&mut self, user: User, reply: Reply) {
        self.replies.push((user, reply, None));
    }

    fn make(&self, user: User, size_bytes: u64) {
        let (lend, mailbox) = (self.lend, self.mailbox.clone());
        let make = move || mailbox.send(Mail::Made(user, Memory::make(size_bytes, &lend)));
        let thread = std::thread::Builder::new().name("rackmem-make".to_owned());
        if let Err(error) = thread.spawn(make) {
            let error = crate::error::Error::io("cannot start a thread", error);
            self.mailbox.send(Mail::Made(user, Err(error)));
        }
    }

    fn grant(&mut self, user: User, record: Record, hub: &mut Hub, tell: &mut Tell) {
        let (Some(memory), Ok(token)) = (self.made.remove(&user), secret::token()) else {
            return hub.hang_up(user);
        };
        let fd = match hub.is_local(user) {
            true => memory.mapping().fd().try_clone_to_owned().ok(),
            false => None,
        };
        let leased = Reply::Leased {
            base: record.base,
            size_bytes: record.size_bytes,
            token: token.clone(),
        };
        self.replies.push((user, leased, fd));
        tell(Told::Leased(record.size_bytes, record.borrower.clone()));
        self.reports.push(Request::Leased(record.clone()));
        let lanes = Lanes::default();
        self.held.insert(user, Held { memory: Arc::new(memory), token, record, lanes });
    }

    /// Throws memory away, in a thread of its own: that takes a second for ten gigabytes.
    fn destroy(&mut self, user: User, tell: &mut Tell) {
        if let Some(memory) = self.made.remove(&user) {
            std::thread::spawn(move || drop(memory));
        }
        let Some(held) = self.held.remove(&user) else { return };
        held.lanes.close();
        tell(Told::Ended(held.record.size_bytes, held.record.borrower));
        let memory = held.memory;
        std::thread::spawn(move || memory.throw_away());
    }
}
