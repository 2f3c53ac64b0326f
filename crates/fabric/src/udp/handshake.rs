//! Beginning of a link: the [greeting](crate::greeting) in datagrams, which are a token, a frame and a CRC.
//!
//! | from | token | frame |
//! |---|---|---|
//! | connector | none | a hello: a link is wanted |
//! | listener | of that hello | *again*, with a cookie that it need not remember, and with its node where keys prove |
//! | connector | the cookie | a hello that is bound to it |
//! | listener | of that hello | the welcome, from the address that the link will use, or a refusal |
//!
//! Until a hello with its cookie a listener allocates nothing, computes two hashes, answers each datagram with one that
//! is not longer, and answers only where the address that asked can hear it. So a hello that it reads is new: nobody
//! has recorded it elsewhere. The token of an answer shows that its sender has seen the question.

use rackmem_rmc::link::wire::crc32c;
use serde::{Deserialize, Serialize};

use crate::greeting::HEAD_BYTES;

/// A cookie, or the beginning of a hello's message, which is random.
pub(super) type Token = [u8; 16];

/// Longest datagram of a handshake.
pub(super) const MAX_BYTES: usize = 512;

/// Limits that the ends tell each other.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Terms {
    /// Most bytes of a datagram that the sender's network carries.
    pub max_bytes: u16,
}

/// A datagram of the handshake.
pub(super) fn datagram(token: &Token, frame: &[u8]) -> Vec<u8> {
    let mut bytes = [token, frame].concat();
    bytes.extend(crc32c(&bytes).to_le_bytes());
    bytes
}

/// Token and frame of a datagram that was not damaged.
pub(super) fn open(datagram: &[u8]) -> Option<(&Token, &[u8])> {
    let (checked, crc) = datagram.split_last_chunk::<4>()?;
    let is_whole = crc32c(checked) == u32::from_le_bytes(*crc);
    checked.split_first_chunk().filter(|_| is_whole)
}

/// The token of the answers to a hello.
pub(super) fn token_of(hello: &[u8]) -> Option<Token> {
    hello.get(HEAD_BYTES..)?.first_chunk().copied()
}

/// The callee's node, behind the cookie; 0 where no keys tell nodes apart.
pub(super) fn node_of(behind: &[u8]) -> u16 {
    behind.first_chunk().map_or(0, |node| u16::from_le_bytes(*node))
}

/// The number of a session: datagrams of an older link with the same peer are told apart.
pub(super) fn session(token: &Token) -> u32 {
    u32::from_le_bytes(*token.first_chunk().expect("a token has more bytes"))
}
