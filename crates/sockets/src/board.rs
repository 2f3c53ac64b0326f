//! State of a connection that both ends see, in the window that its owner made: receives that the owner posts, arrivals
//! that the peer reports, and the bed on which the owner sleeps. Over a network the carrier stores there in place of
//! the peer.
//!
//! A place's stamp says which descriptor or message it holds. It is stored last and loaded first, so nothing
//! else is needed: see [`rackmem_rmc::two_sided`] for why places are not used again too early.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rackmem::shm::sleep::Bed;

use rackmem_rmc::two_sided::Arrival;

/// Places of an SQ and an RQ.
pub const DEPTH: usize = if cfg!(loom) { 2 } else { 64 };

/// Words of a message that travels in the queue.
const INLINE_WORDS: usize = if cfg!(loom) { 1 } else { 30 };

/// Longest message that travels in the queue and not in a buffer, in bytes.
pub const INLINE_BYTES: usize = INLINE_WORDS * 8;

/// A receive descriptor, written by the window's owner.
#[repr(C, align(32))]
#[derive(Debug)]
struct Receive {
    stamp: AtomicU64,
    offset: AtomicU64,
    size_bytes: AtomicU64,
}

/// A message, or word of one; written by the peer.
#[repr(C, align(256))]
#[derive(Debug)]
struct Place {
    stamp: AtomicU64,
    /// Bytes (high bits) and whether it did not fit (lowest bit).
    length: AtomicU64,
    words: [AtomicU64; INLINE_WORDS],
}

/// Head of a connection; a window begins with the heads of all its connections, side by side. A connection that is not
/// used takes no more room than this. Zeroed memory is a connection that never was.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Head {
    /// Bed on which the owner sleeps.
    pub bed: Bed,
    /// The last life that the owner has closed.
    pub closed_life: AtomicU32,
    /// Whether the owner has a send that waits for a receive; the owner's word.
    wants_receive: AtomicU32,
    /// Stamp of the last message that the owner has for certain; over a network only.
    delivered: AtomicU64,
    /// Whether the owner waits for room on the carrier; over a network only.
    pub wants_room: AtomicU32,
}

impl Head {
    /// The owner has a send that waits for a receive, or has none any more. Said before it sleeps, and before it
    /// looks for the last time.
    #[inline]
    pub fn want_receive(&self, wants: bool) {
        self.wants_receive.store(u32::from(wants), Ordering::Relaxed);
    }

    /// Wakes the owner if it sleeps and waits for a receive. The end that has posted one calls it. An owner that waits
    /// for messages only sleeps on.
    #[inline]
    pub fn wake_for_receive(&self) {
        // Both words were stored before the sleeper's barrier, so one argument serves both: see `sleep`.
        self.bed.wake_if(|| self.wants_receive.load(Ordering::Relaxed) != 0);
    }

    /// Returns whether the owner has said that it waits, and clears that: for a peer that answers at once.
    #[inline]
    pub fn take_want(&self) -> bool {
        self.wants_receive.load(Ordering::Relaxed) != 0
            && self.wants_receive.swap(0, Ordering::Relaxed) != 0
    }

    /// Says that the owner has the n-th message and all before it.
    pub fn set_delivered(&self, life: u32, number: u64) {
        self.delivered.store(stamp(life, number), Ordering::Release);
    }

    /// Messages of this life that have reached the owner for certain.
    pub fn delivered(&self, life: u32) -> u64 {
        let last = self.delivered.load(Ordering::Acquire);
        if last >> NUMBER_BITS == stamp(life, 0) >> NUMBER_BITS {
            last & ((1 << NUMBER_BITS) - 1)
        } else {
            0
        }
    }
}

/// The shared part of one end's queues. Zeroed memory is an empty one.
#[repr(C)]
#[derive(Debug)]
pub struct Board {
    receives: [Receive; DEPTH],
    arrivals: [Place; DEPTH],
}

/// Bits of a stamp that count; the others are the life's.
const NUMBER_BITS: u32 = 40;

/// The stamp of a number in one life of a connection, never 0.
#[inline]
fn stamp(life: u32, number: u64) -> u64 {
    u64::from(life) << NUMBER_BITS | (number.wrapping_add(1) & ((1 << NUMBER_BITS) - 1))
}

impl Board {
    /// An empty one; shared memory starts out as one.
    #[cfg(any(test, loom))]
    #[allow(clippy::new_without_default, reason = "for tests only")]
    pub fn new() -> Board {
        let word = || AtomicU64::new(0);
        Board {
            receives: std::array::from_fn(|_| Receive {
                stamp: word(),
                offset: word(),
                size_bytes: word(),
            }),
            arrivals: std::array::from_fn(|_| Place {
                stamp: word(),
                length: word(),
                words: std::array::from_fn(|_| word()),
            }),
        }
    }

    /// Posts the n-th receive; for the owner.
    #[inline]
    pub fn publish(&self, life: u32, number: u64, offset: u64, size_bytes: u64) {
        let place = &self.receives[number as usize % DEPTH];
        place.offset.store(offset, Ordering::Relaxed);
        place.size_bytes.store(size_bytes, Ordering::Relaxed);
        // Pairs with the acquire load in `posted`.
        place.stamp.store(stamp(life, number), Ordering::Release);
    }

