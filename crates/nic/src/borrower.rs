//! The borrower: an interface here that is a NIC elsewhere, for as long as this lives.

use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rackmem_fabric::udp::{LinkStream, Settings};

use super::handshake::{self, STEP_PATIENCE, expect, say, tunnel_overhead_bytes};
use super::interrupt::{Interrupt, LINK, RECEPTION, SETTINGS};
use super::message::{Message, Mode, Setup, VERSION};
use super::register;
use super::session::{Device, Session, Traffic};
use super::sys::guard::Guard;
use super::sys::interface::{Interface, MAX_NAME_BYTES, Mac};
use super::sys::netlink::{self, Tunnel, Watch};
use super::sys::permission::{self, Capability};
use super::sys::tap::Tap;
use super::transport::{DEAD_AFTER, Transport};
use super::{Event, mac_text};
use rackmem_fabric::error::{Error, Result};
use rackmem_fabric::net::greet;
use rackmem_fabric::net::link::Link;
use rackmem_fabric::net::proof::Proof;

/// Longest time for attempts to reach the lender.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);
/// Longest sleep of an end with nothing to do.
const LONGEST_REST: Duration = Duration::from_secs(10);

/// The transport of messages and packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// A connection for messages and one for packets.
    Tcp,
    /// The reliable link of [`rackmem_fabric::udp`], over UDP.
    Udp,
}

/// Settings of a borrower.
#[derive(Clone, Debug)]
pub struct AttachOptions {
    /// Name of the interface that is to be.
    pub name: String,
    /// Address of the lender.
    pub from: SocketAddr,
    /// Proof of lender and borrower; `None`: none is proved.
    pub proof: Option<Proof>,
    /// Number of this node in the lender's IMT.
    pub node: u16,
    /// Way of packets; `None`: over TCP the kernel's if both ends can, else through processes.
    pub mode: Option<Mode>,
    /// Transport of messages and packets.
    pub carrier: Carrier,
    /// Addresses for the interface, with the lengths of their prefixes.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Time that an end polls for packets after one came, before it sleeps.
    pub spin: Duration,
}

/// An interface whose packets leave and arrive at a lender's NIC. It goes with this.
#[derive(Debug)]
pub struct Borrower {
    session: Session,
    interface: Interface,
    offer: Offer,
    mode: Mode,
    changes: Watch,
    settings: (Mac, u32),
    /// Removes the end of the tunnel.
    _guard: Option<Guard>,
    tag: u16,
}

/// The lender's offer: the NIC, its settings, and the ways of packets.
#[derive(Clone, Debug)]
struct Offer {
    interface: String,
    mac: Mac,
    mtu: u32,
    link: bool,
    token: u64,
    kernel: bool,
}

impl Borrower {
    /// Borrows the NIC and makes the interface, switched on.
    ///
    /// # Errors
    /// Rights are missing, the lender cannot be reached or refuses, or the name is taken.
    pub fn attach(options: &AttachOptions, stop: BorrowedFd<'_>) -> Result<Borrower> {
        check(options)?;
        let mut transport = connect(options)?;
        say(&mut transport, Setup::Hello { version: VERSION, node: options.node })?;
        let offer = match expect(&mut transport, STEP_PATIENCE, stop)? {
            Setup::Offer { interface, mac, mtu, link, token, kernel } => {
                Offer { interface, mac, mtu, link, token, kernel }
            }
            other => return Err(handshake::out_of_step(&transport, &other)),
        };
        let wants_kernel = match options.mode {
            Some(mode) => mode == Mode::Kernel,
            None => offer.kernel && options.carrier == Carrier::Tcp,
        };
        if wants_kernel {
            match by_kernel(options, &mut transport, &offer, stop) {
                Ok((interface, guard)) => {
                    let session = Session::new(transport, options.node, None, options.spin)?;
                    return Borrower::begin(options, session, interface, offer, Some(guard));
                }
                Err(Error::Stopped) => return Err(Error::Stopped),
                Err(error @ (Error::Refused(_) | Error::Io { .. })) if options.mode.is_none() => {
                    tracing::info!("no tunnel, so packets pass through processes: {error}");
                }
                Err(error) => return Err(error),
            }
        }
        let tap = by_processes(options, &mut transport, &offer, stop)?;
        let interface = Interface::named(&options.name)
            .map_err(|error| Error::io(format!("cannot look at {}", options.name), error))?;
        let session = Session::new(transport, options.node, Some(Device::Tap(tap)), options.spin)?;
        Borrower::begin(options, session, interface, offer, None)
    }

