//! Messages between borrowers, lenders and the monitor: JSON, one frame each.

use serde::{Deserialize, Serialize};

use rackmem_fabric::address::Address;
use rackmem_fabric::net::names;
use rackmem_fabric::rights::Right;

use super::quota::Account;

/// A process, as people look for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Party {
    /// Name, chosen by its user; by default that of host and program.
    #[serde(deserialize_with = "names::take_name")]
    pub name: String,
    /// Host name.
    #[serde(deserialize_with = "names::take_name")]
    pub host: String,
    /// Tells hosts apart that have the same name: the identity of the running kernel.
    #[serde(deserialize_with = "names::take_name")]
    pub host_id: String,
    /// Process number there.
    pub pid: u32,
}

/// Name of a decision of the monitor. A borrower shows it to the lender, and the lender's report names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Ticket {
    /// The monitor's life.
    pub epoch: u64,
    /// Counts in it.
    pub number: u64,
}

/// A lease, as its lender has it in its books.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Record {
    /// First address, as the lender counts; never used again.
    pub base: u64,
    /// Size in bytes.
    pub size_bytes: u64,
    /// The decision that it follows from.
    pub ticket: Ticket,
    /// The process that has the lease.
    pub borrower: Party,
    /// The borrower's node, if it has proved itself by a key over the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<u16>,
}

/// An offer of a lender to the monitor.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Offer {
    /// The process that lends.
    pub lender: Party,
    /// Addresses where borrowers get leases; the first that works is taken.
    pub addresses: Vec<Address>,
    /// Bytes on offer, leased or not.
    pub size_bytes: u64,
    /// No new leases: it is about to end.
    pub is_leaving: bool,
    /// What travels to borrowers of other hosts.
    pub network: Network,
    /// The lender's node, as the monitor knows it by its key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<u16>,
}

/// The protection of what travels between hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Network {
    /// Nothing travels: it listens on its host only.
    None,
    /// Peers prove a secret or a key, and everything is encrypted.
    Encrypted,
    /// Peers prove a secret or a key; what travels can be read and changed on its way.
    Cleartext,
    /// Peers prove nothing, and nothing is encrypted.
    Insecure,
}

/// A borrower's request to the monitor.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Want {
    /// The process that asks.
    pub borrower: Party,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Copies, each with lenders of its own.
    pub copies: u32,
    /// Lenders that did not answer the borrower.
    pub avoid: Vec<String>,
    /// Right by which it is borrowed.
    #[serde(default = "plain_memory")]
    pub purpose: Right,
    /// The borrower's node, as the monitor knows it.
    #[serde(skip)]
    pub account: Option<Account>,
}

/// Purpose of borrowers that say nothing of it.
fn plain_memory() -> Right {
    Right::Borrow
}

/// A piece of a borrowing: a lender, and the bytes to lease of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Piece {
    /// The process that lends.
    pub lender: Party,
    /// Addresses of the lender; the first that works is taken.
    pub addresses: Vec<Address>,
    /// Bytes to lease.
    pub size_bytes: u64,
    /// The monitor's decision, to be shown to the lender.
    pub ticket: Ticket,
}

/// A lender and its leases.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Listing {
    /// The lender's offer.
    pub offer: Offer,
    /// All leases that the lender has reported.
    pub leases: Vec<Record>,
    /// Bytes promised to borrowers that have not asked the lender yet.
    pub promised_bytes: u64,
}

impl Listing {
    /// Bytes that are leased.
    pub fn leased_bytes(&self) -> u64 {
        self.leases.iter().map(|lease| lease.size_bytes).sum()
    }

    /// Bytes that are neither leased nor promised.
    pub fn free_bytes(&self) -> u64 {
        self.offer.size_bytes.saturating_sub(self.leased_bytes() + self.promised_bytes)
    }
}

/// All lenders and leases that a monitor knows.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ledger {
    /// The process that embeds the monitor.
    pub monitor: Party,
    /// All lenders.
    pub lenders: Vec<Listing>,
}

