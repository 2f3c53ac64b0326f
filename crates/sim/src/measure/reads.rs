//! The latency of what completes in a stretch of time.

use std::ops::{Add, Sub};

use super::batch_means::by_batches;

/// Fewer batches than that say too little of their spread.
const LEAST_BATCHES: usize = 8;

/// Reads that have completed, or whatever else has a latency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    pub count: u64,
    /// Cycles that they took together.
    pub cycles: u64,
}

impl Add for Reads {
    type Output = Reads;

    fn add(self, more: Reads) -> Reads {
        Reads { count: self.count + more.count, cycles: self.cycles + more.cycles }
    }
}

impl Sub for Reads {
    type Output = Reads;

    fn sub(self, earlier: Reads) -> Reads {
        Reads { count: self.count - earlier.count, cycles: self.cycles - earlier.cycles }
    }
}

impl Reads {
    /// Those of several stretches.
    pub fn sum(of: &[Reads]) -> Reads {
        of.iter().fold(Reads::default(), |sum, &more| sum + more)
    }

    /// Mean latency in cycles, if there is any read.
    pub fn mean(self) -> Option<f64> {
        (self.count > 0).then(|| self.cycles as f64 / self.count as f64)
    }
}

/// The mean latency of each observation. One without a read has that of the observation before it, and the first ones
/// that of the first read; none if there is no read at all.
pub fn means(of: &[Reads]) -> Vec<f64> {
    let Some(first) = of.iter().find_map(|reads| reads.mean()) else { return Vec::new() };
    let mut last = first;
    let mean = |reads: &Reads| {
        last = reads.mean().unwrap_or(last);
        last
    };
    of.iter().map(mean).collect()
}

/// Half the 95 % interval of the mean latency in cycles, by batches of so many observations; infinite if there are too
/// few of them, or one is without a read.
pub fn half_width(of: &[Reads], block: usize) -> f64 {
    let means: Option<Vec<f64>> =
        of.chunks_exact(block).map(|batch| Reads::sum(batch).mean()).collect();
    let means = means.filter(|means| means.len() >= LEAST_BATCHES);
    means.map_or(f64::INFINITY, |means| by_batches(&means, means.len()).half_width)
}
