//! The lender in an agent: its pool, and the memory of its leases.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rackmem_fabric::random;

use super::config::Lend;
use super::lane::Lanes;
use super::memory::Memory;
use super::status::{Served, Traffic};
use super::{Event as Told, Mail, Mailbox, Tell};
use crate::error::{Error, Result};
use crate::messages::{Listing, Network, Offer, Party, Record, Reply, Request};
use crate::placement::LEASE_BYTES;
use crate::pool::{Action, Event, Pool, User};
use crate::quota::Account;
use rackmem_fabric::address::Address;
use rackmem_fabric::net::SILENCE;
use rackmem_fabric::net::hub::{How, Hub, PeerId};

/// Addresses of leases begin here, so that 0 is none.
const FIRST_BASE: u64 = 1 << 32;

/// Longest time for a borrower whose connection was reset to come back. Its host answers, so it notices at once, if it
/// has not ended while the network was torn.
const RESET_PATIENCE: Duration = Duration::from_secs(5);

/// Longest that a lease is kept for a borrower that cannot be reached.
const MAX_PATIENCE: Duration = Duration::from_secs(24 * 3600);

/// Time between two looks at a lease whose borrower has ended, while its children of fork have lanes.
const CHILDREN_LOOK: Duration = Duration::from_millis(500);

/// A lease that has memory.
struct Held {
    memory: Arc<Memory>,
    token: String,
    record: Record,
    lanes: Lanes,
    /// Time that it is kept while its borrower cannot be reached.
    patience: Duration,
    /// End of that time, while the borrower cannot be reached.
    expires_at: Option<Instant>,
}

impl Held {
    /// Whether processes other than the borrower have lanes: its children of fork, which have the memory that it had.
    fn has_children(&self) -> bool {
        self.lanes.has_others(self.record.borrower.pid)
    }

    /// Longest silence on the connections of the lease. The borrower notices an outage later than its lender does.
    fn silence(&self) -> Duration {
        self.patience + SILENCE
    }
}

pub(super) struct Lender {
    lend: Lend,
    party: Party,
    addresses: Vec<Address>,
    network: Network,
    socket: Option<PathBuf>,
    pool: Pool,
    /// By the base of the lease.
    made: BTreeMap<u64, Memory>,
    held: BTreeMap<u64, Held>,
    /// Patience of each borrower, as its request for a lease gave it.
    patience: BTreeMap<User, Duration>,
    served: Served,
    traffic: Arc<Traffic>,
    reports: Vec<Request>,
    replies: Vec<(User, Reply, Option<OwnedFd>)>,
    grace: Duration,
    mailbox: Mailbox,
}

impl Lender {
    pub fn new(
        lend: Lend,
        party: Party,
        (addresses, network): (Vec<Address>, Network),
        socket: Option<PathBuf>,
        mailbox: Mailbox,
    ) -> Lender {
        Lender {
            lend,
            party,
            addresses,
            network,
            socket,
            pool: Pool::new(lend.size_bytes, FIRST_BASE),
            made: BTreeMap::new(),
            held: BTreeMap::new(),
            patience: BTreeMap::new(),
            served: Served::default(),
            traffic: Arc::default(),
            reports: Vec::new(),
            replies: Vec::new(),
            grace: Duration::ZERO,
            mailbox,
        }
    }

    /// The lender's offer to the monitor: size, addresses, whether it is leaving.
    pub fn offer(&self) -> Offer {
        Offer {
            lender: self.party.clone(),
            addresses: self.addresses.clone(),
            size_bytes: self.lend.size_bytes,
            is_leaving: self.pool.is_leaving(),
            network: self.network,
            node: None,
        }
    }

    /// Records of all leases whose memory is made.
    pub fn records(&self) -> Vec<Record> {
        self.pool.records().cloned().collect()
    }

    /// The offer and the leases, as the monitor lists them.
    pub fn listing(&self) -> Listing {
        Listing { offer: self.offer(), leases: self.records(), promised_bytes: 0 }
    }

    pub fn served(&self) -> Served {
        self.traffic.of(self.served)
    }

    /// Takes the reports that were not yet sent to the monitor.
    pub fn reports(&mut self) -> Vec<Request> {
        std::mem::take(&mut self.reports)
    }

    /// Answers the borrowers, after the report to the monitor: it must know of a lease, or of its end, before anything
    /// that the borrower does next.
    pub fn answer(&mut self, hub: &mut Hub) {
        for (user, reply, fd) in self.replies.drain(..) {
            hub.send(user, &reply, fd);
        }
    }

