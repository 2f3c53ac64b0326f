//! Pages of mappings of files that are behind the end of their file: an access that the mapping allows is `SIGBUS`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::saved::{Checked, require};
use crate::space::{PAGE, Permissions};

/// A range of such pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Part {
    end: u64,
    /// Those of the mapping.
    permissions: Permissions,
}

/// All of a process, by their starts.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Beyond {
    by_start: BTreeMap<u64, Part>,
}

impl Beyond {
    /// Adds a range, of which nothing is there yet.
    pub(super) fn insert(&mut self, start: u64, end: u64, permissions: Permissions) {
        if start < end {
            self.by_start.insert(start, Part { end, permissions });
        }
    }

    /// Number of ranges.
    pub(super) fn count(&self) -> usize {
        self.by_start.len()
    }

    /// How many ranges are cut in two at the ends of this one.
    pub(super) fn cuts(&self, start: u64, end: u64) -> usize {
        let is_cut = |at: &&u64| {
            let before = self.by_start.range(..**at).next_back();
            before.is_some_and(|(_, part)| part.end > **at)
        };
        [start, end].iter().filter(is_cut).count()
    }

    /// Whether there are two ranges instead of one if this one is removed.
    pub(super) fn splits(&self, start: u64, end: u64) -> bool {
        self.by_start.range(..start).next_back().is_some_and(|(_, part)| part.end > end)
    }

    /// Parts of a range: starts, ends and permissions, ascending.
    pub(super) fn within(&self, start: u64, end: u64) -> Vec<(u64, u64, Permissions)> {
        let touched = self.by_start.range(..end).rev();
        let touched = touched.take_while(|(_, part)| part.end > start);
        let mut parts: Vec<_> = touched
            .map(|(&from, part)| (from.max(start), part.end.min(end), part.permissions))
            .collect();
        parts.reverse();
        parts
    }

    /// The other parts of a range: starts and ends, ascending.
    pub(super) fn outside(&self, start: u64, end: u64) -> Vec<(u64, u64)> {
        let within = self.within(start, end);
        let starts = [start].into_iter().chain(within.iter().map(|part| part.1));
        let ends = within.iter().map(|part| part.0).chain([end]);
        starts.zip(ends).filter(|(from, to)| from < to).collect()
    }

    /// Forgets what is in a range; returns it.
    pub(super) fn remove(&mut self, start: u64, end: u64) -> Vec<(u64, u64, Permissions)> {
        let removed = self.within(start, end);
        let touched = self.by_start.range(..end).rev();
        let touched = touched.take_while(|(_, part)| part.end > start);
        let touched: Vec<(u64, Part)> = touched.map(|(&from, &part)| (from, part)).collect();
        for (from, part) in touched {
            self.by_start.remove(&from);
            self.insert(from, part.end.min(start), part.permissions);
            self.insert(from.max(end), part.end, part.permissions);
        }
        removed
    }

    /// The permissions of the mapping at an address that is behind the end of its file.
    pub(super) fn at(&self, address: u64) -> Option<Permissions> {
        let (_, part) = self.by_start.range(..=address).next_back()?;
        (part.end > address).then_some(part.permissions)
    }

    /// Checks what was read: whole pages that do not overlap, and that `is_reserved` says have no memory.
    pub(super) fn check(&self, is_reserved: impl Fn(u64, u64) -> bool) -> Checked {
        let mut free_from = 0;
        for (&start, &Part { end, .. }) in &self.by_start {
            let is_range = free_from <= start && start < end && (start | end) % PAGE == 0;
            require(is_range && is_reserved(start, end), || {
                format!("memory.beyond: no part of a mapping is from {start:#x} to {end:#x}")
            })?;
            free_from = end;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_a_part_keeps_its_permissions() {
        let (read, both) =
            (Permissions { read: true, ..Permissions::NONE }, Permissions::READ_WRITE);
        let mut beyond = Beyond::default();
        beyond.insert(0x1000, 0x9000, both);
        assert_eq!((beyond.cuts(0x1000, 0x2000), beyond.splits(0x1000, 0x2000)), (1, false));
        assert_eq!((beyond.cuts(0x3000, 0x4000), beyond.splits(0x3000, 0x4000)), (2, true));
        beyond.remove(0x3000, 0x4000);
        beyond.insert(0x3000, 0x4000, read);
        assert_eq!(beyond.remove(0x2000, 0x3000), [(0x2000, 0x3000, both)]);
        let left = [(0x1000, 0x2000, both), (0x3000, 0x4000, read), (0x4000, 0x9000, both)];
        assert_eq!(beyond.within(0, u64::MAX), left);
        assert_eq!(beyond.outside(0x1800, 0xa000), [(0x2000, 0x3000), (0x9000, 0xa000)]);
        assert_eq!((beyond.at(0x3fff), beyond.at(0x2000)), (Some(read), None));
        assert_eq!(beyond.at(u64::MAX), None);
        assert_eq!(beyond.check(|_, _| true), Ok(()));
        assert!(beyond.check(|start, _| start != 0x4000).is_err());
    }
}
