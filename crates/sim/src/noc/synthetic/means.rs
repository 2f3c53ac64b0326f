//! How far the means of a run can be trusted: the accepted load by stretches of time, latency by groups of packets.

use crate::engine::Cycle;
use crate::measure::{Segment, Series, interval};

/// Nothing is counted beside the observations.
#[derive(Clone, Copy, Debug)]
struct Nothing;

impl Segment for Nothing {
    fn append(&mut self, _next: Nothing) {}
}

/// Observations that each are the mean of equally many values, however many there are.
#[derive(Clone, Debug)]
pub(super) struct Means {
    series: Series<Nothing>,
    /// Sum and number of the values since the last observation.
    sum: f64,
    count: u64,
}

impl Means {
    pub fn new() -> Means {
        Means { series: Series::new(1), sum: 0.0, count: 0 }
    }

    #[inline]
    pub fn add(&mut self, value: f64) {
        self.sum += value;
        self.count += 1;
        if self.count == self.series.observation_cycles() {
            self.observe();
        }
    }

    /// Adds as many zeros.
    fn add_zeros(&mut self, mut count: u64) {
        while count > 0 {
            let step = count.min(self.series.observation_cycles() - self.count);
            count -= step;
            self.count += step;
            if self.count == self.series.observation_cycles() {
                self.observe();
            }
        }
    }

    fn observe(&mut self) {
        if self.series.observe(self.sum / self.count as f64) {
            self.series.add_segment(Nothing);
        }
        (self.sum, self.count) = (0.0, 0);
    }

    /// Half the 95 % interval of the mean, if there are enough values.
    pub fn half_width(&self) -> Option<f64> {
        Some(interval(self.series.observations()).half_width).filter(|width| width.is_finite())
    }
}

/// What arrives in each cycle of a window.
#[derive(Clone, Debug)]
pub(super) struct PerCycle {
    means: Means,
    window: std::ops::Range<Cycle>,
    /// The cycle that is being counted, and what has come in it.
    now: Cycle,
    amount: u64,
}

impl PerCycle {
    pub fn new(window: std::ops::Range<Cycle>) -> PerCycle {
        PerCycle { means: Means::new(), now: window.start, window, amount: 0 }
    }

    /// So much arrives in a cycle of the window, which is not before the last one.
    #[inline]
    pub fn add(&mut self, cycle: Cycle, amount: u64) {
        if cycle > self.now {
            self.go_on_to(cycle);
        }
        self.amount += amount;
    }

    fn go_on_to(&mut self, cycle: Cycle) {
        self.means.add(self.amount as f64);
        self.means.add_zeros(cycle - self.now - 1);
        (self.now, self.amount) = (cycle, 0);
    }

    /// Half the 95 % interval of the mean of a cycle, if the window is long enough.
    pub fn half_width(&self) -> Option<f64> {
        let mut all = self.clone();
        all.go_on_to(self.window.end);
        all.means.half_width()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Alternately 0 and 2: the mean is known at once, and cycles without anything count.
    #[test]
    fn cycles_without_arrivals_are_zeros() {
        let mut count = PerCycle::new(100..164);
        assert_eq!(count.half_width(), Some(0.0));
        (100..164).step_by(2).for_each(|cycle| count.add(cycle, 2));
        assert_eq!(count.half_width(), Some(0.0));
        let mut late = PerCycle::new(100..164);
        (132..164).for_each(|cycle| late.add(cycle, 2));
        assert!(late.half_width() > Some(0.5), "{late:?}");
    }

    #[test]
    fn few_values_tell_nothing() {
        let mut means = Means::new();
        (0..15).for_each(|value| means.add(f64::from(value)));
        assert_eq!(means.half_width(), None);
        means.add(15.0);
        assert!(means.half_width().is_some());
    }
}
