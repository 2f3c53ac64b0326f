//! Whether a run has shown enough, and what it has shown.

use super::batch_means::{Interval, interval};
use super::warm_up::mser5;

/// The steady state of a series, as far as it has been seen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Observations at the start that do not count.
    pub warm_up: usize,
    /// Mean of the others.
    pub mean: f64,
    /// Half the width of its 95 % confidence interval.
    pub half_width: f64,
    /// Whether the warm-up is over and the interval as narrow as was asked for.
    pub converged: bool,
}

/// Looks at a series: leaves out its transient, rounded up to whole blocks of observations, and estimates the
/// mean of the rest to a precision, which is half the interval as a share of the mean.
pub fn estimate(observations: &[f64], block: usize, precision: f64) -> Estimate {
    let found = mser5(observations);
    let most = observations.len() / 2 / block * block;
    let warm_up = found.observations.next_multiple_of(block).min(most);
    let Interval { mean, half_width } = interval(&observations[warm_up..]);
    let narrow = half_width <= precision * mean.abs() && mean != 0.0;
    Estimate { warm_up, mean, half_width, converged: found.is_over && narrow }
}
