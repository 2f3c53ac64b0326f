//! Runs a machine until its workload is measured.
//!
//! | file | content |
//! |---|---|
//! | `rack` | chips and the fabric between them, in parallel; or one and its mirror image |
//! | `meter` | a world until its bandwidth is known: chips and the torus alike |
//! | `chips` | what chips count, and the report of it |
//! | `soc` | nodes with an extended on-chip interconnect ([`crate::interconnect`]) |
//! | [`memory`] | memory channels under a trace or generated traffic, without a chip |
//! | [`crate::rack`] | simplified nodes on a torus: a model of its own |
//! | `watchdog` | a machine that does not get on is given up; the error names the stuck parts |

pub(crate) mod chips;
pub mod memory;
pub(crate) mod meter;
mod rack;
mod soc;
mod watchdog;

use std::fmt;
use std::time::Instant;

use crate::chip::Chip;
use crate::engine::Cycle;
use crate::machine::spec::{Remote, WorkloadKind};
use crate::machine::{Kind, Machine};
use crate::report::{Recipe, Report};
use chips::{bandwidth, latency_report};
pub(crate) use rack::threads;
pub use rack::{MIRROR_NODES, Node, Rack};
pub use watchdog::Watchdog;

/// Steps of synchronous reads between two reports of progress.
const STEPS_PER_REPORT: u32 = 1 << 14;

/// Gets the number of simulated cycles now and then; returns whether the run goes on.
pub type Progress<'a> = dyn Fn(Cycle) -> bool + Sync + 'a;

/// Options of a run; none is needed.
#[derive(Clone, Copy, Default)]
pub struct Options<'a> {
    /// Record messages and reads that begin in this stretch of time; nothing if it is empty.
    pub trace: (Cycle, Cycle),
    /// Follows the run and may end it.
    pub progress: Option<&'a Progress<'a>>,
}

impl Options<'_> {
    /// So many cycles have been simulated.
    ///
    /// # Errors
    /// [`RunError::Interrupted`] if the run is to end.
    pub(crate) fn told(&self, cycles: Cycle) -> Result<(), RunError> {
        match self.progress {
            Some(progress) if !progress(cycles) => Err(RunError::Interrupted),
            _ => Ok(()),
        }
    }
}

/// Reasons why a machine cannot run, or did not come to an end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunError {
    /// The machine cannot be built: setting, problem and remedy.
    Impossible(String),
    /// Nothing has moved for too long: messages and transactions that are stuck, with their places.
    Stuck(String),
    /// [`Options::progress`] has ended it.
    Interrupted,
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Impossible(what) | RunError::Stuck(what) => f.write_str(what),
            RunError::Interrupted => f.write_str("interrupted"),
        }
    }
}

impl std::error::Error for RunError {}

/// Runs a machine until its workload is measured.
///
/// # Errors
/// [`RunError`]
pub fn run(machine: &Machine, options: &Options<'_>) -> Result<Report, RunError> {
    check_reads(machine)?;
    let report = match (machine.kind, machine.network.remote) {
        (Kind::Chip, Remote::Generator) => measure(machine, options, Rack::mirrored(machine)?),
        (Kind::Chip, Remote::Nodes) => measure(machine, options, Rack::new(machine)?),
        (Kind::Torus, _) => crate::rack::run(machine, options),
        (Kind::Soc, _) => soc::run(machine, options),
        (Kind::Memory, _) => Err(RunError::Impossible(
            "kind is \"memory\", which has no cores: `rackmem dram` drives it".to_owned(),
        )),
    };
    Ok(Report { recipe: Recipe::of(machine), ..report? })
}

/// Checks that a chip has the reads that its workload is made of.
fn check_reads(machine: &Machine) -> Result<(), RunError> {
    let (kind, placement) = (machine.workload.kind, machine.ni.placement);
    let is_other = machine.kind != Kind::Chip || kind == WorkloadKind::Program;
    if is_other || placement.stages().is_some() {
        return Ok(());
    }
    let unnamed = |error: toml::ser::Error| RunError::Impossible(error.to_string());
    let kind = toml::Value::try_from(kind).map_err(unnamed)?;
    let placement = toml::Value::try_from(placement).map_err(unnamed)?;
    Err(RunError::Impossible(format!(
        "workload.kind is {kind}, and ni.placement = {placement} has no such reads: `rackmem sim exec` runs programs \
         on it; \"edge\", \"per-tile\", \"split\", \"numa\" and \"uncached\" have them"
    )))
}

fn measure(machine: &Machine, options: &Options<'_>, mut world: Rack) -> Result<Report, RunError> {
    let (from, to) = options.trace;
    world.first().wires.trace.record(from..to);
    match machine.workload.kind {
        WorkloadKind::SyncRead => latency(machine, options, &mut world),
        WorkloadKind::AsyncRead => {
            for Chip { tiles, wires, .. } in world.chips_mut() {
                for core in cores(machine) {
                    tiles[usize::from(core)].core.start(0, 0, wires);
                }
            }
            bandwidth(machine, options, &mut world)
        }
        WorkloadKind::Program => Err(RunError::Impossible(
            "workload.kind is \"program\": `rackmem sim exec` brings one and runs it".to_owned(),
        )),
    }
}

/// The cores of a chip that take part.
fn cores(machine: &Machine) -> std::ops::Range<u16> {
    let tiles = machine.tiles.columns * machine.tiles.rows;
    let first = machine.workload.first_core.min(tiles - 1);
    match machine.workload.cores {
        0 => first..tiles,
        cores => first..first.saturating_add(cores).min(tiles),
    }
}

/// Synchronous reads of one core of the first chip after the other, while nothing else happens.
fn latency(machine: &Machine, options: &Options<'_>, world: &mut Rack) -> Result<Report, RunError> {
    let began = Instant::now();
    let mut latencies = Vec::new();
    for core in cores(machine) {
        let core = usize::from(core);
        let Chip { tiles, wires, .. } = world.first();
        let mut watchdog = Watchdog::new(machine, wires.now);
        tiles[core].core.start(machine.workload.warmup_reads, machine.run.reads, wires);
        let mut steps = 0_u32;
        while !world.first().tiles[core].core.is_done() {
            world.step(&mut watchdog)?;
            steps = steps.wrapping_add(1);
            if steps.is_multiple_of(STEPS_PER_REPORT) {
                options.told(world.first().wires.now)?;
            }
        }
        let chip = world.first();
        latencies.extend(chip.tiles[core].core.take_latencies());
        options.told(chip.wires.now)?;
    }
    Ok(latency_report(machine, began, world.first(), &latencies))
}
