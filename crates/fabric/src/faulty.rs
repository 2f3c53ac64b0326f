//! A link with faults, for tests: all of them from one seed, so that a failure can be replayed.
//!
//! Packets are neither lost nor changed, as no link does that: they are late, come few at a time or after those of the
//! other lane, find no room for a while, or none come any more.

use std::os::fd::{AsFd, BorrowedFd};

use rackmem_abi::{Header, Status};
use rackmem_rmc::{Sink, Source};

use crate::{Lane, Link};

/// Rates of faults. A turn is a call of [`Link::receive`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faults {
    /// Seed of the random numbers.
    pub seed: u64,
    /// How often each fault begins, in parts of a thousand turns.
    pub rate_permille: u32,
    /// Turns that a fault lasts at most: at least 1.
    pub longest_turns: u32,
    /// Packets that are taken off the link before it ends, at most; how many is drawn. `None`: it does not end.
    pub ends_within: Option<u64>,
}

/// Faults that last for some turns.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// Nothing is taken in.
    Deaf,
    /// Nothing leaves.
    Mute,
    /// There is no room for requests.
    NoRequests,
    /// There is no room for replies.
    NoReplies,
    /// Requests that have come are not shown: replies overtake them.
    HidesRequests,
    /// Replies that have come are not shown: requests overtake them.
    HidesReplies,
}

const FAULTS: usize = 6;

/// Packets of a lane that a turn shows at most, while there are faults.
const MAX_SHOWN: u64 = 8;

/// A link with [`Faults`].
#[derive(Debug)]
pub struct Faulty<L> {
    inner: L,
    faults: Faults,
    random: u64,
    /// Turns that each fault lasts from here on.
    lasts: [u32; FAULTS],
    /// Packets that this turn still shows, by lane.
    shown: [u64; 2],
    /// Packets until the end.
    left: Option<u64>,
}

impl<L: Link> Faulty<L> {
    /// `inner` with faults.
    pub fn new(inner: L, faults: Faults) -> Faulty<L> {
        // Zero is the one state that xorshift does not leave.
        let random = faults.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let shown = [MAX_SHOWN; 2];
        let mut this = Faulty { inner, faults, random, lasts: [0; FAULTS], shown, left: None };
        this.left = faults.ends_within.map(|most| 1 + this.draw() % most.max(1));
        this
    }

    /// The link without faults.
    pub fn inner(&self) -> &L {
        &self.inner
    }

    fn draw(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    fn has(&self, fault: Fault) -> bool {
        self.lasts[fault as usize] > 0
    }

    fn begin_turn(&mut self) {
        for fault in 0..FAULTS {
            let begins = self.draw() % 1000 < u64::from(self.faults.rate_permille);
            self.lasts[fault] = match self.lasts[fault].saturating_sub(1) {
                0 if begins => 1 + self.draw() as u32 % self.faults.longest_turns.max(1),
                left => left,
            };
        }
        self.shown = [1 + self.draw() % MAX_SHOWN, 1 + self.draw() % MAX_SHOWN];
    }

    fn shows(&self, lane: Lane) -> bool {
        let hides = match lane {
            Lane::Request => Fault::HidesRequests,
            Lane::Reply => Fault::HidesReplies,
        };
        !self.has(hides) && self.shown[lane as usize] > 0
    }
}

impl<L: Link> Link for Faulty<L> {
    fn unit_bytes(&self) -> usize {
        self.inner.unit_bytes()
    }

    fn can_send_request(&self, payload_bytes: usize, result_bytes: usize) -> bool {
        !self.has(Fault::NoRequests) && self.inner.can_send_request(payload_bytes, result_bytes)
    }

    fn can_send_reply(&self, payload_bytes: usize) -> bool {
        !self.has(Fault::NoReplies) && self.inner.can_send_reply(payload_bytes)
    }

    fn send<E>(
        &mut self,
        header: &Header,
        status: Option<Status>,
        fill: impl FnOnce(Sink<'_>) -> Result<(), E>,
    ) -> Option<Result<(), E>> {
        let full = if status.is_none() { Fault::NoRequests } else { Fault::NoReplies };
        if self.has(full) {
            return None;
        }
        self.inner.send(header, status, fill)
    }

    fn transmit(&mut self) -> bool {
        !self.has(Fault::Mute) && self.inner.transmit()
    }

    fn receive(&mut self) -> bool {
        self.begin_turn();
        !self.has(Fault::Deaf) && self.inner.receive()
    }

    fn lost(&self) -> Option<&str> {
        self.inner.lost()
    }

    fn lose(&mut self, why: &str) {
        self.inner.lose(why);
    }

    fn has_staged(&self) -> bool {
        self.inner.has_staged()
    }

    /// A fault that lasts is over after some turns, which have to come. What a turn did not show waits in the inner
    /// link.
    fn has_work(&self) -> bool {
        self.inner.has_work() || self.lasts.iter().any(|turns| *turns > 0)
    }

    fn front(&mut self, lane: Lane) -> Option<[u64; 2]> {
        if self.shows(lane) { self.inner.front(lane) } else { None }
    }

    fn payload(&self, lane: Lane) -> Source<'_> {
        self.inner.payload(lane)
    }

    fn take(&mut self, lane: Lane) {
        self.inner.take(lane);
        self.shown[lane as usize] = self.shown[lane as usize].saturating_sub(1);
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(1);
            if *left == 0 {
                self.inner.lose("a fault has ended it");
            }
        }
    }
}

impl<L: AsFd> AsFd for Faulty<L> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }
}
