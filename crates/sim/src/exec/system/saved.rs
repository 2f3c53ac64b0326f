//! Checkpoints of a node's process.

use std::io;

use super::{System, Thread};
use crate::chip::Chip;
use crate::chip::cpu::Cpu;
use crate::chip::pads::Refused;
use crate::engine::Cycle;
use crate::exec::ExecError;
use crate::exec::checkpoint::{Checked, Clock, Memory, NEVER, Places, State, require};
use crate::exec::outcome::End;
use crate::exec::pages::{User, image};
use crate::exec::turns::Turns;

impl Thread {
    /// Checks what was read of a checkpoint that was taken in this cycle.
    pub fn check(&self, cycle: Cycle) -> Checked {
        let (hart, times) = match self {
            Thread::Idle | Thread::Running => return Ok(()),
            Thread::Ready { hart } | Thread::Asking { hart } => (hart, [None; 2]),
            Thread::Asleep { hart, until } => (hart, [*until; 2]),
            Thread::Watching { hart, next, until, .. } => (hart, [Some(*next), *until]),
        };
        let past = times.into_iter().flatten().find(|&at| at < cycle);
        require(past.is_none(), || format!("until: is {past:?}, which is before cycle {cycle}"))?;
        hart.check().map_err(|wrong| format!("hart.{wrong}"))
    }

    /// With the times of another clock.
    fn at(self, clock: Clock) -> Thread {
        let at = |until: Option<Cycle>| until.map(|at| clock.cycle(at)).filter(|&at| at < NEVER);
        match self {
            Thread::Asleep { hart, until } => Thread::Asleep { hart, until: at(until) },
            Thread::Watching { hart, address, value, next, until } => {
                let (next, until) = (clock.cycle(next), at(until));
                Thread::Watching { hart, address, value, next, until }
            }
            Thread::Idle | Thread::Running | Thread::Ready { .. } | Thread::Asking { .. } => self,
        }
    }
}

impl System {
    /// Whether the program has ever had more than one thread.
    pub fn has_had_threads(&self) -> bool {
        self.kernel.has_had_threads()
    }

    /// The state of the process, whose cores all execute without timing, and the contents of its memory. The network
    /// interface has nothing under way.
    ///
    /// # Errors
    /// The program has not begun, or has a file that cannot be opened again.
    pub fn save(&mut self, chip: &mut Chip) -> Result<(State, Vec<u8>), String> {
        if self.first.is_some() {
            return Err("has not begun".to_owned());
        }
        // To look for files is nothing that the program does.
        let inputs = self.host.inputs.clone();
        let checked = self.kernel.check_names(&mut self.host);
        self.host.inputs = inputs;
        checked?;
        let core = |cpu: Option<&Cpu>| cpu.map_or(Ok(None), |cpu| cpu.state().map(Some).ok_or(()));
        let cores = chip.tiles.iter().map(|tile| core(tile.cpu.as_ref()));
        let cores = cores.collect::<Result<Vec<_>, ()>>();
        let cores = cores.map_err(|()| "has a core that executes with timing")?;
        let device = self.device.state(&self.pages, chip);
        self.device.spare.drop_used(&self.kernel, chip);
        let drivers = (&self.device.spare, self.lending.as_ref());
        let (memory, contents) = Memory::save(&self.machine, &self.pages, drivers, chip);
        let has_ended = self.end.is_some();
        let state = State {
            kernel: serde_json::to_value(&self.kernel).map_err(|error| error.to_string())?,
            host: self.host.state(),
            threads: self.threads.clone(),
            turns: if has_ended { Turns::new(cores.len()) } else { self.turns.clone() },
            cores,
            ended: self.end.as_ref().map(|(_, cycle)| *cycle),
            counted: self.counted.clone(),
            device,
            scratchpads: chip.scratchpads(),
            memory,
        };
        Ok((state, contents))
    }

    /// Goes on from a state, whose memory is at these places, on a network of so many nodes.
    ///
    /// # Errors
    /// There are too few cores, contexts or queue pairs, or a file that was open cannot be opened again.
    pub fn restore(
        mut self,
        state: State,
        places: &Places,
        (clock, others): (Clock, u16),
        chip: &mut Chip,
    ) -> Result<System, ExecError> {
        let cores = chip.tiles.len();
        self.turns = state.turns(cores, clock).map_err(ExecError::Machine)?;
        self.kernel = state.kernel().map_err(ExecError::Checkpoint)?;
        self.kernel.join_network(self.nid, others);
        let input = |error: io::Error| ExecError::Checkpoint(format!("standard input: {error}"));
        self.host.restore(state.host).map_err(input)?;
        // To open files again is nothing that the program does.
        let inputs = self.host.inputs.clone();
        self.kernel.reopen(&mut self.host).map_err(ExecError::Checkpoint)?;
        self.host.inputs = inputs;
        self.threads = state.threads.into_iter().map(|thread| thread.at(clock)).collect();
        if self.threads.len() < cores {
            self.threads.resize(cores, Thread::Idle);
        }
        let mut user = User { pages: &mut self.pages, chip };
        self.device.restore(state.device, clock, &mut user)?;
        self.device.spare = state.memory.spare(self.pages.page_bytes());
        if let (Some(lending), Some(lent)) = (&mut self.lending, &state.memory.lent) {
            lending.restore(lent);
        }
        if let Some(scratchpads) = &state.scratchpads {
            chip.restore_scratchpads(scratchpads).map_err(|refused| match refused {
                Refused::Machine(why) => ExecError::Machine(why),
                Refused::State(wrong) => {
                    ExecError::Checkpoint(format!("scratchpads.{wrong}; take the checkpoint again"))
                }
            })?;
        }
        self.end = state.ended.map(|cycle| (End::Exit(0), clock.cycle(cycle)));
        self.counted = state.counted;
        for (number, core) in (0..).zip(state.cores).take(cores) {
            let Some(mut core) = core else { continue };
            core.fast.due = clock.cycle(core.fast.due);
            core.fast.touches = places.touches(core.fast.touches, image(chip));
            let mut cpu = Cpu::restore(number, &self.machine, core, &mut chip.wires);
            self.record(&mut cpu);
            chip.tiles[usize::from(number)].cpu = Some(cpu);
        }
        self.note_restored(chip);
        self.next_timer = self.earliest_timer(chip.wires.now);
        Ok(self)
    }
}
