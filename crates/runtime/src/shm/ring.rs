//! One lane of one link: a ring of packets from one producer to one consumer, with credits
//! (soNUMA §6: credit-based flow control, two virtual lanes per link).
//!
//! A slot's stamp says in which round it was filled, so the consumer polls exactly the line that
//! the packet arrives in. The consumer returns credits in batches, on a line of its own.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering};

use std::cell::Cell;

use rackmem_abi::PACKET_BYTES;

/// Packets that a lane holds, hence the credits of its producer.
pub const RING_SLOTS: usize = if cfg!(loom) { 2 } else { 256 };

const PACKET_WORDS: usize = PACKET_BYTES / 8;

/// Credits are returned once this many packets were consumed.
const CREDIT_BATCH: u64 = RING_SLOTS as u64 / 4 + 1;

/// Stamp and packet: a header-only packet takes the first line only.
#[repr(C, align(128))]
#[derive(Debug)]
struct Slot {
    /// Round (high bits) and packet length in bytes (low 8 bits); 0 = never filled.
    stamp: AtomicU64,
    words: [AtomicU64; PACKET_WORDS],
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
}

impl Ring {
    /// An empty ring; shared memory starts out as one.
    #[cfg(any(test, loom))]
    #[allow(clippy::new_without_default, reason = "for tests only")]
    pub fn new() -> Ring {
        let word = || AtomicU64::new(0);
        Ring {
            credit: Credit { consumed: word() },
            slots: std::array::from_fn(|_| Slot {
                stamp: word(),
                words: std::array::from_fn(|_| word()),
            }),
        }
    }
}

/// Words that `len` bytes of a packet touch.
fn words_of(len: usize) -> usize {
    len.div_ceil(8)
}

fn stamp(position: u64, len: usize) -> u64 {
    (position / RING_SLOTS as u64 + 1) << 8 | len as u64
}

/// The sending end's private state.
#[derive(Debug, Default)]
pub struct Producer {
    sent: u64,
    /// Last seen; the true number may be larger. A cell, as looking for credit is no change.
    consumed: Cell<u64>,
}

impl Producer {
    /// Whether [`Producer::send`] would find a credit.
    #[inline]
    pub fn has_credit(&self, ring: &Ring) -> bool {
        if self.sent - self.consumed.get() < RING_SLOTS as u64 {
            return true;
        }
        // A consumer that lies overwrites its own packets; it must not upset the arithmetic.
        let claimed = ring.credit.consumed.load(Ordering::Acquire);
        self.consumed.set(claimed.clamp(self.consumed.get(), self.sent));
        self.sent - self.consumed.get() < RING_SLOTS as u64
    }

    /// Sends a packet; `false` without a credit.
    #[inline]
    pub fn send(&mut self, ring: &Ring, packet: &[u8; PACKET_BYTES], len: usize) -> bool {
        if !self.has_credit(ring) {
            return false;
        }
        let slot = &ring.slots[self.sent as usize % RING_SLOTS];
        // Whole words: the bytes behind `len` are the receiver's to ignore.
        for (word, bytes) in slot.words.iter().zip(packet.as_chunks::<8>().0).take(words_of(len)) {
            word.store(u64::from_le_bytes(*bytes), Ordering::Relaxed);
        }
        // Pairs with the acquire load in `receive`: the words are visible with the stamp.
        slot.stamp.store(stamp(self.sent, len), Ordering::Release);
        self.sent += 1;
        true
    }
}

/// The receiving end's private state.
#[derive(Debug, Default)]
pub struct Consumer {
    received: u64,
    returned: u64,
}

impl Consumer {
    /// Whether a packet waits.
    #[inline]
    pub fn has_packet(&self, ring: &Ring) -> bool {
        let slot = &ring.slots[self.received as usize % RING_SLOTS];
        slot.stamp.load(Ordering::Acquire) >> 8 == stamp(self.received, 0) >> 8
    }

    /// Takes the next packet into `packet` and returns its length in bytes.
    #[inline]
    pub fn receive(&mut self, ring: &Ring, packet: &mut [u8; PACKET_BYTES]) -> Option<usize> {
        let slot = &ring.slots[self.received as usize % RING_SLOTS];
        let word = slot.stamp.load(Ordering::Acquire);
        if word >> 8 != stamp(self.received, 0) >> 8 {
            return None;
        }
        let len = ((word & 0xff) as usize).min(PACKET_BYTES);
        let words = slot.words.iter().zip(packet.as_chunks_mut::<8>().0);
        for (word, bytes) in words.take(words_of(len)) {
            *bytes = word.load(Ordering::Relaxed).to_le_bytes();
        }
        self.received += 1;
        if self.received - self.returned >= CREDIT_BATCH {
            self.returned = self.received;
            // Pairs with the acquire load in `has_credit`: the slot is refilled after it was read.
            ring.credit.consumed.store(self.received, Ordering::Release);
        }
        Some(len)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn credits_bound_the_ring_and_come_back() {
        let ring = Ring::new();
        let (mut tx, mut rx) = (Producer::default(), Consumer::default());
        let mut out = [0; PACKET_BYTES];
        for round in 0..1000u64 {
            let mut sent = 0;
            while tx.send(&ring, &[round as u8; PACKET_BYTES], 16 + (sent % 65)) {
                sent += 1;
            }
            assert!(sent >= RING_SLOTS - CREDIT_BATCH as usize && sent <= RING_SLOTS);
            let mut got = 0;
            while let Some(len) = rx.receive(&ring, &mut out) {
                assert_eq!(len, 16 + got % 65);
                assert!(out[..len].iter().all(|byte| *byte == round as u8));
                got += 1;
            }
            assert_eq!(got, sent);
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;

    /// Packets arrive whole and in order, across a wrap, and credits allow no overwriting.
    #[test]
    fn packets_arrive_whole_and_in_order() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(|| {
            let ring = Arc::new(Ring::new());
            let sender = {
                let ring = ring.clone();
                loom::thread::spawn(move || {
                    let mut tx = Producer::default();
                    for i in 1..=3u8 {
                        while !tx.send(&ring, &[i; PACKET_BYTES], 16) {
                            loom::thread::yield_now();
                        }
                    }
                })
            };
            let mut rx = Consumer::default();
            let mut packet = [0; PACKET_BYTES];
            for i in 1..=3u8 {
                let len = loop {
                    match rx.receive(&ring, &mut packet) {
                        Some(len) => break len,
                        None => loom::thread::yield_now(),
                    }
                };
                assert_eq!(len, 16);
                assert!(packet[..16].iter().all(|byte| *byte == i));
            }
            sender.join().unwrap();
        });
    }
}