    pub fn message(
        &mut self,
        (peer, account): (PeerId, Option<Account>),
        request: Request,
        hub: &mut Hub,
        tell: &mut Tell,
    ) {
        match request {
            Request::Lease { size_bytes, .. } if size_bytes % LEASE_BYTES != 0 => {
                let name = &self.party.name;
                let why = format!(
                    "{name}: {size_bytes} bytes cannot be leased: whole pages of {LEASE_BYTES} bytes"
                );
                hub.send(peer, &Reply::Refused(why), None);
            }
            Request::Lease { ticket, size_bytes, borrower, patience_ms, .. } => {
                let patience = Duration::from_millis(patience_ms).min(MAX_PATIENCE);
                self.patience.insert(peer, patience);
                self.step(Event::Ask(peer, account, ticket, size_bytes, borrower), hub, tell);
            }
            Request::Return if self.leave_to_children(peer) => {
                hub.allow_silence(peer, SILENCE);
                hub.send(peer, &Reply::Returned, None);
            }
            Request::Return => self.step(Event::Return(peer), hub, tell),
            Request::Resume { base, token } => match self.held_by(base, &token) {
                Some(_) => self.step(Event::Resume(peer, base), hub, tell),
                None => hub.send(peer, &Reply::NoLease, None),
            },
            Request::Lane { base, token, owner, number } => {
                self.lane(peer, base, &token, (owner, number), hub);
            }
            Request::Fence { base, token, owner } => {
                let Some(held) = self.held_by(base, &token) else {
                    return hub.send(peer, &Reply::NoLease, None);
                };
                let ending = held.lanes.fence(owner);
                let mailbox = self.mailbox.clone();
                aside("rackmem-fence", move || {
                    ending.wait();
                    mailbox.send(Mail::Fenced(peer));
                });
            }
            _ => {}
        }
    }

    /// Keeps the lease of a borrower that has ended, or gives it back, for as long as its children have lanes. Returns
    /// whether there are any.
    fn leave_to_children(&mut self, peer: PeerId) -> bool {
        let held = self.pool.base_of(peer).and_then(|base| self.held.get_mut(&base));
        let Some(held) = held.filter(|held| held.has_children()) else { return false };
        held.expires_at = Some(Instant::now() + CHILDREN_LOOK);
        // The lease has no connection from here on, and expires.
        self.pool.step(Event::Broken(peer));
        true
    }

    /// The lease with this base, if the token is its.
    fn held_by(&mut self, base: u64, token: &str) -> Option<&mut Held> {
        self.held.get_mut(&base).filter(|held| random::is_same(&held.token, token))
    }

    /// A connection becomes a lane of a lease.
    fn lane(&mut self, peer: PeerId, base: u64, token: &str, lane: (u32, u64), hub: &mut Hub) {
        let (spin, traffic) = (self.lend.spin, self.traffic.clone());
        let Some(held) = self.held_by(base, token) else {
            return hub.send(peer, &Reply::NoLease, None);
        };
        hub.allow_silence(peer, held.silence());
        let Some(way) = hub.take_out(peer) else { return };
        let lent = (held.memory.clone(), traffic);
        if let Err(error) = held.lanes.open(way, lent, base, spin, lane) {
            tracing::warn!("{error}");
        }
    }

    pub fn made(&mut self, base: u64, made: Result<Memory>, hub: &mut Hub, tell: &mut Tell) {
        let event = match made {
            Ok(memory) => {
                self.made.insert(base, memory);
                Event::Made(base)
            }
            Err(error) => Event::NotMade(base, error.to_string() + &error.hint()),
        };
        self.step(event, hub, tell);
    }

    /// A connection has ended, in this way.
    pub fn gone(&mut self, peer: PeerId, how: How, hub: &mut Hub, tell: &mut Tell) {
        self.patience.remove(&peer);
        if how == How::Ended && self.leave_to_children(peer) {
            return;
        }
        let event = if how == How::Ended { Event::Gone(peer) } else { Event::Broken(peer) };
        for action in self.pool.step(event) {
            if let Action::Orphan(base) = action {
                if let Some(held) = self.held.get_mut(&base) {
                    let most = if how == How::Reset { RESET_PATIENCE } else { Duration::ZERO };
                    held.expires_at = Some(Instant::now() + held.patience.min(most));
                }
                continue;
            }
            self.act(action, hub, tell);
        }
    }

