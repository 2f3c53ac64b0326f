//! One end of a lent NIC at work: interrupts first, then packets in both directions, then rest.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rackmem_rmc::imt::{Change, Imt};
use serde::Serialize;

use super::frame::{Inbox, Outbox};
use super::interrupt::{Interrupt, RECEPTION};
use super::message::Message;
use super::sys::packet::PacketSocket;
use super::sys::tap::Tap;
use super::transport::Transport;
use super::waiter::Waiter;
use rackmem_fabric::error::{Error, Result};

/// Packets that are taken from an interface before something else gets its turn.
const MAX_PACKETS_A_TURN: usize = 64;
/// Reads of packets from the transport before something else gets its turn.
const MAX_READS_A_TURN: usize = 4;
/// Time without a stall of packets before the borrower hears that they pass again.
const CALM: Duration = Duration::from_millis(10);

/// Source and sink of packets.
#[derive(Debug)]
pub enum Device {
    /// The borrower's interface.
    Tap(Tap),
    /// The lender's NIC.
    Nic(PacketSocket),
}

impl Device {
    fn receive(&self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Device::Tap(tap) => tap.receive(into),
            Device::Nic(socket) => socket.receive(into),
        }
    }

    fn send(&self, packet: &[u8]) -> io::Result<usize> {
        match self {
            Device::Tap(tap) => tap.send(packet),
            Device::Nic(socket) => socket.send(packet),
        }
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Device::Tap(tap) => tap.as_fd(),
            Device::Nic(socket) => socket.as_fd(),
        }
    }
}

/// Counters of one end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Traffic {
    /// Packets from the interface to the other end.
    pub packets_out: u64,
    /// Packets from the other end to the interface.
    pub packets_in: u64,
    /// Packets that the interface did not take, or that could not be taken from it.
    pub packets_dropped: u64,
    /// Interrupts that were sent to the borrower's node.
    pub interrupts_out: u64,
    /// Interrupts that were dropped, as the IMT sends them to another node.
    pub interrupts_astray: u64,
    /// Sleeps of the end while it waited for work.
    pub sleeps: u64,
}

/// One end at work.
#[derive(Debug)]
pub struct Session {
    /// The way to the other end.
    pub transport: Transport,
    /// Interrupts of this end's device, and the node that each goes to.
    pub imt: Imt,
    /// Do not sleep: the other end has packets that wait.
    pub keep_polling: bool,
    /// This is the end that has the NIC, and so its interrupts.
    pub is_device_end: bool,
    /// Counters since the session began.
    pub traffic: Traffic,
    packets: Option<Packets>,
    /// The node at the other end.
    node: u16,
    spin: Duration,
    last_progress: Instant,
    waiter: Waiter,
    ready: Ready,
}

/// Sources that have something to take. Others are not asked: asking in vain is most of a packet's cost.
#[derive(Clone, Copy, Debug)]
struct Ready {
    messages: bool,
    packets: bool,
    device: bool,
}

impl Ready {
    /// All sources.
    const ALL: Ready = Ready { messages: true, packets: true, device: true };
}

#[derive(Debug)]
struct Packets {
    device: Device,
    outbox: Outbox,
    inbox: Inbox,
    /// The interface does not take more for now.
    is_device_full: bool,
    /// Last time that packets had to wait for the transport.
    last_stall: Option<Instant>,
}

impl Session {
    /// An end whose way leads to node `node`; without a device packets do not pass through it. It polls for
    /// `spin` after something happened, before it sleeps.
    ///
    /// # Errors
    /// The kernel has no more descriptors.
    pub fn new(
        transport: Transport,
        node: u16,
        device: Option<Device>,
        spin: Duration,
    ) -> Result<Session> {
        let waiter = Waiter::new().map_err(cannot_wait)?;
        let packets = device.map(|device| Packets {
            device,
            outbox: Outbox::new(),
            inbox: Inbox::new(),
            is_device_full: false,
            last_stall: None,
        });
        Ok(Session {
            transport,
            imt: Imt::all_to(node),
            keep_polling: false,
            is_device_end: false,
            traffic: Traffic::default(),
            packets,
            node,
            spin,
            last_progress: Instant::now(),
            waiter,
            ready: Ready::ALL,
        })
    }

