//! The agent's thread: takes in messages, mail and time, and lets lender and monitor act.

use rackmem_fabric::error::Error as Plain;
use rackmem_fabric::net::{HEARTBEAT, SILENCE};
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use super::lender::Lender;
use super::monitor::MonitorPart;
use super::status::{LenderStatus, Status};
use super::uplink::Uplink;
use super::{Config, Event, Mail, Mailbox, MonitorAt, Tell};
use crate::directory::Directory;
use crate::error::{Error, Result};
use crate::messages::{Reply, Request};
use rackmem_fabric::address::Address;
use rackmem_fabric::net::frame;
use rackmem_fabric::net::hub::{How, Hub, PeerId, Seen};
use rackmem_fabric::net::link::Link;
use rackmem_fabric::net::socket;

/// Longest time between two looks at clocks.
const TICK: Duration = Duration::from_millis(100);

/// State of the agent's thread.
pub(super) struct Running {
    config: Config,
    directory: Directory,
    hub: Hub,
    mails: Receiver<Mail>,
    monitor: Option<MonitorPart>,
    lender: Option<Lender>,
    uplink: Uplink,
    tell: Tell,
    last_beat: Instant,
    ends_at: Option<Instant>,
    is_stopped: bool,
}

pub(super) type Started = Sender<Result<()>>;

impl Running {
    pub(super) fn new(
        config: Config,
        mut hub: Hub,
        mailbox: Mailbox,
        mails: Receiver<Mail>,
        mut tell: Tell,
    ) -> Result<Running> {
        // First: if it fails, nothing is left behind.
        let port = config.listen.as_ref().map(|name| socket::listen_tcp(name)).transpose()?;
        let directory = Directory::of(&config.rack);
        let mut addresses = Vec::new();
        let mut unix = None;
        if config.lend.is_some() {
            directory.sweep();
            let path = directory.lender_socket();
            let fd = directory.listen(&path, config.access.mode)?;
            hub.listen_local(fd, config.access.mode);
            addresses.push(Address::Unix(path.clone()));
            unix = Some(path);
        }
        if let (Some(name), Some((fd, at))) = (&config.listen, port) {
            hub.listen(fd);
            let address = config.advertised(name, at);
            addresses.push(address.clone());
            tell(Event::Listens(address));
        }
        let reached = (addresses, config.network());
        let lender = config
            .lend
            .map(|lend| Lender::new(lend, config.party(), reached, unix, mailbox.clone()));
        let uplink = Uplink::new(mailbox);
        let now = Instant::now();
        Ok(Running {
            config,
            directory,
            hub,
            mails,
            monitor: None,
            lender,
            uplink,
            tell,
            last_beat: now,
            ends_at: None,
            is_stopped: false,
        })
    }

    pub(super) fn run(&mut self, started: &Started) {
        let begun = self.begin();
        let is_well = begun.is_ok();
        let _ = started.send(begun);
        let mut seen = Vec::new();
        while is_well && !self.is_over() {
            if let Err(error) = self.hub.wait(TICK, &mut seen) {
                tracing::error!("{error}");
                break;
            }
            self.take_in(&mut seen);
        }
        self.clean_up();
    }

    /// Becomes the monitor or reports to it.
    fn begin(&mut self) -> Result<()> {
        if self.lender.is_none() {
            return self.become_monitor()?.then_some(()).ok_or_else(|| {
                Error::refused(format!(
                    "the monitor of rack '{}' is in another process already: see `rackmem leases`",
                    self.config.rack.name()
                ))
            });
        }
        let deadline = Instant::now() + 2 * SILENCE;
        let mut seen = Vec::new();
        let silent = "the monitor does not answer: is its process stopped?";
        let mut reason = Error::refused(silent.to_owned());
        loop {
            self.hub.reserve()?;
            if let Some(error) = self.look_for_monitor().or_else(|| self.uplink.failure()) {
                if matches!(error, Error::Plain(Plain::Refused(_) | Plain::Protocol(_))) {
                    return Err(error);
                }
                reason = error;
            }
            if self.uplink.is_welcome() {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(reason);
            }
            self.hub.wait(TICK / 10, &mut seen)?;
            self.take_in(&mut seen);
            if let Some(why) = self.uplink.refusal() {
                return Err(Error::refused(why));
            }
        }
    }

