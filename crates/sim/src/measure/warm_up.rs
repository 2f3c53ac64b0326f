//! The end of the initial transient (White, Cobb and Spratt, "A comparison of five steady-state truncation
//! heuristics for simulation", WSC 2000).

/// Observations of which the rule takes the mean first.
pub const GROUP: usize = 5;

/// The initial transient of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WarmUp {
    /// Observations that do not count.
    pub observations: usize,
    /// Whether the series goes on long enough after it: at least as long again. Otherwise the transient may be
    /// longer.
    pub is_over: bool,
}

impl WarmUp {
    /// Rounded up to whole blocks of observations, of a series of this length: at most half of it.
    pub fn in_blocks(self, block: usize, length: usize) -> WarmUp {
        let most = length / 2 / block * block;
        WarmUp { observations: self.observations.next_multiple_of(block).min(most), ..self }
    }
}

/// MSER-5: leaves out so many groups of five observations that the standard error of the mean of the others is
/// least, as if they did not depend on each other. At most half of the series is left out.
pub fn mser5(observations: &[f64]) -> WarmUp {
    let groups: Vec<f64> = observations
        .chunks_exact(GROUP)
        .map(|group| group.iter().sum::<f64>() / GROUP as f64)
        .collect();
    let most = groups.len() / 2;
    let (mut sum, mut squares, mut best) = (0.0, 0.0, (f64::INFINITY, most));
    // About the first mean, so that squares of large numbers do not cancel.
    let origin = groups.last().copied().unwrap_or(0.0);
    for (left_out, group) in groups.iter().enumerate().rev() {
        sum += group - origin;
        squares += (group - origin).powi(2);
        let count = (groups.len() - left_out) as f64;
        let error = (squares - sum * sum / count).max(0.0) / (count * count);
        if left_out <= most && error <= best.0 {
            best = (error, left_out);
        }
    }
    let is_over = groups.len() >= 4 && best.1 < most;
    WarmUp { observations: best.1 * GROUP, is_over }
}
