//! Events of the next few cycles.

use crate::engine::Cycle;

/// Events by the cycle in which they happen; none is further away than the wheel has slots.
#[derive(Clone, Debug)]
pub(super) struct Wheel<T> {
    slots: Vec<Slot<T>>,
    mask: usize,
}

/// The events of a cycle, in an array that is long enough from the start.
#[derive(Clone, Debug)]
struct Slot<T> {
    events: Box<[T]>,
    len: usize,
}

impl<T: Copy + Default> Wheel<T> {
    /// A wheel for events up to `horizon` cycles ahead, at most `capacity` of them in a cycle.
    pub fn new(horizon: u64, capacity: usize) -> Wheel<T> {
        let size = (horizon as usize + 1).next_power_of_two();
        // One place more, for what does not happen.
        let events = vec![T::default(); capacity + 1].into_boxed_slice();
        Wheel { slots: vec![Slot { events, len: 0 }; size], mask: size - 1 }
    }

    /// Lets an event happen in this cycle, which must not be further ahead than the horizon.
    #[inline]
    pub fn push(&mut self, cycle: Cycle, event: T) {
        self.push_if(true, cycle, event);
    }

    /// The same on a condition, without a branch that the processor might foresee wrongly.
    #[inline]
    pub fn push_if(&mut self, condition: bool, cycle: Cycle, event: T) {
        let slot = &mut self.slots[cycle as usize & self.mask];
        slot.events[slot.len] = event;
        slot.len += usize::from(condition);
    }

    /// The events of this cycle.
    #[inline]
    pub fn events(&self, cycle: Cycle) -> &[T] {
        let slot = &self.slots[cycle as usize & self.mask];
        &slot.events[..slot.len]
    }

    /// Forgets the events of this cycle.
    #[inline]
    pub fn clear(&mut self, cycle: Cycle) {
        self.slots[cycle as usize & self.mask].len = 0;
    }

    /// The first cycle from `now` on in which something happens.
    pub fn next(&self, now: Cycle) -> Option<Cycle> {
        (now..=now + self.mask as u64).find(|&at| !self.events(at).is_empty())
    }
}
