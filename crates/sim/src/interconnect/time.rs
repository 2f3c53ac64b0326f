//! Time: picoseconds, because the clocks of a node and of its links have no common period; and what
//! happens when.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Simulated time, in picoseconds.
pub type Ps = u64;

/// A time of a machine file in picoseconds.
pub fn ps(ns: f64) -> Ps {
    (ns * 1000.0).round() as Ps
}

/// A clock whose first edge is at time 0.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    period_ps: f64,
}

impl Clock {
    /// A clock of this frequency.
    pub fn of_mhz(mhz: f64) -> Clock {
        Clock { period_ps: 1e6 / mhz }
    }

    /// The first edge at or after a time.
    #[inline]
    pub fn edge(&self, at: Ps) -> Ps {
        // A rounded edge must not be taken for a time just after the edge.
        let edge = ((at as f64 - 0.5) / self.period_ps).ceil().max(0.0);
        (edge * self.period_ps).round() as Ps
    }

    /// Time of so many cycles.
    #[inline]
    pub fn cycles(&self, count: u32) -> Ps {
        (f64::from(count) * self.period_ps).round() as Ps
    }
}

/// Events to come, in the order of time, and of being planned at equal times.
#[derive(Clone, Debug)]
pub struct Agenda<E> {
    heap: BinaryHeap<Entry<E>>,
    planned: u64,
    now: Ps,
}

#[derive(Clone, Debug)]
struct Entry<E> {
    at: Ps,
    order: u64,
    event: E,
}

impl<E> Default for Agenda<E> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), planned: 0, now: 0 }
    }
}

impl<E> Agenda<E> {
    /// The time of what happened last.
    #[inline]
    pub fn now(&self) -> Ps {
        self.now
    }

    /// Plans an event.
    ///
    /// # Panics
    /// If its time has passed.
    #[inline]
    pub fn at(&mut self, at: Ps, event: E) {
        assert!(at >= self.now, "an event in the past");
        self.planned += 1;
        self.heap.push(Entry { at, order: self.planned, event });
    }

    /// The next event; it is its time now.
    #[inline]
    pub fn pop(&mut self) -> Option<E> {
        let Entry { at, event, .. } = self.heap.pop()?;
        self.now = at;
        Some(event)
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        // The heap gives the largest first.
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

impl<E> Eq for Entry<E> {}
