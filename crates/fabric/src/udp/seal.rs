//! Datagrams that only the peer can read, and only the peer can have sent: eight bytes of number, little endian, and a
//! message of Noise under that number. The link above sees none that is forged, damaged or repeated.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use snow::StatelessTransportState;

use super::handshake::Token;
use super::wire::Wire;
use crate::Seal;
use crate::seal::TAG_BYTES;

/// Bytes before a message: its number.
const NUMBER_BYTES: usize = 8;

/// Bytes by which a sealed datagram is longer than its contents.
const OVERHEAD_BYTES: usize = NUMBER_BYTES + TAG_BYTES;

/// Datagrams that one call drops, so that their sender cannot hold it for ever.
const MAX_DROPPED_A_CALL: usize = 256;

/// Interval at which the answer to the peer's hello is sent until the peer is heard.
const ANSWER_INTERVAL: Duration = Duration::from_millis(20);

/// Words of 64 numbers in a [`Window`].
const WORDS: u64 = 32;

/// Numbers of datagrams that have come. One that is older than the last 31 x 64 counts as if it had.
#[derive(Debug, Default)]
struct Window {
    /// One more than the highest number.
    end: u64,
    /// A bit for each of the last numbers, at its number modulo all bits.
    seen: [u64; WORDS as usize],
}

impl Window {
    /// Whether this number comes for the first time; from now on it does not.
    fn admit(&mut self, number: u64) -> bool {
        let (first, last) = (self.end.div_ceil(64), number / 64);
        // Words between the highest number so far and this one are of numbers that have not come.
        for word in (first..=last).rev().take(WORDS as usize) {
            self.seen[(word % WORDS) as usize] = 0;
        }
        self.end = self.end.max(number + 1);
        let bit = 1 << (number % 64);
        let word = &mut self.seen[(last % WORDS) as usize];
        let is_new = *word & bit == 0 && (self.end - 1) / 64 - last < WORDS;
        if is_new {
            *word |= bit;
        }
        is_new
    }
}

/// A wire whose datagrams are sealed.
#[derive(Debug)]
pub(super) struct Sealed {
    inner: Box<dyn Wire>,
    keys: Arc<StatelessTransportState>,
    /// Number of the next datagram.
    next: u64,
    come: Window,
    /// The answer to the peer's hello and the time to send it; `None`: the peer has been heard.
    answer: Option<(Vec<u8>, Duration)>,
    forged: u64,
    /// Beginning of the answers of the handshake, which may come again: they are not forged.
    token: Token,
    sealed: Box<[u8]>,
    plain: Box<[u8]>,
}

impl Sealed {
    /// A wire under the keys of a handshake with this token, whose last message is sent until the peer is heard.
    pub(super) fn new(
        inner: Box<dyn Wire>,
        keys: Seal,
        token: Token,
        answer: Option<Vec<u8>>,
    ) -> Sealed {
        let room = || vec![0; inner.max_bytes()].into_boxed_slice();
        let (sealed, plain) = (room(), room());
        let answer = answer.map(|answer| (answer, Duration::ZERO));
        let (keys, come) = (keys.into_keys(), Window::default());
        Sealed { inner, keys, next: 0, come, answer, forged: 0, token, sealed, plain }
    }

    /// Opens the first bytes of `sealed`; returns the length of their contents, in `plain`.
    fn open(&mut self, length: usize) -> Option<usize> {
        let datagram = &self.sealed[..length];
        let opened = datagram.split_first_chunk().and_then(|(number, message)| {
            let number = u64::from_le_bytes(*number);
            let opened = self.keys.read_message(number, message, &mut self.plain);
            Some((number, opened.ok()?))
        });
        let Some((number, opened)) = opened else {
            self.forged += u64::from(!datagram.starts_with(&self.token));
            return None;
        };
        self.answer = None;
        self.come.admit(number).then_some(opened)
    }
}

impl Wire for Sealed {
    fn max_bytes(&self) -> usize {
        self.inner.max_bytes() - OVERHEAD_BYTES
    }

    fn send(&mut self, datagram: &[u8], now: Duration) -> io::Result<()> {
        let (number, message) = self.sealed.split_at_mut(NUMBER_BYTES);
        number.copy_from_slice(&self.next.to_le_bytes());
        let length = self.keys.write_message(self.next, datagram, message);
        let length = length.map_err(io::Error::other)?;
        self.next += 1;
        self.inner.send(&self.sealed[..NUMBER_BYTES + length], now)
    }

    fn flush(&mut self, now: Duration) -> io::Result<()> {
        if let Some((answer, due)) = &mut self.answer
            && *due <= now
        {
            *due = now + ANSWER_INTERVAL;
            self.inner.send(answer, now)?;
        }
        self.inner.flush(now)
    }

