//! A run that goes on until its mean is known well enough.

use super::batch_means::{Interval, by_batches, interval};
use super::series::{PER_SEGMENT, Segment, Series};
use super::warm_up::mser5;
use crate::engine::Cycle;
use crate::machine::spec::RunSpec;
use crate::report::Window;

/// Cycles of an observation at the start of a run.
const FIRST_CYCLES: u64 = 64;

/// Fewer batches than that say too little of their spread.
const LEAST_BATCHES: usize = 8;

/// Takes observations of a quantity and, at the ends of windows, decides whether there are enough.
#[derive(Clone, Debug)]
pub struct Sampler<S> {
    run: RunSpec,
    /// What one of the quantity in a cycle is in the report's unit.
    unit: f64,
    series: Series<S>,
    windows: Vec<Window>,
    /// The quantity at the ends of the last observation and the last window.
    observed: f64,
    at_window: f64,
    estimate: Estimate,
}

/// The steady state of a run: what all its figures refer to.
#[derive(Clone, Debug)]
pub struct Steady<S> {
    /// Readings at the end of the warm-up, if something was left out.
    pub before: Option<S>,
    /// Everything from then on.
    pub segments: Vec<S>,
    /// Mean of the quantity, in the report's unit.
    pub estimate: Estimate,
    /// The windows, those of the warm-up among them.
    pub windows: Vec<Window>,
}

impl<S: Segment> Sampler<S> {
    /// Begins in cycle 0.
    pub fn new(run: &RunSpec, unit: f64) -> Sampler<S> {
        Sampler {
            run: run.clone(),
            unit,
            series: Series::new(FIRST_CYCLES),
            windows: Vec::new(),
            observed: 0.0,
            at_window: 0.0,
            estimate: Estimate {
                warm_up: 0,
                mean: 0.0,
                half_width: f64::INFINITY,
                converged: false,
            },
        }
    }

    /// Cycle up to which to simulate before the next look.
    pub fn next(&self) -> Cycle {
        self.next_observation().min(self.next_window())
    }

    /// The simulation has come to the cycle of [`next`](Sampler::next), and the quantity to this amount; whether
    /// the run ends. What else was counted since the last segment is asked for now and then.
    pub fn look(&mut self, now: Cycle, amount: f64, segment: impl FnOnce() -> S) -> bool {
        let is_window = now == self.next_window();
        let mut segment = Some(segment);
        if now == self.next_observation() {
            let per_cycle = (amount - self.observed) / self.series.observation_cycles() as f64;
            self.observed = amount;
            if self.series.observe(per_cycle * self.unit)
                && let Some(segment) = segment.take()
            {
                self.series.add_segment(segment());
            }
        }
        if !is_window {
            return false;
        }
        let app_gbps = (amount - self.at_window) / self.run.window_cycles as f64 * self.unit;
        self.windows.push(Window { end_cycle: now, app_gbps });
        self.at_window = amount;
        let windows = self.windows.len() as u32;
        if windows < self.run.min_windows {
            return false;
        }
        // Counts are there for whole segments, and all figures are to be of the same time.
        let seen = self.series.segments().len() * PER_SEGMENT;
        let precision = self.run.precision_percent / 100.0;
        self.estimate = estimate(&self.series.observations()[..seen], PER_SEGMENT, precision);
        let ends = self.estimate.converged || windows >= self.run.max_windows;
        if ends
            && seen == 0
            && let Some(segment) = segment
        {
            // Too short for anything but its mean.
            self.series.add_segment(segment());
            self.estimate.mean = amount / now as f64 * self.unit;
        }
        ends
    }

    pub fn finish(self) -> Steady<S> {
        let mut segments = self.series.into_segments();
        let rest = segments.split_off(self.estimate.warm_up / PER_SEGMENT);
        Steady {
            before: segments.pop(),
            segments: rest,
            estimate: self.estimate,
            windows: self.windows,
        }
    }

    fn next_observation(&self) -> Cycle {
        self.series.end_cycle() + self.series.observation_cycles()
    }

    fn next_window(&self) -> Cycle {
        (self.windows.len() as u64 + 1) * self.run.window_cycles
    }
}

impl<S: Segment> Steady<S> {
    /// Half the 95 % interval of the mean of something else that segments have a mean of, if there is enough.
    pub fn half_width(&self, mean: impl Fn(&S) -> Option<f64>) -> Option<f64> {
        let means: Option<Vec<f64>> = self.segments.iter().map(mean).collect();
        let means = means.filter(|means| means.len() >= LEAST_BATCHES)?;
        Some(by_batches(&means, means.len()).half_width)
    }
}

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
