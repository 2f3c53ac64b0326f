//! What threads wait for besides cores: times, words of memory, turns, and the timers of the kernel.

use rackmem_riscv::kernel::{Expired, UserMemory};
use rackmem_riscv::{Hart, abi};

use super::{EFAULT, ETIMEDOUT, System, Thread};
use crate::chip::Chip;
use crate::chip::cpu::Cpu;
use crate::chip::tile::Tile;
use crate::engine::Cycle;
use crate::exec::checkpoint::NEVER;
use crate::exec::pages::User;
use crate::exec::turns::TURN_NS;

impl System {
    /// The next timer after this cycle, in which threads have gone to sleep or woken.
    pub(super) fn earliest_timer(&self, now: Cycle) -> Option<Cycle> {
        let due = |(number, thread): (usize, &Thread)| match thread {
            Thread::Asleep { until, .. } => *until,
            Thread::Watching { next, until, .. } => Some(until.map_or(*next, |at| at.min(*next))),
            Thread::Ready { .. } => self.turns.end_before(number).map(|end| end.max(now + 1)),
            Thread::Idle | Thread::Running | Thread::Asking { .. } => None,
        };
        let own = self.kernel.next_timer().map(|ns| self.cycle_of(ns).max(now + 1));
        let own = own.filter(|&at| at < NEVER);
        let begin = self.first.as_ref().map(|_| self.begin);
        let letter = self.post.next().map(|at| at.max(now + 1));
        self.threads.iter().enumerate().filter_map(due).chain(own).chain(begin).chain(letter).min()
    }

    /// Does what is due in this cycle.
    pub(super) fn timers(&mut self, chip: &mut Chip) {
        let now = chip.wires.now;
        self.expire(chip);
        if self.end.is_some() {
            return;
        }
        for number in 0..self.threads.len() {
            match self.threads[number].clone() {
                Thread::Asleep { mut hart, until: Some(until) } if until <= now => {
                    self.kernel.time_out(number, &mut hart);
                    self.resume(number, &hart, chip);
                }
                Thread::Watching { hart, next, until, .. }
                    if next <= now || until.is_some_and(|until| until <= now) =>
                {
                    self.look(number, *hart, chip);
                }
                Thread::Ready { .. }
                    if self.turns.end_before(number).is_some_and(|end| end <= now) =>
                {
                    self.end_turn(number, chip);
                }
                _ => {}
            }
        }
    }

    /// Has the kernel send the signals of timers that are due.
    fn expire(&mut self, chip: &mut Chip) {
        let now = self.ns(chip.wires.now);
        if self.kernel.next_timer().is_none_or(|due| due > now) {
            return;
        }
        self.host.now_ns = now;
        chip.settle();
        chip.show_stores();
        let Expired { woken, killed } = self.kernel.expire(now);
        if let Some((number, signal)) = killed {
            let pc = self.pc(number, chip);
            return self.kill(number, signal, pc, chip);
        }
        woken.into_iter().for_each(|number| self.wake(number, chip));
    }

    /// The instruction at which a thread is.
    pub(super) fn pc(&self, number: usize, chip: &Chip) -> u64 {
        match &self.threads[number] {
            Thread::Ready { hart }
            | Thread::Asleep { hart, .. }
            | Thread::Watching { hart, .. }
            | Thread::Asking { hart } => hart.pc,
            Thread::Idle | Thread::Running => {
                let tile = &chip.tiles[self.turns.core_of(number)];
                tile.cpu.as_ref().map_or(0, Cpu::pc)
            }
        }
    }

    /// Has the core of a thread stop between two instructions.
    pub(super) fn stop_between(&self, number: usize, chip: &mut Chip) {
        let Chip { tiles, wires, .. } = chip;
        let Tile { cpu, l1, .. } = &mut tiles[self.turns.core_of(number)];
        if let Some(cpu) = cpu {
            cpu.give_way(l1, wires);
        }
    }

    /// The turn of the thread that has the core of this one is over. It has until the end of another turn to stop.
    fn end_turn(&mut self, number: usize, chip: &mut Chip) {
        let core = self.turns.core_of(number);
        let Some(holder) = self.turns.holder(core) else { return };
        self.turns.begin(holder, chip.wires.now + self.cycle_of(TURN_NS));
        self.stop_between(holder, chip);
    }

    /// Looks whether a word has changed that a thread waits for.
    pub(super) fn look(&mut self, number: usize, mut hart: Hart, chip: &mut Chip) {
        let now = chip.wires.now;
        let period = self.call_cycles.max(1);
        let Thread::Watching { address, value, next, until, .. } = &mut self.threads[number] else {
            return;
        };
        let mut bytes = [0; 8];
        let found = User { pages: &mut self.pages, chip }.read(*address, &mut bytes);
        let result = match found {
            Err(_) => -EFAULT,
            Ok(()) if u64::from_le_bytes(bytes) != *value => 0,
            Ok(()) if until.is_some_and(|until| until <= now) => -ETIMEDOUT,
            Ok(()) => {
                *next = now + period;
                return;
            }
        };
        hart.x[abi::A0] = result as u64;
        self.resume(number, &hart, chip);
    }
}
