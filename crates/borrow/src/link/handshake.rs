//! Beginning and end of a link: datagrams that are not frames.
//!
//! | datagram | from | says |
//! |---|---|---|
//! | `Hello` | connector | a link is wanted; with its nonce |
//! | `Challenge` | listener | the listener's nonce, which it need not remember: it can be computed again |
//! | `Prove` | connector | both nonces, sealed: it knows the secret |
//! | `Welcome` | listener | the same, sealed by the listener, from the address that the link will use |
//! | `Denied` | listener | the seal of `Prove` is wrong |
//! | `Bye` | either | the link has ended; sealed |
//!
//! Until `Prove`, a listener allocates nothing, answers each datagram with one that is not longer, and answers only
//! where the address that asked can hear it. Without a secret the seals are keyed by the nonces alone: they tell links
//! apart, and keep out senders that do not see the datagrams.

use rackmem_rmc::link::wire::crc32c;

use crate::net::secret::Nonce;

/// First bytes of all of them. No frame of the link begins so.
const MAGIC: [u8; 4] = *b"RKLK";
const VERSION: u8 = 2;
/// Bytes of a datagram, without its seal.
pub(super) const BYTES: usize = 44;

/// A datagram of the handshake; the nonces are those of its ends.
#[allow(missing_docs, reason = "the table above says what they are")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// A link is wanted.
    Hello { connector: Nonce },
    /// The connector has to prove that it knows the secret.
    Challenge { listener: Nonce, connector: Nonce },
    /// It does, and its datagrams may have so many bytes.
    Prove { listener: Nonce, connector: Nonce, max_bytes: u16 },
    /// The link begins; datagrams have as many bytes as both ends can do.
    Welcome { listener: Nonce, connector: Nonce, max_bytes: u16 },
    /// The proof was wrong.
    Denied { listener: Nonce, connector: Nonce },
    /// It has ended.
    Bye { session: u32 },
}

impl Message {
    /// The datagram, without a seal.
    pub fn encode(self) -> Vec<u8> {
        let none = Nonce::default();
        let (kind, listener, connector, max_bytes) = match self {
            Message::Hello { connector } => (1, none, connector, 0),
            Message::Challenge { listener, connector } => (2, listener, connector, 0),
            Message::Prove { listener, connector, max_bytes } => {
                (3, listener, connector, max_bytes)
            }
            Message::Welcome { listener, connector, max_bytes } => {
                (4, listener, connector, max_bytes)
            }
            Message::Denied { listener, connector } => (5, listener, connector, 0),
            Message::Bye { session } => {
                let mut number = none;
                number[..4].copy_from_slice(&session.to_le_bytes());
                (6, number, none, 0)
            }
        };
        let mut bytes = Vec::with_capacity(BYTES);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&[VERSION, kind]);
        bytes.extend_from_slice(&listener);
        bytes.extend_from_slice(&connector);
        bytes.extend_from_slice(&max_bytes.to_le_bytes());
        bytes.extend_from_slice(&crc32c(&bytes).to_le_bytes());
        bytes
    }

    /// The message in these bytes, all of them.
    pub fn decode(bytes: &[u8]) -> Option<Message> {
        let (checked, crc) = bytes.split_last_chunk::<4>()?;
        let head: &[u8; BYTES - 4] = checked.try_into().ok()?;
        if head[..4] != MAGIC || head[4] != VERSION || crc32c(checked) != u32::from_le_bytes(*crc) {
            return None;
        }
        let nonce = |at: usize| -> Nonce { *head[at..].first_chunk().expect("both nonces fit") };
        let (listener, connector) = (nonce(6), nonce(22));
        let max_bytes = u16::from_le_bytes([head[38], head[39]]);
        let message = match head[5] {
            1 => Message::Hello { connector },
            2 => Message::Challenge { listener, connector },
            3 => Message::Prove { listener, connector, max_bytes },
            4 => Message::Welcome { listener, connector, max_bytes },
            5 => Message::Denied { listener, connector },
            6 => Message::Bye { session: session(&listener) },
            _ => return None,
        };
        // Fields that a kind has no use for are zero.
        (message.encode() == bytes).then_some(message)
    }
}

/// The number of a session: datagrams of an older link with the same peer are told apart.
pub(super) fn session(listener: &Nonce) -> u32 {
    u32::from_le_bytes(*listener.first_chunk().expect("a nonce has more bytes"))
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
        fn messages_come_back(
            kind in 0..6, listener: Nonce, connector: Nonce, max_bytes: u16, bit in 0..8 * BYTES,
        ) {
            let message = match kind {
                0 => Message::Hello { connector },
                1 => Message::Challenge { listener, connector },
                2 => Message::Prove { listener, connector, max_bytes },
                3 => Message::Welcome { listener, connector, max_bytes },
                4 => Message::Denied { listener, connector },
                _ => Message::Bye { session: session(&listener) },
            };
            let mut bytes = message.encode();
            prop_assert_eq!(bytes.len(), BYTES);
            prop_assert_eq!(Message::decode(&bytes), Some(message));
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(Message::decode(&bytes), None);
        }
    }
}
