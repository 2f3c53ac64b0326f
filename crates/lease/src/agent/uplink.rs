//! A lender's connection to the monitor.

use rackmem_fabric::net::SILENCE;
use std::time::Instant;

use super::lender::Lender;
use super::{Event, Mail, Mailbox, Tell};
use crate::MONITOR_RETRY;
use crate::error::Error;
use crate::messages::{Reply, Request};
use rackmem_fabric::address::Address;
use rackmem_fabric::net::hub::{Hub, PeerId};
use rackmem_fabric::net::link::Link;
use rackmem_fabric::net::proof::Proof;
use rackmem_fabric::rights::Right;

enum State {
    /// None; the next attempt is then.
    None(Instant),
    /// A thread makes one.
    Connecting,
    /// The offer and the leases were sent to the monitor.
    Offered(PeerId),
    /// It has answered.
    Welcome(PeerId),
}

pub(super) struct Uplink {
    state: State,
    mailbox: Mailbox,
    refusal: Option<String>,
    /// Error of the last attempt that failed.
    failure: Option<Error>,
}

impl Uplink {
    pub fn new(mailbox: Mailbox) -> Uplink {
        let state = State::None(Instant::now());
        Uplink { state, mailbox, refusal: None, failure: None }
    }

    fn peer(&self) -> Option<PeerId> {
        match self.state {
            State::Offered(peer) | State::Welcome(peer) => Some(peer),
            _ => None,
        }
    }

    pub fn is(&self, peer: PeerId) -> bool {
        self.peer() == Some(peer)
    }

    pub fn is_welcome(&self) -> bool {
        matches!(self.state, State::Welcome(_))
    }

    pub fn is_due(&self) -> bool {
        matches!(self.state, State::None(at) if Instant::now() >= at)
    }

    /// Takes the reason for which the monitor refused this lender.
    pub fn refusal(&mut self) -> Option<String> {
        self.refusal.take()
    }

    /// Takes the error of the last attempt to connect.
    pub fn failure(&mut self) -> Option<Error> {
        self.failure.take()
    }

    /// Connects in a thread of its own: a monitor across the network may take its time.
    pub fn connect(&mut self, address: Address, proof: Option<Proof>) {
        self.state = State::Connecting;
        let mailbox = self.mailbox.clone();
        let connect = move || {
            let link = Link::connect(&address, proof.as_ref(), SILENCE)
                .and_then(|link| link.require(proof.as_ref(), Right::Monitor).map(|()| link));
            mailbox.send(Mail::Uplink(link.map_err(Error::from)));
        };
        let thread = std::thread::Builder::new().name("rackmem-uplink".to_owned());
        if thread.spawn(connect).is_err() {
            self.state = State::None(Instant::now() + MONITOR_RETRY);
        }
    }

    /// An attempt has come to its end.
    pub fn made(
        &mut self,
        link: Result<Link, Error>,
        lender: &Lender,
        hub: &mut Hub,
        tell: &mut Tell,
    ) -> Option<Error> {
        let link = match link {
            Ok(link) => link,
            Err(error) => {
                self.state = State::None(Instant::now() + MONITOR_RETRY);
                self.failure = Some(error.again());
                return Some(error);
            }
        };
        let (fd, keys, _) = link.into_parts();
        let peer = hub.adopt(fd, keys, false);
        self.state = State::Offered(peer);
        let _ = tell;
        self.offer(lender, hub);
        None
    }

    /// Sends the monitor the offer and all leases.
    pub fn offer(&self, lender: &Lender, hub: &mut Hub) {
        if let Some(peer) = self.peer() {
            hub.send(peer, &Request::Offer(lender.offer(), lender.records()), None);
        }
    }

    /// Sends changes to the monitor. Changes without a monitor reach the next one with the offer.
    pub fn report(&self, reports: Vec<Request>, hub: &mut Hub) {
        if let Some(peer) = self.peer() {
            reports.iter().for_each(|report| hub.send(peer, report, None));
        }
    }

    pub fn heard(&mut self, reply: &Reply, tell: &mut Tell) {
        if let Reply::Refused(why) = reply {
            self.refusal = Some(why.clone());
        }
        if let (State::Offered(peer), Reply::Pong) = (&self.state, reply) {
            self.state = State::Welcome(*peer);
            tell(Event::Reported);
        }
    }

    pub fn ping(&self, hub: &mut Hub) {
        if let Some(peer) = self.peer() {
            hub.send(peer, &Request::Ping, None);
        }
    }

    /// The monitor, if it should have said something.
    pub fn silent(&self, hub: &Hub) -> Option<PeerId> {
        self.peer().filter(|&peer| hub.silence(peer) > SILENCE)
    }

    pub fn lost(&mut self, reason: &str, tell: &mut Tell) {
        self.state = State::None(Instant::now());
        tell(Event::MonitorLost(reason.to_owned()));
    }
}
