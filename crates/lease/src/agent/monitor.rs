//! The monitor in an agent: its state machine, its lock, and requests that wait until lenders have reported.

use rackmem_fabric::net::SILENCE;
use std::time::Instant;

use crate::SETTLE;
use crate::directory::Lock;
use crate::error::{Error, Result};
use crate::messages::{Ledger, Party, Reply, Request, Want};
use crate::monitor::{Action, Event, Monitor};
use crate::quota::Account;
use rackmem_fabric::net::hub::{Hub, PeerId};
use rackmem_fabric::random;

/// A connection to the monitor, and the node at its other end if keys tell.
type Caller = (PeerId, Option<Account>);

/// The monitor of a rack.
pub(super) struct MonitorPart {
    party: Party,
    monitor: Monitor,
    lock: Lock,
    /// Until then lenders have time to report, and borrowers wait.
    settles_until: Option<Instant>,
    waiting: Vec<(Caller, Request)>,
}

impl MonitorPart {
    pub fn new(party: Party, lock: Lock, settles: bool) -> Result<MonitorPart> {
        let epoch = random::nonce().map(|nonce| {
            u64::from_le_bytes(*nonce.first_chunk().expect("a nonce has sixteen bytes"))
        });
        let epoch = epoch.map_err(|_| Error::protocol("no random numbers".to_owned()))?;
        let settles_until = settles.then(|| Instant::now() + SETTLE);
        let monitor = Monitor::new(epoch);
        Ok(MonitorPart { party, monitor, lock, settles_until, waiting: Vec::new() })
    }

    pub fn message(&mut self, caller: Caller, request: Request, hub: &mut Hub) {
        let (peer, account) = caller;
        let event = match request {
            Request::Offer(mut offer, leases) => {
                offer.node = account.map(|account| account.node);
                // Confirms to the lender that it is known.
                hub.send(peer, &Reply::Pong, None);
                Event::Offer(peer, offer, leases)
            }
            Request::Leased(record) => Event::Leased(peer, record),
            Request::Ended(base) => Event::Ended(peer, base),
            Request::Want(_) | Request::Show if self.settles_until.is_some() => {
                self.waiting.push((caller, request));
                return;
            }
            Request::Want(want) => Event::Want(peer, Want { account, ..want }),
            Request::Show => {
                hub.send(peer, &Reply::Ledger(self.ledger()), None);
                return;
            }
            _ => return,
        };
        self.step(event, hub);
    }

    fn step(&mut self, event: Event, hub: &mut Hub) {
        for action in self.monitor.step(event) {
            match action {
                Action::Grant(peer, pieces) => hub.send(peer, &Reply::Granted(pieces), None),
                Action::Refuse(peer, why) => hub.send(peer, &Reply::Refused(why), None),
            }
        }
    }

    fn ledger(&self) -> Ledger {
        Ledger { monitor: self.party.clone(), lenders: self.monitor.listings() }
    }

    /// The ledger, once lenders have had the time to report.
    pub fn settled_ledger(&self) -> Option<Ledger> {
        self.settles_until.is_none().then(|| self.ledger())
    }

    pub fn gone(&mut self, peer: PeerId) {
        self.waiting.retain(|&((waiting, _), _)| waiting != peer);
        self.monitor.step(Event::Gone(peer));
    }

    /// Answers the requests that waited for lenders to report, once that time is over.
    pub fn decide(&mut self, hub: &mut Hub) {
        if self.settles_until.is_some_and(|until| Instant::now() >= until) {
            self.settles_until = None;
            for (caller, request) in std::mem::take(&mut self.waiting) {
                self.message(caller, request, hub);
            }
        }
    }

    /// Lenders that should have said something.
    pub fn silent(&self, hub: &Hub) -> Vec<PeerId> {
        let is_silent = |&peer: &PeerId| hub.silence(peer) > SILENCE;
        self.monitor.lenders().filter(is_silent).collect()
    }

    pub fn lenders(&self) -> usize {
        self.monitor.lenders().count()
    }

    pub fn into_lock(self) -> Lock {
        self.lock
    }
}
