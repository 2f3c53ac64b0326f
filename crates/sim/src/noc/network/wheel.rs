//! What will happen in the next few cycles.

use crate::engine::Cycle;

/// Events by the cycle in which they happen; none is further away than the wheel has slots.
#[derive(Clone, Debug)]
pub(super) struct Wheel<T> {
    slots: Vec<Vec<T>>,
    mask: usize,
    /// Events in all slots.
    len: usize,
}

impl<T: Copy> Wheel<T> {
    /// A wheel for events up to `horizon` cycles ahead.
    pub fn new(horizon: u64) -> Wheel<T> {
        let size = (horizon as usize + 1).next_power_of_two();
        Wheel { slots: (0..size).map(|_| Vec::new()).collect(), mask: size - 1, len: 0 }
    }

    /// Lets an event happen in this cycle, which must not be further ahead than the horizon.
    #[inline]
    pub fn push(&mut self, cycle: Cycle, event: T) {
        self.slots[cycle as usize & self.mask].push(event);
        self.len += 1;
    }

    /// The events of this cycle. Give the vector back with [`put_back`](Wheel::put_back).
    #[inline]
    pub fn take(&mut self, cycle: Cycle) -> Vec<T> {
        let events = std::mem::take(&mut self.slots[cycle as usize & self.mask]);
        self.len -= events.len();
        events
    }

    /// Returns the empty vector of a cycle, so that its memory is used again.
    #[inline]
    pub fn put_back(&mut self, cycle: Cycle, mut events: Vec<T>) {
        events.clear();
        self.slots[cycle as usize & self.mask] = events;
    }

    /// The first cycle from `now` on in which something happens.
    pub fn next(&self, now: Cycle) -> Option<Cycle> {
        if self.len == 0 {
            return None;
        }
        (now..=now + self.mask as u64).find(|&at| !self.slots[at as usize & self.mask].is_empty())
    }
}