    /// The device that packets pass through.
    pub fn device(&self) -> Option<&Device> {
        self.packets.as_ref().map(|packets| &packets.device)
    }

    /// The next message of the other end.
    ///
    /// # Errors
    /// As [`Transport::take`].
    pub fn take(&mut self) -> Result<Option<Message>> {
        if !self.ready.messages {
            return Ok(None);
        }
        let message = self.transport.take(Instant::now())?;
        self.ready.messages = message.is_some();
        Ok(message)
    }

    /// The reason that the other end gave for its end, if it gave one: the error of the connection says less.
    pub fn last_words(&mut self) -> Option<Error> {
        let peer = self.transport.peer().to_string();
        while let Ok(Some(message)) = self.transport.take(Instant::now()) {
            if let Message::Bye(reason) = message {
                return Some(Error::PeerLost { peer, reason });
            }
        }
        None
    }

    /// Sends interrupts and messages, then moves packets. Whether any moved.
    ///
    /// # Errors
    /// [`Error::PeerLost`], [`Error::Protocol`]; the interface is gone.
    pub fn turn(&mut self) -> Result<bool> {
        let now = Instant::now();
        self.send_interrupts()?;
        self.transport.drive(now)?;
        let Some(packets) = &mut self.packets else { return Ok(false) };
        let Ready { device, packets: arrived, .. } = self.ready;
        let outward = packets.outward(&mut self.transport, &mut self.traffic, device)?;
        self.transport.push_out()?;
        let inward = packets.inward(&mut self.transport, &mut self.traffic, arrived, now)?;
        let is_stalled = packets.is_stalled(now);
        if self.is_device_end {
            self.imt.drive(RECEPTION, is_stalled);
        }
        Ok(outward || inward)
    }

    /// Queues interrupts in front of all that is queued from now on. They wait here and not in front of a way
    /// that is blocked: there they could not be pulses.
    ///
    /// # Errors
    /// [`Error::PeerLost`].
    pub fn send_interrupts(&mut self) -> Result<()> {
        while !self.transport.has_backlog()
            && let Some(Change { line, asserted, destination }) = self.imt.take()
        {
            if destination == self.node {
                self.transport.post(&Message::Interrupt(Interrupt { id: line, asserted }))?;
                self.traffic.interrupts_out += 1;
            } else {
                self.traffic.interrupts_astray += 1;
            }
        }
        Ok(())
    }

    /// Polls on, or sleeps until something happens here, at one of `others`, or `most` has passed. Returns the others
    /// that are ready, as bits.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn rest(&mut self, moved: bool, others: &[BorrowedFd<'_>], most: Duration) -> Result<u32> {
        let now = Instant::now();
        if moved {
            self.last_progress = now;
        }
        let spins = moved || self.keep_polling || now < self.last_progress + self.spin;
        if spins {
            // A process that the packets woke may need this core, and answers sooner if it has it.
            std::thread::yield_now();
        }
        let until = match spins || self.imt.has_changes() && !self.transport.has_backlog() {
            true => Duration::ZERO,
            false => self.transport.due_in(now).min(most),
        };
        self.traffic.sleeps += u64::from(!until.is_zero());
        self.wait(others, until)
    }

    fn wait(&mut self, others: &[BorrowedFd<'_>], most: Duration) -> Result<u32> {
        let waiter = &mut self.waiter;
        waiter.begin();
        for other in others {
            waiter.add(*other, true, false).map_err(cannot_wait)?;
        }
        let mut most = most;
        let blocked = self.packets.as_ref().is_some_and(|packets| !packets.outbox.is_empty());
        let way = self.transport.await_with(waiter, blocked).map_err(cannot_wait)?;
        let mut device = None;
        if let Some(packets) = &self.packets {
            let full = packets.is_device_full;
            let number = waiter.add(packets.device.as_fd(), !blocked, full).map_err(cannot_wait)?;
            device = Some(number);
            if packets.last_stall.is_some() {
                most = most.min(CALM);
            }
        }
        waiter.wait(most).map_err(cannot_wait)?;
        let keeps = self.transport.keeps_arrivals();
        self.ready = Ready {
            messages: keeps || waiter.is_ready(way.0),
            packets: keeps || waiter.is_ready(way.1),
            device: device.is_some_and(|number| waiter.is_ready(number)),
        };
        Ok((0..others.len()).map(|at| u32::from(waiter.is_ready(at)) << at).sum())
    }
}

