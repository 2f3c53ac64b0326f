//! A machine that does not get on is given up.

use super::RunError;
use crate::chip::Chip;
use crate::engine::Cycle;
use crate::machine::Machine;

/// Stuck packets that are named.
const NAMED: usize = 5;

/// Looks whether work gets done.
pub struct Watchdog {
    patience_cycles: u64,
    progress: u64,
    since: Cycle,
}

impl Watchdog {
    /// A watchdog as patient as the machine says.
    pub fn new(machine: &Machine, now: Cycle) -> Watchdog {
        let since = now;
        Watchdog { patience_cycles: machine.run.watchdog_cycles, progress: 0, since }
    }

    /// To be called after every step, which was up to cycle `last` or less: chips complete reads and move lines.
    ///
    /// # Errors
    /// [`RunError::Stuck`] if nothing has got on for too long.
    #[inline]
    pub fn check<'a>(
        &mut self,
        last: Cycle,
        chips: impl Iterator<Item = &'a Chip> + Clone,
    ) -> Result<(), RunError> {
        if last - self.since <= self.patience_cycles {
            return Ok(());
        }
        let done = |chip: &Chip| {
            let counts = &chip.wires.counts;
            counts.reads + counts.rcp_lines + counts.rrpp_lines
        };
        let progress = || (chips.clone().map(done).sum(), true);
        self.look(latest(chips.clone()), progress, "no progress", || describe_all(chips.clone()))
    }

    /// The same for any world in cycle `now`. `progress` says how much it has done, and whether there is
    /// anything to do. A world that is stuck is described by the `problem` and its `places`.
    #[inline]
    pub(crate) fn look(
        &mut self,
        now: Cycle,
        progress: impl FnOnce() -> (u64, bool),
        problem: &str,
        places: impl FnOnce() -> String,
    ) -> Result<(), RunError> {
        let waited = now - self.since;
        if waited <= self.patience_cycles {
            return Ok(());
        }
        let (progress, is_busy) = progress();
        if is_busy && progress == self.progress {
            return Err(RunError::Stuck(format!(
                "{problem} for {waited} cycles (run.watchdog_cycles = {})\n{}",
                self.patience_cycles,
                places()
            )));
        }
        (self.progress, self.since) = (progress, now);
        Ok(())
    }

    /// Nothing will ever happen again, and the workload is not done.
    pub fn deadlock<'a>(&self, chips: impl Iterator<Item = &'a Chip> + Clone) -> RunError {
        let now = latest(chips.clone());
        RunError::Stuck(format!("everything waits since cycle {now}\n{}", describe_all(chips)))
    }
}

/// The cycle that the chip which is furthest on has come to.
fn latest<'a>(chips: impl Iterator<Item = &'a Chip>) -> Cycle {
    chips.map(|chip| chip.wires.now).max().unwrap_or(0)
}

fn describe_all<'a>(chips: impl Iterator<Item = &'a Chip>) -> String {
    let node = |chip: &Chip| format!("node {} {}", chip.wires.nid, describe(chip));
    chips.map(node).collect::<Vec<_>>().join("\n")
}

/// Messages and transactions under way, by part.
fn describe(chip: &Chip) -> String {
    let now = chip.wires.now;
    let mut lines = Vec::new();
    for stuck in chip.wires.net.stuck(now, NAMED) {
        let letter = chip.wires.letters.get(stuck.packet.tag);
        let what = crate::chip::trace::describe(&letter.payload);
        lines.push(format!("  {what} for {}: {stuck}", letter.to));
    }
    for (number, home) in chip.homes.iter().enumerate() {
        for (line, waiting, state) in home.under_way() {
            lines.push(format!("  home[{number}] block {line:#x}, {waiting} waiting: {state}"));
        }
    }
    for (number, memory) in chip.memories.iter().enumerate() {
        if memory.waiting() > 0 {
            lines.push(format!("  memory[{number}]: {} requests", memory.waiting()));
        }
    }
    lines.extend(chip.ni.under_way(&chip.tiles).into_iter().map(|what| format!("  {what}")));
    for (number, tile) in chip.tiles.iter().enumerate() {
        if !tile.core.is_idle() {
            lines.push(format!("  core[{number}]: {}", tile.core.describe()));
        }
    }
    let more = lines.len().saturating_sub(24);
    lines.truncate(24);
    if more > 0 {
        lines.push(format!("  and {more} more"));
    }
    format!("in cycle {now}:\n{}", lines.join("\n"))
}
