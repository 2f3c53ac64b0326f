//! One lane of one link: a ring of packets from one producer to one consumer, with credits
//! (soNUMA §6: credit-based flow control, two virtual lanes per link).
//!
//! A slot's stamp says in which round it was filled, so the consumer polls exactly the line that
//! the packet arrives in. A payload of up to a line lies in the slot; a longer one lies in an area beside the slots,
//! which the producer gives out round by round. The consumer returns credits in batches, on a line of its own, and with
//! a slot its part of the area.
//!
//! Both ends copy payloads in place. What lies there may change at any moment, as the other end is another process: it
//! is copied once, and only the copy is looked at.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering};

use std::cell::Cell;

use rackmem_abi::LINE_BYTES;

use self::payload::Payload;

/// Packets that a lane holds, hence the credits of its producer.
pub const RING_SLOTS: usize = if cfg!(loom) { 2 } else { 256 };

/// Bytes for the payloads that are longer than a line.
pub const AREA_BYTES: usize = if cfg!(loom) { 512 } else { 256 << 10 };

/// Credits are returned once this many packets were consumed,
const CREDIT_BATCH: u64 = RING_SLOTS as u64 / 4 + 1;

/// or so much of the area.
const AREA_BATCH: u64 = AREA_BYTES as u64 / 4;

/// A header: two words, of which a ring knows nothing.
pub type Header = [u64; 2];

/// Stamp, header and short payload: a header-only packet takes the first line only.
#[repr(C, align(128))]
#[derive(Debug)]
struct Slot {
    /// Round (high bits) and length of the payload in bytes (low 16 bits); 0 = never filled.
    stamp: AtomicU64,
    header: [AtomicU64; 2],
    /// Place of a long payload in the area.
    place: AtomicU64,
    short: Payload<LINE_BYTES>,
}

#[repr(C, align(128))]
#[derive(Debug)]
struct Credit {
    consumed: AtomicU64,
}

/// The shared memory of a lane; zeroed memory is an empty one.
#[repr(C)]
#[derive(Debug)]
pub struct Ring {
    credit: Credit,
    slots: [Slot; RING_SLOTS],
    area: Payload<AREA_BYTES>,
}

impl Ring {
    /// An empty ring; shared memory starts out as one.
    #[cfg(any(test, loom))]
    pub fn boxed() -> Box<Ring> {
        let word = || AtomicU64::new(0);
        Box::new(Ring {
            credit: Credit { consumed: word() },
            slots: std::array::from_fn(|_| Slot {
                stamp: word(),
                header: std::array::from_fn(|_| word()),
                place: word(),
                short: Payload::default(),
            }),
            area: Payload::default(),
        })
    }
}

fn stamp(position: u64, payload_bytes: usize) -> u64 {
    (position / RING_SLOTS as u64 + 1) << 16 | payload_bytes as u64
}

/// Bytes of the area that a payload takes: whole lines; none if it fits in the slot.
fn area_bytes(payload_bytes: usize) -> u64 {
    match payload_bytes {
        0..=LINE_BYTES => 0,
        more => more.next_multiple_of(LINE_BYTES) as u64,
    }
}

/// The sending end's private state.
#[derive(Debug)]
pub struct Producer {
    sent: u64,
    /// Last seen; the true number may be larger. A cell, as looking for credit is no change.
    consumed: Cell<u64>,
    /// Bytes of the area that were given out, those that were skipped at its end included.
    given: u64,
    /// The same after the packet of each slot.
    given_after: Box<[u64; RING_SLOTS]>,
}

impl Default for Producer {
    fn default() -> Producer {
        let given_after = Box::new([0; RING_SLOTS]);
        Producer { sent: 0, consumed: Cell::new(0), given: 0, given_after }
    }
}

