//! The network alone, under synthetic traffic: latency and throughput curves.
//!
//! Every endpoint creates packets by a Bernoulli process and has a source queue without limit.
//! Packets created in the measurement window are counted, and traffic goes on until all of them have
//! arrived, so that a network that is slow does not look fast by leaving out the slow ones. Latency
//! is from creation to the ejection of the tail.
//!
//! A load that the network does not carry is reported as saturated, with the figures of the run all
//! the same: see [`Report::saturated`].

mod matrix;
mod means;
mod pattern;
mod report;
mod run;
mod size;
mod traffic;

pub use matrix::Matrix;
pub use pattern::{HotSpots, Pattern};
pub use report::Report;
pub use run::{run, run_timed};
pub use size::PacketSize;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::error::SpecError;
use super::spec::Spec;

/// A run: a network, its traffic, and how long.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Topology, routing, routers and virtual networks.
    pub spec: Spec,
    /// Destinations of packets.
    pub pattern: Pattern,
    /// Lengths of packets, in flits.
    pub packet_flits: PacketSize,
    /// Offered load in flits per endpoint and cycle.
    pub rate: f64,
    /// Endpoints do not send to themselves where the pattern is random: uniform traffic, and hot spots, which send
    /// their share to the other ones, or to all endpoints if there is no other.
    pub no_self: bool,
    /// Cycles before the measurement.
    pub warm_up_cycles: u64,
    /// Cycles of the measurement.
    pub measure_cycles: u64,
    /// Cycles after the measurement in which its packets have to arrive.
    pub drain_limit_cycles: u64,
    /// Mean packet latency from which on the network counts as saturated, and the run ends.
    pub latency_limit_cycles: f64,
    /// Seed of traffic and of the network.
    pub seed: u64,
}

impl Experiment {
    /// A run of usual length with uniform traffic of one-flit packets.
    pub fn new(spec: Spec, rate: f64) -> Experiment {
        Experiment {
            spec,
            pattern: Pattern::Uniform,
            packet_flits: PacketSize::fixed(1),
            rate,
            no_self: false,
            warm_up_cycles: 2_000,
            measure_cycles: 10_000,
            drain_limit_cycles: 50_000,
            latency_limit_cycles: 500.0,
            seed: 1,
        }
    }
}

/// A reason why an experiment cannot be run: option, problem and remedy.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ExperimentError {
    /// The network is not one.
    #[error(transparent)]
    Network(#[from] SpecError),
    /// Hot spots cannot be read, or an endpoint does not exist.
    #[error(
        "cannot use the hot spots `{text}`; write a share from 0 to 1 and endpoints of the \
         network, such as `hot-spot:0.2:9,54`"
    )]
    BadHotSpots {
        /// Text that was given.
        text: String,
    },
    /// A line of a traffic matrix is not as it must be.
    #[error("{file}:{line}: expected {expected}")]
    BadMatrix {
        /// Name of the file.
        file: String,
        /// Number of the line, from 1 on.
        line: usize,
        /// What should be there.
        expected: String,
    },
    /// A traffic matrix names endpoints that do not exist, or has no traffic.
    #[error(
        "the traffic matrix needs weights above 0 between endpoints from 0 to {}",
        endpoints.saturating_sub(1)
    )]
    MatrixNeeds {
        /// Endpoints of the network.
        endpoints: usize,
    },
    /// The pattern asks for another number of endpoints.
    #[error("traffic `{pattern}` needs {needs}, which `{topology}` has not")]
    PatternNeeds {
        /// Pattern that was asked for.
        pattern: String,
        /// Name and size of the topology, such as `mesh:8x8`.
        topology: String,
        /// Condition that the topology does not meet.
        needs: &'static str,
    },
    /// Packet lengths cannot be read.
    #[error(
        "cannot read packet lengths `{text}`; write flits from 1 to 255, such as `5`, or \
         lengths with their shares, such as `1:0.5,5:0.5`"
    )]
    BadPacketSize {
        /// Text that could not be read.
        text: String,
    },
    /// The rate is not a load that endpoints can offer.
    #[error(
        "a rate of {rate} flits per endpoint and cycle is not possible; it must be more than 0 \
         and at most {limit}"
    )]
    BadRate {
        /// Flits per endpoint and cycle that were asked for.
        rate: f64,
        /// The highest that is possible.
        limit: f64,
    },
    /// The only endpoint is not to send to itself.
    #[error(
        "endpoints do not send to themselves (--no-self), and `{topology}` has one; give it more"
    )]
    NoOther {
        /// Name and size of the topology.
        topology: String,
    },
    /// The measurement has no cycles.
    #[error("the measurement has no cycles; give it at least one")]
    NoMeasurement,
}
