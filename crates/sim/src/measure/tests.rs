//! Series of which the truth is known.

use super::reads::{Reads, means};
use super::sampler::{Estimate, Found, Progress, Sampler, estimate};
use super::series::{OBSERVATIONS, PER_SEGMENT, Segment, Series};
use super::spec::{RunSpec, Steadiness};
use super::warm_up::mser5;
use crate::engine::Random;

/// A normal deviate (Box and Muller).
fn normal(random: &mut Random) -> f64 {
    let radius = (-2.0 * (1.0 - random.unit()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.unit()).cos()
}

/// An autoregressive series of first order about a mean, in its steady state.
fn autoregressive(seed: u64, length: usize, mean: f64, coefficient: f64) -> Vec<f64> {
    let mut random = Random::new(seed, 0);
    let mut deviation = normal(&mut random) / (1.0 - coefficient * coefficient).sqrt();
    let step = |_| {
        deviation = coefficient * deviation + normal(&mut random);
        mean + deviation
    };
    (0..length).map(step).collect()
}

#[test]
fn intervals_hold_the_true_mean_as_often_as_they_say() {
    const RUNS: u64 = 1000;
    // The longest correlation is a twenty-sixth of its series.
    for (coefficient, length) in [(0.0, 320), (0.5, 320), (0.9, 1024), (0.95, 1024)] {
        let holds = |seed: &u64| {
            let series = autoregressive(*seed, length, 100.0, coefficient);
            let found = estimate(&series, 0, 16, 0.02);
            (found.mean - 100.0).abs() <= found.half_width
        };
        let covered = (0..RUNS).filter(holds).count();
        // 95 % are meant; with 1000 runs, 2 % less or more are chance, and truncation costs a little.
        assert!((900..=995).contains(&covered), "{coefficient}: {covered} of {RUNS}");
    }
}

#[test]
fn looking_until_it_is_narrow_enough_keeps_the_promise() {
    const RUNS: u64 = 1000;
    let mut covered = 0;
    for seed in 0..RUNS {
        let series = autoregressive(seed, 20_000, 100.0, 0.9);
        let looks = (1..=40).map(|look| &series[..look * 500]);
        let estimates = looks.map(|seen| estimate(seen, 0, 16, 0.01));
        let found = estimates.into_iter().find(|found| found.converged).expect("narrow enough");
        covered += usize::from((found.mean - 100.0).abs() <= found.half_width);
    }
    assert!(covered >= 900, "{covered} of {RUNS}");
}

/// A rise from 50 to 100 in so many observations, and noise.
fn ramp(seed: u64, rise: usize, length: usize) -> Vec<f64> {
    let noise = autoregressive(seed, length, 0.0, 0.5);
    let height = |at: usize| 50.0 + 50.0 * (at as f64 / rise as f64).min(1.0);
    noise.into_iter().enumerate().map(|(at, noise)| height(at) + noise).collect()
}

#[test]
fn a_ramp_is_left_out_and_the_plateau_is_measured() {
    for seed in 0..200 {
        let series = ramp(seed, 250, 1000);
        let found = mser5(&series);
        assert!(found.is_over && (200..=400).contains(&found.observations), "{seed}: {found:?}");
        let found = estimate(&series, 0, 16, 0.02);
        assert!(found.converged && (found.mean - 100.0).abs() < 1.0, "{seed}: {found:?}");
    }
}

#[test]
fn a_ramp_that_goes_on_is_no_steady_state() {
    let converged = (0..200).filter(|&seed| {
        // A rise of a quarter over the second half.
        let found = estimate(&ramp(seed, 1000, 1000), 0, 16, 0.02);
        assert!(found.half_width > 5.0, "{seed}: {found:?}");
        found.converged
    });
    assert_eq!(converged.count(), 0);
}

#[test]
fn a_constant_is_known_at_once_and_nothing_never() {
    let found = estimate(&[7.0; 64], 0, 16, 0.02);
    assert_eq!(found, Estimate { warm_up: 0, mean: 7.0, half_width: 0.0, converged: true });
    for series in [&[][..], &[1.0], &[3.0; 15], &[0.0; 64]] {
        let found = estimate(series, 0, 16, 0.02);
        assert!(!found.converged && found.mean.is_finite(), "{series:?}: {found:?}");
    }
}

/// The cycles that a segment stands for.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Span(u64, u64);

impl Segment for Span {
    fn append(&mut self, next: Span) {
        assert_eq!(self.1, next.0, "segments follow on each other");
        self.1 = next.1;
    }
}

#[test]
fn a_series_of_any_length_keeps_its_mean_and_its_segments() {
    let mut series: Series<Span> = Series::new(4);
    let (mut at, mut begin) = (0, 0);
    for _ in 0..5 * OBSERVATIONS {
        let next = at + series.observation_cycles();
        // Of 1, 2, 3 ... a cycle: the mean over any stretch is that of its ends.
        if series.observe((at + next) as f64 / 2.0) {
            series.add_segment(Span(begin, next));
            begin = next;
        }
        at = next;
        assert_eq!(series.end_cycle(), at);
        assert!(series.observations().len() < OBSERVATIONS);
    }
    assert!(series.observation_cycles() >= 32);
    let length = series.observation_cycles();
    for (index, &value) in series.observations().iter().enumerate() {
        assert_eq!(value, (2 * index + 1) as f64 * length as f64 / 2.0);
    }
    let segments = series.segments();
    assert_eq!(segments.len(), series.observations().len() / PER_SEGMENT);
    for (index, segment) in segments.iter().enumerate() {
        let end = |count: usize| (count * PER_SEGMENT) as u64 * length;
        assert_eq!(*segment, Span(end(index), end(index + 1)));
    }
}

/// Bandwidth and noise, and reads of which one ends each cycle: their latency rises to 1000 cycles by so many cycles.
/// The cycle in which the run ended, and what it found.
fn sampled(seed: u64, rise: u64, run: &RunSpec, least_reads: f64) -> (u64, Found) {
    let mut random = Random::new(seed, 0);
    let mut sampler: Sampler<Span> = Sampler::new(run, 1.0, least_reads);
    let (mut at, mut begin, mut progress) = (0, 0, Progress::default());
    loop {
        let next = sampler.next();
        for cycle in at..next {
            progress.amount += 10.0 + normal(&mut random);
            let cycles = 1000 * cycle.min(rise) / rise + random.below(50);
            progress.reads = progress.reads + Reads { count: 1, cycles };
        }
        at = next;
        let segment = || Span(std::mem::replace(&mut begin, next), next);
        if sampler.look(next, progress, segment) {
            return (next, sampler.finish().found);
        }
    }
}

#[test]
fn a_run_goes_on_until_latency_has_settled_or_says_that_it_has_not() {
    let run = RunSpec { window_cycles: 20_000, max_windows: 40, ..RunSpec::default() };
    let alone = RunSpec { steady: Steadiness::Bandwidth, ..run.clone() };
    let short = RunSpec { max_windows: 5, ..run.clone() };
    for seed in 0..10 {
        let (end, found) = sampled(seed, 100_000, &run, 0.95);
        assert!(found.converged && (200_000..=300_000).contains(&end), "{seed} {end}: {found:?}");
        assert!(found.latency.is_some_and(|latency| latency.settled && latency.half_width < 50.0));
        for (run, least_reads, cycles, is_known) in [
            (&alone, 0.0, 40_000, true),
            (&short, 0.0, 100_000, false),
            // An open loop that offers more.
            (&run, 1.05, 40_000, true),
        ] {
            let (end, found) = sampled(seed, 100_000, run, least_reads);
            assert_eq!((end, found.converged), (cycles, is_known), "{seed}: {found:?}");
            assert!(found.quantity.converged, "{seed}: {found:?}");
            assert!(found.latency.is_some_and(|latency| !latency.settled), "{seed}: {found:?}");
        }
    }
}

#[test]
fn observations_without_reads_have_the_latency_of_those_before() {
    let [none, one, two] =
        [(0, 0), (1, 10), (2, 60)].map(|(count, cycles)| Reads { count, cycles });
    assert_eq!(means(&[none, one, none, two, none]), [10.0, 10.0, 10.0, 30.0, 30.0]);
    assert!(means(&[none, none]).is_empty());
}
