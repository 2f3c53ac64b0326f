//! Workloads of nodes: the experiments of the papers.

mod ping_pong;
mod queue_pair;
mod rdma;
mod reads;
mod receive;
mod send;
mod stack;

pub use ping_pong::PingPong;
pub use queue_pair::QueuePair;
pub use rdma::Rdma;
pub use reads::Reads;
pub use receive::Receive;
pub use send::Send;

use super::platform::{Platform, Upcall};
use super::time::Ps;
use crate::machine::spec::ExperimentSpec;
use crate::report::ExtensionReport;

/// Software of the nodes.
pub trait Workload {
    /// Begins.
    ///
    /// # Errors
    /// The part of the platform that it needs and that is not there.
    fn start(&mut self, platform: &mut Platform) -> Result<(), String>;

    /// Handles an event. Returns true when the measurement is complete.
    fn told(&mut self, platform: &mut Platform, upcall: Upcall) -> bool;

    /// Adds its measurements to the report.
    fn report(&self, platform: &Platform, report: &mut ExtensionReport);
}

/// Rounds of an experiment: the first ones are its warm-up.
#[derive(Debug)]
struct Rounds {
    warm_up: u64,
    count: u64,
    done: u64,
    /// End of the warm-up, and of the last round.
    begin: Ps,
    end: Ps,
}

impl Rounds {
    fn new(spec: &ExperimentSpec) -> Rounds {
        Rounds { warm_up: spec.warm_up, count: spec.count, done: 0, begin: 0, end: 0 }
    }

    /// Another round is over.
    fn add(&mut self, now: Ps) {
        self.done += 1;
        self.end = now;
        if self.done <= self.warm_up {
            self.begin = now;
        }
    }

    /// Whether the last round is not part of the warm-up.
    fn is_measured(&self) -> bool {
        self.done > self.warm_up
    }

    fn are_complete(&self) -> bool {
        self.done >= self.warm_up + self.count
    }

    fn measured(&self) -> u64 {
        self.done - self.warm_up
    }

    /// Mean time of a measured round.
    fn mean_ns(&self) -> f64 {
        (self.end - self.begin) as f64 / 1000.0 / self.measured().max(1) as f64
    }
}