    fn begin(
        options: &AttachOptions,
        session: Session,
        interface: Interface,
        offer: Offer,
        guard: Option<Guard>,
    ) -> Result<Borrower> {
        let name = &options.name;
        let failed = |error| permission::explain(&format!("set up the interface {name}"), error);
        let mode = if guard.is_some() { Mode::Kernel } else { Mode::Tap };
        let changes = Watch::new().map_err(failed)?;
        let settings = (interface.mac().map_err(failed)?, interface.mtu().map_err(failed)?);
        let borrower =
            Borrower { session, interface, offer, mode, changes, settings, _guard: guard, tag: 0 };
        for &(ip, prefix) in &options.addresses {
            borrower.interface.add_ip(ip, prefix).map_err(|error| {
                permission::explain(&format!("give {name} the address {ip}/{prefix}"), error)
            })?;
        }
        borrower.interface.set_up(true).map_err(failed)?;
        borrower.set_carrier(borrower.offer.link);
        Ok(borrower)
    }

    /// The event that describes the interface as it is now.
    pub fn describe(&self) -> Event {
        Event::Attached {
            name: self.interface.name().to_owned(),
            interface: self.offer.interface.clone(),
            from: self.session.transport.peer().to_string(),
            mode: self.mode,
            mac: mac_text(self.settings.0),
            mtu: self.settings.1,
        }
    }

    /// Counters since the NIC was attached.
    pub fn traffic(&self) -> Traffic {
        self.session.traffic
    }

    /// Carries packets and interrupts until `stop` is readable, then gives the NIC back.
    ///
    /// # Errors
    /// [`Error::PeerLost`] or [`Error::Refused`]: the lender is gone or takes its NIC back. The interface
    /// has no cable then, and goes when this is dropped.
    pub fn run(&mut self, stop: BorrowedFd<'_>, report: &mut dyn FnMut(Event)) -> Result<()> {
        let end = self.work(stop, report);
        self.set_carrier(false);
        end
    }

    fn work(&mut self, stop: BorrowedFd<'_>, report: &mut dyn FnMut(Event)) -> Result<()> {
        loop {
            while let Some(message) = self.session.take()? {
                self.heed(message, report)?;
            }
            let moved = match self.session.turn() {
                Ok(moved) => moved,
                // The lender's last words may have come since they were looked for.
                Err(error) => return Err(self.session.last_words().unwrap_or(error)),
            };
            let others = [stop, std::os::fd::AsFd::as_fd(&self.changes)];
            let ready = self.session.rest(moved, &others, LONGEST_REST)?;
            if ready & 1 != 0 {
                return Ok(());
            }
            if ready & 2 != 0 && self.changes.drain() {
                self.pass_on_settings()?;
            }
        }
    }

    /// Ends in order: the lender has its NIC back at once.
    pub fn detach(self) {
        self.session.transport.bye("the borrower gives it back");
    }

    fn heed(&mut self, message: Message, report: &mut dyn FnMut(Event)) -> Result<()> {
        match message {
            Message::Alive => Ok(()),
            Message::Interrupt(interrupt) => {
                report(Event::Interrupt { id: interrupt.id, asserted: interrupt.asserted });
                self.serve_interrupt(interrupt)
            }
            Message::Answer { tag, value } => {
                self.take_answer(tag, value);
                Ok(())
            }
            Message::Bye(reason) => {
                let peer = self.session.transport.peer().to_string();
                Err(Error::PeerLost { peer, reason })
            }
            other => {
                let peer = self.session.transport.peer();
                Err(Error::Protocol(format!("{peer} says {other:?} while it lends its NIC")))
            }
        }
    }

