//! Measures a world until its bandwidth is known as precisely as its machine asks for.

use std::iter;
use std::time::Instant;

use super::{Options, RunError};
use crate::engine::Cycle;
use crate::figures::Figures;
use crate::machine::Machine;
use crate::measure::{Histogram, Progress, Reads, Sampler, Segment};
use crate::noc::Network;
use crate::report::{Bin, Latency, LinkLoad, Measured, Report};

/// An open loop of which less than this share was completed is saturated, unless chance explains it.
const COMPLETED_SHARE: f64 = 0.95;

/// Standard deviations of the number of reads that come by chance.
const DEVIATIONS: f64 = 3.0;

/// Whether an open loop has completed so few of the reads that its rate makes in the same time that it would fall
/// behind for ever. Of few reads, chance alone may miss a larger share: theirs is a Poisson process.
pub(crate) fn is_saturated(offered_reads: f64, completed_reads: f64) -> bool {
    let missing = offered_reads - completed_reads;
    completed_reads < offered_reads * COMPLETED_SHARE && missing > DEVIATIONS * offered_reads.sqrt()
}

/// Counters at some moment, and the latencies that have been seen since the last one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reading<C> {
    pub cycle: Cycle,
    /// Flits that each link of the network has carried.
    pub link_flits: Vec<u64>,
    pub figures: Figures,
    /// By whatever the world tells reads apart.
    pub latencies: Vec<Histogram>,
    /// What this kind of world counts besides.
    pub counts: C,
}

impl<C> Segment for Reading<C> {
    fn append(&mut self, next: Reading<C>) {
        let mut latencies = std::mem::take(&mut self.latencies);
        latencies.iter_mut().zip(&next.latencies).for_each(|(all, more)| all.merge(more));
        *self = Reading { latencies, ..next };
    }
}

impl<C> Reading<C> {
    /// Latencies of all reads.
    pub fn latencies(&self) -> Histogram {
        let mut all = Histogram::new();
        self.latencies.iter().for_each(|histogram| all.merge(histogram));
        all
    }
}

/// A world that moves data, and whose counters can be read.
pub(crate) trait Metered {
    /// See [`Reading::counts`].
    type Counts: Default;

    /// The counters where it begins.
    fn start(&mut self) -> Reading<Self::Counts> {
        Reading::default()
    }

    /// Simulates up to cycle `end`, counted from where it begins.
    fn run_until(&mut self, end: Cycle) -> Result<(), RunError>;

    /// Data moved since the start.
    fn amount(&mut self) -> f64;

    /// Reads in a cycle that begin whether or not others complete: those of an open loop.
    fn offered(&self) -> Option<f64> {
        None
    }

    /// Reads that have completed since the counters were last read.
    fn fresh(&mut self) -> Reads;

    /// Reads the counters in cycle `now`.
    fn read(&mut self, now: Cycle) -> Reading<Self::Counts>;
}

/// What was counted between two readings.
pub(crate) struct Span<'a, C> {
    pub machine: &'a Machine,
    pub before: Reading<C>,
    pub after: Reading<C>,
}

