//! Stores that have retired and wait for their lines: an entry for each line, the oldest first. A
//! store joins the entry of its line, unless a fence or a store to what is no ordinary memory has
//! come since.

use super::place::{Place, read, truncated, write};
use super::store_queue::Store;
use crate::block::{Line, Words};

/// The most entries that a core may have.
pub(super) const MOST: u32 = 64;

/// Waits after which the oldest store goes before loads: in a cache of one way a load that repeats itself could take
/// each line away before the store is there.
const MOST_REFUSALS: u32 = 64;

/// Cycles in a row without a port of the L1 after which the oldest store goes before loads: a loop with a load in each
/// cycle could keep it from the other cores for ever.
const MOST_PASSED_OVER: u32 = 1024;

/// Stores to a line, which leave together, or one to what is no ordinary memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Entry {
    pub(super) line: Line,
    data: Words,
    /// The bits of the line that are stored.
    mask: Words,
    /// Times that it had to wait for its line.
    refusals: u32,
    pub(super) special: Option<Special>,
}

/// A store to what is no ordinary memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Special {
    pub(super) offset: u8,
    pub(super) size: u8,
    pub(super) data: u64,
    /// Whether it has left: the core waited for that.
    pub(super) has_left: bool,
}

impl Entry {
    fn add(&mut self, offset: u8, size: u8, data: u64) {
        write(&mut self.data, offset, size, data);
        write(&mut self.mask, offset, size, u64::MAX);
    }

    /// It has to wait for its line. Whether that is the first time.
    pub(super) fn wait(&mut self) -> bool {
        self.refusals = self.refusals.saturating_add(1);
        self.refusals == 1
    }

    /// Stores its bytes in the line.
    #[inline]
    pub(super) fn put(&self, words: &mut Words) {
        for ((word, &mask), &data) in words.iter_mut().zip(&self.mask).zip(&self.data) {
            *word = *word & !mask | data & mask;
        }
    }

    /// The bytes of a load that touches the line, if it has any of them.
    fn find(&self, load: &Place) -> Option<Held> {
        if load.crosses() {
            return Some(Held::Some);
        }
        let mask = read(&self.mask, load.offset, load.size);
        if mask == 0 {
            return None;
        }
        let has_all = mask == truncated(u64::MAX, load.size);
        Some(if has_all { Held::All(read(&self.data, load.offset, load.size)) } else { Held::Some })
    }
}

/// The bytes of a load that an entry has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    All(u64),
    Some,
}

/// The retired stores of a core.
#[derive(Clone, Debug)]
pub(super) struct StoreBuffer {
    entries: Box<[Entry]>,
    limit: u32,
    head: u32,
    tail: u32,
    /// Stores join none of the entries before it.
    sealed: u32,
    /// The lines of entries before it have been asked for.
    asked: u32,
    /// Cycles in a row in which loads have left the oldest one no port.
    passed_over: u32,
}