impl Producer {
    /// Whether [`Producer::send`] would find a credit for a packet with so much payload.
    #[inline]
    pub fn has_credit(&self, ring: &Ring, payload_bytes: usize) -> bool {
        if self.has_room(payload_bytes) {
            return true;
        }
        // A consumer that lies overwrites its own packets; it must not upset the arithmetic.
        let claimed = ring.credit.consumed.load(Ordering::Acquire);
        self.consumed.set(claimed.clamp(self.consumed.get(), self.sent));
        self.has_room(payload_bytes)
    }

    fn has_room(&self, payload_bytes: usize) -> bool {
        let consumed = self.consumed.get();
        if self.sent - consumed == RING_SLOTS as u64 {
            return false;
        }
        let length = area_bytes(payload_bytes);
        if length == 0 {
            return true;
        }
        let freed = match consumed {
            0 => 0,
            _ => self.given_after[(consumed - 1) as usize % RING_SLOTS],
        };
        self.start(length) + length - freed <= AREA_BYTES as u64
    }

    /// Begin of the next part of the area with this length: no part goes round its end.
    fn start(&self, length: u64) -> u64 {
        let area = AREA_BYTES as u64;
        match self.given % area + length <= area {
            true => self.given,
            false => self.given.next_multiple_of(area),
        }
    }

    /// Sends a packet, whose payload of `payload_bytes`, if it has any, `fill` puts at an address. Returns `None`
    /// without a credit. If `fill` fails, nothing is sent.
    ///
    /// # Panics
    /// The payload is longer than half of the area: it might never have room.
    #[inline]
    pub fn send<E>(
        &mut self,
        ring: &Ring,
        header: Header,
        payload_bytes: usize,
        fill: impl FnOnce(*mut u8) -> Result<(), E>,
    ) -> Option<Result<(), E>> {
        assert!(payload_bytes <= AREA_BYTES / 2, "{payload_bytes} bytes of payload are too many");
        if !self.has_credit(ring, payload_bytes) {
            return None;
        }
        let slot = &ring.slots[self.sent as usize % RING_SLOTS];
        let length = area_bytes(payload_bytes);
        let start = self.start(length);
        if payload_bytes > 0 {
            let at = match length {
                0 => slot.short.to_write(0, payload_bytes),
                _ => ring.area.to_write((start % AREA_BYTES as u64) as usize, payload_bytes),
            };
            if let Err(error) = fill(at) {
                return Some(Err(error));
            }
        }
        if length > 0 {
            slot.place.store(start % AREA_BYTES as u64, Ordering::Relaxed);
            self.given = start + length;
        }
        self.given_after[self.sent as usize % RING_SLOTS] = self.given;
        slot.header[0].store(header[0], Ordering::Relaxed);
        slot.header[1].store(header[1], Ordering::Relaxed);
        // Pairs with the acquire load in `peek`: header and payload are visible with the stamp.
        slot.stamp.store(stamp(self.sent, payload_bytes), Ordering::Release);
        self.sent += 1;
        Some(Ok(()))
    }
}

/// A packet that waits: its header, and the length of its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Header as the producer gave it, or as somebody has overwritten it.
    pub header: Header,
    /// Bytes of payload, at most half of the area.
    pub payload_bytes: usize,
    place: usize,
}

/// The receiving end's private state.
#[derive(Debug, Default)]
pub struct Consumer {
    received: u64,
    returned: u64,
    /// Bytes of the area that were consumed and not returned.
    area_held: u64,
}

impl Consumer {
    /// Whether a packet waits.
    #[inline]
    pub fn has_packet(&self, ring: &Ring) -> bool {
        let slot = &ring.slots[self.received as usize % RING_SLOTS];
        slot.stamp.load(Ordering::Acquire) >> 16 == stamp(self.received, 0) >> 16
    }

    /// The next packet, which stays where it is until [`Consumer::take`].
    #[inline]
    pub fn peek(&self, ring: &Ring) -> Option<Packet> {
        let slot = &ring.slots[self.received as usize % RING_SLOTS];
        let word = slot.stamp.load(Ordering::Acquire);
        if word >> 16 != stamp(self.received, 0) >> 16 {
            return None;
        }
        let header = [0, 1].map(|word: usize| slot.header[word].load(Ordering::Relaxed));
        // Whatever the producer says, the payload lies in the ring.
        let payload_bytes = ((word & 0xffff) as usize).min(AREA_BYTES / 2);
        let place = match area_bytes(payload_bytes) {
            0 => 0,
            length => {
                (slot.place.load(Ordering::Relaxed) as usize).min(AREA_BYTES - length as usize)
            }
        };
        Some(Packet { header, payload_bytes, place })
    }