    fn serve_interrupt(&mut self, interrupt: Interrupt) -> Result<()> {
        match (interrupt.id, interrupt.asserted) {
            (LINK, link) => self.set_carrier(link),
            (RECEPTION, waiting) => self.session.keep_polling = waiting,
            (SETTINGS, true) => {
                self.ask(register::MAC)?;
                self.ask(register::MTU)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn ask(&mut self, register: u16) -> Result<()> {
        self.session.transport.post(&Message::Read { tag: register, register })
    }

    /// The NIC's settings were changed there: so are the interface's.
    fn take_answer(&mut self, tag: u16, value: std::result::Result<u64, register::Fault>) {
        let done = match (tag, value) {
            (register::MAC, Ok(value)) => {
                self.settings.0 = register::to_mac(value);
                self.interface.set_mac(self.settings.0)
            }
            (register::MTU, Ok(value)) => {
                let most = if self.mode == Mode::Tap {
                    u64::from(u32::MAX)
                } else {
                    self.offer.mtu.into()
                };
                self.settings.1 = value.min(most) as u32;
                self.interface.set_mtu(self.settings.1)
            }
            (_, Ok(_)) => Ok(()),
            (_, Err(fault)) => {
                tracing::warn!("the lender's NIC does not take that: {fault:?}");
                Ok(())
            }
        };
        if let Err(error) = done {
            tracing::warn!("{} does not take what the NIC has: {error}", self.interface.name());
        }
    }

    /// The interface's settings were changed here: so are the NIC's, by its registers.
    fn pass_on_settings(&mut self) -> Result<()> {
        let gone = |error| Error::io("the interface is gone", error);
        let (mac, mtu) = (self.interface.mac().map_err(gone)?, self.interface.mtu().map_err(gone)?);
        if mac != self.settings.0 {
            self.settings.0 = mac;
            self.write(register::MAC, register::from_mac(mac))?;
        }
        if mtu != self.settings.1 {
            self.settings.1 = mtu;
            self.write(register::MTU, mtu.into())?;
        }
        Ok(())
    }

    fn write(&mut self, register: u16, value: u64) -> Result<()> {
        self.tag = self.tag.wrapping_add(1) | 0x8000; // no address of a register
        self.session.transport.post(&Message::Write { tag: self.tag, register, value })
    }

    fn set_carrier(&self, carrier: bool) {
        let done = match self.session.device() {
            Some(Device::Tap(tap)) => tap.set_carrier(carrier),
            _ => netlink::set_carrier(&self.interface, carrier),
        };
        if let Err(error) = done {
            tracing::warn!("cannot show the link of {}: {error}", self.interface.name());
        }
    }
}

fn check(options: &AttachOptions) -> Result<()> {
    let name = &options.name;
    let fits = (1..=MAX_NAME_BYTES).contains(&name.len())
        && !name.contains(|c: char| c == '/' || c == ':' || c == '%' || c.is_whitespace())
        && !matches!(name.as_str(), "." | "..");
    if !fits {
        return Err(Error::Refused(format!(
            "an interface cannot be called '{name}': its name has 1 to {MAX_NAME_BYTES} bytes, without \
             blanks, '/', ':' and '%'"
        )));
    }
    permission::require(&format!("make the interface {name}"), &[Capability::NetAdmin])?;
    if Interface::named(name).is_ok() {
        return Err(Error::Refused(format!(
            "there is already an interface {name} here; choose another name"
        )));
    }
    if options.carrier == Carrier::Udp && options.mode == Some(Mode::Kernel) {
        return Err(Error::Refused(
            "the kernel's tunnel does not travel over the link; leave out one of both".to_owned(),
        ));
    }
    Ok(())
}

fn connect(options: &AttachOptions) -> Result<Transport> {
    let (from, proof) = (options.from, options.proof.as_ref());
    match options.carrier {
        Carrier::Tcp => {
            let cannot = |error| {
                Error::io(format!("cannot reach a lender at {from} (rackmem nic lend)"), error)
            };
            let stream = TcpStream::connect_timeout(&from, CONNECT_PATIENCE).map_err(cannot)?;
            stream.set_nonblocking(true).map_err(cannot)?;
            let link = Link::meet(stream.into(), &from.to_string(), proof, CONNECT_PATIENCE);
            Transport::over_tcp(link?)
        }
        Carrier::Udp => {
            let settings = Settings { dead_after: DEAD_AFTER, ..Settings::default() };
            let credentials = greet::credentials(proof);
            let stream = LinkStream::connect(from, credentials, settings, None, CONNECT_PATIENCE);
            let stream = stream.map_err(|error| match error {
                Error::Unproved { peer, error } => greet::explain(&peer, proof, error),
                error => error,
            });
            Ok(Transport::over_link(stream?, from))
        }
    }
}

/// The end of a tunnel, wired to the NIC by the lender, and the guard that removes it.
fn by_kernel(
    options: &AttachOptions,
    transport: &mut Transport,
    offer: &Offer,
    stop: BorrowedFd<'_>,
) -> Result<(Interface, Guard)> {
    let name = &options.name;
    let failed = |error| permission::explain(&format!("make the tunnel {name}"), error);
    let (local, path_mtu) = transport.path().map_err(failed)?;
    let id = handshake::random()? as u32 & 0xff_ffff | 1;
    let mtu = path_mtu.saturating_sub(tunnel_overhead_bytes(local)).min(offer.mtu);
    let remote = transport.peer().ip();
    let tunnel = Tunnel { id, local, remote, mtu, mac: Some(offer.mac) };
    netlink::create_tunnel(name, &tunnel).map_err(failed)?;
    let interface = Interface::named(name).map_err(failed)?;
    let removal = netlink::removal(&interface).map_err(failed)?;
    let guard = Guard::new(&[removal]).map_err(failed)?;
    say(transport, Setup::Choose { mode: Mode::Kernel, tunnel: Some(id) })?;
    match expect(transport, STEP_PATIENCE, stop)? {
        Setup::Ready { mtu: theirs } if theirs < mtu => {
            interface.set_mtu(theirs).map_err(failed)?;
        }
        Setup::Ready { .. } => {}
        other => return Err(handshake::out_of_step(transport, &other)),
    }
    Ok((interface, guard))
}

/// A TAP interface like the NIC, and the way for its packets.
fn by_processes(
    options: &AttachOptions,
    transport: &mut Transport,
    offer: &Offer,
    stop: BorrowedFd<'_>,
) -> Result<Tap> {
    let name = &options.name;
    let failed = |error| permission::explain(&format!("set up the interface {name}"), error);
    let tap = Tap::create(name).map_err(|error| permission::explain_tap(name, error))?;
    tap.interface().set_mac(offer.mac).map_err(failed)?;
    tap.interface().set_mtu(offer.mtu).map_err(failed)?;
    say(transport, Setup::Choose { mode: Mode::Tap, tunnel: None })?;
    if let Transport::Tcp(_) = transport {
        let packets = connect(options)?;
        let mut packets = packets;
        say(&mut packets, Setup::Data { token: offer.token })?;
        while packets.has_backlog() {
            packets.drive(Instant::now())?;
        }
        if let Some(stream) = packets.into_stream() {
            transport.set_packets(stream);
        }
    }
    match expect(transport, STEP_PATIENCE, stop)? {
        Setup::Ready { .. } => Ok(tap),
        other => Err(handshake::out_of_step(transport, &other)),
    }
}