    fn receive(&mut self, into: &mut [u8], now: Duration) -> io::Result<Option<usize>> {
        for _ in 0..MAX_DROPPED_A_CALL {
            let Some(length) = self.inner.receive(&mut self.sealed, now)? else { return Ok(None) };
            if let Some(length) = self.open(length)
                && let Some(into) = into.get_mut(..length)
            {
                into.copy_from_slice(&self.plain[..length]);
                return Ok(Some(length));
            }
        }
        Ok(None)
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.as_fd()
    }

    fn due(&self) -> Option<Duration> {
        let answer = self.answer.as_ref().map(|(_, due)| *due);
        [answer, self.inner.due()].into_iter().flatten().min()
    }

    fn forged(&self) -> u64 {
        self.forged
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;
    use crate::credentials::Credentials;
    use crate::greeting::{Callee, Caller};
    use crate::udp::MemoryWire;

    /// Both ends of a wire, which have met by the same secret.
    fn wire() -> [Sealed; 2] {
        let credentials = Arc::new(Credentials::Secret([7; 32]));
        let (caller, hello) = Caller::new(&credentials, 0, &());
        let asked = Callee::new(&credentials).hear::<()>(&hello).unwrap().unwrap();
        let (answer, unproved) = asked.answer(Ok(()));
        let met = caller.answered::<()>(&answer).unwrap().unwrap();
        let (a, b) = MemoryWire::pair(256);
        let token = [9; 16];
        [
            Sealed::new(Box::new(a), met.seal, token, None),
            Sealed::new(Box::new(b), unproved.keys_of_bound(), token, None),
        ]
    }

    fn receive(end: &mut Sealed) -> Option<Vec<u8>> {
        let mut bytes = [0; 256];
        let length = end.receive(&mut bytes, Duration::ZERO).unwrap()?;
        Some(bytes[..length].to_vec())
    }

    /// The datagram that `from` sends for these bytes, taken off the wire.
    fn sealed(from: &mut Sealed, to: &mut Sealed, bytes: &[u8]) -> Vec<u8> {
        from.send(bytes, Duration::ZERO).unwrap();
        let mut datagram = vec![0; 256];
        let length = to.inner.receive(&mut datagram, Duration::ZERO).unwrap().unwrap();
        datagram.truncate(length);
        datagram
    }

    #[test]
    fn what_the_peer_has_not_sealed_is_dropped_and_counted() {
        let [mut near, mut far] = wire();
        let take = sealed(&mut near, &mut far, b"take this");
        assert!(!take.windows(4).any(|part| part == b"take"), "the contents cannot be read");
        for bit in 0..8 * take.len() {
            let mut forged = take.clone();
            forged[bit / 8] ^= 1 << (bit % 8);
            near.inner.send(&forged, Duration::ZERO).unwrap();
        }
        for length in 0..take.len() {
            near.inner.send(&take[..length], Duration::ZERO).unwrap();
        }
        // A datagram of this end itself, thrown back.
        let mirrored = sealed(&mut far, &mut near, b"mirror");
        near.inner.send(&mirrored, Duration::ZERO).unwrap();
        near.inner.send(&take, Duration::ZERO).unwrap();
        assert_eq!(receive(&mut far), None, "one call drops so many");
        assert_eq!(receive(&mut far).unwrap(), b"take this");
        assert_eq!(far.forged(), (8 * take.len() + take.len() + 1) as u64);
    }

    #[test]
    fn what_has_come_does_not_come_again() {
        let [mut near, mut far] = wire();
        let [one, two] = [b"one", b"two"].map(|bytes| sealed(&mut near, &mut far, bytes));
        for datagram in [&two, &two, &one, &two, &one] {
            near.inner.send(datagram, Duration::ZERO).unwrap();
        }
        assert_eq!(
            (receive(&mut far).unwrap(), receive(&mut far).unwrap()),
            (b"two".into(), b"one".into())
        );
        assert_eq!((receive(&mut far), far.forged()), (None, 0));
    }

    proptest! {
        #[test]
        fn numbers_are_admitted_once(steps in prop::collection::vec((0..3_000_u64, any::<bool>()), 1..200)) {
            let (mut window, mut come, mut highest) = (Window::default(), HashSet::new(), 0);
            for (step, is_forward) in steps {
                let number = if is_forward { highest + step } else { highest.saturating_sub(step) };
                let is_new = window.admit(number);
                if highest.saturating_sub(number) < (WORDS - 1) * 64 {
                    prop_assert_eq!(is_new, !come.contains(&number));
                }
                prop_assert!(!is_new || come.insert(number), "{number} twice");
                highest = highest.max(number);
            }
        }
    }
}
