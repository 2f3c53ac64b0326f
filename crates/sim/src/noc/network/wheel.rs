//! Events of the next few cycles.

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
    slots: Vec<List<T>>,
    mask: usize,
}

impl<T: Copy + Default> Wheel<T> {
    /// A wheel for events up to `horizon` cycles ahead, at most `capacity` of them in a cycle.
    pub fn new(horizon: u64, capacity: usize) -> Wheel<T> {
        let size = (horizon as usize + 1).next_power_of_two();
        Wheel { slots: vec![List::new(capacity); size], mask: size - 1 }
    }

    /// Lets an event happen in this cycle, which must not be further ahead than the horizon, on a condition.
    #[inline]
    pub fn push_if(&mut self, condition: bool, cycle: Cycle, event: T) {
        self.slots[cycle as usize & self.mask].push_if(condition, event);
    }

    /// Lets these events happen in this cycle, too.
    pub fn append(&mut self, cycle: Cycle, events: &[T]) {
        self.slots[cycle as usize & self.mask].append(events);
    }

    /// Gives the events of this cycle for an empty list.
    pub fn swap(&mut self, cycle: Cycle, list: &mut List<T>) {
        std::mem::swap(&mut self.slots[cycle as usize & self.mask], list);
    }

    /// The events of this cycle.
    #[inline]
    pub fn events(&self, cycle: Cycle) -> &[T] {
        self.slots[cycle as usize & self.mask].events()
    }

    /// Forgets the events of this cycle.
    #[inline]
    pub fn clear(&mut self, cycle: Cycle) {
        self.slots[cycle as usize & self.mask].clear();
    }

    /// The first cycle from `now` on in which something happens.
    pub fn next(&self, now: Cycle) -> Option<Cycle> {
        (now..=now + self.mask as u64).find(|&at| !self.events(at).is_empty())
    }
}
