//! One chip in detail. The remote ends are its mirror image: for each request that leaves, the same
//! request arrives from outside, and the answer to the one takes as long as this chip's RRPPs take
//! for the other.
//!
//! This is the traffic generator of Manycore NI §5: incoming requests at the rate of the outgoing
//! ones, and RRPP latency plus network latency for each round trip, without a mean in between.

use std::iter;

use super::rack::started;
use super::{RunError, World};
use crate::chip::wires::Departure;
use crate::chip::{Chip, host_memory};
use crate::engine::Cycle;
use crate::machine::Machine;

/// Nodes that the chip believes to be in: itself and its mirror image.
pub const NODES: u16 = 2;

/// A chip and its mirror image.
pub struct Mirror {
    /// The chip that is simulated, as node 0; its mirror image is not.
    pub chip: Chip,
    network_cycles: u64,
}

impl Mirror {
    /// A machine's chip, started.
    ///
    /// # Errors
    /// [`RunError::Impossible`] for a network that cannot be built.
    pub fn new(machine: &Machine) -> Result<Mirror, RunError> {
        host_memory::check(machine, 1).map_err(RunError::Impossible)?;
        let chip = started(machine, 0, NODES)?;
        let hops = u64::from(machine.network.hops);
        let network_cycles = machine.cycles(machine.network.hop_latency_ns) * hops;
        Ok(Mirror { chip, network_cycles })
    }

    /// Simulates one cycle, as [`Chip::cycle`] does.
    pub fn cycle(&mut self, now: Cycle) {
        self.chip.cycle(now);
        let mut departures = std::mem::take(&mut self.chip.wires.departures);
        for Departure { cycle, payload, .. } in departures.drain(..) {
            self.chip.receive(cycle - now + self.network_cycles, payload.reflected());
        }
        self.chip.wires.departures = departures;
    }
}

impl World for Mirror {
    fn chips(&self) -> impl Iterator<Item = &Chip> + Clone {
        iter::once(&self.chip)
    }

    fn chips_mut(&mut self) -> impl Iterator<Item = &mut Chip> {
        iter::once(&mut self.chip)
    }

    fn first(&mut self) -> &mut Chip {
        &mut self.chip
    }

    fn advance(&mut self, next: Cycle, _: Cycle) {
        self.cycle(next);
    }
}
