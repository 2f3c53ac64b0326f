//! The model beside formulas of queueing theory, where it reduces to what they are about.

use crate::block::BLOCK_BYTES;
use crate::dram::{Kind, Tick};
use crate::engine::Random;
use crate::machine::{Machine, Override, load};
use crate::noc::synthetic::{Experiment, HotSpots, PacketSize, Pattern as Traffic};
use crate::noc::{Class, Network, Packet, Routing, Shape, Spec, Topology, VnetSpec, synthetic};
use crate::report;
use crate::run::memory::{self, Access, Generator, Outcome, Pattern};
use crate::run::{self, Options};

/// A quantity by the model and by a formula.
#[derive(Clone, Debug, PartialEq)]
pub struct Identity {
    /// What is compared, and where.
    pub what: String,
    /// Unit of both.
    pub unit: &'static str,
    /// Value by the formula.
    pub formula: f64,
    /// Value by the model.
    pub model: f64,
}

impl Identity {
    fn new(what: String, unit: &'static str, formula: f64, model: f64) -> Identity {
        Identity { what, unit, formula, model }
    }

    /// The model's value over the formula's, less 1.
    pub fn error(&self) -> f64 {
        self.model / self.formula - 1.0
    }
}

/// All identities.
///
/// # Errors
/// A network or a machine that cannot be built: a defect.
pub fn identities() -> Result<Vec<Identity>, String> {
    let mut all = Vec::new();
    for (topology, flits, rate) in
        [("mesh:8x8", 1, 0.1), ("mesh:8x8", 5, 0.3), ("torus:4x4", 5, 0.4)]
    {
        all.push(littles_law_of_network(topology, flits, rate)?);
    }
    for (pattern, interval) in [(Pattern::Random, 30), (Pattern::Stream, 1)] {
        all.push(littles_law_of_memory("ddr4-2400", pattern, interval)?);
    }
    all.push(littles_law_of_chip()?);
    all.push(zero_load_of_mesh()?);
    for load in [0.3, 0.6, 0.8] {
        all.push(wait_for_source(load)?);
        all.push(wait_for_output(load)?);
        all.push(wait_for_bank(load)?);
    }
    Ok(all)
}

/// The mean wait, in slots, for a server that takes `service` slots for each customer, one of which may come in each
/// slot, with the same probability: Geo/D/1, the M/D/1 queue of discrete time (Hunter, "Mathematical Techniques of
/// Applied Probability", volume 2, 1983). `load` is the share of slots in which the server is busy.
pub fn wait_geo_d_1(load: f64, service: f64) -> f64 {
    load * (service - 1.0) / (2.0 * (1.0 - load))
}

/// The mean wait, in slots, for an output that takes a slot for each packet, when `inputs` inputs each have a packet
/// for it with the same probability (Karol, Hluchyj and Morgan, "Input versus output queueing on a space-division
/// packet switch", IEEE Transactions on Communications, 1987, equation 2).
pub fn wait_for_one_of(inputs: usize, load: f64) -> f64 {
    (inputs - 1) as f64 / inputs as f64 * load / (2.0 * (1.0 - load))
}

/// Cycles from creation to tail ejection in an empty network: the way in, a pipeline per router, links, the way out,
/// and the flits behind the head.
pub fn zero_load(spec: &Spec, topology: &Topology, packet: &Packet) -> u64 {
    let order = spec.routing.orders()[0];
    let way = topology.hops(order, packet.src.into(), packet.dst.into());
    let hop = |router: usize, link| topology.routers[router].pipeline.hop_cycles(link);
    let hops: u64 = way.iter().map(|link| hop(link.from.router, link.latency_cycles)).sum();
    let last = topology.endpoints[usize::from(packet.dst)].eject.router;
    spec.injection_latency_cycles
        + hops
        + hop(last, spec.ejection_latency_cycles)
        + u64::from(packet.flits - 1)
}

/// Requests in a memory, on average, counted clock by clock until the last one is done.
pub fn outstanding(outcomes: &[Outcome]) -> f64 {
    let ends = outcomes.iter().map(|outcome| outcome.arrival + outcome.latency);
    let end = ends.max().unwrap_or(0);
    let mut changes = vec![0_i64; end as usize + 1];
    for outcome in outcomes {
        changes[outcome.arrival as usize] += 1;
        changes[(outcome.arrival + outcome.latency) as usize] -= 1;
    }
    let (mut now, mut sum) = (0, 0);
    for change in &changes[..end as usize] {
        now += change;
        sum += now;
    }
    sum as f64 / end.max(1) as f64
}

