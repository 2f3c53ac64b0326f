//! Stores from dispatch until they retire.

use super::place::{Place, truncated};
use super::store_buffer::{Held, StoreBuffer};

pub(super) const ENTRIES: u32 = 64;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Store {
    pub(super) place: Place,
    pub(super) data: u64,
    pub(super) has_place: bool,
    pub(super) has_data: bool,
}

/// The result of a load's search among older stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// No older store that is known has any of its bytes.
    Nothing,
    /// The youngest one that has some of its bytes has them all: these, and its position.
    All(u64, u32),
    /// It has to wait for a store: for its address, its data, or to be in the L1.
    Wait,
}

/// The stores of a core, in program order, by position.
#[derive(Clone, Debug)]
pub(super) struct StoreQueue {
    entries: [Store; ENTRIES as usize],
    head: u32,
    tail: u32,
}

impl StoreQueue {
    pub(super) fn new() -> StoreQueue {
        StoreQueue { entries: [Store::default(); ENTRIES as usize], head: 0, tail: 0 }
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    #[inline(always)]
    pub(super) fn in_flight(&self) -> u32 {
        self.tail.wrapping_sub(self.head)
    }

    /// The position of the next store.
    #[inline(always)]
    pub(super) fn tail(&self) -> u32 {
        self.tail
    }

    pub(super) fn push(&mut self) {
        self.entries[(self.tail % ENTRIES) as usize] = Store::default();
        self.tail = self.tail.wrapping_add(1);
    }

    /// Takes the stores from this position on back.
    pub(super) fn truncate(&mut self, position: u32) {
        self.tail = position;
    }

    /// The oldest one retires.
    pub(super) fn retire(&mut self) -> &Store {
        let store = &self.entries[(self.head % ENTRIES) as usize];
        self.head = self.head.wrapping_add(1);
        store
    }

    #[inline(always)]
    pub(super) fn get_mut(&mut self, position: u32) -> &mut Store {
        &mut self.entries[(position % ENTRIES) as usize]
    }

    /// Looks for the bytes of a load that is younger than the stores before position `end`.
    /// `waits` says that it does not overtake stores whose addresses are unknown.
    #[inline]
    pub(super) fn find(&self, load: &Place, end: u32, waits: bool, older: &StoreBuffer) -> Found {
        let mut at = end;
        let mut found = Found::Nothing;
        while at != self.head {
            at = at.wrapping_sub(1);
            let store = &self.entries[(at % ENTRIES) as usize];
            if !store.has_place {
                if waits {
                    return Found::Wait;
                }
            } else if found == Found::Nothing && store.place.overlaps(load) {
                if !store.has_data || !store.place.covers(load) {
                    return Found::Wait;
                }
                let shift = 8 * (load.offset - store.place.offset);
                found = Found::All(truncated(store.data >> shift, load.size), at);
                if !waits {
                    break;
                }
            }
        }
        match found {
            Found::Nothing => older.find(load).map_or(found, |held| match held {
                Held::All(data) => Found::All(data, self.head.wrapping_sub(1)),
                Held::Some => Found::Wait,
            }),
            _ => found,
        }
    }
}

/// Whether position `a` is older than position `b`.
pub(super) fn is_older(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}
