//! A second thread for a network: it has a cycle of the routers while the first one has that of the ends, and of the
//! parts of a chip behind them. Which thread does it changes nothing.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use super::Half;
use super::crossing::Crossing;
use super::routers::Routers;
use crate::engine::{Cycle, Pace, Worker};

/// Cycles between two looks at the clock.
const CYCLES: u32 = 16;

/// A cycle of the routers, with what they get from the ends or have for them.
type Message = Option<(Crossing, Cycle)>;

/// The second thread, and whether it is worth its while.
pub(super) struct Partner {
    worker: Worker<Message>,
    /// The routers, from [`begin`](Partner::begin) to [`end`](Partner::end).
    routers: Arc<Mutex<Option<Box<Routers>>>>,
    pace: Pace,
    cycles: u32,
    since: Instant,
}

impl Partner {
    pub fn new() -> Partner {
        let routers = Arc::new(Mutex::new(None));
        let own = Arc::clone(&routers);
        let worker = Worker::new(move |message| simulate(&own, message));
        Partner { worker, routers, pace: Pace::default(), cycles: 0, since: Instant::now() }
    }

    /// Whether the next cycle is for both threads.
    pub fn is_worth_it(&mut self) -> bool {
        self.cycles += 1;
        if self.cycles == CYCLES {
            let now = Instant::now();
            self.pace.epoch(now - self.since);
            (self.cycles, self.since) = (0, now);
        }
        self.pace.is_together()
    }

    /// Hands over the routers, with a cycle of theirs, and returns what they have for the ends in it.
    pub fn begin(&self, mut half: Half, inward: Crossing, now: Cycle) -> Crossing {
        half.hand_out(now);
        *lock(&self.routers) = Some(half.routers);
        self.worker.offer(Some((inward, now)));
        half.crossing
    }

    /// Hands over the next cycle, and returns what the routers have for the ends in it.
    pub fn go_on(&self, inward: Crossing, now: Cycle) -> Crossing {
        let reclaimed = self.reclaim();
        self.worker.offer(Some((inward, now)));
        reclaimed.unwrap_or_else(|| self.collect())
    }

    /// Gets the routers back, with what they have for the ends in the next cycle.
    pub fn end(&self) -> Half {
        let crossing = self.reclaim().unwrap_or_else(|| self.collect());
        let routers = lock(&self.routers).take().expect("the second thread has the routers");
        Half { routers, crossing }
    }

    /// If the thread has not begun with the last cycle, this one does it.
    fn reclaim(&self) -> Option<Crossing> {
        let mut message = self.worker.reclaim()?;
        simulate(&self.routers, &mut message);
        message.map(|(crossing, _)| crossing)
    }

    fn collect(&self) -> Crossing {
        let message = self.worker.collect();
        message.expect("a cycle of the routers has been handed over").0
    }
}

fn simulate(routers: &Mutex<Option<Box<Routers>>>, message: &mut Message) {
    if let (Some(routers), Some((crossing, now))) = (&mut *lock(routers), message) {
        routers.tick(*now, crossing);
    }
}

fn lock<T>(routers: &Mutex<T>) -> MutexGuard<'_, T> {
    routers.lock().expect("the second thread has panicked")
}
