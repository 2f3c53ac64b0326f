//! Messages between the ends of a lent NIC, beside packets.
//!
//! | byte 0 | message | then |
//! |---|---|---|
//! | 1 | set-up | JSON of a [`Setup`] |
//! | 2 | interrupt | id, level |
//! | 3 | read a register | tag (2), register (2) |
//! | 4 | write one | tag (2), register (2), value (8) |
//! | 5 | answer | tag (2), fault and its code (2), value (8) |
//! | 6 | nothing, to show that one lives | |
//! | 7 | the end | reason, UTF-8 |
//!
//! Numbers are little endian.

use rackmem_rmc::imt::LINES;
use serde::{Deserialize, Serialize};

use super::interrupt::Interrupt;
use super::register::Fault;
use super::sys::interface::Mac;
use rackmem_fabric::error::{Error, Result};
use rackmem_fabric::net::names;

/// Version of this protocol; another one is refused.
pub const VERSION: u32 = 2;

/// Most bytes of a message: any datagram carries one.
pub const MAX_MESSAGE_BYTES: usize = 480;

/// Way of packets between borrower and lender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Through a tunnel of the kernel's: no process touches them.
    Kernel,
    /// Through both processes and a TAP interface.
    Tap,
}

/// Steps of becoming a borrower.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Setup {
    /// Borrower: I am node `node` and would like to have your NIC.
    Hello {
        /// Version of the protocol.
        version: u32,
        /// Number of the borrower's node.
        node: u16,
    },
    /// Lender: you can have it.
    Offer {
        /// The NIC's name there.
        #[serde(deserialize_with = "names::take_name")]
        interface: String,
        /// Its address.
        mac: Mac,
        /// Bytes of the largest packet, without its Ethernet header.
        mtu: u32,
        /// Whether its cable is in.
        link: bool,
        /// Shown by the borrower when it opens a second connection, for packets.
        token: u64,
        /// Whether the lender may make tunnels.
        kernel: bool,
    },
    /// Lender: you cannot, or not so.
    Refused {
        /// The reason, and what to do about it.
        #[serde(deserialize_with = "names::take_sentence")]
        reason: String,
    },
    /// Borrower: this is how packets shall travel.
    Choose {
        /// The way that the borrower has chosen.
        mode: Mode,
        /// Number of the tunnel, of which the borrower's end is there.
        tunnel: Option<u32>,
    },
    /// Borrower, on a second connection: packets travel here.
    Data {
        /// The token of the offer.
        token: u64,
    },
    /// Lender: packets travel.
    Ready {
        /// Most bytes of a packet.
        mtu: u32,
    },
}

/// A message between borrower and lender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// A step of becoming a borrower.
    Setup(Setup),
    /// An interrupt of the device.
    Interrupt(Interrupt),
    /// The value of a register is wanted.
    Read {
        /// Comes back with the answer.
        tag: u16,
        /// Its address.
        register: u16,
    },
    /// Sets the value of a register.
    Write {
        /// Comes back with the answer.
        tag: u16,
        /// Its address.
        register: u16,
        /// The value to be written, eight bytes.
        value: u64,
    },
    /// The answer to one of both: the value it has.
    Answer {
        /// The tag of the question.
        tag: u16,
        /// The value, or why not.
        value: std::result::Result<u64, Fault>,
    },
    /// Nothing.
    Alive,
    /// The end, and why.
    Bye(String),
}

