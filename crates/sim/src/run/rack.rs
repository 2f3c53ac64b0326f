//! Several chips in full detail, and the fabric between them: every two are equally far apart.
//!
//! A packet from a chip reaches another one a fabric latency later, so for that long the chips do not see
//! each other: they are simulated side by side, an epoch of one latency at a time, and exchange packets in
//! between, in the order of their numbers. The result does not depend on the threads.

use super::watchdog::Watchdog;
use super::{RunError, World};
use crate::chip::wires::Departure;
use crate::chip::{Chip, host_memory};
use crate::engine::{Crew, Cycle};
use crate::machine::Machine;
use crate::machine::spec::WorkloadKind;

/// All chips of a rack, with the fabric's latency between them.
pub struct Rack {
    chips: Crew<Chip>,
    network_cycles: u64,
}

impl Rack {
    /// The rack of a machine, started.
    ///
    /// # Errors
    /// [`RunError::Impossible`] for a network that cannot be built.
    pub fn new(machine: &Machine) -> Result<Rack, RunError> {
        let nodes = machine.network.nodes;
        host_memory::check(machine, nodes).map_err(RunError::Impossible)?;
        let chip = |nid| {
            let mut chip = Chip::new(machine, nid, nodes)?;
            chip.warm(machine);
            chip.start();
            Ok(chip)
        };
        let chips: Result<Vec<Chip>, crate::noc::SpecError> = (0..nodes).map(chip).collect();
        let chips = chips.map_err(|error| RunError::Impossible(format!("noc: {error}")))?;
        let hops = u64::from(machine.network.hops);
        let threads = match (machine.workload.kind, machine.run.threads) {
            // A single read keeps one chip busy at a time.
            (WorkloadKind::SyncRead, _) => 1,
            (_, 0) => std::thread::available_parallelism().map_or(1, usize::from),
            (_, threads) => threads as usize,
        };
        let network_cycles = machine.cycles(machine.network.hop_latency_ns) * hops;
        Ok(Rack { chips: Crew::new(chips, threads, simulate), network_cycles })
    }

    /// The cycle in which the next thing happens anywhere.
    fn next_cycle(&self) -> Option<Cycle> {
        self.chips.iter().filter_map(Chip::next_cycle).min()
    }

    /// Simulates all chips up to and including cycle `last`, which is less than a fabric latency
    /// away, then lets their packets travel.
    fn epoch(&mut self, last: Cycle) {
        self.chips.advance(last);
        self.exchange();
    }

    fn exchange(&mut self) {
        for from in self.chips.numbers() {
            let mut departures = std::mem::take(&mut self.chips[from].wires.departures);
            for Departure { cycle, to, payload } in departures.drain(..) {
                let to = &mut self.chips[usize::from(to)];
                to.receive(cycle + self.network_cycles - to.wires.now, payload);
            }
            self.chips[from].wires.departures = departures;
        }
    }
}

/// Simulates a chip up to and including cycle `last`.
fn simulate(chip: &mut Chip, last: Cycle) {
    while let Some(next) = chip.next_cycle().filter(|&next| next <= last) {
        chip.cycle(next);
    }
}

impl World for Rack {
    fn chips(&mut self) -> impl Iterator<Item = &mut Chip> {
        self.chips.iter_mut()
    }

    fn first(&mut self) -> &mut Chip {
        &mut self.chips[0]
    }

    fn step(&mut self, watchdog: &mut Watchdog) -> Result<(), RunError> {
        match self.next_cycle() {
            Some(next) => self.epoch(next + self.network_cycles - 1),
            None => return Err(watchdog.deadlock(self.chips.iter())),
        }
        watchdog.check(self.chips.iter())
    }

    fn run_until(&mut self, end: Cycle, watchdog: &mut Watchdog) -> Result<(), RunError> {
        loop {
            match self.next_cycle() {
                Some(next) if next <= end => self.epoch(end.min(next + self.network_cycles - 1)),
                Some(_) => break,
                None => return Err(watchdog.deadlock(self.chips.iter())),
            }
            watchdog.check(self.chips.iter())?;
        }
        self.chips.iter_mut().for_each(|chip| chip.wires.now = chip.wires.now.max(end));
        Ok(())
    }
}