    /// Offset and size of the n-th receive, if it was posted; for the peer, which checks them.
    #[inline]
    pub fn posted(&self, life: u32, number: u64) -> Option<(u64, u64)> {
        let place = &self.receives[number as usize % DEPTH];
        let is_there = place.stamp.load(Ordering::Acquire) == stamp(life, number);
        let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
        is_there.then(|| (load(&place.offset), load(&place.size_bytes)))
    }

    /// Reports the n-th message; for the peer. Bytes that it stored into the buffer before are seen with it.
    #[inline]
    pub fn arrive(&self, life: u32, number: u64, arrival: Arrival, inline: &[u8]) {
        let place = &self.arrivals[number as usize % DEPTH];
        for (word, bytes) in place.words.iter().zip(inline.chunks(8)) {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_le_bytes(whole), Ordering::Relaxed);
        }
        let length = arrival.length_bytes << 1 | u64::from(arrival.is_too_long);
        place.length.store(length, Ordering::Relaxed);
        // Pairs with the acquire load in `arrived`.
        place.stamp.store(stamp(life, number), Ordering::Release);
    }

    /// The n-th message, if it has come; for the owner, which checks it.
    #[inline]
    pub fn arrived(&self, life: u32, number: u64) -> Option<Arrival> {
        let place = &self.arrivals[number as usize % DEPTH];
        if place.stamp.load(Ordering::Acquire) != stamp(life, number) {
            return None;
        }
        let length = place.length.load(Ordering::Relaxed);
        Some(Arrival { length_bytes: length >> 1, is_too_long: length & 1 != 0 })
    }

    /// The bytes of a message that came in the queue.
    #[inline]
    pub fn inline(&self, number: u64, length: usize) -> [u8; INLINE_BYTES] {
        let place = &self.arrivals[number as usize % DEPTH];
        let mut bytes = [0; INLINE_BYTES];
        let words = place.words.iter().zip(bytes.as_chunks_mut::<8>().0);
        for (word, bytes) in words.take(length.div_ceil(8)) {
            *bytes = word.load(Ordering::Relaxed).to_le_bytes();
        }
        bytes
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;

    /// Messages arrive whole and in order, across a wrap, though no credit word says what is free.
    #[test]
    fn messages_arrive_whole_and_in_order() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(|| {
            let board = Arc::new(Board::new());
            let sender = {
                let board = board.clone();
                loom::thread::spawn(move || {
                    for number in 0..3 {
                        let (offset, size_bytes) = loop {
                            match board.posted(1, number) {
                                Some(buffer) => break buffer,
                                None => loom::thread::yield_now(),
                            }
                        };
                        assert_eq!((offset, size_bytes), (number, number + 10));
                        let arrival = Arrival { length_bytes: 8, is_too_long: false };
                        board.arrive(1, number, arrival, &[number as u8 + 1; 8]);
                    }
                })
            };
            for number in 0..DEPTH as u64 {
                board.publish(1, number, number, number + 10);
            }
            for number in 0..3 {
                while board.arrived(1, number).is_none() {
                    loom::thread::yield_now();
                }
                assert_eq!(board.inline(number, 8)[..8], [number as u8 + 1; 8]);
                let next = number + DEPTH as u64;
                board.publish(1, next, next, next + 10);
            }
            sender.join().unwrap();
        });
    }

    /// A sender waits for a receive and sleeps, in the bed of a thread that waits for a message if there is one.
    /// Posting wakes it if it has said that it waits for that.
    fn a_sender_sleeps(says_so: bool, has_reader: bool) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(if has_reader { 2 } else { 3 });
        model.check(move || {
            // The peer's window, and this side's.
            let (theirs, ours) =
                (Arc::new(Board::new()), Arc::new((Head::default(), Board::new())));
            let peer = {
                let (theirs, ours) = (theirs.clone(), ours.clone());
                loom::thread::spawn(move || {
                    let (head, board) = &*ours;
                    theirs.publish(1, 0, 0, 8);
                    head.wake_for_receive();
                    if has_reader {
                        let arrival = Arrival { length_bytes: 8, is_too_long: false };
                        board.arrive(1, 0, arrival, &[1; 8]);
                        head.bed.wake();
                    }
                })
            };
            let reader = has_reader.then(|| {
                let ours = ours.clone();
                loom::thread::spawn(move || {
                    let (head, board) = &*ours;
                    let mut ready = || board.arrived(1, 0).is_some();
                    while !ready() {
                        head.bed.sleep_unless(&mut ready, std::time::Duration::MAX);
                    }
                })
            });
            let mut ready = || theirs.posted(1, 0).is_some();
            while !ready() {
                ours.0.want_receive(says_so);
                ours.0.bed.sleep_unless(&mut ready, std::time::Duration::MAX);
            }
            ours.0.want_receive(false);
            peer.join().unwrap();
            if let Some(reader) = reader {
                reader.join().unwrap();
            }
        });
    }

    #[test]
    fn no_wake_up_for_a_receive_is_lost() {
        a_sender_sleeps(true, false);
        a_sender_sleeps(true, true);
    }

    /// The model is fine enough to see what saying so is for.
    #[test]
    fn who_does_not_say_that_it_waits_is_not_woken() {
        let outcome = std::panic::catch_unwind(|| a_sender_sleeps(false, false));
        assert!(outcome.is_err(), "loom finds no lost wake-up of one that has not said so");
    }
}
