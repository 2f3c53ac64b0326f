use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Events to come, in the order of time, and of being planned at equal times. Time is in any unit.
#[derive(Clone, Debug)]
pub struct Agenda<E> {
    heap: BinaryHeap<Entry<E>>,
    planned: u64,
    now: u64,
}

#[derive(Clone, Debug)]
struct Entry<E> {
    at: u64,
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
        self.heap.push(Entry { at, order: self.planned, event });
    }

    /// The time of the next event.
    #[inline]
    pub fn next(&self) -> Option<u64> {
        self.heap.peek().map(|entry| entry.at)
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