impl StoreBuffer {
    /// A buffer of so many entries, and one more for the second line of the last store in it.
    pub(super) fn new(limit: u32) -> StoreBuffer {
        let entries = vec![Entry::default(); (limit as usize + 1).next_power_of_two()];
        StoreBuffer {
            entries: entries.into(),
            limit,
            head: 0,
            tail: 0,
            sealed: 0,
            asked: 0,
            passed_over: 0,
        }
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    #[inline(always)]
    fn at(&self, position: u32) -> &Entry {
        &self.entries[position as usize & (self.entries.len() - 1)]
    }

    #[inline(always)]
    fn at_mut(&mut self, position: u32) -> &mut Entry {
        &mut self.entries[position as usize & (self.entries.len() - 1)]
    }

    /// The entry that a store to this line joins.
    #[inline(always)]
    fn open(&self, line: Line) -> Option<u32> {
        let mut at = self.tail;
        while at != self.sealed {
            at = at.wrapping_sub(1);
            if self.at(at).line == line {
                return Some(at);
            }
        }
        None
    }

    /// Whether a store to this place can come in.
    #[inline]
    pub(super) fn has_room(&self, place: &Place, is_special: bool) -> bool {
        self.tail.wrapping_sub(self.head) < self.limit
            || !is_special && place.lines.iter().all(|&line| self.open(line).is_some())
    }

    /// Takes a store to ordinary memory.
    #[inline]
    pub(super) fn push(&mut self, store: &Store) {
        let place = &store.place;
        let first = place.first_bytes();
        self.add(place.lines[0], place.offset, first, store.data);
        if place.crosses() {
            self.add(place.lines[1], 0, place.size - first, store.data >> (8 * first));
        }
    }

    #[inline]
    fn add(&mut self, line: Line, offset: u8, size: u8, data: u64) {
        let position = self.open(line).unwrap_or_else(|| self.open_new(line));
        self.at_mut(position).add(offset, size, data);
    }

    fn open_new(&mut self, line: Line) -> u32 {
        let position = self.tail;
        self.tail = position.wrapping_add(1);
        let entry = self.at_mut(position);
        entry.line = line;
        entry.mask = Words::default();
        entry.refusals = 0;
        entry.special = None;
        position
    }

    /// Takes a store to what is no ordinary memory.
    pub(super) fn push_special(&mut self, store: &Store, has_left: bool) {
        let Place { lines, offset, size } = store.place;
        let position = self.open_new(lines[0]);
        let entry = self.at_mut(position);
        entry.add(offset, size, store.data);
        entry.special = Some(Special { offset, size, data: store.data, has_left });
        self.seal();
    }

    /// The last entry with bytes of a store that has just come in.
    pub(super) fn position(&self, place: &Place) -> u32 {
        let newest = self.tail.wrapping_sub(1);
        let has_any = |position: &u32| place.touches(self.at(*position).line);
        let count = self.tail.wrapping_sub(self.head);
        (0..count).map(|age| newest.wrapping_sub(age)).find(has_any).unwrap_or(newest)
    }

    /// Younger stores join none of those that are here.
    pub(super) fn seal(&mut self) {
        self.sealed = self.tail;
    }

    pub(super) fn oldest(&mut self) -> Option<&mut Entry> {
        (!self.is_empty()).then(|| self.at_mut(self.head))
    }

    /// Whether the oldest one has waited so often that it goes before loads.
    pub(super) fn is_starved(&self) -> bool {
        !self.is_empty() && self.at(self.head).refusals >= MOST_REFUSALS
    }

    /// Loads leave no port to it in this cycle.
    pub(super) fn pass_over(&mut self) {
        self.passed_over += u32::from(!self.is_empty());
    }

    /// Whether loads have left it no port for so long that it goes before them.
    pub(super) fn is_passed_over(&self) -> bool {
        self.passed_over >= MOST_PASSED_OVER
    }

    /// There is a port for the oldest one.
    pub(super) fn has_port(&mut self) {
        self.passed_over = 0;
    }

    /// The oldest one is in the L1. Its position.
    pub(super) fn pop(&mut self) -> u32 {
        if self.sealed == self.head {
            self.sealed = self.sealed.wrapping_add(1);
        }
        self.head = self.head.wrapping_add(1);
        self.head.wrapping_sub(1)
    }

    /// The next one whose line should be asked for: at most `ahead` behind the oldest one.
    pub(super) fn next_to_ask(&mut self, ahead: u32) -> Option<&mut Entry> {
        if self.asked.wrapping_sub(self.head) as i32 <= 0 {
            self.asked = self.head.wrapping_add(1);
        }
        let position = self.asked;
        let is_behind = (position.wrapping_sub(self.tail) as i32) < 0;
        if position.wrapping_sub(self.head) > ahead || !is_behind {
            return None;
        }
        self.asked = position.wrapping_add(1);
        Some(self.at_mut(position))
    }

    /// Looks for the bytes of a load; the youngest store of each has it.
    #[inline]
    pub(super) fn find(&self, load: &Place) -> Option<Held> {
        let mut at = self.tail;
        while at != self.head {
            at = at.wrapping_sub(1);
            let entry = self.at(at);
            if load.touches(entry.line)
                && let Some(held) = entry.find(load)
            {
                return Some(held);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(lines: [Line; 2], offset: u8, size: u8, data: u64) -> Store {
        Store { place: Place { lines, offset, size }, data, ..Store::default() }
    }

    fn one(line: Line, offset: u8, data: u64) -> Store {
        store([line; 2], offset, 8, data)
    }

    fn load(line: Line, offset: u8, size: u8) -> Place {
        Place { lines: [line; 2], offset, size }
    }

    /// The lines of the entries, oldest first, as they leave.
    fn leave(buffer: &mut StoreBuffer) -> Vec<(Line, Words)> {
        let mut left = Vec::new();
        while let Some(entry) = buffer.oldest() {
            let mut words = [9; 8];
            entry.put(&mut words);
            left.push((entry.line, words));
            buffer.pop();
        }
        left
    }

    #[test]
    fn stores_join_their_line_in_their_order() {
        let mut buffer = StoreBuffer::new(4);
        for store in [one(1, 0, 1), one(2, 0, 2), one(1, 8, 3), one(1, 0, 4)] {
            buffer.push(&store);
        }
        assert_eq!(
            leave(&mut buffer),
            [(1, [4, 3, 9, 9, 9, 9, 9, 9]), (2, [2, 9, 9, 9, 9, 9, 9, 9])]
        );
    }

    #[test]
    fn stores_join_nothing_from_before_a_fence_or_a_special_store() {
        let mut buffer = StoreBuffer::new(8);
        buffer.push(&one(1, 0, 1));
        buffer.seal();
        buffer.push(&one(1, 8, 2));
        buffer.push_special(&one(7, 0, 3), false);
        buffer.push(&one(1, 16, 4));
        let lines: Vec<Line> = leave(&mut buffer).into_iter().map(|(line, _)| line).collect();
        assert_eq!(lines, [1, 1, 7, 1]);
        buffer.push(&one(3, 0, 1));
        buffer.push(&one(3, 8, 2));
        assert_eq!(leave(&mut buffer).len(), 1, "what was sealed has gone");
    }

    #[test]
    fn a_full_buffer_takes_what_joins() {
        let mut buffer = StoreBuffer::new(1);
        let over = store([1, 2], 60, 8, u64::MAX);
        assert!(buffer.has_room(&over.place, false));
        buffer.push(&over);
        assert_eq!((buffer.position(&over.place), buffer.position(&load(1, 0, 8))), (1, 0));
        assert!(buffer.has_room(&load(1, 0, 8), false) && buffer.has_room(&over.place, false));
        assert!(!buffer.has_room(&load(3, 0, 8), false) && !buffer.has_room(&load(1, 0, 8), true));
        buffer.pop();
        assert!(buffer.has_room(&load(2, 0, 8), false) && !buffer.has_room(&load(1, 0, 8), false));
        let half = u64::from(u32::MAX);
        assert_eq!(leave(&mut buffer), [(2, [half, 9, 9, 9, 9, 9, 9, 9])]);
    }

    #[test]
    fn loads_find_the_youngest_bytes() {
        let mut buffer = StoreBuffer::new(4);
        buffer.push(&one(1, 0, 1));
        buffer.seal();
        buffer.push(&store([1; 2], 8, 4, 5));
        buffer.push(&store([1; 2], 12, 4, 6));
        assert_eq!(buffer.find(&load(1, 8, 8)), Some(Held::All(6 << 32 | 5)), "of two stores");
        assert_eq!(buffer.find(&load(1, 0, 4)), Some(Held::All(1)), "of an older entry");
        assert_eq!(buffer.find(&load(1, 4, 8)), Some(Held::Some), "of both");
        assert_eq!(buffer.find(&load(1, 16, 8)), None);
        assert_eq!(buffer.find(&load(2, 8, 8)), None);
        let over = Place { lines: [0, 1], offset: 60, size: 8 };
        assert_eq!(buffer.find(&over), Some(Held::Some), "of two lines");
    }

    #[test]
    fn lines_are_asked_for_once_and_not_too_far_ahead() {
        let mut buffer = StoreBuffer::new(8);
        (0..6).for_each(|line| buffer.push(&one(line, 0, 0)));
        let ask = |buffer: &mut StoreBuffer| buffer.next_to_ask(2).map(|entry| entry.line);
        assert_eq!([0; 3].map(|_| ask(&mut buffer)), [Some(1), Some(2), None]);
        buffer.pop();
        assert_eq!([0; 2].map(|_| ask(&mut buffer)), [Some(3), None]);
        (0..5).for_each(|_| _ = buffer.pop());
        assert_eq!(ask(&mut buffer), None);
    }
}
