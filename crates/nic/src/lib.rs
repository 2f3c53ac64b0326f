//! A NIC that another host lends (DEOI §III-D): an interface here whose packets leave and arrive there.
//!
//! | part | what it is |
//! |---|---|
//! | [`Lender`] | gives a NIC to one borrower at a time, and takes it back as it was |
//! | [`Borrower`] | has the interface, with the NIC's address, MTU and link |
//! | [`interrupt`] | up to 16 interrupts, before everything else; the nodes that they go to (IMT) |
//! | [`register`] | registers of the NIC that the borrower reads and writes (remote MMIO) |
//! | [`message`], `frame` | messages, and packets as a stream |
//! | `session` | one end at work: interrupts, messages, packets, rest |
//! | `transport` | two TCP connections, or the two channels of a [`rackmem_fabric::udp`] |
//! | `sys` | TAP, packet sockets, tunnels, programs at the doors of interfaces |
//!
//! Packets travel in one of two ways. *Kernel*: a VXLAN tunnel whose lender's end is wired to the NIC by two
//! programs of six instructions, so no process wakes for a packet. *TAP*: both processes carry
//! packets, up to 64 KB at a time and with checksums left to do (`virtio_net_hdr`), between a TAP interface
//! and a packet socket on the NIC.
//!
//! A borrower proves itself first, and with keys its node needs the right `nic` ([`rackmem_fabric::net::access`]). What
//! travels is encrypted: over TCP unless both ends say otherwise, over UDP ([`rackmem_fabric::udp`]) always. A VXLAN
//! tunnel takes packets from every host that knows its number, which is random and travels unencrypted: it is for
//! networks that one trusts.
//!
//! A lent NIC has one user: the lender's own stack neither sees its packets nor sends any, and a second
//! borrower is refused. All of this ends with the processes, however they end: sockets, TAPs and programs
//! by themselves, tunnels and changed settings by a child that waits for that.
//!
//! # Decisions
//!
//! - *Steps.* A borrower sends a hello, gets an offer, chooses how packets travel, and has the NIC: the steps of DEOI's
//!   borrowing, with the lender as its own monitor. From then on both ends run the same loop (`session`): interrupts
//!   and messages, packets out, packets in, rest.
//! - *Why a tunnel and two programs.* They let the borrower have the NIC's own address, which a bridge would keep for
//!   itself.
//! - *Numbers of interrupts.* 0 link, 1 errors, 2 packets wait at the lender because the way is full (the borrower
//!   polls until they do not), 3 settings.
//! - *Release and failure.* Sockets, TAPs and programs end with the process. Tunnels and changed settings are put back
//!   by a child that waits for the process's end and then tells the kernel what was written down before
//!   (`sys/guard.rs`). Silence of 3 s is an end, too.
//! - *Polling.* An end that moved packets polls for 50 us ([`DEFAULT_SPIN_US`], `--spin`) and yields its core between
//!   polls. Without that a round trip through two processes costs four wake-ups, one at each host for each direction,
//!   which is the least for packets that pass through processes; the kernel's tunnel costs none. The kernel says which
//!   descriptors are ready (`waiter`, epoll): a packet costs an end a wait, a take, a look for a second one and a send.

mod frame;
#[cfg(fuzzing)]
pub mod fuzz;
pub mod interrupt;
pub mod message;
pub mod register;

mod borrower;
mod handshake;
mod lender;
mod session;
mod sys;
mod transport;
mod waiter;

pub use borrower::{AttachOptions, Borrower, Carrier};
pub use lender::{LendOptions, Lender};
pub use message::Mode;
pub use session::Traffic;
pub use sys::interface::Mac;

use serde::Serialize;

/// TCP and UDP port of lenders, unless another is given.
pub const DEFAULT_PORT: u16 = 7471;

/// Time that an end polls for packets after one came, unless another is given, in microseconds.
pub const DEFAULT_SPIN_US: u64 = 50;

/// An event of a lent NIC, for people or, as JSON, for programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// The lender waits for a borrower.
    Free {
        /// Its NIC.
        interface: String,
        /// Address that it listens at.
        address: String,
    },
    /// The NIC is lent.
    Lent {
        /// The borrower's address.
        to: String,
        /// Number of the borrower's node.
        node: u16,
        /// Way of packets between both hosts.
        mode: Mode,
    },
    /// The NIC is back, as it was.
    Returned {
        /// The borrower's address.
        from: String,
        /// Reason for the end of the loan, in words.
        reason: String,
        /// Packets and interrupts of the loan.
        traffic: Traffic,
    },
    /// A peer asked for the NIC and was refused.
    Refused {
        /// Address of the peer.
        peer: String,
        /// Reason for the refusal, in words.
        reason: String,
    },
    /// The borrower has its interface.
    Attached {
        /// Its name here.
        name: String,
        /// The NIC's name there.
        interface: String,
        /// The lender's address.
        from: String,
        /// Way of packets between both hosts.
        mode: Mode,
        /// Its address.
        mac: String,
        /// Bytes of the largest packet, without its Ethernet header.
        mtu: u32,
    },
    /// An interrupt of the NIC arrived.
    Interrupt {
        /// Number of the interrupt.
        id: u8,
        /// Its level.
        asserted: bool,
    },
    /// A remark that concerns the user.
    Remark {
        /// One sentence.
        text: String,
    },
}

/// An address as people write it.
pub fn mac_text(mac: Mac) -> String {
    let parts = mac.map(|byte| format!("{byte:02x}"));
    parts.join(":")
}
