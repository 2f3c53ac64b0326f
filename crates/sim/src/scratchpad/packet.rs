//! Packets between caches with integrated network interfaces (CINI §3.4, Fig. 5).

use crate::block::Words;

/// A class of packets. Each may have to wait for a later one, and never for an earlier one: a read is
/// answered by writes, a write by an acknowledgement, and an acknowledgement by nothing. The paper
/// has three priorities and does not say which packets have which; these are in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Asks for writes. Its arrival needs a place in the job list.
    Read,
    /// Starts something: remote stores, messages, RDMA writes, notifications.
    Write,
    /// Writes that a read has asked for, and answers to loads.
    Reply,
    /// Acknowledgements.
    Ack,
}

/// A packet. Addresses are virtual, and 0 as an acknowledgement address asks for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Packet {
    /// Asks the owner of `source` to write it to `destination`.
    Read {
        /// Address of the first byte that is asked for.
        source: u64,
        /// Address that the first byte is to be written to.
        destination: u64,
        /// Address that the acknowledgements go to.
        ack: u64,
        /// Bytes that are asked for.
        bytes: u32,
    },
    /// Bytes of one line.
    Write {
        /// Address of the line's first byte.
        line: u64,
        /// Bytes of the line that are written: bit = byte.
        mask: u64,
        /// The line with these bytes at their places.
        words: Words,
        /// Address that the acknowledgement goes to.
        ack: u64,
        /// Whether a read asked for it.
        is_reply: bool,
    },
    /// So many bytes have been written, or refused.
    Ack {
        /// Address that the bytes are reported to, such as a counter.
        address: u64,
        /// Bytes of the packet that this acknowledges.
        bytes: u32,
        /// Whether a full queue refused them: a negative acknowledgement (CINI §2).
        is_refusal: bool,
    },
}

impl Packet {
    /// The address that it is for.
    pub const fn to(&self) -> u64 {
        match self {
            Packet::Read { source, .. } => *source,
            Packet::Write { line, .. } => *line,
            Packet::Ack { address, .. } => *address,
        }
    }

    /// The class decides its priority in the network.
    pub const fn class(&self) -> Class {
        match self {
            Packet::Read { .. } => Class::Read,
            Packet::Write { is_reply: false, .. } => Class::Write,
            Packet::Write { is_reply: true, .. } => Class::Reply,
            Packet::Ack { .. } => Class::Ack,
        }
    }

    /// The word that an acknowledgement writes: its bytes, less than zero if they were refused.
    pub fn ack_word(bytes: u32, is_refusal: bool) -> u64 {
        let bytes = u64::from(bytes);
        if is_refusal { bytes.wrapping_neg() } else { bytes }
    }

    /// Bytes of data that it carries besides its header, which has the addresses.
    pub const fn payload_bytes(&self) -> u32 {
        match self {
            Packet::Write { mask, .. } => mask.count_ones(),
            Packet::Read { .. } | Packet::Ack { .. } => 0,
        }
    }
}