/// Reads in flight by Little's law: those that complete in a cycle, by the cycles that each takes.
pub fn in_flight(report: &report::Report, clock_ghz: f64) -> Option<f64> {
    let latency = report.latency?;
    Some(report.reads_per_us / (1000.0 * clock_ghz) * latency.mean_cycles)
}

fn network(topology: &str) -> Result<Spec, String> {
    let shape: Shape = topology.parse().map_err(|error| format!("{topology}: {error}"))?;
    let (routing, pipeline) = (Routing::usual(&shape), crate::noc::Pipeline::Five);
    let vnets = vec![VnetSpec { vcs: 8, ordered: false }];
    Ok(Spec { vnets, buffer_flits: 8, ..Spec::standalone(shape, routing, pipeline) })
}

/// Packets in a network and in its source queues, counted cycle by cycle, beside their rate by their latency.
fn littles_law_of_network(topology: &str, flits: u8, rate: f64) -> Result<Identity, String> {
    const CYCLES: u64 = 20_000;
    let said = |error: crate::noc::SpecError| error.to_string();
    let mut network = Network::new(&network(topology)?, 1).map_err(said)?;
    let endpoints = network.endpoints() as u64;
    let mut random = Random::new(1, 0);
    let (mut inside, mut sum, mut packets, mut latencies) = (0_u64, 0, 0_u64, 0);
    while network.now() < CYCLES || inside > 0 {
        for src in 0..endpoints as u16 {
            if network.now() < CYCLES && random.unit() < rate / f64::from(flits) {
                let (dst, flow) = (random.below(endpoints) as u16, packets as u32);
                let packet = Packet { src, dst, vnet: 0, flits, class: Class::Other, flow, tag: 0 };
                network.send(packet);
                packets += 1;
                inside += 1;
            }
        }
        network.tick();
        let arrived: Vec<u16> = network.arrived().collect();
        for endpoint in arrived {
            while let Some(delivered) = network.take_timed(endpoint, 0) {
                inside -= 1;
                latencies += delivered.arrived - delivered.created;
            }
        }
        // What has left in this cycle is not counted in it.
        sum += inside;
    }
    let cycles = network.now() as f64;
    let by_law = packets as f64 / cycles * (latencies as f64 / packets as f64);
    let what = format!("packets in {topology} at {rate}, {flits} flits each: rate by latency");
    Ok(Identity::new(what, "packets", by_law, sum as f64 / cycles))
}

/// Requests in a memory, counted clock by clock, beside their rate by their latency.
fn littles_law_of_memory(
    device: &str,
    pattern: Pattern,
    interval: Tick,
) -> Result<Identity, String> {
    let machine = load(device, &[]).map_err(|error| error.to_string())?;
    let requests = Generator::new(pattern, interval, 20_000, machine.memory.size_bytes, 1);
    let mut all = Vec::new();
    let report = memory::run(&machine, requests.map(Ok::<_, String>), None, |outcome| {
        all.push(*outcome);
        Ok(())
    })?;
    let bytes_per_clock = report.bandwidth_gbps * memory::timing(&machine).tck_ps as f64 / 1000.0;
    let requests_per_clock = bytes_per_clock / BLOCK_BYTES as f64;
    let by_law = requests_per_clock * report.reads.mean;
    let what =
        format!("requests in {device}, {}, one every {interval}: rate by latency", pattern.name());
    Ok(Identity::new(what, "requests", by_law, outstanding(&all)))
}

/// Cores of which each has a read in flight, always.
fn littles_law_of_chip() -> Result<Identity, String> {
    let settings = "tiles.columns=4 tiles.rows=4 memory.controllers=4 llc.size_bytes=1M \
                    workload.footprint_bytes=16M workload.transfer_bytes=64 run.window_cycles=20000 \
                    run.max_windows=20 ni.placement=numa";
    let machine = machine("manycore-ni", settings.split_whitespace())?;
    let report = run::run(&machine, &Options::default()).map_err(|error| error.to_string())?;
    let held = in_flight(&report, machine.clock_ghz).ok_or("a chip without latencies")?;
    let what = "reads in flight on a chip of 16 cores with one each: rate by latency".to_owned();
    Ok(Identity::new(what, "reads", 16.0, held))
}

fn machine<'t>(name: &str, settings: impl Iterator<Item = &'t str>) -> Result<Machine, String> {
    let settings: Result<Vec<Override>, String> = settings.map(str::parse).collect();
    load(name, &settings?).map_err(|error| error.to_string())
}

