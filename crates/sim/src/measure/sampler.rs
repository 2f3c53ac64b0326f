//! A run that goes on until its means are known well enough.

use serde::Serialize;

use super::batch_means::{Interval, interval};
use super::reads::{Reads, half_width, means};
use super::series::{Observation, PER_SEGMENT, Segment, Series};
use super::spec::{RunSpec, Steadiness};
use super::warm_up::mser5;

use crate::engine::Cycle;

/// Cycles of an observation at the start of a run.
const FIRST_CYCLES: u64 = 64;

/// A measurement window, `run.window_cycles` long.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Window {
    /// Cycle in which it ends.
    pub end_cycle: u64,
    /// Application bandwidth in it, in GB/s.
    pub app_gbps: f64,
}

/// Takes observations of a quantity and of the latency of reads and, at the ends of windows, decides whether there are
/// enough.
#[derive(Clone, Debug)]
pub struct Sampler<S> {
    run: RunSpec,
    /// What one of the quantity in a cycle is in the report's unit.
    unit: f64,
    /// Reads in a cycle of which less are those of a saturated open loop, whose latency grows for ever.
    least_reads: f64,
    series: Series<S, Observed>,
    windows: Vec<Window>,
    /// The counts at the end of the last observation, and the quantity at that of the last window.
    observed: Progress,
    at_window: f64,
    found: Found,
}

/// What a run has done up to some cycle.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// The quantity.
    pub amount: f64,
    /// All reads that have completed.
    pub reads: Reads,
}

/// An observation of both.
#[derive(Clone, Copy, Debug)]
struct Observed {
    /// Mean of the quantity, in the report's unit.
    quantity: f64,
    reads: Reads,
}

impl Observation for Observed {
    fn join(self, next: Observed) -> Observed {
        let quantity = self.quantity.join(next.quantity);
        Observed { quantity, reads: self.reads + next.reads }
    }
}

/// What is known of both series. The same warm-up is left out of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
    /// Of the quantity, in the report's unit.
    pub quantity: Estimate,
    /// None if there is no read after the warm-up.
    pub latency: Option<LatencyFound>,
    /// Whether all is known that the run is to go on for.
    pub converged: bool,
}

/// What is known of the latency of reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LatencyFound {
    /// Whether its warm-up is among what was left out.
    pub settled: bool,
    /// Half the width of the 95 % confidence interval of its mean, in cycles.
    pub half_width: f64,
}

/// The steady state of a run: what all its figures refer to.
#[derive(Clone, Debug)]
pub struct Steady<S> {
    /// Readings at the end of the warm-up, if something was left out.
    pub before: Option<S>,
    /// Everything from then on.
    pub segments: Vec<S>,
    /// What is known of it.
    pub found: Found,
    /// The windows, those of the warm-up among them.
    pub windows: Vec<Window>,
}

impl<S: Segment> Sampler<S> {
    /// Begins in cycle 0. One of the quantity in each cycle is `unit` in the report's unit; an open loop that completes
    /// fewer than `least_reads` in a cycle is saturated, and its latency is not waited for.
    pub fn new(run: &RunSpec, unit: f64, least_reads: f64) -> Sampler<S> {
        Sampler {
            run: run.clone(),
            unit,
            least_reads,
            series: Series::new(FIRST_CYCLES),
            windows: Vec::new(),
            observed: Progress::default(),
            at_window: 0.0,
            found: Found { quantity: Estimate::NOTHING, latency: None, converged: false },
        }
    }

    /// Cycle up to which to simulate before the next look.
    pub fn next(&self) -> Cycle {
        self.next_observation().min(self.next_window())
    }

    /// The simulation has come to the cycle of [`next`](Sampler::next), and has done so much; whether the run ends.
    /// What else was counted since the last segment is asked for now and then.
    pub fn look(&mut self, now: Cycle, progress: Progress, segment: impl FnOnce() -> S) -> bool {
        let amount = progress.amount;
        let is_window = now == self.next_window();
        let mut segment = Some(segment);
        if now == self.next_observation() {
            let moved = amount - self.observed.amount;
            let per_cycle = moved / self.series.observation_cycles() as f64;
            let reads = progress.reads - self.observed.reads;
            self.observed = progress;
            if self.series.observe(Observed { quantity: per_cycle * self.unit, reads })
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
        let least_reads = self.least_reads * self.series.observation_cycles() as f64;
        self.found = found(&self.run, &self.series.observations()[..seen], least_reads);
        let ends = self.found.converged || windows >= self.run.max_windows;
        if ends
            && seen == 0
            && let Some(segment) = segment
        {
            // Too short for anything but its mean.
            self.series.add_segment(segment());
            self.found.quantity.mean = amount / now as f64 * self.unit;
        }
        ends
    }

    pub fn finish(self) -> Steady<S> {
        let mut segments = self.series.into_segments();
        let rest = segments.split_off(self.found.quantity.warm_up / PER_SEGMENT);
        Steady { before: segments.pop(), segments: rest, found: self.found, windows: self.windows }
    }

    fn next_observation(&self) -> Cycle {
        self.series.end_cycle() + self.series.observation_cycles()
    }

    fn next_window(&self) -> Cycle {
        (self.windows.len() as u64 + 1) * self.run.window_cycles
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

impl Estimate {
    /// Before anything was observed.
    const NOTHING: Estimate =
        Estimate { warm_up: 0, mean: 0.0, half_width: f64::INFINITY, converged: false };
}

/// Looks at a series: leaves out its transient, rounded up to whole blocks of observations, or `least` of them if that
/// is more, and estimates the mean of the rest to a precision, which is half the interval as a share of the mean.
pub fn estimate(observations: &[f64], least: usize, block: usize, precision: f64) -> Estimate {
    let own = mser5(observations).in_blocks(block, observations.len());
    let warm_up = own.observations.max(least);
    let Interval { mean, half_width } = interval(&observations[warm_up..]);
    let narrow = half_width <= precision * mean.abs() && mean != 0.0;
    Estimate { warm_up, mean, half_width, converged: own.is_over && narrow }
}

/// Looks at both series. The warm-up is the longer one of those that the run waits for. Latency has settled when its
/// own is over: how precise its mean is, is only told, as queues wander for long. It is not waited for if fewer reads
/// complete in an observation than `least_reads`.
fn found(run: &RunSpec, observed: &[Observed], least_reads: f64) -> Found {
    let observations: Vec<f64> = observed.iter().map(|one| one.quantity).collect();
    let reads: Vec<Reads> = observed.iter().map(|one| one.reads).collect();
    let precision = run.precision_percent / 100.0;
    let of_quantity = |least| estimate(&observations, least, PER_SEGMENT, precision);
    let own = mser5(&means(&reads)).in_blocks(PER_SEGMENT, reads.len());
    let alone = of_quantity(0);
    let rest = &reads[alone.warm_up..];
    let is_saturated = (Reads::sum(rest).count as f64) < least_reads * rest.len() as f64;
    let waits = run.steady == Steadiness::BandwidthAndLatency && !is_saturated;
    let quantity = if waits { of_quantity(own.observations) } else { alone };
    let reads = &reads[quantity.warm_up..];
    let latency = Reads::sum(reads).mean().map(|_| LatencyFound {
        settled: own.is_over && own.observations <= quantity.warm_up,
        half_width: half_width(reads, PER_SEGMENT),
    });
    let settled = !waits || latency.is_none_or(|latency| latency.settled);
    Found { quantity, latency, converged: quantity.converged && settled }
}