    fn take_in(&mut self, seen: &mut Vec<Seen>) {
        for seen in seen.drain(..) {
            match seen {
                // Messages of a peer after its first wrong frame, or before it hung up, are ignored.
                Seen::Message(peer, frame) if self.hub.knows(peer) => self.message(peer, &frame),
                Seen::Message(..) => {}
                Seen::Gone(peer, how) => self.gone(peer, how),
            }
        }
        while let Ok(mail) = self.mails.try_recv() {
            self.mail(mail);
        }
        self.look_at_clocks();
    }

    fn message(&mut self, peer: PeerId, frame: &[u8]) {
        if self.uplink.is(peer) {
            match frame::decode::<Reply>(frame) {
                Ok(reply) => self.uplink.heard(&reply, &mut self.tell),
                Err(_) => self.drop_peer(peer),
            }
            return;
        }
        let Ok(request) = frame::decode::<Request>(frame) else { return self.drop_peer(peer) };
        if let Some(why) = self.hub.turned_away(peer) {
            let name = self.config.party().name;
            self.refuse(peer, &format!("{name} cannot serve another connection: {why}"));
            return self.drop_peer(peer);
        }
        let node = self.hub.node(peer);
        if let Err(why) = self.config.access.check_right(node, request.rights()) {
            return self.refuse(peer, &why);
        }
        let account = node.map(|node| self.config.account(node));
        match request {
            Request::Ping => self.hub.send(peer, &Reply::Pong, None),
            Request::Lease { .. }
            | Request::Resume { .. }
            | Request::Return
            | Request::Lane { .. }
            | Request::Fence { .. } => match &mut self.lender {
                Some(lender) => {
                    lender.message((peer, account), request, &mut self.hub, &mut self.tell);
                    if !self.hub.knows(peer) {
                        // It is a lane now, or was hung up: what else it had ends.
                        return self.gone(peer, How::Ended);
                    }
                }
                None => self.refuse(peer, "this is a monitor, it lends nothing"),
            },
            Request::Offer(..)
            | Request::Leased(_)
            | Request::Ended(_)
            | Request::Want(_)
            | Request::Show => match &mut self.monitor {
                Some(monitor) => {
                    // A process of this host is of this node.
                    let account = account.or_else(|| self.config.own_account());
                    monitor.message((peer, account), request, &mut self.hub);
                }
                None => self.redirect(peer),
            },
        }
        self.report();
    }

    fn refuse(&mut self, peer: PeerId, why: &str) {
        self.hub.send(peer, &Reply::Refused(why.to_owned()), None);
    }

    /// Somebody asks for the monitor, which is elsewhere.
    fn redirect(&mut self, peer: PeerId) {
        match &self.config.monitor {
            MonitorAt::Address(address) if !address.is_local() => {
                let elsewhere = Reply::Elsewhere(address.clone());
                self.hub.send(peer, &elsewhere, None);
            }
            _ => self.refuse(
                peer,
                "the monitor is in another process of this host: start `rackmem monitor --listen \
                 HOST:PORT`, and name that address",
            ),
        }
    }

    fn drop_peer(&mut self, peer: PeerId) {
        self.hub.hang_up(peer);
        self.gone(peer, How::Ended);
    }

    fn gone(&mut self, peer: PeerId, how: How) {
        if self.uplink.is(peer) {
            self.uplink.lost("its connection has ended", &mut self.tell);
        }
        if let Some(monitor) = &mut self.monitor {
            monitor.gone(peer);
        }
        if let Some(lender) = &mut self.lender {
            lender.gone(peer, how, &mut self.hub, &mut self.tell);
        }
        self.report();
    }

    fn mail(&mut self, mail: Mail) {
        match mail {
            Mail::Fenced(peer) => self.hub.send(peer, &Reply::Fenced, None),
            Mail::Made(base, made) => {
                if let Some(lender) = &mut self.lender {
                    lender.made(base, made, &mut self.hub, &mut self.tell);
                }
            }
            Mail::Uplink(made) => {
                if let Some(lender) = &self.lender {
                    self.uplink.made(made, lender, &mut self.hub, &mut self.tell);
                }
            }
            Mail::Leave if self.ends_at.is_none() => {
                self.ends_at = Some(Instant::now() + self.config.grace);
                if let Some(lender) = &mut self.lender {
                    lender.leave(self.config.grace, &mut self.hub, &mut self.tell);
                    self.uplink.offer(lender, &mut self.hub);
                }
            }
            Mail::Leave => {}
            Mail::Report(reply) => {
                let _ = reply.send(self.status());
            }
            Mail::Stop => self.is_stopped = true,
        }
        self.report();
    }

