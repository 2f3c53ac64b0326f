//! One chip in detail. The remote ends are its mirror image: for each request that leaves, the same
//! request arrives from outside, and the answer to the one takes as long as this chip's RRPPs take
//! for the other.
//!
//! This is the traffic generator of Manycore NI §5: incoming requests at the rate of the outgoing
//! ones, and RRPP latency plus network latency for each round trip, without a mean in between.

use super::RunError;
use super::watchdog::Watchdog;
use crate::chip::Chip;
use crate::engine::Cycle;
use crate::machine::Machine;

/// Nodes that the chip believes to be in: itself and its mirror image.
const NODES: u16 = 2;

/// A chip and its mirror image.
pub struct Mirror {
    /// The chip.
    pub chip: Chip,
    network_cycles: u64,
}

impl Mirror {
    /// A machine's chip, started.
    ///
    /// # Errors
    /// [`RunError::Impossible`] for a network that cannot be built.
    pub fn new(machine: &Machine) -> Result<Mirror, RunError> {
        let chip = Chip::new(machine, 0, NODES);
        let mut chip = chip.map_err(|error| RunError::Impossible(format!("noc: {error}")))?;
        chip.warm(machine);
        chip.start();
        let hops = u64::from(machine.network.hops);
        let network_cycles = machine.cycles(machine.network.hop_latency_ns) * hops;
        Ok(Mirror { chip, network_cycles })
    }

    /// Simulates the next cycle in which something happens.
    ///
    /// # Errors
    /// [`RunError::Stuck`] if nothing ever happens again, or nothing has got on for too long.
    pub fn step(&mut self, watchdog: &mut Watchdog) -> Result<(), RunError> {
        match self.chip.next_cycle() {
            Some(next) => self.cycle(next),
            None => return Err(watchdog.deadlock(&self.chip)),
        }
        watchdog.check(&self.chip)
    }

    /// Simulates up to and including cycle `end`.
    pub(super) fn run_until(
        &mut self,
        end: Cycle,
        watchdog: &mut Watchdog,
    ) -> Result<(), RunError> {
        loop {
            match self.chip.next_cycle() {
                Some(next) if next <= end => self.cycle(next),
                Some(_) => break,
                None => return Err(watchdog.deadlock(&self.chip)),
            }
            watchdog.check(&self.chip)?;
        }
        // The window ends even if nothing happens in its last cycle.
        self.chip.wires.now = self.chip.wires.now.max(end);
        Ok(())
    }

    /// Simulates one cycle, as [`Chip::cycle`] does.
    pub fn cycle(&mut self, now: Cycle) {
        self.chip.cycle(now);
        while let Some(departure) = self.chip.wires.departures.pop_front() {
            let delay = departure.cycle - now + self.network_cycles;
            self.chip.receive(delay, departure.packet.reflected());
        }
    }
}
