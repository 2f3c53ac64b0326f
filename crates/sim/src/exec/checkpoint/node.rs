//! The state of a node: its process, and the cores that execute it.

use rackmem_riscv::host::HostState;
use rackmem_riscv::kernel::Kernel;
use serde::{Deserialize, Serialize};

use super::Memory;
use crate::chip::cpu;
use crate::cpu::Stats;
use crate::engine::Cycle;
use crate::exec::device;
use crate::exec::system::Thread;
use crate::exec::turns::Turns;

/// The process of a node, and its cores.
#[derive(Debug, Serialize, Deserialize)]
pub struct State {
    /// A [`Kernel`], which owns open files and so is not copied.
    pub kernel: serde_json::Value,
    pub host: HostState,
    pub threads: Vec<Thread>,
    pub turns: Turns,
    /// By number; none of those on which no thread has been.
    pub cores: Vec<Option<cpu::State>>,
    /// The cycle in which the process has ended, if it has; it was with success.
    pub ended: Option<Cycle>,
    /// Counters of its cores at that time.
    pub counted: Vec<Stats>,
    /// The driver of the network interface.
    pub device: device::State,
    pub memory: Memory,
}

impl State {
    pub fn kernel(&self) -> Result<Kernel, String> {
        Kernel::deserialize(&self.kernel).map_err(|error| error.to_string())
    }

    /// The turns of its threads on so many cores.
    ///
    /// # Errors
    /// Threads would share a core, or do so, and there are other cores: the setting and the remedy.
    pub fn turns(&self, cores: usize, clock: Clock) -> Result<Turns, String> {
        let threads = self.threads.iter().rposition(|thread| !thread.is_idle());
        let (threads, before) = (threads.map_or(0, |last| last + 1), self.turns.cores());
        if cores != before && threads > cores.min(before) {
            return Err(format!(
                "tiles.columns, tiles.rows: the checkpoint has {threads} threads on {before} cores, and there are \
                 {cores}; with as many cores as threads, or the same, it can go on"
            ));
        }
        Ok(self.turns.on(cores, |end| clock.cycle(end)))
    }
}

/// The times of one machine on another one, whose clock may be another: what a program sees of time goes on.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    scale: f64,
}

impl Clock {
    pub fn new(old_ghz: f64, new_ghz: f64) -> Clock {
        let is_same = (old_ghz - new_ghz).abs() < 1e-9;
        Clock { scale: if is_same { 1.0 } else { new_ghz / old_ghz } }
    }

    pub fn cycle(self, old: Cycle) -> Cycle {
        match self.scale {
            1.0 => old,
            _ if old == Cycle::MAX => old,
            scale => (old as f64 * scale).ceil() as Cycle,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_go_on_with_another_clock() {
        assert_eq!(Clock::new(2.0, 2.0).cycle((1 << 60) + 1), (1 << 60) + 1);
        assert_eq!(Clock::new(2.0, 1.0).cycle(11), 6);
        assert_eq!(Clock::new(1.5, 3.0).cycle(11), 22);
        assert_eq!(Clock::new(1.5, 3.0).cycle(Cycle::MAX), Cycle::MAX);
    }
}