fn cannot_wait(error: io::Error) -> Error {
    Error::io("cannot wait for packets", error)
}

impl Packets {
    /// Moves packets from the interface, if it is ready, to the other end.
    fn outward(
        &mut self,
        transport: &mut Transport,
        traffic: &mut Traffic,
        ready: bool,
    ) -> Result<bool> {
        let mut moved = self.flush(transport)?;
        if !self.outbox.is_empty() {
            return Ok(moved); // the interface's own queue is the place to wait
        }
        for _ in 0..if ready { MAX_PACKETS_A_TURN } else { 0 } {
            let Some(room) = self.outbox.room() else { break };
            match self.device.receive(room) {
                Ok(length) => {
                    self.outbox.commit(length);
                    traffic.packets_out += 1;
                    moved = true;
                }
                Err(error) => match Trouble::of(&error) {
                    Trouble::NotNow => break,
                    Trouble::ThisPacket => traffic.packets_dropped += 1,
                    Trouble::Device => return Err(Error::io("the interface is gone", error)),
                },
            }
        }
        self.flush(transport)?;
        Ok(moved)
    }

    fn flush(&mut self, transport: &mut Transport) -> Result<bool> {
        if self.outbox.is_empty() {
            return Ok(false);
        }
        let sent = transport.send_packets(self.outbox.pending())?;
        self.outbox.sent(sent);
        if !self.outbox.is_empty() {
            self.last_stall = Some(Instant::now());
        }
        Ok(sent > 0)
    }

    fn is_stalled(&mut self, now: Instant) -> bool {
        if self.outbox.is_empty() && self.last_stall.is_some_and(|at| now > at + CALM) {
            self.last_stall = None;
        }
        self.last_stall.is_some()
    }

    /// Moves packets from the other end, if some have arrived, to the interface.
    fn inward(
        &mut self,
        transport: &mut Transport,
        traffic: &mut Traffic,
        arrived: bool,
        now: Instant,
    ) -> Result<bool> {
        let mut moved = self.deliver(traffic)?;
        for _ in 0..MAX_READS_A_TURN {
            if !arrived || self.is_device_full {
                break;
            }
            let room = self.inbox.room();
            let all = room.len();
            let got = transport.receive_packets(room, now)?;
            self.inbox.commit(got);
            moved |= got > 0;
            self.deliver(traffic)?;
            if got < all {
                break; // that was all
            }
        }
        Ok(moved)
    }

    fn deliver(&mut self, traffic: &mut Traffic) -> Result<bool> {
        let mut moved = false;
        self.is_device_full = false;
        while let Some(packet) = self.inbox.front()? {
            match self.device.send(packet) {
                Ok(_) => traffic.packets_in += 1,
                Err(error) => match Trouble::of(&error) {
                    Trouble::NotNow => {
                        self.is_device_full = true;
                        break;
                    }
                    Trouble::ThisPacket => traffic.packets_dropped += 1,
                    Trouble::Device => return Err(Error::io("the interface is gone", error)),
                },
            }
            self.inbox.consume();
            moved = true;
        }
        Ok(moved)
    }
}

/// Consequence of a failed call on an interface.
enum Trouble {
    /// It may work later.
    NotNow,
    /// Other packets will pass: it is malformed, the NIC's queue is full, the interface is switched off.
    ThisPacket,
    /// There is no such interface any more.
    Device,
}

impl Trouble {
    fn of(error: &io::Error) -> Trouble {
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EINTR) => Trouble::NotNow,
            Some(libc::ENODEV | libc::ENXIO | libc::EBADFD | libc::EBADF) => Trouble::Device,
            _ => Trouble::ThisPacket,
        }
    }
}
