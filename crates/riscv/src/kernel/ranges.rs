//! The taken parts of the address space.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::saved::{Checked, require};
use crate::space::PAGE;

/// Taken ranges that do not overlap, by their starts.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Ranges {
    /// Start to end.
    taken: BTreeMap<u64, u64>,
}

impl Ranges {
    /// Takes a range. What was taken of it stays taken.
    pub(super) fn insert(&mut self, start: u64, end: u64) {
        self.remove(start, end);
        self.taken.insert(start, end);
    }

    /// Takes a range, which becomes one with those that it touches.
    pub(super) fn join(&mut self, start: u64, end: u64) {
        let before = self.taken.range(..=start).next_back();
        let before = before.filter(|(_, range_end)| **range_end >= start);
        let from = before.map_or(start, |(&range_start, _)| range_start);
        let last = self.taken.range(..=end).next_back();
        let to = last.map_or(end, |(_, &range_end)| range_end.max(end));
        self.insert(from, to);
    }

    /// Gives a range back, whatever was taken of it.
    pub(super) fn remove(&mut self, start: u64, end: u64) {
        let touched: Vec<(u64, u64)> = self
            .taken
            .range(..end)
            .rev()
            .take_while(|(_, range_end)| **range_end > start)
            .map(|(&range_start, &range_end)| (range_start, range_end))
            .collect();
        for (range_start, range_end) in touched {
            self.taken.remove(&range_start);
            if range_start < start {
                self.taken.insert(range_start, start);
            }
            if range_end > end {
                self.taken.insert(end, range_end);
            }
        }
    }

    /// Number of ranges.
    pub(super) fn count(&self) -> usize {
        self.taken.len()
    }

    /// Whether there are two ranges instead of one if this one is given back.
    pub(super) fn splits(&self, start: u64, end: u64) -> bool {
        self.taken.range(..start).next_back().is_some_and(|(_, &range_end)| range_end > end)
    }

    /// How many ranges are cut in two at the ends of this one.
    pub(super) fn cuts(&self, start: u64, end: u64) -> usize {
        let is_cut = |at: &&u64| {
            let before = self.taken.range(..**at).next_back();
            before.is_some_and(|(_, &range_end)| range_end > **at)
        };
        [start, end].iter().filter(is_cut).count()
    }

    /// Checks ranges that were read: whole pages below `top` that do not overlap.
    pub(super) fn check(&self, name: &str, top: u64) -> Checked {
        let mut free_from = 0;
        for (start, end) in self.iter() {
            let is_whole = start % PAGE == 0 && end % PAGE == 0;
            require(is_whole && free_from <= start && start < end && end <= top, || {
                format!("{name}.taken: no range of free pages is from {start:#x} to {end:#x}")
            })?;
            free_from = end;
        }
        Ok(())
    }

    /// Taken ranges, ascending: starts and ends.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.taken.iter().map(|(&start, &end)| (start, end))
    }

    /// The taken parts of a range: starts and ends, ascending.
    pub(super) fn within(&self, start: u64, end: u64) -> Vec<(u64, u64)> {
        let touched = self.taken.range(..end).rev();
        let touched = touched.take_while(|(_, range_end)| **range_end > start);
        let mut parts: Vec<(u64, u64)> =
            touched.map(|(&from, &to)| (from.max(start), to.min(end))).collect();
        parts.reverse();
        parts
    }

    /// The free parts of a range: starts and ends, ascending.
    pub(super) fn outside(&self, start: u64, end: u64) -> Vec<(u64, u64)> {
        let mut parts = Vec::new();
        let mut at = start;
        for (from, to) in self.within(start, end) {
            if at < from {
                parts.push((at, from));
            }
            at = to;
        }
        if at < end {
            parts.push((at, end));
        }
        parts
    }

    /// Whether nothing of a range is taken.
    pub(super) fn is_free(&self, start: u64, end: u64) -> bool {
        self.taken.range(..end).next_back().is_none_or(|(_, &range_end)| range_end <= start)
    }

    /// Start of the highest free range of `length` bytes between `bottom` and `top`.
    pub(super) fn highest_gap(&self, length: u64, bottom: u64, top: u64) -> Option<u64> {
        let mut end = top;
        for (&range_start, &range_end) in self.taken.range(..top).rev() {
            if range_end < end && end - range_end >= length {
                break;
            }
            end = end.min(range_start);
        }
        let start = end.checked_sub(length)?;
        (start >= bottom && self.is_free(start, end)).then_some(start)
    }
}

#[cfg(test)]
mod tests {
    use super::Ranges;

    #[test]
    fn gaps_are_found_from_the_top() {
        let mut ranges = Ranges::default();
        ranges.insert(80, 90);
        assert_eq!(ranges.highest_gap(10, 0, 100), Some(90));
        assert_eq!(ranges.highest_gap(20, 0, 100), Some(60));
        ranges.insert(90, 100);
        assert_eq!(ranges.highest_gap(10, 0, 100), Some(70));
        assert_eq!(ranges.highest_gap(10, 75, 100), None);
        assert_eq!(ranges.highest_gap(200, 0, 100), None);
    }

    #[test]
    fn a_range_is_what_is_taken_of_it_and_what_is_not() {
        let mut ranges = Ranges::default();
        ranges.insert(10, 20);
        ranges.insert(30, 40);
        assert_eq!(ranges.within(15, 35), [(15, 20), (30, 35)]);
        assert_eq!(ranges.outside(5, 45), [(5, 10), (20, 30), (40, 45)]);
        assert_eq!(ranges.outside(12, 18), []);
        assert_eq!(ranges.outside(50, 60), [(50, 60)]);
    }

    #[test]
    fn ranges_that_touch_become_one() {
        let mut ranges = Ranges::default();
        for (start, end) in [(10, 20), (30, 40), (20, 30), (15, 35), (50, 60), (5, 45)] {
            ranges.join(start, end);
        }
        assert_eq!(ranges.iter().collect::<Vec<_>>(), [(5, 45), (50, 60)]);
        assert_eq!((ranges.cuts(5, 45), ranges.cuts(6, 55), ranges.cuts(46, 60)), (0, 2, 0));
    }

    #[test]
    fn a_hole_splits_a_range() {
        let mut ranges = Ranges::default();
        ranges.insert(10, 50);
        ranges.remove(20, 30);
        assert!(ranges.is_free(20, 30));
        assert!(!ranges.is_free(19, 30));
        assert!(!ranges.is_free(20, 31));
        assert_eq!(ranges.highest_gap(10, 0, 50), Some(20));
    }
}
