//! A run: warm-up, measurement, drain.

use std::time::Instant;

use super::histogram::Histogram;
use super::report::Report;
use super::{Experiment, ExperimentError};
use crate::engine::{Cycle, Random};
use crate::noc::{Delivered, Network, Packet};

/// Accepted load below this share of the offered one means that the network is saturated.
const ACCEPTED_SHARE: f64 = 0.95;
/// Cycles between two checks whether the run should give up.
const LOOK_CYCLES: u64 = 1024;

/// Runs an experiment.
///
/// # Errors
/// The first fault of the experiment.
pub fn run(experiment: &Experiment) -> Result<Report, ExperimentError> {
    let mut run = Run::new(experiment)?;
    let start = Instant::now();
    run.simulate();
    let seconds = start.elapsed().as_secs_f64().max(1e-9);
    Ok(run.report(seconds))
}

struct Run<'a> {
    experiment: &'a Experiment,
    network: Network,
    traffic: Traffic,
    /// The measurement.
    window: std::ops::Range<Cycle>,
    latency: Histogram,
    network_latency_sum: u64,
    hops_sum: u64,
    created: u64,
    flits_created: u64,
    flits_accepted: u64,
    latency_too_high: bool,
}

impl<'a> Run<'a> {
    fn new(experiment: &'a Experiment) -> Result<Run<'a>, ExperimentError> {
        if experiment.measure_cycles == 0 {
            return Err(ExperimentError::NoMeasurement);
        }
        let network = Network::new(&experiment.spec, experiment.seed)?;
        let traffic = Traffic::new(experiment, network.endpoints())?;
        let start = experiment.warm_up_cycles;
        Ok(Run {
            experiment,
            network,
            traffic,
            window: start..start + experiment.measure_cycles,
            latency: Histogram::new(),
            network_latency_sum: 0,
            hops_sum: 0,
            created: 0,
            flits_created: 0,
            flits_accepted: 0,
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
                self.latency_too_high = self.latency.mean() > self.experiment.latency_limit_cycles;
                if self.latency_too_high && self.network.now() >= self.window.end {
                    return;
                }
            }
        }
    }

    fn is_complete(&self) -> bool {
        self.network.now() >= self.window.end && self.latency.total() == self.created
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

    #[inline]
    fn count(&mut self, delivered: &Delivered) {
        if self.window.contains(&delivered.arrived) {
            self.flits_accepted += u64::from(delivered.packet.flits);
        }
        if delivered.packet.tag == 1 {
            self.latency.add(delivered.arrived - delivered.created);
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

    fn report(&self, seconds: f64) -> Report {
        let Experiment { spec, pattern, packet_flits, rate, measure_cycles, .. } = self.experiment;
        let node_cycles = (self.network.endpoints() as u64 * measure_cycles) as f64;
        let packets = self.latency.total();
        let mean = |sum: u64| if packets == 0 { 0.0 } else { sum as f64 / packets as f64 };
        let offered = self.flits_created as f64 / node_cycles;
        let accepted = self.flits_accepted as f64 / node_cycles;
        let missing = self.created - packets;
        // Few packets make the two differ by chance: a packet under way at either end of the window.
        let slack = 4.0 * (self.created as f64).sqrt() / self.created.max(1) as f64;
        let refused = accepted < offered * (ACCEPTED_SHARE - slack.min(0.5));
        Report {
            topology: spec.topology.to_string(),
            routing: spec.routing.to_string(),
            router: spec.router.to_string(),
            vcs: spec.vcs(),
            buffer_flits: spec.buffer_flits,
            packet_flits: packet_flits.to_string(),
            pattern: pattern.to_string(),
            rate: *rate,
            offered,
            accepted,
            latency_mean_cycles: self.latency.mean(),
            latency_p50_cycles: self.latency.percentile(0.5),
            latency_p99_cycles: self.latency.percentile(0.99),
            latency_max_cycles: self.latency.max(),
            network_latency_mean_cycles: mean(self.network_latency_sum),
            hops_mean: mean(self.hops_sum),
            packets,
            packets_missing: missing,
            cycles: self.network.now(),
            cycles_per_second: self.network.now() as f64 / seconds,
            saturated: missing > 0
                || self.latency_too_high
                || self.latency.mean() > self.experiment.latency_limit_cycles
                || refused,
        }
    }
}

/// The Bernoulli process of all endpoints: a trial per cycle and endpoint, of which those without a
/// packet are jumped over.
struct Traffic {
    /// Cycle and endpoint of the next packet.
    next_cycle: Cycle,
    next_source: u64,
    /// 1 / ln(1 - probability of a packet), or 0 if every trial makes one.
    scale: f64,
    endpoints: u64,
    table: Vec<u16>,
    vnets: u64,
    experiment: Experiment,
    random: Random,
}

impl Traffic {
    fn new(experiment: &Experiment, endpoints: usize) -> Result<Traffic, ExperimentError> {
        let limit = experiment.packet_flits.mean_flits();
        let rate = experiment.rate;
        if !(rate > 0.0 && rate <= limit) {
            return Err(ExperimentError::BadRate { rate, limit });
        }
        let probability = rate / limit;
        let mut traffic = Traffic {
            next_cycle: 0,
            next_source: 0,
            scale: if probability < 1.0 { 1.0 / (-probability).ln_1p() } else { 0.0 },
            endpoints: endpoints as u64,
            table: experiment.pattern.table(experiment.spec.topology)?,
            vnets: experiment.spec.vnets.len() as u64,
            experiment: experiment.clone(),
            random: Random::new(experiment.seed, 0),
        };
        traffic.skip_failures();
        Ok(traffic)
    }

    /// The next packet; the one after it is then known.
    fn packet(&mut self) -> Packet {
        let src = self.next_source as u16;
        let Experiment { pattern, no_self, packet_flits, .. } = &self.experiment;
        let random = &mut self.random;
        let dst = match self.table.get(usize::from(src)) {
            Some(&dst) => dst,
            None => pattern.draw(src, self.endpoints as u16, *no_self, random),
        };
        let flits = packet_flits.draw(random);
        let bits = random.bits();
        let vnet = (((bits & 0xffff) * self.vnets) >> 16) as u8;
        let from_directory = bits >> 16 & 1 != 0;
        let packet =
            Packet { src, dst, vnet, flits, from_directory, flow: (bits >> 32) as u32, tag: 0 };
        self.next_source += 1;
        self.skip_failures();
        packet
    }

    fn skip_failures(&mut self) {
        // The number of failures before a success has a geometric distribution.
        let failures = ((1.0 - self.random.unit()).ln() * self.scale) as u64;
        self.next_source += failures;
        if self.next_source >= self.endpoints {
            self.next_cycle += self.next_source / self.endpoints;
            self.next_source %= self.endpoints;
        }
    }
}
