//! Packets as a stream of bytes: each has its length in front, four bytes, little endian; it begins with a
//! `virtio_net_hdr`.

use super::sys::packet::{VLAN_TAG_BYTES, VNET_HEADER_BYTES};
use rackmem_fabric::error::{Error, Result};

/// Bytes in front of a packet.
const LENGTH_BYTES: usize = 4;
/// Fewest bytes of a packet: its header, and that of Ethernet.
pub const MIN_PACKET_BYTES: usize = VNET_HEADER_BYTES + 14;
/// Most bytes of a packet: the kernel hands over up to 64 KB at once, and its headers.
pub const MAX_PACKET_BYTES: usize = VNET_HEADER_BYTES + (1 << 16) + 246;

/// Bytes that either end keeps: eight of the largest packets.
const BUFFER_BYTES: usize = 8 * (MAX_PACKET_BYTES + LENGTH_BYTES);

/// Packets on their way out.
#[derive(Debug)]
pub struct Outbox {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Outbox {
    /// Nothing.
    pub fn new() -> Outbox {
        Outbox { bytes: vec![0; BUFFER_BYTES].into_boxed_slice(), start: 0, end: 0 }
    }

    /// Room for the next packet, if one of any size fits. [`Outbox::commit`] adds it.
    pub fn room(&mut self) -> Option<&mut [u8]> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        let from = self.end + LENGTH_BYTES;
        self.bytes.get_mut(from..from + MAX_PACKET_BYTES)
    }

    /// Adds the packet of `length` bytes that was put where [`Outbox::room`] said.
    pub fn commit(&mut self, length: usize) {
        debug_assert!(length <= MAX_PACKET_BYTES);
        self.bytes[self.end..self.end + LENGTH_BYTES]
            .copy_from_slice(&(length as u32).to_le_bytes());
        self.end += LENGTH_BYTES + length;
    }

    /// Bytes that wait to be sent.
    pub fn pending(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Removes the first `length` bytes, which were sent.
    pub fn sent(&mut self, length: usize) {
        self.start += length;
    }

    /// Whether all was.
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }
}

/// Packets that have arrived, perhaps in pieces.
#[derive(Debug)]
pub struct Inbox {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Inbox {
    /// Nothing.
    pub fn new() -> Inbox {
        Inbox { bytes: vec![0; BUFFER_BYTES].into_boxed_slice(), start: 0, end: 0 }
    }

    /// Room for the next bytes of the stream; [`Inbox::commit`] adds them. Empty while packets that have arrived take
    /// all of it.
    pub fn room(&mut self) -> &mut [u8] {
        // Moving what is left costs a copy: only when no whole packet would fit behind it.
        if self.bytes.len() - self.end < MAX_PACKET_BYTES + LENGTH_BYTES {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        &mut self.bytes[self.end..]
    }

    /// Adds so many bytes.
    pub fn commit(&mut self, length: usize) {
        self.end += length;
    }

    /// The oldest packet, if it is there as a whole; [`Inbox::consume`] gives it up.
    ///
    /// # Errors
    /// [`Error::Protocol`]: its length is none that a packet has.
    pub fn front(&self) -> Result<Option<&[u8]>> {
        let bytes = &self.bytes[self.start..self.end];
        let Some((length, rest)) = bytes.split_first_chunk::<LENGTH_BYTES>() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes(*length) as usize;
        if !(MIN_PACKET_BYTES..=MAX_PACKET_BYTES).contains(&length) {
            return Err(Error::Protocol(format!(
                "a packet of {length} bytes arrived, which is not from {MIN_PACKET_BYTES} to \
                 {MAX_PACKET_BYTES}: the other end is not in step"
            )));
        }
        Ok(rest.get(..length))
    }

    /// Gives up the oldest packet.
    pub fn consume(&mut self) {
        let bytes = &self.bytes[self.start..self.end];
        let length = bytes.first_chunk::<LENGTH_BYTES>().map(|bytes| u32::from_le_bytes(*bytes));
        self.start += LENGTH_BYTES + length.expect("there is a packet to consume") as usize;
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }
}

// A tag that is put back has to fit behind the longest packet.
const _: () = assert!(MAX_PACKET_BYTES - (1 << 16) > VNET_HEADER_BYTES + 14 + VLAN_TAG_BYTES);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn packets_come_back_whatever_the_pieces(
            lengths in proptest::collection::vec(MIN_PACKET_BYTES..=MAX_PACKET_BYTES, 1..40),
            piece in 1..200_000usize,
        ) {
            let (mut outbox, mut inbox) = (Outbox::new(), Inbox::new());
            let mut waiting = lengths.iter().enumerate();
            let mut next = waiting.next();
            let mut got = 0;
            while got < lengths.len() {
                while let (Some((number, &length)), Some(room)) = (next, outbox.room()) {
                    room[..length].fill(number as u8);
                    outbox.commit(length);
                    next = waiting.next();
                }
                let room = inbox.room();
                let length = piece.min(room.len()).min(outbox.pending().len());
                room[..length].copy_from_slice(&outbox.pending()[..length]);
                outbox.sent(length);
                inbox.commit(length);
                while let Some(packet) = inbox.front().unwrap() {
                    prop_assert_eq!(packet.len(), lengths[got]);
                    prop_assert!(packet.iter().all(|&byte| byte == got as u8));
                    inbox.consume();
                    got += 1;
                }
            }
            prop_assert!(outbox.is_empty());
        }

        #[test]
        fn hostile_streams_are_packets_or_an_error(
            bytes in proptest::collection::vec(prop_oneof![Just(0u8), Just(40), any::<u8>()], 0..4000),
        ) {
            let mut inbox = Inbox::new();
            inbox.room()[..bytes.len()].copy_from_slice(&bytes);
            inbox.commit(bytes.len());
            let mut taken = 0;
            while let Ok(Some(packet)) = inbox.front() {
                taken += packet.len() + 4;
                prop_assert!(taken <= bytes.len());
                inbox.consume();
            }
        }
    }
}
