//! The state of a node: its process, and the cores that execute it.

use rackmem_riscv::host::HostState;
use rackmem_riscv::kernel::Kernel;
use serde::{Deserialize, Serialize};

use super::Memory;
use super::check::{self, Checked, require};
use crate::chip::{cpu, pads};
use crate::cpu::Stats;
use crate::engine::Cycle;
use crate::exec::device;
use crate::exec::system::Thread;
use crate::exec::turns::Turns;

/// Threads of a process, at most: as many as its kernel has.
const MOST_THREADS: usize = 1024;

/// A cycle that no run comes to.
pub const NEVER: Cycle = 1 << 62;

/// The process of a node, and its cores.
#[derive(Clone, Debug, Serialize, Deserialize)]
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
    /// Scratchpads, if the program has used them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scratchpads: Option<pads::State>,
    pub memory: Memory,
}

impl State {
    /// # Errors
    /// It is none: the field and what is wrong with it.
    pub fn kernel(&self) -> Result<Kernel, String> {
        let kernel = Kernel::deserialize(&self.kernel);
        // Only text has places that errors can name.
        kernel.or_else(|_| check::parse(&self.kernel.to_string()))
    }

    /// Instructions that its cores have executed.
    pub fn executed(&self) -> u64 {
        let cores = self.cores.iter().flatten().map(cpu::State::executed);
        let counted =
            self.counted.iter().map(|stats| stats.retired.saturating_add(stats.fast_forwarded));
        cores.chain(counted).fold(0, u64::saturating_add)
    }

    /// Checks what was read of a checkpoint that was taken in this cycle, with these contents of memory.
    pub fn check(&self, cycle: Cycle, contents: &[u8]) -> Checked {
        let in_kernel = |wrong: String| format!("kernel.{wrong}");
        let kernel = self.kernel().map_err(in_kernel)?;
        kernel.check(self.memory.most_bytes()).map_err(in_kernel)?;
        self.device.check().map_err(|wrong| format!("device.{wrong}"))?;
        match self.ended {
            Some(at) => self.check_ended(at, cycle),
            None => self.check_threads(&kernel, cycle),
        }?;
        self.check_cores()?;
        self.memory.check(contents, self.device.rings())?;
        let has_queue = |address| self.memory.has_queue(address);
        self.device.check_rings(has_queue).map_err(|wrong| format!("device.{wrong}"))
    }

    fn check_ended(&self, at: Cycle, cycle: Cycle) -> Checked {
        let has_ended = at <= cycle && self.threads.iter().all(Thread::is_idle);
        let has_ended = has_ended && self.cores.iter().all(Option::is_none);
        require(has_ended, || format!("ended: is {at} in cycle {cycle}, and there are threads"))
    }

    fn check_threads(&self, kernel: &Kernel, cycle: Cycle) -> Checked {
        let threads = &self.threads;
        require(threads.len() <= MOST_THREADS, || {
            format!("threads: has {} entries, must be {MOST_THREADS} at most", threads.len())
        })?;
        for (number, thread) in threads.iter().enumerate() {
            let is_known = kernel.thread_id(number).is_some();
            require(thread.is_idle() != is_known, || {
                format!("threads[{number}]: is idle, and the kernel has it; or the other way round")
            })?;
            thread.check(cycle).map_err(|wrong| format!("threads[{number}].{wrong}"))?;
        }
        let stray = (threads.len()..MOST_THREADS).find(|&at| kernel.thread_id(at).is_some());
        require(stray.is_none(), || format!("threads: the kernel has one more, {stray:?}"))?;
        let is_running = |number| matches!(threads.get(number), Some(Thread::Running));
        self.turns.check(is_running)
    }

    /// Each core has a place, and those with a thread that runs are there.
    fn check_cores(&self) -> Checked {
        let cores = &self.cores;
        require(cores.len() == self.turns.cores() && cores.len() <= usize::from(u16::MAX), || {
            format!("cores: has {} entries for turns of {}", cores.len(), self.turns.cores())
        })?;
        let has_line = |line| self.memory.may_have(line);
        for (number, core) in cores.iter().enumerate() {
            let is_there = core.is_some() || self.turns.holder(number).is_none();
            require(is_there, || format!("cores[{number}]: is null, and has a thread that runs"))?;
            let checked = core.as_ref().map_or(Ok(()), |core| core.check(has_line));
            checked.map_err(|wrong| format!("cores[{number}].{wrong}"))?;
        }
        Ok(())
    }

    /// The turns of its threads on so many cores.
    ///
    /// # Errors
    /// Threads would share a core, or do so, and there are other cores: the setting and the remedy.
    pub fn turns(&self, cores: usize, clock: Clock) -> Result<Turns, String> {
        let threads = self.threads.iter().rposition(|thread| !thread.is_idle());
        let (threads, before) = (threads.map_or(0, |last| last + 1), self.turns.cores());
        if cores != before && threads > cores.min(before) {
            let remedy = match threads > before {
                true => format!("its threads share cores, so that it goes on with {before} only"),
                false => format!("it goes on with {threads} or more"),
            };
            return Err(format!(
                "tiles.columns, tiles.rows: the checkpoint has {threads} threads on {before} cores, and there are \
                 {cores}: {remedy}"
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
            scale => ((old as f64 * scale).ceil() as Cycle).min(NEVER),
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
