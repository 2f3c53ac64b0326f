//! The lender: gives its NIC to one borrower after the other, and takes it back as it was.

use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixListener};
use std::time::{Duration, Instant};

use super::handshake::{self, HELLO_PATIENCE, STEP_PATIENCE, expect, say};
use super::message::{Message, Mode, Setup, VERSION};
use super::session::{Session, Traffic};
use super::sys::interface::Interface;
use super::sys::permission::{self, Capability};
use super::transport::Transport;
use super::waiter::Waiter;
use super::{Event, mac_text};
use rackmem_fabric::stream::Stream;

use rackmem_fabric::error::{Error, Result};
use rackmem_fabric::net::access::Access;

mod door;
mod loan;
mod watch;

use door::{Caller, Door};
use loan::Loan;
use watch::NicWatch;

/// Settings of a lender.
#[derive(Clone, Debug)]
pub struct LendOptions {
    /// The NIC.
    pub interface: String,
    /// Address to listen at, over TCP and UDP.
    pub listen: SocketAddr,
    /// Rights to borrow it.
    pub access: Access,
    /// Time that the lender polls for packets after one came, before it sleeps.
    pub spin: Duration,
}

/// Reason for the return of a NIC.
enum End {
    /// The lender wants to end.
    Stopped,
    /// The borrower ended, or was lost.
    Over(String),
}

/// A host that lends a NIC.
#[derive(Debug)]
pub struct Lender {
    interface: Interface,
    options: LendOptions,
    door: Door,
    /// Nobody else lends the same NIC.
    _alone: UnixListener,
    /// Peers that were refused, until they have received the reason.
    parting: Vec<(Transport, Instant)>,
}

/// Time that a refused peer has to receive the reason.
const PARTING: Duration = Duration::from_secs(1);
/// Most refused peers at once that have this time.
const MAX_PARTING: usize = 16;

impl Lender {
    /// Checks that the NIC can be lent, and listens.
    ///
    /// # Errors
    /// Rights are missing, there is no such NIC, it is lent already, or the address is in use.
    pub fn open(options: LendOptions) -> Result<Lender> {
        let name = &options.interface;
        let what = format!("lend {name}");
        permission::require(&what, &[Capability::NetAdmin, Capability::NetRaw])?;
        let interface = Interface::named(name).map_err(|error| match error.raw_os_error() {
            Some(libc::ENODEV) => Error::Refused(format!(
                "there is no interface {name} here; `ip link` lists those that there are"
            )),
            _ => Error::io(format!("cannot look at the interface {name}"), error),
        })?;
        interface.mac().map_err(|error| Error::io(format!("cannot lend {name}"), error))?;
        let alone = alone(name)?;
        let door = Door::open(options.listen, &options.access, name)?;
        Ok(Lender { interface, options, door, _alone: alone, parting: Vec::new() })
    }