/// A packet at a time, between all endpoints.
fn zero_load_of_mesh() -> Result<Identity, String> {
    const FLITS: u8 = 5;
    let spec = network("mesh:8x8")?;
    let mut network = Network::new(&spec, 1).map_err(|error| error.to_string())?;
    let topology = network.topology().clone();
    let endpoints = network.endpoints() as u16;
    let (mut formula, mut model) = (0, 0);
    for (src, dst) in (0..endpoints).flat_map(|src| (0..endpoints).map(move |dst| (src, dst))) {
        let packet =
            Packet { src, dst, vnet: 0, flits: FLITS, class: Class::Other, flow: 0, tag: 0 };
        network.send(packet);
        formula += zero_load(&spec, &topology, &packet);
        model += loop {
            if let Some(delivered) = network.take_timed(dst, 0) {
                break delivered.arrived - delivered.created;
            }
            network.tick();
        };
    }
    let mean = |sum: u64| sum as f64 / f64::from(endpoints).powi(2);
    let what = format!("latency in mesh:8x8 without load, {FLITS} flits");
    Ok(Identity::new(what, "cycles", mean(formula), mean(model)))
}

/// Mean latency in a router of so many endpoints, and that without load.
fn one_router(
    endpoints: usize,
    pattern: Traffic,
    flits: u8,
    rate: f64,
) -> Result<(f64, f64), String> {
    let spec = network(&format!("crossbar:{endpoints}"))?;
    let topology = Network::new(&spec, 1).map_err(|error| error.to_string())?.topology().clone();
    let packet = Packet { src: 0, dst: 1, vnet: 0, flits, class: Class::Other, flow: 0, tag: 0 };
    let alone = zero_load(&spec, &topology, &packet) as f64;
    let experiment = Experiment {
        pattern,
        packet_flits: PacketSize::fixed(flits),
        measure_cycles: 200_000,
        ..Experiment::new(spec, rate)
    };
    let report = synthetic::run(&experiment).map_err(|error| error.to_string())?;
    Ok((report.latency_mean_cycles, alone))
}

/// Packets of several flits wait for their source's link and for nothing else.
fn wait_for_source(load: f64) -> Result<Identity, String> {
    const FLITS: u8 = 5;
    let (latency, alone) = one_router(4, Traffic::Neighbour, FLITS, load)?;
    let what = format!("latency behind a link that is busy for {load} of the time, Geo/D/1");
    Ok(Identity::new(what, "cycles", alone + wait_geo_d_1(load, FLITS.into()), latency))
}

/// Packets of all endpoints wait for one output of a router.
fn wait_for_output(load: f64) -> Result<Identity, String> {
    const INPUTS: usize = 16;
    let hot = Traffic::HotSpot(HotSpots { share: 1.0, endpoints: vec![0] });
    let (latency, alone) = one_router(INPUTS, hot, 1, load / INPUTS as f64)?;
    let what = format!("latency to an output of a router that is busy for {load} of the time");
    Ok(Identity::new(what, "cycles", alone + wait_for_one_of(INPUTS, load), latency))
}

/// Reads of other rows of one bank, which is closed after each.
fn wait_for_bank(load: f64) -> Result<Identity, String> {
    const REQUESTS: u64 = 200_000;
    const ROWS: u64 = 1024;
    let settings = "dram.scheduler=fcfs dram.page_policy=closed dram.refresh=false \
                    dram.bank_hash=false dram.mapping=row-rank-bank-column dram.read_queue=64 \
                    dram.age_limit_ns=1e9";
    let machine = machine("ddr3-1600", settings.split_whitespace())?;
    let (dram, timing) = (&machine.dram, memory::timing(&machine));
    let row_bytes = dram.row_bytes * u64::from(dram.ranks * dram.banks);
    let probability = load / timing.trc as f64;
    let mut random = Random::new(1, 0);
    let mut at = 0;
    let requests = (0..REQUESTS).map(|number| {
        at += 1 + ((1.0 - random.unit()).ln() / (-probability).ln_1p()) as Tick;
        Ok::<_, String>(Access {
            at: Some(at),
            address: number % ROWS * row_bytes,
            kind: Kind::Read,
        })
    });
    let report = memory::run(&machine, requests, None, |_| Ok(()))?;
    let latency = report.reads.mean + report.held_up_mean;
    let alone = (timing.trcd + timing.cl + timing.burst) as f64;
    let what = format!("latency of a bank that is busy for {load} of the time, Geo/D/1");
    Ok(Identity::new(what, "nCK", alone + wait_geo_d_1(load, timing.trc as f64), latency))
}