    /// Address of the payload of the packet that [`Consumer::peek`] has returned, until it is taken.
    #[inline]
    pub fn payload(&self, ring: &Ring, packet: &Packet) -> *const u8 {
        let slot = &ring.slots[self.received as usize % RING_SLOTS];
        match area_bytes(packet.payload_bytes) {
            0 => slot.short.to_read(0, packet.payload_bytes),
            _ => ring.area.to_read(packet.place, packet.payload_bytes),
        }
    }

    /// Takes the packet that [`Consumer::peek`] has returned off the ring.
    #[inline]
    pub fn take(&mut self, ring: &Ring, packet: &Packet) {
        self.received += 1;
        self.area_held += area_bytes(packet.payload_bytes);
        if self.received - self.returned >= CREDIT_BATCH || self.area_held >= AREA_BATCH {
            (self.returned, self.area_held) = (self.received, 0);
            // Pairs with the acquire load in `has_credit`: the slot is refilled after it was read.
            ring.credit.consumed.store(self.received, Ordering::Release);
        }
    }
}

/// Memory that is written by one end while the other does not look, as the stamps and credits say.
mod payload {
    use std::cell::UnsafeCell;

    #[repr(C, align(64))]
    #[derive(Debug)]
    pub struct Payload<const BYTES: usize> {
        bytes: UnsafeCell<[u8; BYTES]>,
        /// For each line, whether its accesses are ordered.
        #[cfg(loom)]
        lines: Vec<loom::cell::UnsafeCell<()>>,
    }

    // SAFETY: the two ends take turns, as the stamps and credits say. A process that does not keep to that gives the
    // other wrong bytes, which are copied by machine code that the compiler does not look into.
    unsafe impl<const BYTES: usize> Sync for Payload<BYTES> {}

    #[cfg(any(test, loom))]
    impl<const BYTES: usize> Default for Payload<BYTES> {
        fn default() -> Self {
            Payload {
                bytes: UnsafeCell::new([0; BYTES]),
                #[cfg(loom)]
                lines: (0..BYTES / 64).map(|_| loom::cell::UnsafeCell::new(())).collect(),
            }
        }
    }

    impl<const BYTES: usize> Payload<BYTES> {
        /// The address of `length` bytes at `at`, which this end may write to now.
        #[inline]
        pub fn to_write(&self, at: usize, length: usize) -> *mut u8 {
            debug_assert!(at + length <= BYTES);
            #[cfg(loom)]
            self.lines[at / 64..(at + length).div_ceil(64)].iter().for_each(|l| l.with_mut(|_| ()));
            self.bytes.get().cast::<u8>().wrapping_add(at)
        }

        /// The address of `length` bytes at `at`, which this end may read now.
        #[inline]
        pub fn to_read(&self, at: usize, length: usize) -> *const u8 {
            debug_assert!(at + length <= BYTES);
            #[cfg(loom)]
            self.lines[at / 64..(at + length).div_ceil(64)].iter().for_each(|l| l.with(|_| ()));
            self.bytes.get().cast::<u8>().wrapping_add(at)
        }
    }
}

#[cfg(test)]
fn filled(byte: u8, bytes: usize) -> impl FnOnce(*mut u8) -> Result<(), ()> {
    move |at| {
        // SAFETY: a ring has room for the payload that it was asked to take.
        unsafe { at.write_bytes(byte, bytes) };
        Ok(())
    }
}

