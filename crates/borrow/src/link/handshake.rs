//! How two ends begin and end together: datagrams that are not frames.
//!
//! Who wants a link sends `Hello` with a number of its own to a known address, until `Welcome` comes
//! with that number and one of the other end, from the address that the link will use. Their mixture
//! names the session, so datagrams of an older link are told apart. `Bye` ends it.

use rackmem_rmc::link::wire::crc32c;

/// First bytes of all of them. No frame of the link begins so.
const MAGIC: [u8; 4] = *b"RKLK";
const VERSION: u8 = 1;
const BYTES: usize = 20;

/// A datagram of the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// A link is wanted, with datagrams of up to so many bytes.
    Hello { theirs: u32, max_bytes: u16 },
    /// It may begin; datagrams have as many bytes as both ends can do.
    Welcome { theirs: u32, ours: u32, max_bytes: u16 },
    /// It has ended.
    Bye { session: u32 },
}

impl Message {
    pub(super) fn encode(self) -> Vec<u8> {
        let (kind, a, b, max_bytes) = match self {
            Message::Hello { theirs, max_bytes } => (1, theirs, 0, max_bytes),
            Message::Welcome { theirs, ours, max_bytes } => (2, theirs, ours, max_bytes),
            Message::Bye { session } => (3, session, 0, 0),
        };
        let mut bytes = Vec::with_capacity(BYTES);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&[VERSION, kind]);
        bytes.extend_from_slice(&a.to_le_bytes());
        bytes.extend_from_slice(&b.to_le_bytes());
        bytes.extend_from_slice(&max_bytes.to_le_bytes());
        bytes.extend_from_slice(&crc32c(&bytes).to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Message> {
        let (checked, crc) = bytes.split_last_chunk::<4>()?;
        let head: &[u8; BYTES - 4] = checked.try_into().ok()?;
        if head[..4] != MAGIC || head[4] != VERSION || crc32c(checked) != u32::from_le_bytes(*crc) {
            return None;
        }
        let word =
            |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let max_bytes = u16::from_le_bytes([head[14], head[15]]);
        match (head[5], word(6), word(10), max_bytes) {
            (1, theirs, 0, max_bytes) => Some(Message::Hello { theirs, max_bytes }),
            (2, theirs, ours, max_bytes) => Some(Message::Welcome { theirs, ours, max_bytes }),
            (3, session, 0, 0) => Some(Message::Bye { session }),
            _ => None,
        }
    }
}

/// The session of two numbers.
pub(super) fn session(theirs: u32, ours: u32) -> u32 {
    theirs.rotate_left(16) ^ ours
}

/// A number that nobody else has.
pub(super) fn nonce() -> u32 {
    use std::hash::{BuildHasher, RandomState};
    // The standard library's hash keys are random for each process, and differ from call to call.
    RandomState::new().hash_one(std::time::Instant::now()) as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bytes_are_a_message_or_nothing(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Some(message) = Message::decode(&bytes) {
                prop_assert_eq!(message.encode(), bytes);
            }
        }

        #[test]
        fn messages_come_back(kind in 0..3, a: u32, b: u32, max_bytes: u16, bit in 0..8 * BYTES) {
            let message = match kind {
                0 => Message::Hello { theirs: a, max_bytes },
                1 => Message::Welcome { theirs: a, ours: b, max_bytes },
                _ => Message::Bye { session: a },
            };
            let mut bytes = message.encode();
            prop_assert_eq!(Message::decode(&bytes), Some(message));
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(Message::decode(&bytes), None);
        }
    }
}