    /// The address it listens at.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.door.address()
    }

    /// Lends to one borrower after the other, until `stop` is readable.
    ///
    /// # Errors
    /// The NIC is gone.
    pub fn serve(&mut self, stop: BorrowedFd<'_>, report: &mut dyn FnMut(Event)) -> Result<()> {
        let address = self.address().map_err(|error| Error::io("cannot listen", error))?;
        loop {
            let interface = self.interface.name().to_owned();
            report(Event::Free { interface, address: address.to_string() });
            let transport = match self.await_asker(Duration::MAX, stop, report) {
                Err(Error::Stopped) => return Ok(()),
                Ok(None) => continue,
                Ok(Some(transport)) => transport,
                Err(error) => return Err(error),
            };
            let peer = transport.peer().to_string();
            match self.lend(transport, stop, report) {
                Ok(End::Stopped) | Err(Error::Stopped) => return Ok(()),
                Ok(End::Over(_)) => {}
                Err(error) => {
                    // An error of one borrower must not keep the NIC from the next one.
                    self.interface.index().map_err(|gone| {
                        Error::io(format!("the NIC {} is gone", self.interface.name()), gone)
                    })?;
                    report(Event::Refused { peer, reason: error.to_string() });
                }
            }
        }
    }

    /// Waits for somebody to ask, for so long.
    fn await_asker(
        &mut self,
        patience: Duration,
        stop: BorrowedFd<'_>,
        report: &mut dyn FnMut(Event),
    ) -> Result<Option<Transport>> {
        let failed = |error| Error::io("cannot wait for borrowers", error);
        let mut waiter = Waiter::new().map_err(failed)?;
        let stop = waiter.add(stop, true, false).map_err(failed)?;
        for fd in self.door.fds() {
            waiter.add(fd, true, false).map_err(failed)?;
        }
        let begun = Instant::now();
        loop {
            let asker = self.accept(report)?;
            let left = patience.saturating_sub(begun.elapsed());
            if asker.is_some() || left.is_zero() {
                return Ok(asker);
            }
            let most = if self.parting.is_empty() { left } else { left.min(PARTING / 10) };
            waiter.wait(most).map_err(failed)?;
            if waiter.is_ready(stop) {
                return Err(Error::Stopped);
            }
            self.part();
        }
    }

    /// The next peer that asks and is allowed to, if there is one.
    fn accept(&mut self, report: &mut dyn FnMut(Event)) -> Result<Option<Transport>> {
        while let Some(Caller { peer, way }) = self.door.next()? {
            match way {
                Ok(transport) => return Ok(Some(transport)),
                Err(error) => report(Event::Refused { peer, reason: error.to_string() }),
            }
        }
        Ok(None)
    }

    /// Refuses all peers that ask while the NIC is lent.
    fn refuse_askers(&mut self, holder: &str, report: &mut dyn FnMut(Event)) -> Result<()> {
        while let Some(mut asker) = self.accept(report)? {
            let name = self.interface.name();
            let reason = format!("{name} is lent to {holder}; it has one borrower at a time");
            let peer = asker.peer().to_string();
            report(Event::Refused { peer, reason: reason.clone() });
            let _ = say(&mut asker, Setup::Refused { reason });
            if self.parting.len() < MAX_PARTING {
                self.parting.push((asker, Instant::now() + PARTING));
            }
        }
        self.part();
        Ok(())
    }

    /// Lets go of refused peers that have received the reason.
    fn part(&mut self) {
        let now = Instant::now();
        self.parting.retain_mut(|(transport, until)| {
            now < *until && transport.drive(now).is_ok() && transport.take(now).is_ok()
        });
    }

    /// Lends the NIC to the peer that asks.
    fn lend(
        &mut self,
        mut transport: Transport,
        stop: BorrowedFd<'_>,
        report: &mut dyn FnMut(Event),
    ) -> Result<End> {
        let (node, token) = self.offer(&mut transport, stop)?;
        let to = transport.peer().to_string();
        let (loan, mode) = loop {
            let (mode, tunnel) = match expect(&mut transport, STEP_PATIENCE, stop)? {
                Setup::Choose { mode, tunnel } => (mode, tunnel),
                other => return Err(handshake::out_of_step(&transport, &other)),
            };
            match self.prepare(&mut transport, mode, tunnel, token, stop, report) {
                Ok(loan) => break (loan, mode),
                // It may choose the other way then.
                Err(error @ (Error::Refused(_) | Error::Io { .. })) => {
                    say(&mut transport, Setup::Refused { reason: error.to_string() })?;
                }
                Err(error) => return Err(error),
            }
        };
        say(&mut transport, Setup::Ready { mtu: loan.mtu })?;
        report(Event::Lent { to: to.clone(), node, mode });
        let mut session = Session::new(transport, node, loan.device, self.options.spin)?;
        session.is_device_end = true;
        let end = self.work(&mut session, &to, stop, report);
        let traffic = session.traffic;
        let reason = match &end {
            Ok(End::Stopped) => {
                session.transport.bye("the lender takes its NIC back");
                "the lender takes it back".to_owned()
            }
            Ok(End::Over(reason)) => reason.clone(),
            Err(error) => {
                session.transport.bye(&error.to_string());
                error.to_string()
            }
        };
        drop(loan.kernel);
        report(Event::Returned { from: to, reason, traffic });
        match end {
            Err(Error::PeerLost { .. } | Error::Protocol(_)) => Ok(End::Over(String::new())),
            end => end,
        }
    }

    /// Offers the NIC to a peer that asks properly. Returns its node, and the token that it has to show later.
    fn offer(&self, transport: &mut Transport, stop: BorrowedFd<'_>) -> Result<(u16, u64)> {
        let node = match expect(transport, HELLO_PATIENCE, stop)? {
            Setup::Hello { version: VERSION, node } => node,
            Setup::Hello { version, .. } => {
                let reason = format!(
                    "the lender speaks version {VERSION}, you speak {version}: install the same rackmem"
                );
                say(transport, Setup::Refused { reason: reason.clone() })?;
                return Err(Error::Refused(reason));
            }
            other => return Err(handshake::out_of_step(transport, &other)),
        };
        let gone = |error| Error::io(format!("cannot look at {}", self.interface.name()), error);
        let token = handshake::random()?;
        say(
            transport,
            Setup::Offer {
                interface: self.interface.name().to_owned(),
                mac: self.interface.mac().map_err(gone)?,
                mtu: self.interface.mtu().map_err(gone)?,
                link: self.interface.has_link().map_err(gone)?,
                token,
                kernel: permission::has(&[Capability::Bpf]) && transport.path().is_ok(),
            },
        )?;
        Ok((node, token))
    }

    fn prepare(
        &mut self,
        transport: &mut Transport,
        mode: Mode,
        tunnel: Option<u32>,
        token: u64,
        stop: BorrowedFd<'_>,
        report: &mut dyn FnMut(Event),
    ) -> Result<Loan> {
        match (mode, tunnel) {
            (Mode::Kernel, Some(id)) => Loan::by_kernel(&self.interface, transport, id),
            (Mode::Kernel, None) => {
                Err(Error::Protocol("a tunnel without a number cannot be made".to_owned()))
            }
            (Mode::Tap, _) => {
                if let Transport::Tcp(_) = transport {
                    let packets = self.await_packets(token, stop, report)?;
                    transport.set_packets(packets);
                }
                let loan = Loan::by_processes(&self.interface)?;
                if let Some(text) = &loan.remark {
                    report(Event::Remark { text: text.clone() });
                }
                Ok(loan)
            }
        }
    }

    /// Waits for the connection that packets are to take: it shows the token. Others are refused.
    fn await_packets(
        &mut self,
        token: u64,
        stop: BorrowedFd<'_>,
        report: &mut dyn FnMut(Event),
    ) -> Result<Stream> {
        let deadline = Instant::now() + STEP_PATIENCE;
        let left = || deadline.saturating_duration_since(Instant::now());
        while let Some(mut asker) = self.await_asker(left(), stop, report)? {
            match expect(&mut asker, HELLO_PATIENCE, stop) {
                Ok(Setup::Data { token: shown }) if shown == token => {
                    if let Some(stream) = asker.into_stream() {
                        return Ok(stream);
                    }
                }
                Err(Error::Stopped) => return Err(Error::Stopped),
                _ => {
                    let name = self.interface.name();
                    let reason = format!("{name} is being lent to somebody else; try again");
                    let _ = say(&mut asker, Setup::Refused { reason });
                }
            }
        }
        Err(Error::Protocol("no connection came for the packets".to_owned()))
    }

    /// The NIC is lent: everything that happens until it is back.
    fn work(
        &mut self,
        session: &mut Session,
        holder: &str,
        stop: BorrowedFd<'_>,
        report: &mut dyn FnMut(Event),
    ) -> Result<End> {
        let mut watch = NicWatch::new(&self.interface, session)?;
        loop {
            session.send_interrupts()?;
            while let Some(message) = session.take()? {
                match message {
                    Message::Bye(reason) => return Ok(End::Over(reason)),
                    Message::Alive => {}
                    message => watch.answer(&self.interface, session, message)?,
                }
            }
            let moved = session.turn()?;
            let [tcp, udp, bell] = self.door.fds();
            let others = [stop, watch.as_fd(), tcp, udp, bell];
            let ready = session.rest(moved, &others, watch.due_in())?;
            if ready & 1 != 0 {
                return Ok(End::Stopped);
            }
            watch.look(&self.interface, session, ready & 2 != 0)?;
            if ready & 0b1_1100 != 0 || !self.parting.is_empty() {
                self.refuse_askers(holder, report)?;
            }
        }
    }
}

/// Fails if another process of this network namespace lends the same NIC.
fn alone(name: &str) -> Result<UnixListener> {
    let taken = |error: io::Error| match error.kind() {
        io::ErrorKind::AddrInUse => Error::Refused(format!(
            "{name} is already lent by another process here; `ss -xlp | grep rackmem-nic` names it"
        )),
        _ => Error::io(format!("cannot lend {name}"), error),
    };
    // A name without a file: it belongs to the network namespace, and goes with the process.
    let address = UnixAddress::from_abstract_name(format!("rackmem-nic-{name}")).map_err(taken)?;
    UnixListener::bind_addr(&address).map_err(taken)
}

/// The counters in words.
impl std::fmt::Display for Traffic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Traffic { packets_out, packets_in, packets_dropped, interrupts_out, .. } = self;
        write!(
            f,
            "{packets_out} packets out, {packets_in} in, {packets_dropped} dropped, \
             {interrupts_out} interrupts"
        )
    }
}

impl std::fmt::Display for Lender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mac = self.interface.mac().map(mac_text).unwrap_or_default();
        write!(f, "{} ({mac})", self.interface.name())
    }
}
