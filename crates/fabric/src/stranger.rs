//! Peers that have not proved anything yet. They share a few places, have one absolute deadline and may say
//! [`MAX_FIRST_FRAME_BYTES`]; nothing that they do takes a place from a peer that is trusted.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::net::Shutdown;

/// Most bytes that a peer may say before it is trusted.
pub const MAX_FIRST_FRAME_BYTES: usize = 4096;

/// Strangers that a listener has at a time. One more takes the place of the one that has waited longest: so a
/// flood must be faster than a proof to keep others out.
pub const MAX_STRANGERS: usize = 64;

/// Longest time from the connection to the proof. Messages in between do not prolong it.
pub const PROOF: Duration = Duration::from_secs(10);

/// The places for strangers of one listener.
#[derive(Clone, Debug, Default)]
pub struct Strangers(Arc<Mutex<Places>>);

#[derive(Debug, Default)]
struct Places {
    next: u64,
    taken: VecDeque<(u64, OwnedFd)>,
}

/// A stranger's place; free again when this is dropped.
#[derive(Debug)]
pub struct Stranger {
    strangers: Strangers,
    number: u64,
    deadline: Instant,
}

impl Strangers {
    fn lock(&self) -> MutexGuard<'_, Places> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a place to the peer of this socket. If none is free, the oldest stranger's socket is shut down, which
    /// its owner sees as the peer's end.
    ///
    /// # Errors
    /// The process has no more descriptors.
    pub fn admit(&self, socket: BorrowedFd<'_>) -> io::Result<Stranger> {
        let socket = socket.try_clone_to_owned()?;
        let mut places = self.lock();
        if places.taken.len() >= MAX_STRANGERS
            && let Some((_, oldest)) = places.taken.pop_front()
        {
            let _ = rustix::net::shutdown(&oldest, Shutdown::Both);
        }
        let number = places.next;
        places.next += 1;
        places.taken.push_back((number, socket));
        Ok(Stranger { strangers: self.clone(), number, deadline: Instant::now() + PROOF })
    }
}

impl Stranger {
    /// The moment by which it has to be trusted.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Whether it has taken too long.
    pub fn is_late(&self) -> bool {
        Instant::now() > self.deadline
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let number = self.number;
        self.strangers.lock().taken.retain(|&(other, _)| other != number);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn one_too_many_takes_the_oldest_strangers_place() {
        let strangers = Strangers::default();
        let ends: Vec<_> = (0..MAX_STRANGERS + 2).map(|_| UnixStream::pair().unwrap()).collect();
        let admit = |(end, _): &(UnixStream, UnixStream)| strangers.admit(end.as_fd()).unwrap();
        let is_hung_up = |&(_, mut peer): &(usize, &UnixStream)| {
            peer.set_nonblocking(true).unwrap();
            peer.read(&mut [0]).is_ok()
        };
        // The first is trusted before the others come.
        drop(admit(&ends[0]));
        let mut places: Vec<Stranger> = ends[1..].iter().map(admit).collect();
        let peers = ends.iter().map(|(_, peer)| peer).enumerate();
        let hung_up: Vec<_> = peers.clone().filter(is_hung_up).map(|(number, _)| number).collect();
        assert_eq!(hung_up, [1], "of those that are left, the oldest");
        drop(places.pop());
        assert_eq!(peers.filter(is_hung_up).count(), 1, "who leaves its place is not hung up");
        assert_eq!(strangers.lock().taken.len(), MAX_STRANGERS - 1);
    }
}
