//! Latencies: exact up to 2047 cycles, then to a thousandth.

use crate::report::Latency;

/// Bits of a latency that are told apart.
const BITS: u32 = 10;
/// Latencies beyond 2^24 cycles count as that long; sum and largest stay exact.
const TOP_BITS: u32 = 24;
const BUCKETS: usize = ((TOP_BITS - BITS + 1) as usize) << BITS;

/// The number of requests of each latency.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Vec<u32>,
    count: u64,
    sum: u64,
    min: u64,
    max: u64,
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
    /// One that has counted nothing.
    pub fn new() -> Histogram {
        Histogram { counts: vec![0; BUCKETS], count: 0, sum: 0, min: u64::MAX, max: 0 }
    }

    /// Counts a request.
    #[inline]
    pub fn add(&mut self, latency_cycles: u64) {
        self.counts[bucket(latency_cycles)] += 1;
        self.count += 1;
        self.sum += latency_cycles;
        self.min = self.min.min(latency_cycles);
        self.max = self.max.max(latency_cycles);
    }

    /// Adds all that another one has counted.
    pub fn merge(&mut self, other: &Histogram) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(mine, theirs)| *mine += theirs);
        self.count += other.count;
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// The mean, if there is anything.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// Mean, extremes and percentiles, if there is anything.
    pub fn latency(&self) -> Option<Latency> {
        (self.count > 0).then(|| Latency {
            count: self.count,
            mean_cycles: self.sum as f64 / self.count as f64,
            min_cycles: self.min,
            p50_cycles: self.percentile(0.5),
            p95_cycles: self.percentile(0.95),
            p99_cycles: self.percentile(0.99),
            max_cycles: self.max,
        })
    }

    /// The smallest latency that this share of all does not exceed.
    fn percentile(&self, share: f64) -> u64 {
        let rank = ((self.count as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        let reaches = |&count: &u32| {
            seen += u64::from(count);
            seen >= rank
        };
        self.counts
            .iter()
            .position(reaches)
            .map_or(self.max, |at| value(at).clamp(self.min, self.max))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
        assert!(histogram.latency().is_none());
        (1..=100).for_each(|latency| histogram.add(latency));
        let mut twice = histogram.clone();
        twice.merge(&histogram);
        let latency = twice.latency().unwrap();
        assert_eq!((latency.count, latency.mean_cycles), (200, 50.5));
        assert_eq!((latency.min_cycles, latency.p50_cycles), (1, 50));
        assert_eq!((latency.p95_cycles, latency.p99_cycles, latency.max_cycles), (95, 99, 100));
    }
}