/// A message to a monitor or to a lender.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Request {
    /// To the monitor: the offer of a lender, and its leases.
    Offer(Offer, Vec<Record>),
    /// To the monitor: a lease has begun.
    Leased(Record),
    /// To the monitor: the lease with this base has ended.
    Ended(u64),
    /// To the monitor: a request for memory. It cancels earlier promises on this connection.
    Want(Want),
    /// To the monitor: send the ledger.
    Show,
    /// Nothing to say.
    Ping,
    /// To a lender: make the lease of this decision.
    Lease {
        /// The decision.
        ticket: Ticket,
        /// Bytes to lease.
        size_bytes: u64,
        /// The process that asks.
        borrower: Party,
        /// Time in milliseconds that the lease is kept while the network between both is interrupted.
        patience_ms: u64,
        /// Right by which it is borrowed.
        #[serde(default = "plain_memory")]
        purpose: Right,
    },
    /// To a lender, over the network: this connection takes the place of the one by which the lease was made.
    Resume {
        /// First address of the lease, as the lender counts.
        base: u64,
        /// The token that came with the lease.
        token: String,
    },
    /// To a lender: the lease is not needed any more.
    Return,
    /// To a lender, over the network: this connection is a lane to a lease.
    Lane {
        /// First address of the lease, as the lender counts.
        base: u64,
        /// The token that came with the lease.
        token: String,
        /// The borrower's process that has the lane.
        owner: u32,
        /// Number of the lane in its process; an earlier lane of the same number ends first.
        number: u64,
    },
    /// To a lender, over the network: end all lanes of a process to a lease.
    Fence {
        /// First address of the lease, as the lender counts.
        base: u64,
        /// The token that came with the lease.
        token: String,
        /// The borrower's process.
        owner: u32,
    },
}

impl Request {
    /// Rights of which a node has to have one, to make this request.
    pub fn rights(&self) -> &'static [Right] {
        match self {
            Request::Offer(..) | Request::Leased(_) | Request::Ended(_) => &[Right::Lend],
            Request::Want(Want { purpose, .. }) | Request::Lease { purpose, .. } => match purpose {
                Right::Blk => &[Right::Blk],
                _ => &[Right::Borrow],
            },
            Request::Resume { .. } | Request::Lane { .. } | Request::Fence { .. } => BORROWERS,
            Request::Show | Request::Ping | Request::Return => &[],
        }
    }
}

/// Rights of which nodes that borrow have one.
const BORROWERS: &[Right] = &[Right::Borrow, Right::Blk];

/// Rights of which nodes that lend, borrow, or look at the ledger have one.
pub const PARTIES: &[Right] = &[Right::Lend, Right::Borrow, Right::Blk, Right::Monitor];

/// An answer of a monitor or a lender.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Reply {
    /// The monitor has decided; the pieces of each copy, side by side.
    Granted(Vec<Vec<Piece>>),
    /// No, and why.
    Refused(#[serde(deserialize_with = "names::take_sentence")] String),
    /// The monitor is elsewhere: at this address.
    Elsewhere(Address),
    /// All lenders and leases.
    Ledger(Ledger),
    /// Nothing to say.
    Pong,
    /// The lender has made the lease; on the same host, a descriptor comes with it.
    Leased {
        /// First address, as the lender counts.
        base: u64,
        /// Bytes leased.
        size_bytes: u64,
        /// Secret of this lease, which lanes and resumed connections show.
        token: String,
    },
    /// The lender wants the lease back, and will take it after so many milliseconds.
    Notice(u64),
    /// The lender has thrown the lease's memory away.
    Returned,
    /// The connection is a lane from here on.
    LaneOpen,
    /// The connection is that of the lease from here on.
    Resumed,
    /// The lanes have ended; nothing that was asked of them takes effect any more.
    Fenced,
    /// There is no such lease, or no longer.
    NoLease,
}
