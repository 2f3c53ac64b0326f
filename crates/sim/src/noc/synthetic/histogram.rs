//! Latencies, counted exactly up to a limit.

/// From here on, only the sum and the largest are exact.
const EXACT: usize = 1 << 14;

/// The number of packets of each latency.
#[derive(Clone, Debug)]
pub(super) struct Histogram {
    counts: Vec<u64>,
    above: u64,
    total: u64,
    sum: u64,
    max: u64,
}

impl Histogram {
    pub fn new() -> Histogram {
        Histogram { counts: vec![0; EXACT], above: 0, total: 0, sum: 0, max: 0 }
    }

    #[inline]
    pub fn add(&mut self, value: u64) {
        match self.counts.get_mut(value as usize) {
            Some(count) => *count += 1,
            None => self.above += 1,
        }
        self.total += 1;
        self.sum += value;
        self.max = self.max.max(value);
    }

    pub fn total(&self) -> u64 {
        self.total
    }

    pub fn max(&self) -> u64 {
        self.max
    }

    pub fn mean(&self) -> f64 {
        if self.total == 0 { 0.0 } else { self.sum as f64 / self.total as f64 }
    }

    /// The smallest value that this share of all values does not exceed.
    pub fn percentile(&self, share: f64) -> u64 {
        let rank = ((self.total as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        for (value, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return value as u64;
            }
        }
        self.max
    }
}
