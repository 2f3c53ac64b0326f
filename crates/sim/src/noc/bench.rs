//! Speed of the simulator in configurations for which figures of other simulators are known.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::routing::Routing;
use super::spec::{Pipeline, Spec, VnetSpec};
use super::synthetic::{Experiment, ExperimentError, PacketSize, run_timed};
use super::topology::Shape;

/// A configuration and its speed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BenchRow {
    /// Topology, VCs x buffer, packet length, stages.
    pub name: String,
    /// Offered load in flits per endpoint and cycle.
    pub rate: f64,
    /// Simulated cycles per second.
    pub cycles_per_second: f64,
    /// Links between routers that flits crossed per second, in millions.
    pub million_flit_hops_per_second: f64,
    /// Whether the network was saturated.
    pub saturated: bool,
}

struct Configuration {
    topology: Shape,
    router: Pipeline,
    vcs: usize,
    buffer_flits: usize,
    packet_flits: u8,
    rates: &'static [f64],
}

const MESH: Shape = Shape::Mesh { columns: 8, rows: 8 };
const TORUS: Shape = Shape::Torus { size: [8, 8, 8], dimensions: 3 };
const RATES: &[f64] = &[0.02, 0.1, 0.2, 0.3, 0.4];

fn configurations() -> Vec<Configuration> {
    let mesh = |vcs, buffer_flits, packet_flits| Configuration {
        topology: MESH,
        router: Pipeline::Five,
        vcs,
        buffer_flits,
        packet_flits,
        rates: RATES,
    };
    let low = &[0.02, 0.1, 0.3];
    let lookahead = Configuration { router: Pipeline::Three, rates: low, ..mesh(4, 4, 5) };
    let torus = Configuration { topology: TORUS, rates: low, ..mesh(4, 8, 5) };
    vec![mesh(8, 8, 1), mesh(8, 8, 5), mesh(2, 5, 1), mesh(2, 5, 5), lookahead, torus]
}

/// Measures all configurations, each load for about this time, on one core; the lowest load of each
/// alone if the others are not asked for.
///
/// # Errors
/// None that a release should have: the configurations are fixed.
pub fn bench(
    time_per_row: Duration,
    lowest_load_only: bool,
) -> Result<Vec<BenchRow>, ExperimentError> {
    let mut rows = Vec::new();
    for configuration in configurations() {
        let count = if lowest_load_only { 1 } else { configuration.rates.len() };
        for &rate in &configuration.rates[..count] {
            rows.push(measure(&configuration, rate, time_per_row)?);
        }
    }
    Ok(rows)
}

fn measure(
    configuration: &Configuration,
    rate: f64,
    time: Duration,
) -> Result<BenchRow, ExperimentError> {
    let Configuration { ref topology, router, vcs, buffer_flits, packet_flits, .. } =
        *configuration;
    let mut spec = Spec::standalone(topology.clone(), Routing::usual(topology), router);
    spec.vnets = vec![VnetSpec { vcs, ordered: false }];
    spec.buffer_flits = buffer_flits;
    let mut experiment = Experiment::new(spec, rate);
    experiment.packet_flits = PacketSize::fixed(packet_flits);
    // A first run tells how many cycles fill the time.
    experiment.measure_cycles = 2_000;
    let (_, cycles_per_second) = run_timed(&experiment)?;
    experiment.measure_cycles = (cycles_per_second * time.as_secs_f64()) as u64 + 1;
    let (report, cycles_per_second) = run_timed(&experiment)?;
    let flit_hops = report.accepted * topology.endpoints() as f64 * report.hops_mean;
    Ok(BenchRow {
        name: format!("{topology} {router} {vcs}x{buffer_flits} {packet_flits}-flit"),
        rate,
        cycles_per_second,
        million_flit_hops_per_second: flit_hops * cycles_per_second / 1e6,
        saturated: report.saturated,
    })
}
