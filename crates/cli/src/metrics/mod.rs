//! `/metrics` of daemons, lenders and monitors, in Prometheus' text format 0.0.4.
//!
//! # Decisions
//!
//! - A page is made when it is asked for, from what `rackmem status` and `rackmem leases` ask for: the numbers are the
//!   same, and nothing is counted twice.
//! - The daemon's page is made by a thread that asks the daemon's control as any process does. The worker answers it
//!   between two rounds, as it answers `rackmem status`.
//! - Labels name a rack, a node, a lender. What comes and goes with processes has no label: `rackmem top` shows it.

mod agent;
mod node;
mod text;

pub use agent::serve_agent;
pub use node::serve_nodes;
pub use text::{Described, Kind};

/// All metrics.
pub fn all() -> Vec<Described> {
    use text::described;
    let of_nodes = [described(&node::ANSWERS), described(&node::NODE)].concat();
    let of_monitors = [described(&agent::MONITOR), described(&agent::LISTING)].concat();
    [of_nodes, described(&agent::LENDER), of_monitors].concat()
}