/// Whether all bytes of a packet's payload are this one.
#[cfg(test)]
fn is_filled(ring: &Ring, rx: &Consumer, packet: &Packet, byte: u8) -> bool {
    let at = rx.payload(ring, packet);
    // SAFETY: the payload lies in the ring, and its producer does not write there now.
    let bytes = unsafe { std::slice::from_raw_parts(at, packet.payload_bytes) };
    bytes.iter().all(|b| *b == byte)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn credits_bound_the_ring_and_come_back() {
        let ring = Ring::boxed();
        let (mut tx, mut rx) = (Producer::default(), Consumer::default());
        for round in 0..1000_u64 {
            let mut sent = 0;
            let byte = round as u8;
            while tx
                .send(&ring, [round, sent], sent as usize % 65, filled(byte, sent as usize % 65))
                .is_some()
            {
                sent += 1;
            }
            assert!(sent > RING_SLOTS as u64 - CREDIT_BATCH && sent <= RING_SLOTS as u64);
            let mut got = 0;
            while let Some(packet) = rx.peek(&ring) {
                assert_eq!(packet.header, [round, got]);
                assert_eq!(packet.payload_bytes, got as usize % 65);
                assert!(is_filled(&ring, &rx, &packet, byte));
                rx.take(&ring, &packet);
                got += 1;
            }
            assert_eq!(got, sent);
        }
    }

    /// Long and short payloads of any length, in any order of sending and taking: none overwrites another.
    #[test]
    fn long_payloads_share_the_area() {
        let ring = Ring::boxed();
        let (mut tx, mut rx) = (Producer::default(), Consumer::default());
        let (mut sent, mut got) = (0_u64, 0_u64);
        let mut random = 12345_u64;
        let length =
            |number: u64| (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize % 40_000;
        while got < 20_000 {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1);
            for _ in 0..(random >> 60) {
                let bytes = length(sent);
                if tx.send(&ring, [sent, 0], bytes, filled(sent as u8, bytes)).is_none() {
                    assert!(!tx.has_credit(&ring, bytes));
                    break;
                }
                sent += 1;
            }
            for _ in 0..(random >> 56 & 15) {
                let Some(packet) = rx.peek(&ring) else { break };
                assert_eq!((packet.header[0], packet.payload_bytes), (got, length(got)));
                assert!(is_filled(&ring, &rx, &packet, got as u8));
                rx.take(&ring, &packet);
                got += 1;
            }
        }
    }

    #[test]
    fn a_payload_that_cannot_be_filled_sends_nothing() {
        let ring = Ring::boxed();
        let (mut tx, rx) = (Producer::default(), Consumer::default());
        assert_eq!(tx.send(&ring, [1, 1], 100, |_| Err(7)), Some(Err(7)));
        assert_eq!(rx.peek(&ring), None);
        assert_eq!(tx.send(&ring, [2, 2], 0, |_| Err(7)), Some(Ok(())), "there is nothing to fill");
        assert_eq!(rx.peek(&ring).map(|packet| packet.header), Some([2, 2]));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;

    /// Packets with short and long payloads arrive whole and in order, across a wrap, and credits allow no overwriting.
    #[test]
    fn packets_arrive_whole_and_in_order() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(|| {
            let ring: Arc<Box<Ring>> = Arc::new(Ring::boxed());
            let sender = {
                let ring = ring.clone();
                loom::thread::spawn(move || {
                    let mut tx = Producer::default();
                    for (i, bytes) in (1..).zip([8, 256, 200]) {
                        while tx.send(&ring, [u64::from(i); 2], bytes, filled(i, bytes)).is_none() {
                            loom::thread::yield_now();
                        }
                    }
                })
            };
            let mut rx = Consumer::default();
            for (i, bytes) in (1..).zip([8, 256, 200]) {
                let packet = loop {
                    match rx.peek(&ring) {
                        Some(packet) => break packet,
                        None => loom::thread::yield_now(),
                    }
                };
                assert_eq!((packet.header, packet.payload_bytes), ([u64::from(i); 2], bytes));
                assert!(is_filled(&ring, &rx, &packet, i));
                rx.take(&ring, &packet);
            }
            sender.join().unwrap();
        });
    }
}
