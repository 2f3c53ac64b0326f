//! Runs a machine until its workload is measured.
//!
//! | file | what |
//! |---|---|
//! | [`mirror`] | one chip; the remote ends are its mirror image (Manycore NI §5) |
//! | [`measure`] | windows, and what is reported |
//! | [`watchdog`] | a machine that does not get on is given up, with what is stuck |

mod measure;
mod mirror;
mod watchdog;

use std::fmt;

use crate::chip::Chip;
use crate::machine::Machine;
use crate::machine::spec::{Remote, WorkloadKind};
use crate::report::Report;
use measure::Meter;
pub use mirror::Mirror;
pub use watchdog::Watchdog;

/// What to do besides simulating.
#[derive(Clone, Copy, Default)]
pub struct Options<'a> {
    /// Record the events of so many reads.
    pub traced_reads: u32,
    /// Is told now and then how many cycles have been simulated.
    pub progress: Option<&'a (dyn Fn(u64) + Sync)>,
}

/// Why a machine cannot run, or did not come to an end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunError {
    /// The machine cannot be built: what, where, what to do.
    Impossible(String),
    /// Nothing has moved for too long: what is stuck, and where.
    Stuck(String),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Impossible(what) | RunError::Stuck(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for RunError {}

/// Runs a machine until its workload is measured.
///
/// # Errors
/// [`RunError`]
pub fn run(machine: &Machine, options: &Options<'_>) -> Result<Report, RunError> {
    match machine.network.remote {
        Remote::Generator => {
            let mut mirror = Mirror::new(machine)?;
            mirror.chip.wires.trace.record(options.traced_reads);
            match machine.workload.kind {
                WorkloadKind::SyncRead => latency(machine, options, mirror),
                WorkloadKind::AsyncRead => bandwidth(machine, options, mirror),
            }
        }
        Remote::Nodes => Err(RunError::Impossible("not yet".to_owned())),
    }
}

/// The cores that take part.
fn cores(machine: &Machine, chip: &Chip) -> std::ops::Range<u16> {
    let tiles = chip.wires.layout.tiles;
    let first = machine.workload.first_core.min(tiles - 1);
    match machine.workload.cores {
        0 => first..tiles,
        cores => first..(first + cores).min(tiles),
    }
}

/// Synchronous reads of one core after the other, on a chip that does nothing else.
fn latency(
    machine: &Machine,
    options: &Options<'_>,
    mut mirror: Mirror,
) -> Result<Report, RunError> {
    let meter = Meter::start(machine);
    let mut latencies = Vec::new();
    for core in cores(machine, &mirror.chip) {
        let mut watchdog = Watchdog::new(machine, &mirror.chip);
        let Chip { tiles, wires, .. } = &mut mirror.chip;
        let core = &mut tiles[usize::from(core)].core;
        core.start(machine.workload.warmup_reads, machine.run.reads, wires);
        let number = usize::from(core.number());
        while !mirror.chip.tiles[number].core.is_done() {
            mirror.step(&mut watchdog)?;
        }
        latencies.extend(mirror.chip.tiles[number].core.take_latencies());
        if let Some(progress) = options.progress {
            progress(mirror.chip.wires.now);
        }
    }
    Ok(meter.latency_report(&mut mirror.chip, latencies))
}

/// Asynchronous reads of all cores, window by window, until the bandwidth is stable.
fn bandwidth(
    machine: &Machine,
    options: &Options<'_>,
    mut mirror: Mirror,
) -> Result<Report, RunError> {
    let mut meter = Meter::start(machine);
    let mut watchdog = Watchdog::new(machine, &mirror.chip);
    for core in cores(machine, &mirror.chip) {
        let Chip { tiles, wires, .. } = &mut mirror.chip;
        tiles[usize::from(core)].core.start(0, 0, wires);
    }
    loop {
        let end = mirror.chip.wires.now + machine.run.window_cycles;
        mirror.run_until(end, &mut watchdog)?;
        if let Some(progress) = options.progress {
            progress(mirror.chip.wires.now);
        }
        if meter.window(&mirror.chip) {
            return Ok(meter.bandwidth_report(&mut mirror.chip));
        }
    }
}
