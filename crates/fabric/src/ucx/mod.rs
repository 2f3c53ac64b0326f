//! Links by UCX, which reaches what the host's adapters can: messages of UCX carry the bytes of a link, so packets and
//! their limits are those of [`crate::tcp`].
//!
//! It was run over the TCP of UCX 1.13 and 1.22, and over nothing else: no figure of RDMA is claimed. Both refuse
//! shared memory by itself in the mode that notices dead peers.
//!
//! # Decisions
//!
//! - *The library is loaded at run time*, where a rack file asks for it. Without it nothing changes.
//! - *Endpoints are in UCX's peer error mode always.* In its other mode a dead peer is waited for without end. Peer
//!   mode excludes UCX's atomics, so all requests are active messages to the target's daemon, which has to make
//!   progress anyway.
//! - *The packets of a turn are one active message.* UCX does not promise the order of messages, so each has a number.
//! - *Long results are not sent by PUT.* They pass through the daemon, whose buffers would have to be registered and
//!   announced; over TCP a PUT with its flush took twice as long as a message. Messages that UCX finds long travel by
//!   its rendezvous, which fetches them by RDMA where it can. Over TCP both ways were equally fast.
//! - *A TCP connection stays beside UCX.* The handshake was made by it, its end is the end of the link, and its
//!   keep-alive finds a silent host sooner than UCX does.
//! - *A worker of UCX for each link.* All that belongs to a link ends with it. A rack of hundreds of nodes would need
//!   fewer resources if its links shared one.
//! - *UCX encrypts nothing, and its sockets ask nobody who they are*: it is used where the rack file says
//!   `cleartext = true` only.

mod engine;
mod inbox;
mod stream;
mod sys;

use serde::{Deserialize, Serialize};

pub use engine::{Engine, Worker};
pub use stream::UcxStream;

/// Links by UCX.
pub type UcxLink = crate::tcp::PacketLink<UcxStream>;

/// Longest message: as much as the limits of a link allow to be staged, and what they round up to.
const MAX_MESSAGE_BYTES: usize = 4 << 20;

/// Longest address of a worker: two names of it fit into the frame of a handshake.
pub const MAX_ADDRESS_BYTES: usize = 1500;

/// Where a worker of UCX is found: hexadecimal digits in messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Address(Vec<u8>);

impl From<Address> for String {
    fn from(address: Address) -> String {
        address.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl TryFrom<String> for Address {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Address, &'static str> {
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        if !rest.is_empty() || pairs.len() > MAX_ADDRESS_BYTES {
            return Err("no address of UCX");
        }
        let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
        let byte = |pair: &[u8; 2]| Some(digit(pair[0])? << 4 | digit(pair[1])?);
        let bytes: Option<Vec<u8>> = pairs.iter().map(byte).collect();
        bytes.map(Address).ok_or("no address of UCX")
    }
}

/// Reason for which there is no UCX, or no link by it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UcxError {
    /// There is no library.
    #[error(
        "UCX is not installed ({0}): install Debian's libucx0, or UCX 1.13 or later of another source"
    )]
    Missing(String),
    /// The library lacks a function.
    #[error("libucp.so.0 has no {0}: UCX 1.13 or later is needed")]
    Incomplete(&'static str),
    /// The library is too old.
    #[error("libucp.so.0 is of UCX {0}.{1}: 1.13 or later is needed")]
    Old(u32, u32),
    /// A call has failed.
    #[error("UCX cannot {0}: {1}")]
    Failed(&'static str, String),
    /// The transports do not notice dead peers.
    #[error(
        "UCX finds no transport to it that notices a dead peer ({0}): leave UCX_TLS and UCX_NET_DEVICES unset, or let \
         them have tcp"
    )]
    NoTransport(String),
    /// The address is too long for a handshake.
    #[error("UCX has an address of {0} bytes: name fewer devices by UCX_NET_DEVICES")]
    LongAddress(usize),
}

#[cfg(test)]
mod tests;
