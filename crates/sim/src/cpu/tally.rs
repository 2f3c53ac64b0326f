//! What a core does in the intervals of a stretch of time, for people to look at.

use std::ops::Range;

use crate::engine::Cycle;

/// Intervals of a stretch, unless they were shorter than [`SHORTEST`].
const INTERVALS: Cycle = 1000;

/// Cycles of an interval at least.
const SHORTEST: Cycle = 100;

/// The counts of a core, by intervals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The stretch of time; the last interval may be cut short.
    pub cycles: Range<Cycle>,
    /// Cycles of an interval.
    pub interval: Cycle,
    /// Instructions that retired in each.
    pub retired: Vec<u32>,
    /// The most loads that waited for their lines at once in each.
    pub missing: Vec<u32>,
    /// Loads that wait now.
    waiting: u32,
}

impl Tally {
    /// Counts in this stretch of time.
    pub fn new(cycles: Range<Cycle>) -> Tally {
        let interval = (cycles.end.saturating_sub(cycles.start) / INTERVALS).max(SHORTEST);
        Tally { cycles, interval, retired: Vec::new(), missing: Vec::new(), waiting: 0 }
    }

    /// The interval of a cycle in the stretch. Those that have passed have an entry each.
    fn interval(&mut self, now: Cycle) -> usize {
        let at = ((now - self.cycles.start) / self.interval) as usize;
        if self.retired.len() <= at {
            self.retired.resize(at + 1, 0);
            self.missing.resize(at + 1, self.waiting);
        }
        at
    }

    pub(super) fn retire(&mut self, missing: u64, now: Cycle) {
        self.miss(missing, now);
        if self.cycles.contains(&now) {
            let at = self.interval(now);
            self.retired[at] += 1;
        }
    }

    /// So many loads wait for their lines, a bit each.
    pub(super) fn miss(&mut self, missing: u64, now: Cycle) {
        let waiting = missing.count_ones();
        if self.cycles.contains(&now) {
            let at = self.interval(now);
            self.missing[at] = self.missing[at].max(waiting);
        }
        self.waiting = waiting;
    }

    /// Cycles before this one have nothing that is counted, after `now`.
    pub(super) fn idle_to(&self, now: Cycle) -> Cycle {
        let Range { start, end } = self.cycles;
        if now + 1 >= end { Cycle::MAX } else { start.saturating_sub(1).max(now) }
    }

    /// The counts up to this cycle, with it.
    pub fn finish(mut self, now: Cycle) -> Tally {
        self.cycles.end = self.cycles.end.min(now + 1).max(self.cycles.start);
        if let Some(last) = self.cycles.end.checked_sub(1).filter(|last| *last >= self.cycles.start)
        {
            self.interval(last);
        }
        self
    }
}
