//! A node: its chip and its operating system.

use rackmem_abi::Status;
use rackmem_riscv::host::LocalHost;
use rackmem_riscv::space::AddressSpace;

use super::checkpoint::{Clock, State};
use super::outcome::{End, NodeOutcome};
use super::pages::{Pages, SEGMENT};
use super::system::System;
use super::{ExecError, Options, Process};
use crate::block::BLOCK_BYTES;
use crate::chip::Chip;
use crate::chip::front::CONTEXT;
use crate::chip::image::Image;
use crate::chip::ni::Ni;
use crate::chip::wires::Pace;
use crate::engine::{Cycle, Turn};
use crate::figures::Figures;
use crate::machine::Machine;
use crate::machine::spec::Placement;
use crate::run;
use crate::sonuma::driver::Driver;
use crate::sonuma::page::LEVELS;

/// One node of a rack that executes a program: a process on a chip.
pub struct Node {
    /// The node's hardware; the rack carries what leaves it.
    pub chip: Chip,
    pub system: System,
}

impl Node {
    /// The node of a process, with its program loaded.
    ///
    /// # Errors
    /// The machine cannot execute programs, or this is none.
    pub fn new(
        process: Process<'_>,
        machine: &Machine,
        options: &Options<'_>,
    ) -> Result<Node, ExecError> {
        let (mut chip, pages) = bare(process, machine, options, 0)?;
        let system = System::new(process, machine, options, pages, &mut chip)?;
        Ok(Node { chip, system })
    }

    /// The node of a process in a checkpoint, which was taken in this cycle.
    ///
    /// # Errors
    /// The machine cannot execute programs, or has no room for this one.
    pub fn restore(
        process: Process<'_>,
        machine: &Machine,
        options: &Options<'_>,
        (state, contents, clock, cycle): (State, &[u8], Clock, Cycle),
    ) -> Result<Node, ExecError> {
        let (mut chip, mut pages) = bare(process, machine, options, cycle)?;
        while let Some(next) = chip.next_cycle().filter(|&next| next <= cycle) {
            chip.cycle(next);
        }
        chip.wires.now = cycle;
        chip.set_pace(Pace::Fast);
        let fixed = state.device.fixed(&chip).map_err(ExecError::Machine)?;
        let places = state.memory.restore(contents, (machine, &fixed), &mut pages, &mut chip)?;
        let mut begin = AddressSpace::new();
        let (system, _) = System::bare((process, machine, options), pages, &mut begin, &chip)?;
        let system = system.restore(state, &places, (clock, process.others(machine)), &mut chip)?;
        Ok(Node { chip, system })
    }

    /// Its state, and the contents of its memory.
    ///
    /// # Errors
    /// There is more than a program and its memory.
    pub fn save(&mut self) -> Result<(State, Vec<u8>), String> {
        self.system.save(&mut self.chip)
    }

    /// The outcome of the process, which has ended. Takes its output.
    pub fn outcome(&mut self) -> NodeOutcome {
        let (end, cycle) = self.system.end.clone().unwrap_or((End::Stopped, self.chip.wires.now));
        let instructions = self.system.instructions(&self.chip);
        let (stdout, stderr) = self.system.take_output();
        let LocalHost { warnings, inputs, .. } = &self.system.host;
        NodeOutcome {
            end,
            begin: self.system.begin,
            cycle,
            instructions,
            stdout,
            stderr,
            warnings: warnings.clone(),
            inputs: inputs.clone(),
            trace: self.chip.wires.trace.take(),
            tracks: std::mem::take(&mut self.system.tracks),
            lives: std::mem::take(&mut self.system.lives),
        }
    }

    pub fn figures(&self) -> Figures {
        let mut own = Figures::default();
        for home in &self.chip.homes {
            home.write_stats(&mut own);
        }
        for memory in &self.chip.memories {
            memory.write_stats(self.chip.wires.now, &mut own);
        }
        self.chip.ni.write_stats(&self.chip.tiles, &self.chip.wires, &mut own);
        self.system.write_stats(&self.chip, &mut own);
        own
    }
}

/// A node's chip, whose links to other nodes begin in this cycle, and its pages: nothing has been loaded.
fn bare(
    process: Process<'_>,
    machine: &Machine,
    options: &Options<'_>,
    begin: Cycle,
) -> Result<(Chip, Pages), ExecError> {
    let wrong = |what: String| ExecError::Machine(what);
    let chip = Chip::new(machine, process.nid, process.nodes);
    let mut chip = chip.map_err(|error| wrong(format!("noc: {error}")))?;
    let spec = machine.rmc_spec();
    let queues = chip.wires.layout.queue_lines() * BLOCK_BYTES;
    let bytes = machine.memory.size_bytes;
    let placement = machine.ni.placement;
    let lent = if placement.has_window() { machine.window.lent_bytes } else { 0 };
    let segment = SEGMENT + machine.workload.footprint_bytes;
    let mut image = Image::new(match placement {
        Placement::Sonuma | Placement::CacheIntegrated => bytes,
        // The window follows.
        Placement::Window | Placement::Bridge => bytes + lent,
        _ => segment,
    });
    let own = queues..bytes - lent;
    let least = queues + Driver::least_bytes(&spec, machine.system.contexts);
    if own.end < least {
        return Err(wrong(format!(
            "memory.size_bytes: {} bytes are the node's own, must be at least {least}: queues, and tables of \
             system.contexts = {}",
            own.end, machine.system.contexts
        )));
    }
    let driver = Driver::new(&spec, own, machine.system.contexts, &mut image);
    if let Ni::Bridge(_) = &chip.ni {
        chip.wires.now = begin;
    }
    match &mut chip.ni {
        // Queue pairs begin when programs make them.
        Ni::QueuePairs(ni) => ni.backends.set_context(CONTEXT, Err(Status::NoContext)),
        _ => chip.start(),
    }
    chip.wires.image = Some(image);
    for tile in &mut chip.tiles {
        tile.l1.report_lost();
    }
    let page_bytes = machine.system.page_bytes;
    let mut pages = Pages::new(driver, page_bytes);
    if machine.window.plug_bytes > 0 && placement.has_window() {
        // An entry for each page of the window, and a page of each level above.
        pages.kept_bytes = lent / page_bytes * 8 + page_bytes * u64::from(LEVELS);
    }
    chip.wires.trace.record(options.trace.0..options.trace.1);
    Ok((chip, pages))
}

impl run::Node for Node {
    fn chip(&mut self) -> &mut Chip {
        &mut self.chip
    }

    fn next_cycle(&self) -> Option<Cycle> {
        match (self.chip.next_cycle(), self.system.next_timer) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    fn cycle(&mut self, now: Cycle) {
        self.chip.cycle(now);
        let is_timer = self.system.next_timer.is_some_and(|at| at <= now);
        let is_misused = self.chip.wires.misuse.is_some();
        let is_interrupted = !self.chip.wires.interrupts.is_empty();
        if is_timer || is_misused || is_interrupted || !self.chip.stops.is_empty() {
            self.system.step(&mut self.chip);
        }
    }

    fn take_turn(&mut self, turn: Turn) {
        self.system.host.earlier = Some(Box::new(move || turn.wait()));
    }
}
