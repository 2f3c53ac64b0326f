//! Events of the next few cycles.

use std::ops::RangeInclusive;

use crate::engine::Cycle;

/// Events in the order in which they were noted, in an array that is long enough from the start.
#[derive(Clone, Debug, Default)]
pub(super) struct List<T> {
    events: Box<[T]>,
    len: usize,
}

impl<T: Copy + Default> List<T> {
    /// An empty list for at most so many.
    pub fn new(capacity: usize) -> List<T> {
        // One place more, for what does not happen.
        List { events: vec![T::default(); capacity + 1].into_boxed_slice(), len: 0 }
    }

    /// Notes an event on a condition, without a branch that the processor might foresee wrongly.
    #[inline]
    pub fn push_if(&mut self, condition: bool, event: T) {
        self.events[self.len] = event;
        self.len += usize::from(condition);
    }

    pub fn append(&mut self, events: &[T]) {
        self.events[self.len..][..events.len()].copy_from_slice(events);
        self.len += events.len();
    }

    #[inline]
    pub fn events(&self) -> &[T] {
        &self.events[..self.len]
    }

    #[inline]
    pub fn events_mut(&mut self) -> &mut [T] {
        &mut self.events[..self.len]
    }

    #[inline]
    pub fn clear(&mut self) {
        self.len = 0;
    }
}

/// Events by the cycle in which they happen; none is further away than the wheel has slots.
#[derive(Clone, Debug)]
pub(super) struct Wheel<T> {
    /// The slots, one behind the other.
    events: Box<[T]>,
    /// By slot, the place behind its last event.
    ends: Box<[usize]>,
    /// Places of a slot.
    stride: usize,
    mask: usize,
}

impl<T: Copy + Default> Wheel<T> {
    /// A wheel for events up to `horizon` cycles ahead, at most `capacity` of them in a cycle.
    pub fn new(horizon: u64, capacity: usize) -> Wheel<T> {
        let slots = (horizon as usize + 1).next_power_of_two();
        // One place more, for what does not happen.
        let stride = capacity + 1;
        Wheel {
            events: vec![T::default(); slots * stride].into_boxed_slice(),
            ends: (0..slots).map(|slot| slot * stride).collect(),
            stride,
            mask: slots - 1,
        }
    }

    /// Lets an event happen in this cycle, which must not be further ahead than the horizon, on a condition.
    #[inline]
    pub fn push_if(&mut self, condition: bool, cycle: Cycle, event: T) {
        let end = &mut self.ends[cycle as usize & self.mask];
        self.events[*end] = event;
        *end += usize::from(condition);
    }

    /// Lets these events happen in this cycle, too.
    pub fn append(&mut self, cycle: Cycle, events: &[T]) {
        let end = &mut self.ends[cycle as usize & self.mask];
        self.events[*end..][..events.len()].copy_from_slice(events);
        *end += events.len();
    }

    /// Moves the events of this cycle to a list.
    pub fn drain(&mut self, cycle: Cycle, list: &mut List<T>) {
        list.append(self.events(cycle));
        self.clear(cycle);
    }

    /// The events of this cycle.
    #[inline]
    pub fn events(&self, cycle: Cycle) -> &[T] {
        let slot = cycle as usize & self.mask;
        &self.events[slot * self.stride..self.ends[slot]]
    }

    /// Forgets the events of this cycle.
    #[inline]
    pub fn clear(&mut self, cycle: Cycle) {
        let slot = cycle as usize & self.mask;
        self.ends[slot] = slot * self.stride;
    }

    /// The cycles from `now` on in which something may happen.
    pub fn cycles(&self, now: Cycle) -> RangeInclusive<Cycle> {
        now..=now + self.mask as u64
    }
}
