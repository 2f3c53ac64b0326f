use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Slab;

/// Events to come, in the order of time, and of being planned at equal times. Time is in any unit.
#[derive(Clone, Debug)]
pub struct Agenda<E> {
    /// Time, order of being planned, and number of each event.
    heap: BinaryHeap<Reverse<(u64, u64, u32)>>,
    events: Slab<E>,
    planned: u64,
    now: u64,
}

impl<E> Default for Agenda<E> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), events: Slab::default(), planned: 0, now: 0 }
    }
}

impl<E> Agenda<E> {
    /// The time of what happened last.
    #[inline]
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Plans an event.
    ///
    /// # Panics
    /// If its time has passed.
    #[inline]
    pub fn at(&mut self, at: u64, event: E) {
        assert!(at >= self.now, "an event in the past");
        self.planned += 1;
        self.heap.push(Reverse((at, self.planned, self.events.put(event))));
    }

    /// The time of the next event.
    #[inline]
    pub fn next(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }

    /// All events to come, in no order.
    pub fn events(&self) -> impl Iterator<Item = &E> {
        self.events.values()
    }

    /// The next event; it is its time now.
    #[inline]
    pub fn pop(&mut self) -> Option<E> {
        let Reverse((at, _, number)) = self.heap.pop()?;
        self.now = at;
        Some(self.events.take(number))
    }
}
