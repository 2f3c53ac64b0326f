//! Memory of a connection in a segment: the receives that the peer posted and the messages that it sent, both written
//! by the peer with remote writes and read here with plain loads.
//!
//! A remote write orders nothing but the bytes of a line, whose first word it stores last. So each line of a message
//! begins with the message's header, and both words of a receive have its stamp: whatever has come of it, what is not
//! complete is not taken for it. A stamp holds the connection's life and the round of its place, as a place is used
//! again only after its message was taken ([`rackmem_rmc::two_sided`]).

use std::sync::atomic::{AtomicU64, Ordering};

use rackmem_abi::LINE_BYTES;
use rackmem_rmc::two_sided::{Arrival, Descriptor};

use crate::shm::copy::copy_out;

/// Places of an SQ and an RQ.
pub const DEPTH: usize = 64;

/// Most lines of a message that travels in the queue and not in a buffer.
const INLINE_LINES: usize = 4;

/// Bytes of a message in a line, beside the header.
const PAYLOAD_BYTES: usize = LINE_BYTES - 8;

/// Longest message that travels in the queue and not in a buffer, in bytes.
pub const INLINE_BYTES: usize = INLINE_LINES * PAYLOAD_BYTES;

/// Bits of a word that do not belong to the stamp.
const VALUE_BITS: u32 = 40;
const VALUE_MASK: u64 = (1 << VALUE_BITS) - 1;

/// The header's mark of a message that did not fit.
const TOO_LONG: u64 = 1 << (VALUE_BITS - 1);

/// A line of shared memory.
#[repr(C, align(64))]
struct Line([AtomicU64; LINE_BYTES / 8]);

/// The memory of a connection in the segment of one of its nodes. The peer writes all of it but the draft.
#[repr(C)]
pub struct Area {
    hello: Line,
    receives: [[AtomicU64; 2]; DEPTH],
    arrivals: [[Line; INLINE_LINES]; DEPTH],
    /// Lines that this node is about to write to its peer.
    draft: [Line; INLINE_LINES],
}

/// Bytes of a connection's area.
pub const AREA_BYTES: u64 = size_of::<Area>() as u64;

/// The lines of a message that travels in the queue.
fn lines_of(length_bytes: usize) -> usize {
    length_bytes.div_ceil(PAYLOAD_BYTES).max(1)
}

/// Stamps of one life of a connection, which its ends agree on. Memory that is zero has none of them.
#[derive(Clone, Copy, Debug)]
pub struct Life(u64);

impl Life {
    /// The life in which two ends with these random numbers meet.
    pub fn of(own: u32, peer: u32) -> Life {
        let mixed = own ^ peer;
        Life(u64::from((mixed ^ mixed >> 16) as u16 | 1) << 8)
    }

    /// The stamp of the n-th receive or message.
    #[inline]
    fn stamp(self, number: u64) -> u64 {
        (self.0 | (number / DEPTH as u64 + 1) & 0xff) << VALUE_BITS
    }
}

impl Area {
    /// Offset of the word with which ends begin and close a connection.
    pub const HELLO_AT: u64 = std::mem::offset_of!(Area, hello) as u64;

    /// Offset of the n-th receive.
    #[inline]
    pub fn receive_at(number: u64) -> u64 {
        (std::mem::offset_of!(Area, receives) + number as usize % DEPTH * 16) as u64
    }

    /// Offset of the n-th message.
    #[inline]
    pub fn arrival_at(number: u64) -> u64 {
        const PLACE_BYTES: usize = INLINE_LINES * LINE_BYTES;
        (std::mem::offset_of!(Area, arrivals) + number as usize % DEPTH * PLACE_BYTES) as u64
    }

    /// The word with which the peer has begun or closed a connection.
    #[inline]
    pub fn hello(&self) -> u64 {
        self.hello.0[0].load(Ordering::Acquire)
    }

    /// Forgets what former peers wrote. The present one writes only after the hello of this end.
    pub fn clear(&self) {
        let lines = self.arrivals.iter().flatten();
        for word in self.receives.iter().flatten().chain(lines.flat_map(|line| &line.0)) {
            word.store(0, Ordering::Relaxed);
        }
    }

    /// The peer's n-th receive, if it was posted; unchecked.
    #[inline]
    pub fn posted(&self, life: Life, number: u64) -> Option<Descriptor> {
        let place = &self.receives[number as usize % DEPTH];
        let [offset, size_bytes] = [0, 1].map(|i| place[i].load(Ordering::Acquire));
        let stamp = life.stamp(number);
        let is_there = (offset & !VALUE_MASK, size_bytes & !VALUE_MASK) == (stamp, stamp);
        is_there.then_some(Descriptor {
            offset: offset & VALUE_MASK,
            size_bytes: size_bytes & VALUE_MASK,
            id: 0,
        })
    }

    /// The peer's n-th message, if all that is here of it has come; unchecked.
    #[inline]
    pub fn arrived(&self, life: Life, number: u64) -> Option<Arrival> {
        let place = &self.arrivals[number as usize % DEPTH];
        let header = place[0].0[0].load(Ordering::Acquire);
        if header & !VALUE_MASK != life.stamp(number) {
            return None;
        }
        let length_bytes = header & (TOO_LONG - 1);
        let is_too_long = header & TOO_LONG != 0;
        if length_bytes <= INLINE_BYTES as u64 && !is_too_long {
            let rest = &place[1..lines_of(length_bytes as usize)];
            if rest.iter().any(|line| line.0[0].load(Ordering::Acquire) != header) {
                return None;
            }
        }
        Some(Arrival { length_bytes, is_too_long })
    }

