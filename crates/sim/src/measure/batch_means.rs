//! The confidence interval of the mean of observations that depend on their predecessors.

use super::student::two_sided_95;

/// Batches into which the observations are divided. Few and long, so that they hardly depend on each other;
/// more than ten narrow the interval little (Schmeiser, "Batch size effects in the analysis of simulation
/// output", 1982).
pub const BATCHES: usize = 16;

/// A mean, and how far it can be trusted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    pub mean: f64,
    /// Half the width of the interval that holds the true mean in 95 of 100 runs; infinite if there are too few
    /// observations to tell.
    pub half_width: f64,
}

/// The 95 % interval by means of [`BATCHES`] batches, the last observations first. If a batch still depends on
/// the one before it, as it does where batches are short or the series has a trend, the interval is wider by
/// what a process with that correlation needs.
pub fn interval(observations: &[f64]) -> Interval {
    by_batches(observations, BATCHES)
}

/// The same by another number of batches, at least two.
pub(super) fn by_batches(observations: &[f64], count: usize) -> Interval {
    let size = observations.len() / count;
    let mean = observations.iter().sum::<f64>() / observations.len().max(1) as f64;
    if size == 0 {
        return Interval { mean, half_width: f64::INFINITY };
    }
    let used = &observations[observations.len() - size * count..];
    let batch = |batch: &[f64]| batch.iter().sum::<f64>() / size as f64;
    let batches: Vec<f64> = used.chunks_exact(size).map(batch).collect();
    let of_batches = batches.iter().sum::<f64>() / count as f64;
    let squares: f64 = batches.iter().map(|one| (one - of_batches).powi(2)).sum();
    let neighbours = batches.windows(2).map(|pair| (pair[0] - of_batches) * (pair[1] - of_batches));
    let variance = squares / (count - 1) as f64;
    // The estimate of a correlation from few batches is too low by about 1 / batches.
    let correlation = neighbours.sum::<f64>() / squares.max(f64::MIN_POSITIVE);
    let correlation = (correlation + 1.0 / count as f64).clamp(0.0, 0.9);
    let inflation = (1.0 + correlation) / (1.0 - correlation);
    let error = (variance * inflation / count as f64).sqrt();
    Interval { mean, half_width: two_sided_95(count - 1) * error }
}