    fn status(&self) -> Status {
        let lender = self.lender.as_ref().map(|lender| LenderStatus {
            listing: lender.listing(),
            is_registered: self.uplink.is_welcome(),
            served: lender.served(),
        });
        Status { lender, ledger: self.monitor.as_ref().and_then(MonitorPart::settled_ledger) }
    }

    /// Tells the monitor what has changed, and then the borrowers.
    fn report(&mut self) {
        if let Some(lender) = &mut self.lender {
            self.uplink.report(lender.reports(), &mut self.hub);
            lender.answer(&mut self.hub);
        }
    }

    fn look_at_clocks(&mut self) {
        if let Some(monitor) = &mut self.monitor {
            for silent in monitor.silent(&self.hub) {
                self.drop_peer(silent);
            }
        }
        if let Some(monitor) = &mut self.monitor {
            monitor.decide(&mut self.hub);
        }
        if let Some(silent) = self.uplink.silent(&self.hub) {
            self.uplink.lost("it does not answer", &mut self.tell);
            self.hub.hang_up(silent);
        }
        if let Some(lender) = &mut self.lender {
            lender.expire(&mut self.hub, &mut self.tell);
            self.report();
        }
        if self.last_beat.elapsed() >= HEARTBEAT {
            self.last_beat = Instant::now();
            self.uplink.ping(&mut self.hub);
        }
        if self.lender.is_some()
            && let Some(error) = self.look_for_monitor()
        {
            tracing::debug!("{error}");
        }
    }

    /// Tries to get a connection to the monitor, if there is none and it is time to.
    fn look_for_monitor(&mut self) -> Option<Error> {
        if !self.uplink.is_due() {
            return None;
        }
        match self.config.monitor.clone() {
            MonitorAt::Address(address) => {
                self.uplink.connect(address, self.config.access.proof.clone());
                self.uplink.failure()
            }
            MonitorAt::Embedded => {
                let at = Address::Unix(self.directory.monitor_socket());
                let connect = || Link::connect(&at, None, Duration::ZERO).map_err(Error::from);
                let mut link = connect();
                if link.is_err() {
                    match self.become_monitor() {
                        Ok(true) => link = connect(),
                        Ok(false) => {}
                        Err(error) => link = Err(error),
                    }
                }
                let lender = self.lender.as_ref()?;
                self.uplink.made(link, lender, &mut self.hub, &mut self.tell)
            }
        }
    }

    /// Becomes the monitor, unless another process is.
    fn become_monitor(&mut self) -> Result<bool> {
        if self.monitor.is_some() {
            return Ok(false);
        }
        let Some(lock) = self.directory.lock()? else { return Ok(false) };
        let path = self.directory.monitor_socket();
        let replaces_another = path.exists();
        self.directory.sweep();
        let mode = self.config.access.mode;
        let fd = self.directory.listen(&path, mode)?;
        self.hub.listen_local(fd, mode);
        let party = self.config.party();
        let settles = replaces_another || self.config.listen.is_some() && self.lender.is_none();
        self.monitor = Some(MonitorPart::new(party, lock, settles)?);
        (self.tell)(Event::IsMonitor);
        Ok(true)
    }

    /// Whether there is nothing left to do.
    fn is_over(&mut self) -> bool {
        let Some(ends_at) = self.ends_at.filter(|_| !self.is_stopped) else {
            return self.is_stopped;
        };
        let Some(lender) = &mut self.lender else { return true };
        if Instant::now() >= ends_at {
            lender.close(&mut self.hub, &mut self.tell);
        }
        lender.is_idle()
    }

    fn clean_up(&mut self) {
        if let Some(lender) = &mut self.lender {
            lender.close(&mut self.hub, &mut self.tell);
            lender.remove_socket();
        }
        if self.monitor.is_none() {
            self.directory.clear_dead_monitor();
        }
        if let Some(monitor) = self.monitor.take() {
            // One that was still dying when this became the monitor has left its socket.
            self.directory.sweep();
            // A process that finds the socket without a listener knows that another lender takes over.
            let others = monitor.lenders() > usize::from(self.lender.is_some());
            if !others {
                let _ = std::fs::remove_file(self.directory.monitor_socket());
            }
            monitor.into_lock().remove();
        }
        self.directory.remove_if_empty();
    }
}