    /// Ends leases whose time to be resumed is over, and which no child of the borrower uses.
    pub fn expire(&mut self, hub: &mut Hub, tell: &mut Tell) {
        let now = Instant::now();
        let mut due = Vec::new();
        for (&base, held) in &mut self.held {
            if held.expires_at.is_none_or(|at| now < at) {
                continue;
            }
            match held.has_children() {
                true => held.expires_at = Some(now + CHILDREN_LOOK),
                false => due.push(base),
            }
        }
        for base in due {
            self.step(Event::Expire(base), hub, tell);
        }
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
            Action::Make(base, size_bytes) => self.make(base, size_bytes),
            Action::Grant(user, record) => self.grant(user, record, hub, tell),
            Action::Refuse(user, why) => {
                let why = format!("{}: {why}", self.party.name);
                self.reply(user, Reply::Refused(why));
            }
            Action::Destroy(base) => self.destroy(base, tell),
            Action::Orphan(_) => {}
            Action::Report(base) => self.reports.push(Request::Ended(base)),
            Action::Resumed(user, base) => {
                if let Some(held) = self.held.get_mut(&base) {
                    held.expires_at = None;
                    hub.allow_silence(user, held.silence());
                }
                self.reply(user, Reply::Resumed);
            }
            Action::NoLease(user) => self.reply(user, Reply::NoLease),
            Action::Returned(user) => {
                hub.allow_silence(user, SILENCE);
                self.reply(user, Reply::Returned);
            }
            Action::Notify(user) => self.reply(user, Reply::Notice(self.grace.as_millis() as u64)),
            Action::HangUp(user) => hub.hang_up(user),
        }
    }

    fn reply(&mut self, user: User, reply: Reply) {
        self.replies.push((user, reply, None));
    }

    fn make(&self, base: u64, size_bytes: u64) {
        let (lend, mailbox) = (self.lend, self.mailbox.clone());
        let make = move || mailbox.send(Mail::Made(base, Memory::make(size_bytes, &lend)));
        let thread = std::thread::Builder::new().name("rackmem-make".to_owned());
        if let Err(error) = thread.spawn(make) {
            let error = crate::error::Error::io("cannot start a thread", error);
            self.mailbox.send(Mail::Made(base, Err(error)));
        }
    }

    fn grant(&mut self, user: User, record: Record, hub: &mut Hub, tell: &mut Tell) {
        let (Some(memory), Ok(token)) = (self.made.remove(&record.base), random::token()) else {
            return hub.hang_up(user);
        };
        let fd = match hub.is_local(user).then(|| memory.fd().try_clone_to_owned()) {
            Some(Err(error)) => {
                let error = Error::io("cannot hand over the memory of a lease", error);
                let why = format!("{}: {error}{}", self.party.name, error.hint());
                self.reply(user, Reply::Refused(why));
                return self.step(Event::Gone(user), hub, tell);
            }
            fd => fd.and_then(std::io::Result::ok),
        };
        let leased = Reply::Leased {
            base: record.base,
            size_bytes: record.size_bytes,
            token: token.clone(),
        };
        self.replies.push((user, leased, fd));
        tell(Told::Leased(record.clone()));
        self.reports.push(Request::Leased(record.clone()));
        self.served.leases += 1;
        self.served.leased_bytes += record.size_bytes;
        let lanes = Lanes::default();
        let patience = self.patience.remove(&user).unwrap_or_default();
        let base = record.base;
        let memory = Arc::new(memory);
        let held = Held { memory, token, record, lanes, patience, expires_at: None };
        hub.allow_silence(user, held.silence());
        self.held.insert(base, held);
    }

    /// Lets memory go, in a thread of its own: that takes a second for ten gigabytes.
    fn destroy(&mut self, base: u64, tell: &mut Tell) {
        if let Some(memory) = self.made.remove(&base) {
            aside("rackmem-drop", move || drop(memory));
        }
        let Some(held) = self.held.remove(&base) else { return };
        self.served.ended += 1;
        tell(Told::Ended(held.record));
        // Before this process can end.
        held.memory.end_lease();
        let (ending, memory) = (held.lanes.close(), held.memory);
        aside("rackmem-drop", move || {
            ending.wait();
            drop(memory);
        });
    }
}

/// Does something that may take long in a thread of its own. Where there is none, what `work` owns is dropped at once:
/// memory goes when its last lane does, and a fence stays unanswered.
fn aside(name: &str, work: impl FnOnce() + Send + 'static) {
    if let Err(error) = std::thread::Builder::new().name(name.to_owned()).spawn(work) {
        tracing::warn!("cannot start a thread: {error}");
    }
}