/// Runs a world until its steady state is known. A unit of its [amount](Metered::amount) in each cycle is
/// `unit_gbps`. Returns the steady state, and the report of all that worlds have in common.
///
/// # Errors
/// Those of the world, and [`RunError::Interrupted`].
pub(crate) fn measure<'a, W: Metered>(
    machine: &'a Machine,
    options: &Options<'_>,
    unit_gbps: f64,
    world: &mut W,
) -> Result<(Span<'a, W::Counts>, Report), RunError> {
    let began = Instant::now();
    let start = world.start();
    let least_reads = world.offered().unwrap_or(0.0) * COMPLETED_SHARE;
    let mut sampler = Sampler::new(&machine.run, unit_gbps, least_reads);
    let mut seen = Reads::default();
    loop {
        let end = sampler.next();
        world.run_until(end)?;
        options.told(end)?;
        let progress = Progress { amount: world.amount(), reads: seen + world.fresh() };
        let segment = || {
            seen = progress.reads;
            world.read(end)
        };
        if sampler.look(end, progress, segment) {
            break;
        }
    }
    let steady = sampler.finish();
    let found = steady.found;
    let is_finite = |half_width: &f64| half_width.is_finite();
    let mut segments = steady.segments.into_iter();
    let mut after = segments.next().unwrap_or_default();
    segments.for_each(|next| after.append(next));
    let span = Span { machine, before: steady.before.unwrap_or(start), after };
    let measured = Measured {
        from_cycle: span.before.cycle,
        to_cycle: span.after.cycle,
        bandwidth_settled: Some(found.quantity.converged),
        latency_settled: found.latency.map(|latency| latency.settled),
        app_gbps_half_width: Some(found.quantity.half_width).filter(is_finite),
        latency_half_width_cycles: found
            .latency
            .map(|latency| latency.half_width)
            .filter(is_finite),
        precision_percent: machine.run.precision_percent,
    };
    let report = Report {
        converged: found.converged,
        measured: Some(measured),
        windows: steady.windows,
        ..span.report(began)
    };
    Ok((span, report))
}

impl<C> Span<'_, C> {
    /// What the report of every world has.
    pub fn report(&self, began: Instant) -> Report {
        let latencies = self.after.latencies();
        Report {
            machine: self.machine.name.clone(),
            seconds: began.elapsed().as_secs_f64(),
            latency: latencies.summary().map(Latency::from),
            latencies: Bin::of(&latencies),
            stats: self.after.figures.since(&self.before.figures),
            ..Report::default()
        }
    }

    /// Cycles of the span.
    pub fn cycles(&self) -> Cycle {
        self.after.cycle - self.before.cycle
    }

    /// A count of the span for each of its cycles.
    pub fn per_cycle(&self, count: f64) -> f64 {
        count / self.cycles().max(1) as f64
    }

    /// The load of each link. A drawing begins with column 0, which some networks have routers to the left of.
    pub fn links(&self, network: &Network) -> Vec<LinkLoad> {
        let earlier = self.before.link_flits.iter().chain(iter::repeat(&0));
        let flits = self.after.link_flits.iter().zip(earlier).map(|(after, before)| after - before);
        let left = network.link_loads().map(|load| load.from.0).min().unwrap_or(0);
        let place = |(x, y): (i16, i16)| ((x - left) as u16, y as u16);
        let load = |(load, flits): (crate::noc::LinkLoad, u64)| LinkLoad {
            from: place(load.from),
            to: place(load.to),
            utilisation: self.per_cycle(flits as f64),
        };
        network.link_loads().zip(flits).map(load).collect()
    }
}

/// Flits that each link of a network has carried.
pub(crate) fn link_flits(network: &Network) -> Vec<u64> {
    network.link_loads().map(|load| load.flits).collect()
}

/// Reads the counters of virtual networks, which have these names.
pub(crate) fn read_vnets(names: &[&str], network: &Network, figures: &mut Figures) {
    for (name, vnet) in names.iter().zip(&network.stats().vnets) {
        figures.insert(format!("noc.flits.{name}"), vnet.flits_injected as f64);
        figures.insert(format!("noc.packets.{name}"), vnet.packets_sent as f64);
        let (hops, packets) = (vnet.hops as f64, vnet.packets_delivered as f64);
        figures.mean(format!("noc.hops_mean.{name}"), hops, packets);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chance_saturates_nothing() {
        for (offered, completed, saturated) in [
            (0.0, 0.0, false),
            (4.0, 0.0, false),
            (100.0, 71.0, false),
            (100.0, 69.0, true),
            (1e6, 951e3, false),
            (1e6, 949e3, true),
            (1e6, 11e5, false),
        ] {
            assert_eq!(is_saturated(offered, completed), saturated, "{completed} of {offered}");
        }
    }
}