    /// Takes the n-th message, which came in the queue. Its lines behind the first are forgotten: the stamps begin
    /// again after 256 rounds, in which shorter messages leave those lines as they are.
    ///
    /// # Safety
    /// `out` is valid for so many bytes of writes.
    #[inline]
    pub unsafe fn take_message(&self, number: u64, length_bytes: usize, mut out: *mut u8) {
        let mut left = length_bytes.min(INLINE_BYTES);
        let lines = &self.arrivals[number as usize % DEPTH][..lines_of(left)];
        for (index, line) in lines.iter().enumerate() {
            let bytes = left.min(PAYLOAD_BYTES);
            // SAFETY: the payload lies in the line, and the caller vouches for `out`.
            unsafe {
                copy_out(out, line.0[1..].as_ptr().cast(), bytes);
                out = out.add(bytes);
            }
            if index > 0 {
                line.0[0].store(0, Ordering::Relaxed);
            }
            left -= bytes;
        }
    }

    /// Drafts the n-th receive. Returns the bytes to be written to [`Area::receive_at`].
    #[inline]
    pub fn draft_receive(&self, life: Life, number: u64, buffer: Descriptor) -> (*const u8, usize) {
        let words = &self.draft[0].0[..2];
        for (word, value) in words.iter().zip([buffer.offset, buffer.size_bytes]) {
            word.store(life.stamp(number) | value & VALUE_MASK, Ordering::Relaxed);
        }
        (words.as_ptr().cast(), size_of_val(words))
    }

    /// Drafts the report of the n-th message, with its bytes if it travels in the queue. Returns the lines to be
    /// written to [`Area::arrival_at`], and their bytes.
    ///
    /// # Safety
    /// `message` is valid for its length in reads, unless that is more than [`INLINE_BYTES`] or too long.
    #[inline]
    pub unsafe fn draft(
        &self,
        life: Life,
        number: u64,
        arrival: Arrival,
        mut message: *const u8,
    ) -> (*const u8, usize) {
        let too_long = if arrival.is_too_long { TOO_LONG } else { 0 };
        let header = life.stamp(number) | too_long | arrival.length_bytes & (TOO_LONG - 1);
        let is_inline = !arrival.is_too_long && arrival.length_bytes <= INLINE_BYTES as u64;
        let mut left = if is_inline { arrival.length_bytes as usize } else { 0 };
        let lines = &self.draft[..lines_of(left)];
        for line in lines {
            line.0[0].store(header, Ordering::Relaxed);
            let bytes = left.min(PAYLOAD_BYTES);
            // SAFETY: the payload lies in the line, and the caller vouches for the message.
            unsafe {
                copy_out(line.0[1..].as_ptr().cast_mut().cast(), message, bytes);
                message = message.add(bytes);
            }
            left -= bytes;
        }
        (lines.as_ptr().cast(), size_of_val(lines))
    }
}

const _: () = {
    assert!(rackmem_abi::MAX_OFFSET <= VALUE_MASK, "every offset of a segment has room");
    assert!(std::mem::offset_of!(Area, arrivals) % LINE_BYTES == 0);
};

#[cfg(test)]
mod tests {
    use super::*;

    const LIFE: Life = Life(0x100);

    fn area() -> Box<Area> {
        // SAFETY: all of it is atomic words, for which zero is a value.
        unsafe { Box::<Area>::new_zeroed().assume_init() }
    }

    /// Stores the first lines of the n-th message, of `length` bytes, as a remote write that is under way.
    fn write(to: &Area, number: u64, length: usize, lines: usize) {
        let (message, from) = ([0; INLINE_BYTES], area());
        let arrival = Arrival { length_bytes: length as u64, is_too_long: false };
        // SAFETY: the message is longer.
        unsafe { from.draft(LIFE, number, arrival, message.as_ptr()) };
        let place = &to.arrivals[number as usize % DEPTH];
        for (to, from) in place.iter().zip(&from.draft[..lines]) {
            for (to, from) in to.0.iter().zip(&from.0) {
                to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
            }
        }
    }

    fn take(area: &Area, number: u64, length: usize) {
        assert!(area.arrived(LIFE, number).is_some());
        let mut out = [0; INLINE_BYTES];
        // SAFETY: there is room.
        unsafe { area.take_message(number, length, out.as_mut_ptr()) };
    }

    /// The stamps of a place begin again after 256 rounds.
    #[test]
    fn lines_of_an_old_message_are_not_taken_for_those_of_a_new_one() {
        let area = area();
        write(&area, 0, 100, 2);
        take(&area, 0, 100);
        for round in 1..256 {
            write(&area, round * DEPTH as u64, 8, 1);
            take(&area, round * DEPTH as u64, 8);
        }
        let again = 256 * DEPTH as u64;
        write(&area, again, 100, 1);
        assert_eq!(area.arrived(LIFE, again), None, "its second line has not come");
        write(&area, again, 100, 2);
        take(&area, again, 100);
    }
}
