//! The connections of two processes, which are numbers in both: which are in use, in which of their lives, and
//! whether the peer is there. The owner of the link shares it with the thread that watches it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};

use super::carrier::Carrier;
use super::window::{Terms, Window};
use super::wire::frame::{Frame, Kind};
use rackmem_fabric::error::{Error, Result};

#[derive(Debug, Default)]
struct State {
    /// The life of each connection's number, and whether this side uses it.
    lives: Vec<(u32, bool)>,
    /// Number at which the search for a free one begins.
    next: u32,
    /// Connections that the peer has begun.
    opened: VecDeque<(u32, u32)>,
    /// Reason for the loss of the link.
    reason: String,
}

/// All that a link is.
#[derive(Debug)]
pub(super) struct Core {
    own: Window,
    peer: Window,
    terms: Terms,
    carrier: Carrier,
    name: String,
    /// Whether this side begins connections: the one that connected does, the other one accepts them.
    begins: bool,
    is_lost: AtomicBool,
    state: Mutex<State>,
    news: Condvar,
}

impl Core {
    pub(super) fn new(
        carrier: Carrier,
        name: String,
        [own, peer]: [Window; 2],
        terms: Terms,
        begins: bool,
    ) -> Core {
        let lives = vec![(0, false); terms.connections as usize];
        Core {
            own,
            peer,
            terms,
            carrier,
            name,
            begins,
            is_lost: AtomicBool::new(false),
            state: Mutex::new(State { lives, ..State::default() }),
            news: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(super) fn terms(&self) -> Terms {
        self.terms
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Whether the peer has died, is silent, or hung up.
    #[inline]
    pub(super) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }

    fn lost(&self, state: &State) -> Error {
        Error::PeerLost { peer: self.name.clone(), reason: state.reason.clone() }
    }

    /// Begins a connection: its number and its life.
    ///
    /// # Errors
    /// All connections are in use, the peer is gone, or only the peer begins connections.
    pub(super) fn open(&self) -> Result<(u32, u32)> {
        if !self.begins {
            return Err(Error::Refused("connections are begun by who has connected".to_owned()));
        }
        let (number, life) = self.reserve()?;
        self.carrier.announce(number, life).inspect_err(|_| {
            // The peer never hears of this life.
            self.lock().lives[number as usize] = (life - 1, false);
        })?;
        Ok((number, life))
    }

    /// A number that neither side uses.
    fn reserve(&self) -> Result<(u32, u32)> {
        let mut state = self.lock();
        if self.is_lost() {
            return Err(self.lost(&state));
        }
        let count = self.terms.connections;
        let next = state.next;
        for number in (next..count).chain(0..next) {
            let (life, in_use) = state.lives[number as usize];
            let closed = self.peer.head(number).closed_life.load(Ordering::Acquire);
            // The peer has let go of the last life, so nothing of it is under way.
            if !in_use && closed == life {
                state.lives[number as usize] = (life + 1, true);
                state.next = number + 1;
                return Ok((number, life + 1));
            }
        }
        Err(Error::Refused(format!("all {count} connections of the link are in use")))
    }

    /// This end is closed; the peer learns of it.
    pub(super) fn close(&self, number: u32, life: u32) {
        let mut state = self.lock();
        self.own.head(number).closed_life.store(life, Ordering::Release);
        // Under the same lock: when the peer begins the next life, this one is over here, too.
        state.lives[number as usize].1 = false;
        drop(state);
        match &self.carrier {
            Carrier::Memory(_) => self.peer.head(number).bed.shake(),
            Carrier::Network(wire) => wire.say(Frame::new(Kind::Close, number, life)),
        }
    }

    /// Waits for a connection that the peer has begun: its number and its life.
    ///
    /// # Errors
    /// The peer is gone.
    pub(super) fn accept(&self) -> Result<(u32, u32)> {
        let mut state = self.lock();
        loop {
            if let Some(opened) = state.opened.pop_front() {
                return Ok(opened);
            }
            if self.is_lost() {
                return Err(self.lost(&state));
            }
            state = self.news.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }

    /// The peer has begun a connection; `false` if it may not.
    pub(super) fn opened(&self, number: u32, life: u32) -> bool {
        let mut state = self.lock();
        let Some(entry) = state.lives.get_mut(number as usize) else { return false };
        if self.begins || entry.1 || life <= entry.0 {
            return false;
        }
        *entry = (life, true);
        state.opened.push_back((number, life));
        self.news.notify_one();
        true
    }

    /// Ends the link for a reason, and wakes everything that waits for the peer.
    pub(super) fn lose(&self, reason: &str) {
        let mut state = self.lock();
        if !self.is_lost.swap(true, Ordering::AcqRel) {
            state.reason = reason.to_owned();
        }
        let numbers = (0_u32..).zip(&state.lives);
        let in_use: Vec<u32> =
            numbers.filter(|(_, (_, in_use))| *in_use).map(|(number, _)| number).collect();
        drop(state);
        self.carrier.hang_up();
        for number in in_use {
            self.own.head(number).bed.shake();
        }
        self.news.notify_all();
    }

    pub(super) fn own(&self) -> &Window {
        &self.own
    }

    /// The peer's window; over a network the one that stands for it.
    pub(super) fn peer(&self) -> &Window {
        &self.peer
    }

    pub(super) fn carrier(&self) -> &Carrier {
        &self.carrier
    }
}
