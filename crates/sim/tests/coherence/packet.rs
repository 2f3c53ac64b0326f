//! Packets of the network.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use rackmem_sim::coherence::{Forward, Message, Party};

use crate::node::Version;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    Home,
    Party(Party),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Packet {
    pub from: End,
    pub to: End,
    pub message: Message<Version>,
}

impl Packet {
    /// An order for the multiset of packets.
    pub fn key(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            End::Home => write!(f, "home"),
            End::Party(party) => write!(f, "{party}"),
        }
    }
}

impl fmt::Display for Packet {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} -> {}: ", self.from, self.to)?;
        match self.message {
            Message::Request(request) => write!(f, "{request:?}"),
            Message::Forward(forward) => write!(f, "{forward:?}"),
            Message::Response(response) => write!(f, "{response:?}"),
        }
    }
}

/// Whether the receipt of one message may depend on room for another: of a higher virtual network, or
/// responses for responses, which everybody has room for. Also, a waiting party may now send the request
/// that it keeps room for.
pub fn may_cause(at: End, message: &Message<Version>, sent: &Message<Version>) -> bool {
    match (message, sent) {
        (_, Message::Response(_)) => true,
        (Message::Request(_), Message::Forward(_)) => true,
        (Message::Forward(Forward::PutAck) | Message::Response(_), Message::Request(_)) => {
            at != End::Home
        }
        _ => false,
    }
}
