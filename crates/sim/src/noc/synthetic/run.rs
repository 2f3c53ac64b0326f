//! A run: warm-up, measurement, drain.

use std::time::Instant;

use super::means::{Means, PerCycle};
use super::report::Report;
use super::traffic::Traffic;
use super::{Experiment, ExperimentError};
use crate::engine::Cycle;
use crate::measure::{Histogram, Summary};
use crate::noc::{Delivered, Network};

/// Accepted load below this share of the offered one means that the network is saturated.
const ACCEPTED_SHARE: f64 = 0.95;
/// Cycles between two checks whether the run should give up.
const LOOK_CYCLES: u64 = 1024;

/// Runs an experiment. The report depends on nothing but the experiment.
///
/// # Errors
/// The first fault of the experiment.
pub fn run(experiment: &Experiment) -> Result<Report, ExperimentError> {
    let mut run = Run::new(experiment)?;
    run.simulate();
    Ok(run.report())
}

/// Runs an experiment; besides the report, the cycles simulated per second.
///
/// # Errors
/// The first fault of the experiment.
pub fn run_timed(experiment: &Experiment) -> Result<(Report, f64), ExperimentError> {
    let mut run = Run::new(experiment)?;
    let start = Instant::now();
    run.simulate();
    let seconds = start.elapsed().as_secs_f64().max(1e-9);
    Ok((run.report(), run.network.now() as f64 / seconds))
}

struct Run<'a> {
    experiment: &'a Experiment,
    network: Network,
    traffic: Traffic,
    /// The measurement.
    window: std::ops::Range<Cycle>,
    latency: Histogram,
    latency_means: Means,
    network_latency_sum: u64,
    hops_sum: u64,
    created: u64,
    flits_created: u64,
    flits_accepted: u64,
    accepted: PerCycle,
    latency_too_high: bool,
}

impl<'a> Run<'a> {
    fn new(experiment: &'a Experiment) -> Result<Run<'a>, ExperimentError> {
        if experiment.measure_cycles == 0 {
            return Err(ExperimentError::NoMeasurement);
        }
        let network = Network::new(&experiment.spec, experiment.seed)?;
        let traffic = Traffic::new(experiment)?;
        let start = experiment.warm_up_cycles;
        let window = start..start + experiment.measure_cycles;
        Ok(Run {
            experiment,
            network,
            traffic,
            latency: Histogram::new(),
            latency_means: Means::new(),
            network_latency_sum: 0,
            hops_sum: 0,
            created: 0,
            flits_created: 0,
            flits_accepted: 0,
            accepted: PerCycle::new(window.clone()),
            window,
            latency_too_high: false,
        })
    }

    fn simulate(&mut self) {
        let end = self.window.end + self.experiment.drain_limit_cycles;
        let mut look = self.window.start + LOOK_CYCLES;
        while !self.is_complete() && self.network.now() < end {
            self.create();
            self.network.tick();
            self.receive();
            self.skip(end);
            if self.network.now() >= look {
                look += LOOK_CYCLES;
                self.latency_too_high = self.is_too_late();
                if self.latency_too_high && self.network.now() >= self.window.end {
                    return;
                }
            }
        }
    }

    fn is_complete(&self) -> bool {
        self.network.now() >= self.window.end && self.latency.count() == self.created
    }

    /// Packets that the endpoints create in this cycle.
    fn create(&mut self) {
        let now = self.network.now();
        while self.traffic.next_cycle == now {
            let mut packet = self.traffic.packet();
            if self.window.contains(&now) {
                packet.tag = 1;
                self.created += 1;
                self.flits_created += u64::from(packet.flits);
            }
            self.network.send(packet);
        }
    }

    fn receive(&mut self) {
        for word in 0..self.network.arrived_words().len() {
            let mut bits = self.network.arrived_words()[word];
            while bits != 0 {
                let endpoint = (word * 64) as u16 + bits.trailing_zeros() as u16;
                bits &= bits - 1;
                for vnet in 0..self.experiment.spec.vnets.len() as u8 {
                    while let Some(delivered) = self.network.take_timed(endpoint, vnet) {
                        self.count(&delivered);
                    }
                }
            }
        }
    }

    fn is_too_late(&self) -> bool {
        self.latency.mean().unwrap_or(0.0) > self.experiment.latency_limit_cycles
    }

    /// Every packet passes here, in the order of arrivals.
    #[inline]
    fn count(&mut self, delivered: &Delivered) {
        if self.window.contains(&delivered.arrived) {
            let flits = u64::from(delivered.packet.flits);
            self.flits_accepted += flits;
            self.accepted.add(delivered.arrived, flits);
        }
        if delivered.packet.tag == 1 {
            let latency = delivered.arrived - delivered.created;
            self.latency.add(latency);
            self.latency_means.add(latency as f64);
            self.network_latency_sum += delivered.arrived - delivered.injected;
            self.hops_sum += u64::from(delivered.hops);
        }
    }

    /// Leaves out cycles in which nothing happens.
    fn skip(&mut self, end: Cycle) {
        let now = self.network.now();
        if self.traffic.next_cycle > now {
            let event = self.network.next_event().unwrap_or(Cycle::MAX);
            let boundary = if now < self.window.end { self.window.end } else { end };
            let next = event.min(self.traffic.next_cycle).min(boundary);
            if next > now {
                self.network.skip_to(next);
            }
        }
    }

    fn report(&self) -> Report {
        let measure_cycles = self.experiment.measure_cycles;
        let node_cycles = (self.network.endpoints() as u64 * measure_cycles) as f64;
        let packets = self.latency.count();
        let mean = |sum: u64| if packets == 0 { 0.0 } else { sum as f64 / packets as f64 };
        let offered = self.flits_created as f64 / node_cycles;
        let accepted = self.flits_accepted as f64 / node_cycles;
        let missing = self.created - packets;
        // Few packets make the two differ by chance: a packet under way at either end of the window.
        let slack = 4.0 * (self.created as f64).sqrt() / self.created.max(1) as f64;
        let refused = accepted < offered * (ACCEPTED_SHARE - slack.min(0.5));
        let nothing = Summary { count: 0, mean: 0.0, min: 0, p50: 0, p95: 0, p99: 0, max: 0 };
        let latency = self.latency.summary().unwrap_or(nothing);
        let endpoints = self.network.endpoints() as f64;
        Report {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            experiment: self.experiment.clone(),
            offered,
            accepted,
            accepted_half_width: self.accepted.half_width().map(|flits| flits / endpoints),
            latency_mean_cycles: latency.mean,
            latency_half_width_cycles: self.latency_means.half_width(),
            latency_p50_cycles: latency.p50,
            latency_p99_cycles: latency.p99,
            latency_max_cycles: latency.max,
            network_latency_mean_cycles: mean(self.network_latency_sum),
            hops_mean: mean(self.hops_sum),
            packets,
            packets_missing: missing,
            cycles: self.network.now(),
            saturated: missing > 0 || self.latency_too_high || self.is_too_late() || refused,
        }
    }
}
