//! The connections of a proxy: their limit, the bytes that they have carried, and their end.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use super::pump::Pump;
use super::socket::Socket;
use crate::pair::QPair;
use rackmem_fabric::error::{Error, Result};

/// Stack of a thread that carries bytes; its buffers are not there.
const STACK_BYTES: usize = 128 << 10;

/// Counters of a proxy since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Connections that began; those above the limit do not count.
    pub connections: u64,
    /// Connections that did not end in order, or never began.
    pub broken: u64,
    /// Bytes from sockets to queue pairs.
    pub sent_bytes: u64,
    /// Bytes from queue pairs to sockets.
    pub received_bytes: u64,
}

/// All connections of a proxy.
#[derive(Debug)]
pub(super) struct Crew {
    limit: usize,
    state: Mutex<State>,
    one_has_gone: Condvar,
}

#[derive(Debug, Default)]
struct State {
    seats: usize,
    next: u64,
    pumps: HashMap<u64, Arc<Pump>>,
    is_ending: bool,
    summary: Summary,
}

/// The place of a connection; given back when its thread ends, however it does.
#[derive(Debug)]
pub(super) struct Seat {
    crew: Arc<Crew>,
    number: u64,
    is_in_order: bool,
}

impl Crew {
    pub(super) fn new(limit: u32) -> Arc<Crew> {
        let limit = limit as usize;
        Arc::new(Crew { limit, state: Mutex::default(), one_has_gone: Condvar::new() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Whether there is room for another connection.
    pub(super) fn has_room(&self) -> bool {
        self.lock().seats < self.limit
    }

    /// Starts a thread for a connection; its failure is logged with `who`.
    ///
    /// # Errors
    /// There are as many as there may be, or no thread.
    pub(super) fn start(
        self: &Arc<Crew>,
        who: String,
        work: impl FnOnce(&mut Seat) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let mut seat = self.seat()?;
        let builder = std::thread::Builder::new().name("rackmem-receive".to_owned());
        let carry = move || {
            if let Err(error) = work(&mut seat) {
                tracing::warn!("{who} was turned away: {error}");
            }
        };
        let thread = builder.stack_size(STACK_BYTES).spawn(carry);
        thread.map(drop).map_err(|error| Error::io("no thread for another connection", error))
    }

    fn seat(self: &Arc<Crew>) -> Result<Seat> {
        let mut state = self.lock();
        if state.seats >= self.limit || state.is_ending {
            let limit = self.limit;
            return Err(Error::Refused(format!("{limit} sockets are carried already (--sockets)")));
        }
        state.seats += 1;
        state.next += 1;
        state.summary.connections += 1;
        Ok(Seat { crew: self.clone(), number: state.next, is_in_order: false })
    }

    /// Ends all connections, and waits a while for their threads.
    pub(super) fn end(&self, patience: Duration) -> Summary {
        let mut state = self.lock();
        state.is_ending = true;
        state.pumps.values().for_each(|pump| pump.give_up());
        let waited = self.one_has_gone.wait_timeout_while(state, patience, |state| state.seats > 0);
        waited.unwrap_or_else(std::sync::PoisonError::into_inner).0.summary
    }
}

impl Seat {
    /// Carries a socket to its end.
    pub(super) fn carry(&mut self, pair: QPair, socket: Socket) -> Result<()> {
        let pump = Arc::new(Pump::new(pair, socket)?);
        {
            let mut state = self.crew.lock();
            if state.is_ending {
                pump.give_up();
            }
            state.pumps.insert(self.number, pump.clone());
        }
        let ran: io::Result<bool> = pump.run(STACK_BYTES);
        let [sent, received] = pump.carried_bytes();
        let mut state = self.crew.lock();
        state.pumps.remove(&self.number);
        state.summary.sent_bytes += sent;
        state.summary.received_bytes += received;
        drop(state);
        self.is_in_order =
            ran.map_err(|error| Error::io("no second thread for a connection", error))?;
        Ok(())
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut state = self.crew.lock();
        state.seats -= 1;
        state.summary.broken += u64::from(!self.is_in_order);
        self.crew.one_has_gone.notify_all();
    }
}
