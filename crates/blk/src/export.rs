//! The export that clients are offered, and its limits.

use super::wire::transmission;

/// Longest read or write in bytes, the same as nbdkit's; longer ones are answered with an error. Clients that ask for
/// no block sizes may assume half of it.
pub const MAX_PAYLOAD_BYTES: u32 = 64 << 20;

/// Size of requests that suits the store best, in bytes.
pub const PREFERRED_BLOCK_BYTES: u32 = 4096;

/// The one export of a server. A client that names none means it, too.
#[derive(Clone, Debug)]
pub struct Export {
    /// The name that clients ask for.
    pub name: String,
    /// Text that clients may show to people.
    pub description: String,
    /// Its size.
    pub size_bytes: u64,
    /// Whether writes are refused.
    pub is_read_only: bool,
}

impl Export {
    /// Whether a client that asks for `name` means this export.
    pub(super) fn is_called(&self, name: &[u8]) -> bool {
        name.is_empty() || name == self.name.as_bytes()
    }

    /// The transmission flags. Every answered write is at the lender, so a flush on one connection covers
    /// all: `CAN_MULTI_CONN` holds.
    pub(super) fn flags(&self, structured: bool) -> u16 {
        use transmission::{
            CAN_MULTI_CONN, HAS_FLAGS, READ_ONLY, SEND_CACHE, SEND_DF, SEND_FAST_ZERO, SEND_FLUSH,
            SEND_FUA, SEND_TRIM, SEND_WRITE_ZEROES,
        };
        let all = HAS_FLAGS | CAN_MULTI_CONN | SEND_CACHE | SEND_FLUSH | SEND_FUA;
        let structured = if structured { SEND_DF } else { 0 };
        let writable = SEND_TRIM | SEND_WRITE_ZEROES | SEND_FAST_ZERO;
        all | structured | if self.is_read_only { READ_ONLY } else { writable }
    }
}

/// Extensions that client and server have agreed on before transmission begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Agreed {
    /// Replies to reads are structured.
    pub structured: bool,
    /// The client may ask for the block status `base:allocation`.
    pub base_allocation: bool,
}
