//! A wire with faults, for tests: all of them from one seed, so that a failure can be replayed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use super::Wire;

/// Rates of faults in datagrams that are sent, in parts of a thousand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Seed of the random numbers.
    pub seed: u64,
    /// They do not arrive.
    pub loss_permille: u32,
    /// They arrive twice.
    pub duplication_permille: u32,
    /// They arrive with one to four bits turned, or cut short.
    pub corruption_permille: u32,
    /// They are held back for up to [`Faults::delay`], so that later ones overtake them.
    pub reordering_permille: u32,
    /// Delay of every datagram; those that are held back have up to twice as much.
    pub delay: Duration,
    /// After as many datagrams nothing is sent or received any more: the peer looks dead.
    pub dies_after: Option<u64>,
}

/// A wire with [`Faults`], which happen to datagrams on their way out.
#[derive(Debug)]
pub struct FaultyWire<F> {
    inner: F,
    faults: Faults,
    random: u64,
    sent: u64,
    /// Datagrams on their way, by when they arrive and their number.
    held: BinaryHeap<Reverse<(Duration, u64, Vec<u8>)>>,
}

impl<F: Wire> FaultyWire<F> {
    /// `inner` with faults.
    pub fn new(inner: F, faults: Faults) -> FaultyWire<F> {
        // Zero is the one state that xorshift does not leave.
        let random = faults.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        FaultyWire { inner, faults, random, sent: 0, held: BinaryHeap::new() }
    }

    fn draw(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    fn happens(&mut self, permille: u32) -> bool {
        self.draw() % 1000 < u64::from(permille)
    }

    fn is_dead(&self) -> bool {
        self.faults.dies_after.is_some_and(|after| self.sent >= after)
    }

    fn damage(&mut self, datagram: &mut Vec<u8>) {
        if datagram.is_empty() {
            return;
        }
        if self.happens(250) {
            let length = self.draw() as usize % datagram.len();
            datagram.truncate(length);
            return;
        }
        for _ in 0..=self.draw() % 4 {
            let bit = self.draw() as usize % (8 * datagram.len());
            datagram[bit / 8] ^= 1 << (bit % 8);
        }
    }

    fn hold(&mut self, mut datagram: Vec<u8>, now: Duration) {
        if self.happens(self.faults.loss_permille) {
            return;
        }
        if self.happens(self.faults.corruption_permille) {
            self.damage(&mut datagram);
        }
        let mut at = now + self.faults.delay;
        if self.happens(self.faults.reordering_permille) {
            let most = self.faults.delay.max(Duration::from_micros(100)).as_micros() as u64;
            at += Duration::from_micros(1 + self.draw() % most);
        }
        self.sent += 1;
        self.held.push(Reverse((at, self.sent, datagram)));
    }

    fn release(&mut self, now: Duration) -> io::Result<()> {
        while self.held.peek().is_some_and(|Reverse((at, ..))| *at <= now) {
            if let Some(Reverse((_, _, datagram))) = self.held.pop() {
                self.inner.send(&datagram, now)?;
            }
        }
        Ok(())
    }
}

impl<F: Wire> Wire for FaultyWire<F> {
    fn max_bytes(&self) -> usize {
        self.inner.max_bytes()
    }

    fn send(&mut self, datagram: &[u8], now: Duration) -> io::Result<()> {
        if self.is_dead() {
            return Ok(());
        }
        if self.happens(self.faults.duplication_permille) {
            self.hold(datagram.to_vec(), now);
        }
        self.hold(datagram.to_vec(), now);
        self.release(now)
    }

    fn flush(&mut self, now: Duration) -> io::Result<()> {
        self.release(now)?;
        self.inner.flush(now)
    }

    fn receive(&mut self, into: &mut [u8], now: Duration) -> io::Result<Option<usize>> {
        self.flush(now)?;
        let got = self.inner.receive(into, now)?;
        Ok(if self.is_dead() { None } else { got })
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.as_fd()
    }

    fn due(&self) -> Option<Duration> {
        let first = self.held.peek().map(|Reverse((at, ..))| *at);
        [first, self.inner.due()].into_iter().flatten().min()
    }
}
