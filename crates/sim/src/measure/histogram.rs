//! Latencies: exact below 32,768, then to a 16,384th.

use super::reads::Reads;

/// Bits of a latency that are told apart.
const BITS: u32 = 14;
/// Latencies from about 2^24 on count as the largest; their sum stays exact.
const TOP_BITS: u32 = 24;
const BUCKETS: usize = ((TOP_BITS - BITS + 1) as usize) << BITS;

/// The number of requests of each latency, in whatever unit of time. It takes as much memory as the largest needs.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Vec<u64>,
    count: u64,
    sum: u64,
    min: u64,
    max: u64,
}

/// A distribution in a few numbers, in the unit of what was counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    pub count: u64,
    pub mean: f64,
    pub min: u64,
    /// The smallest that half do not exceed.
    pub p50: u64,
    /// The smallest that 95 of 100 do not exceed.
    pub p95: u64,
    /// The smallest that 99 of 100 do not exceed.
    pub p99: u64,
    pub max: u64,
}

/// Values of which the leading bits are equal share a bucket.
#[inline]
fn bucket(value: u64) -> usize {
    let value = value.min((1 << TOP_BITS) - 1);
    let shift = (u64::BITS - value.leading_zeros()).saturating_sub(BITS + 1);
    ((u64::from(shift) << BITS) + (value >> shift)) as usize
}

/// The smallest value of a bucket.
fn value(bucket: usize) -> u64 {
    let shift = (bucket >> BITS).saturating_sub(1);
    ((bucket - (shift << BITS)) << shift) as u64
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram::new()
    }
}

impl Histogram {
    pub fn new() -> Histogram {
        Histogram { counts: Vec::new(), count: 0, sum: 0, min: u64::MAX, max: 0 }
    }

    #[inline]
    pub fn add(&mut self, value: u64) {
        let bucket = bucket(value);
        if bucket >= self.counts.len() {
            self.grow(bucket);
        }
        self.counts[bucket] += 1;
        self.count += 1;
        self.sum += value;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    #[cold]
    fn grow(&mut self, bucket: usize) {
        self.counts.resize((bucket + 1).next_power_of_two().min(BUCKETS), 0);
    }

    /// Adds all that another one has counted.
    pub fn merge(&mut self, other: &Histogram) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        self.counts.iter_mut().zip(&other.counts).for_each(|(mine, theirs)| *mine += theirs);
        self.count += other.count;
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// The sum of all values: exact, as the mean is.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// Number and sum of the values, if these are latencies of reads.
    pub fn reads(&self) -> Reads {
        Reads { count: self.count, cycles: self.sum }
    }

    /// The mean, if there is anything.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// Mean, extremes and percentiles, if there is anything.
    pub fn summary(&self) -> Option<Summary> {
        let mean = self.mean()?;
        let [p50, p95, p99] = [50, 95, 99].map(|percent| self.percentile(percent));
        Some(Summary { count: self.count, mean, min: self.min, p50, p95, p99, max: self.max })
    }

    /// The number of values in each of so many intervals of one width, the last of which ends at the largest value.
    /// Fewer, if they would be narrower than 1. Each with its smallest value.
    pub fn bins(&self, most: u64) -> Vec<(u64, u64)> {
        if self.count == 0 || most == 0 {
            return Vec::new();
        }
        let span = self.max - self.min + 1;
        let width = span.div_ceil(most);
        let from = |bin: u64| self.min + bin * width;
        let mut bins: Vec<(u64, u64)> =
            (0..span.div_ceil(width)).map(|bin| (from(bin), 0)).collect();
        for (at, &count) in self.counts.iter().enumerate().filter(|&(_, &count)| count > 0) {
            // The last bucket holds all that is too large for others.
            let value = if at + 1 == BUCKETS { self.max } else { value(at) };
            let bin = (value.clamp(self.min, self.max) - self.min) / width;
            bins[bin as usize].1 += count;
        }
        bins
    }

    /// The smallest value that so many of 100 do not exceed.
    fn percentile(&self, percent: u64) -> u64 {
        let rank = (self.count * percent).div_ceil(100).max(1);
        let mut seen = 0;
        let reaches = |&count: &u64| {
            seen += count;
            seen >= rank
        };
        let found = self.counts.iter().position(reaches).filter(|&at| at + 1 < BUCKETS);
        found.map_or(self.max, |at| value(at).clamp(self.min, self.max))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bins_hold_all_values_from_the_least_to_the_largest() {
        let mut latencies = Histogram::new();
        assert!(latencies.bins(4).is_empty());
        [10, 10, 11, 14, 19, 29].into_iter().for_each(|value| latencies.add(value));
        assert_eq!(latencies.bins(4), [(10, 4), (15, 1), (20, 0), (25, 1)]);
        assert_eq!(latencies.bins(1), [(10, 6)]);
        assert_eq!(latencies.bins(1000).len(), 20);
        latencies.add(1 << 40);
        let bins = latencies.bins(7);
        assert_eq!((bins[0].1, bins[6].1), (6, 1));
    }

    proptest! {
        #[test]
        fn buckets_are_narrow_and_in_order(latency in 0_u64..1 << TOP_BITS) {
            let low = value(bucket(latency));
            prop_assert!(low <= latency && latency - low <= latency >> BITS);
            prop_assert!(latency >= 2 << BITS || low == latency);
            prop_assert!(bucket(latency) < BUCKETS);
        }
    }

    #[test]
    fn a_distribution_has_its_figures() {
        let mut histogram = Histogram::new();
        assert!(histogram.summary().is_none());
        (1..=100).for_each(|latency| histogram.add(latency));
        let mut twice = Histogram::new();
        twice.merge(&histogram);
        twice.merge(&histogram);
        let expected =
            Summary { count: 200, mean: 50.5, min: 1, p50: 50, p95: 95, p99: 99, max: 100 };
        assert_eq!(twice.summary(), Some(expected));
    }

    /// Beyond what is exact, percentiles are those of the sorted values to a 16,384th, and the largest is exact.
    #[test]
    fn percentiles_are_those_of_the_sorted_values() {
        for scale in [1, 100, 1000] {
            let mut histogram = Histogram::new();
            (1..=200).rev().for_each(|latency| histogram.add(latency * scale));
            histogram.add(1 << 40);
            let found = histogram.summary().unwrap();
            for (found, sorted) in [(found.p50, 101), (found.p95, 191), (found.p99, 199)] {
                let sorted = sorted * scale;
                let off = sorted - found;
                assert!(off <= sorted >> BITS, "{found}, not {sorted}");
                assert!(off == 0 || sorted > 32_767, "{found}, not {sorted}");
            }
            assert_eq!(found.max, 1 << 40);
        }
    }
}
