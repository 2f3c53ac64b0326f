//! Transactions in flight in a pipeline.

use arrayvec::ArrayVec;

use crate::engine::Cycle;

/// Cycle in which a transaction goes on that waits for an answer: nothing else wakes it.
pub const ASLEEP: Cycle = Cycle::MAX;

/// Transactions of a pipeline at most.
pub const MAX_SLOTS: usize = 64;

/// A fixed number of places, and the order in which the present transactions came. They may leave
/// in any order; the oldest is served first.
#[derive(Clone, Debug)]
pub struct Slots<T> {
    places: Box<[Option<T>]>,
    order: ArrayVec<u8, MAX_SLOTS>,
    free: ArrayVec<u8, MAX_SLOTS>,
}

impl<T> Slots<T> {
    /// Empty places.
    ///
    /// # Panics
    /// If there are more than [`MAX_SLOTS`].
    pub fn new(capacity: u32) -> Self {
        assert!(capacity as usize <= MAX_SLOTS, "{capacity} slots are more than {MAX_SLOTS}");
        Self {
            places: (0..capacity).map(|_| None).collect(),
            order: ArrayVec::new(),
            free: (0..capacity as u8).rev().collect(),
        }
    }

    /// Takes a place; its number. `None` if all are taken.
    #[inline]
    pub fn put(&mut self, value: T) -> Option<u8> {
        let slot = self.free.pop()?;
        self.places[usize::from(slot)] = Some(value);
        self.order.push(slot);
        Some(slot)
    }

    /// Frees the place of the `age`-th oldest.
    #[inline]
    pub fn remove_at(&mut self, age: usize) -> Option<T> {
        let slot = self.order.remove(age);
        self.free.push(slot);
        self.places[usize::from(slot)].take()
    }

    /// Frees a place.
    pub fn remove(&mut self, slot: u8) -> Option<T> {
        let age = self.order.iter().position(|&other| other == slot)?;
        self.remove_at(age)
    }

    /// The place of the `age`-th oldest.
    #[inline]
    pub fn at(&self, age: usize) -> Option<u8> {
        self.order.get(age).copied()
    }

    /// The content of a place.
    #[inline]
    pub fn get(&self, slot: u8) -> Option<&T> {
        self.places[usize::from(slot)].as_ref()
    }

    /// The content of a place, to change.
    #[inline]
    pub fn get_mut(&mut self, slot: u8) -> Option<&mut T> {
        self.places[usize::from(slot)].as_mut()
    }

    /// All, the oldest first.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.order.iter().filter_map(|&slot| self.get(slot))
    }

    /// All, in no order.
    #[inline]
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.places.iter_mut().flatten()
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.order.len()
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Whether [`Slots::put`] would find no place.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.free.is_empty()
    }
}

/// Stages of a pipeline that have been used in this cycle: each serves one transaction a cycle.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stages(u32);

impl Stages {
    /// Uses stage `number`; `false` if it has been used.
    #[inline]
    pub const fn take(&mut self, number: u32) -> bool {
        let was_free = self.0 >> number & 1 == 0;
        self.0 |= 1 << number;
        was_free
    }
}
