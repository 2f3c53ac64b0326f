//! Workloads of nodes: the experiments of the papers.

pub mod key_value;
mod ping_pong;
mod queue_pair;
mod rdma;
pub mod reads;
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
use super::report::ExtensionReport;

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
