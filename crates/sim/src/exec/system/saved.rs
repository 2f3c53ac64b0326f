//! Checkpoints of a node's process.

use std::io;

use super::{System, Thread};
use crate::chip::Chip;
use crate::chip::cpu::Cpu;
use crate::engine::Cycle;
use crate::exec::ExecError;
use crate::exec::checkpoint::{Clock, Memory, Places, State};

impl Thread {
    /// With the times of another clock.
    fn at(self, clock: Clock) -> Thread {
        let at = |until: Option<Cycle>| until.map(|at| clock.cycle(at));
        match self {
            Thread::Asleep { hart, until } => Thread::Asleep { hart, until: at(until) },
            Thread::Watching { hart, address, value, next, until } => {
                let (next, until) = (clock.cycle(next), at(until));
                Thread::Watching { hart, address, value, next, until }
            }
            Thread::Idle | Thread::Running | Thread::Ready { .. } => self,
        }
    }
}

impl System {
    /// The state of the process, whose cores all execute without timing, and the contents of its memory.
    ///
    /// # Errors
    /// There is more than cores and memory: the network interface has a part in the program.
    pub fn save(&self, chip: &mut Chip) -> Result<(State, Vec<u8>), String> {
        if !self.device.is_unused() {
            let why =
                "has a part in a context of the network interface: take a checkpoint before that";
            return Err(why.to_owned());
        }
        let core = |cpu: Option<&Cpu>| cpu.map_or(Ok(None), |cpu| cpu.state().map(Some).ok_or(()));
        let cores = chip.tiles.iter().map(|tile| core(tile.cpu.as_ref()));
        let cores = cores.collect::<Result<Vec<_>, ()>>();
        let cores = cores.map_err(|()| "has a core that executes with timing")?;
        let (memory, contents) = Memory::save(&self.pages, chip);
        let state = State::new(
            &self.kernel,
            self.host.state(),
            (&self.threads, &self.turns),
            cores,
            memory,
        )?;
        Ok((state, contents))
    }

    /// Goes on from a state, whose memory is at these places.
    ///
    /// # Errors
    /// There are too few cores, or a file that was open cannot be opened again.
    pub fn restore(
        mut self,
        state: State,
        places: &Places,
        clock: Clock,
        chip: &mut Chip,
    ) -> Result<System, ExecError> {
        let cores = chip.tiles.len();
        self.turns = state.turns(cores, clock).map_err(ExecError::Machine)?;
        self.kernel = state.kernel().map_err(ExecError::Checkpoint)?;
        let input = |error: io::Error| ExecError::Checkpoint(format!("standard input: {error}"));
        self.host.restore(state.host).map_err(input)?;
        self.kernel.reopen(&mut self.host).map_err(ExecError::Checkpoint)?;
        self.threads = state.threads.into_iter().map(|thread| thread.at(clock)).collect();
        if self.threads.len() < cores {
            self.threads.resize(cores, Thread::Idle);
        }
        for (number, core) in (0..).zip(state.cores).take(cores) {
            let Some(mut core) = core else { continue };
            core.fast.due = clock.cycle(core.fast.due);
            core.fast.touches = places.touches(core.fast.touches);
            let mut cpu = Cpu::restore(number, &self.machine, core, &mut chip.wires);
            self.record(&mut cpu);
            chip.tiles[usize::from(number)].cpu = Some(cpu);
        }
        self.note_restored(chip);
        self.next_timer = self.earliest_timer(chip.wires.now);
        Ok(self)
    }
}