impl Message {
    /// The message as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(16);
        match self {
            Message::Setup(setup) => {
                bytes.push(1);
                serde_json::to_writer(&mut bytes, setup).expect("numbers and short strings");
            }
            Message::Interrupt(interrupt) => {
                bytes.extend_from_slice(&[2, interrupt.id, interrupt.asserted.into()]);
            }
            Message::Read { tag, register } => {
                bytes.push(3);
                bytes.extend_from_slice(&tag.to_le_bytes());
                bytes.extend_from_slice(&register.to_le_bytes());
            }
            Message::Write { tag, register, value } => {
                bytes.push(4);
                bytes.extend_from_slice(&tag.to_le_bytes());
                bytes.extend_from_slice(&register.to_le_bytes());
                bytes.extend_from_slice(&value.to_le_bytes());
            }
            Message::Answer { tag, value } => {
                let (fault, code, value) = match *value {
                    Ok(value) => (0, 0, value),
                    Err(Fault::NoSuchRegister) => (1, 0, 0),
                    Err(Fault::ReadOnly) => (2, 0, 0),
                    Err(Fault::Device(code)) => (3, code, 0),
                };
                bytes.push(5);
                bytes.extend_from_slice(&tag.to_le_bytes());
                bytes.extend_from_slice(&[fault, code]);
                bytes.extend_from_slice(&value.to_le_bytes());
            }
            Message::Alive => bytes.push(6),
            Message::Bye(reason) => {
                bytes.push(7);
                bytes.extend_from_slice(reason.as_bytes());
                let mut end = bytes.len().min(MAX_MESSAGE_BYTES);
                while std::str::from_utf8(&bytes[1..end]).is_err() {
                    end -= 1;
                }
                bytes.truncate(end);
            }
        }
        bytes
    }

    /// The message in these bytes, all of them.
    ///
    /// # Errors
    /// [`Error::Protocol`]: they are none.
    pub fn decode(bytes: &[u8]) -> Result<Message> {
        Message::parse(bytes).ok_or_else(|| {
            let start = &bytes[..bytes.len().min(16)];
            let length = bytes.len();
            Error::Protocol(format!(
                "these {length} bytes are no message about a NIC: {start:02x?}.."
            ))
        })
    }

    fn parse(bytes: &[u8]) -> Option<Message> {
        let (&kind, rest) = bytes.split_first()?;
        if bytes.len() > MAX_MESSAGE_BYTES {
            return None;
        }
        let pair = |at: usize| Some(u16::from_le_bytes(rest.get(at..at + 2)?.try_into().ok()?));
        let value = |at: usize| Some(u64::from_le_bytes(rest.get(at..at + 8)?.try_into().ok()?));
        Some(match (kind, rest.len()) {
            (1, _) => Message::Setup(serde_json::from_slice(rest).ok()?),
            (2, 2) if usize::from(rest[0]) < LINES && rest[1] < 2 => {
                Message::Interrupt(Interrupt { id: rest[0], asserted: rest[1] == 1 })
            }
            (3, 4) => Message::Read { tag: pair(0)?, register: pair(2)? },
            (4, 12) => Message::Write { tag: pair(0)?, register: pair(2)?, value: value(4)? },
            (5, 12) => Message::Answer {
                tag: pair(0)?,
                value: match (rest[2], rest[3], value(4)?) {
                    (0, 0, value) => Ok(value),
                    (1, 0, 0) => Err(Fault::NoSuchRegister),
                    (2, 0, 0) => Err(Fault::ReadOnly),
                    (3, code, 0) => Err(Fault::Device(code)),
                    _ => return None,
                },
            },
            (6, 0) => Message::Alive,
            (7, _) => Message::Bye(names::printable(std::str::from_utf8(rest).ok()?)),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message() -> impl Strategy<Value = Message> {
        let answer = prop_oneof![
            any::<u64>().prop_map(Ok),
            Just(Err(Fault::NoSuchRegister)),
            Just(Err(Fault::ReadOnly)),
            any::<u8>().prop_map(|code| Err(Fault::Device(code))),
        ];
        let mac = proptest::array::uniform6(any::<u8>());
        let offer = (mac, any::<u32>(), any::<bool>(), any::<u64>(), any::<bool>()).prop_map(
            |(mac, mtu, link, token, kernel)| {
                let interface = "eth0".to_owned();
                Message::Setup(Setup::Offer { interface, mac, mtu, link, token, kernel })
            },
        );
        prop_oneof![
            offer,
            (any::<u32>(), any::<u16>())
                .prop_map(|(version, node)| Message::Setup(Setup::Hello { version, node })),
            (0..LINES as u8, any::<bool>())
                .prop_map(|(id, asserted)| Message::Interrupt(Interrupt { id, asserted })),
            (any::<u16>(), any::<u16>())
                .prop_map(|(tag, register)| Message::Read { tag, register }),
            (any::<u16>(), any::<u16>(), any::<u64>())
                .prop_map(|(tag, register, value)| Message::Write { tag, register, value }),
            (any::<u16>(), answer).prop_map(|(tag, value)| Message::Answer { tag, value }),
            Just(Message::Alive),
            "[ -~]{0,100}".prop_map(Message::Bye),
        ]
    }

    proptest! {
        #[test]
        fn messages_come_back(message in message()) {
            prop_assert_eq!(Message::decode(&message.encode()).unwrap(), message);
        }

        #[test]
        fn bytes_are_a_message_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            let _ = Message::decode(&bytes);
        }

        #[test]
        fn kinds_with_any_rest_are_a_message_or_an_error(
            kind in 0..9u8, rest in proptest::collection::vec(0..4u8, 0..14),
        ) {
            let bytes = [&[kind], &rest[..]].concat();
            match Message::decode(&bytes) {
                Ok(Message::Bye(reason)) => prop_assert!(reason.chars().all(names::is_printable)),
                Ok(message) => prop_assert_eq!(message.encode(), bytes),
                Err(_) => {}
            }
        }

        #[test]
        fn long_reasons_are_cut(reason in "\\PC{0,400}") {
            let reason = names::printable(&reason);
            let bytes = Message::Bye(reason.clone()).encode();
            let Message::Bye(cut) = Message::decode(&bytes).unwrap() else { panic!() };
            prop_assert!(reason.starts_with(&cut) && (cut == reason || cut.len() > 470));
        }
    }
}
