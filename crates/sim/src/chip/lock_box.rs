//! The lock box of the cache-integrated prototype (CINI §4): hardware locks that cores reach over a bus.

use std::collections::VecDeque;

use crate::engine::Cycle;
use crate::machine::Machine;

/// Hardware locks on a bus of their own, which cores use one after the other (CINI §4). A load of a lock that
/// is taken waits in the box; its answer has a turn of the bus as any access, as the OPB splits none.
#[derive(Clone, Debug)]
pub struct LockBox {
    locks: Vec<Lock>,
    access_cycles: u64,
    /// Of an access, in which the bus is of no use to others.
    bus_cycles: u64,
    free_at: Cycle,
}

#[derive(Clone, Debug, Default)]
struct Lock {
    is_taken: bool,
    /// Cores whose loads wait, the oldest first.
    waiting: VecDeque<u16>,
}

impl LockBox {
    /// The lock box of a machine.
    pub fn new(machine: &Machine) -> LockBox {
        LockBox {
            locks: vec![Lock::default(); machine.scratchpad.locks.into()],
            access_cycles: machine.scratchpad.lock_cycles.into(),
            bus_cycles: machine.scratchpad.lock_bus_cycles.into(),
            free_at: 0,
        }
    }

    /// A load of a core takes the lock; when it is answered, or `None` if it waits for the lock.
    pub fn take(&mut self, lock: u16, core: u16, now: Cycle) -> Option<Cycle> {
        let at = self.access(now);
        let lock = &mut self.locks[usize::from(lock)];
        if std::mem::replace(&mut lock.is_taken, true) {
            lock.waiting.push_back(core);
            return None;
        }
        Some(at)
    }

    /// A store frees the lock, or hands it to the core whose load has waited longest: when the store is done, and
    /// who is answered when.
    pub fn free(&mut self, lock: u16, now: Cycle) -> (Cycle, Option<(u16, Cycle)>) {
        let at = self.access(now);
        let next = self.locks[usize::from(lock)].waiting.pop_front();
        self.locks[usize::from(lock)].is_taken = next.is_some();
        (at, next.map(|core| (core, self.access(now))))
    }

    /// Whether somebody has each lock.
    pub fn taken(&self) -> impl Iterator<Item = bool> {
        self.locks.iter().map(|lock| lock.is_taken)
    }

    /// Has somebody have each lock, or not; nobody waits.
    pub fn restore(&mut self, taken: &[bool]) {
        for (lock, &is_taken) in self.locks.iter_mut().zip(taken) {
            lock.is_taken = is_taken;
        }
    }

    fn access(&mut self, now: Cycle) -> Cycle {
        let begin = self.free_at.max(now);
        self.free_at = begin + self.bus_cycles;
        begin + self.access_cycles
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACCESS: u64 = 20;
    const BUS: u64 = 6;

    fn lock_box() -> LockBox {
        let mut machine = crate::machine::load("cache-integrated", &[]).unwrap();
        machine.scratchpad.lock_cycles = ACCESS as u32;
        machine.scratchpad.lock_bus_cycles = BUS as u32;
        LockBox::new(&machine)
    }

    #[test]
    fn a_lock_is_taken_once_and_freed_by_a_store() {
        let mut locks = lock_box();
        assert_eq!(locks.take(1, 0, 100), Some(100 + ACCESS));
        assert_eq!(locks.take(2, 1, 200), Some(200 + ACCESS), "another lock");
        assert_eq!(locks.take(1, 1, 300), None);
        assert_eq!(locks.free(1, 400), (400 + ACCESS, Some((1, 400 + BUS + ACCESS))));
        assert_eq!(locks.free(1, 450), (450 + ACCESS, None));
        assert_eq!(locks.take(1, 1, 500), Some(500 + ACCESS));
    }

    #[test]
    fn loads_of_a_taken_lock_wait_and_stores_hand_it_to_them_in_their_order() {
        let mut locks = lock_box();
        assert_eq!(locks.take(0, 3, 100), Some(100 + ACCESS));
        assert_eq!(locks.take(0, 2, 130), None);
        assert_eq!(locks.take(0, 1, 160), None);
        let mut now = 200;
        for next in [Some(2), Some(1), None] {
            let answer = next.map(|core| (core, now + BUS + ACCESS));
            assert_eq!(locks.free(0, now), (now + ACCESS, answer), "nobody polls the bus");
            now += 100;
        }
        assert_eq!(locks.take(0, 0, now), Some(now + ACCESS));
    }

    #[test]
    fn accesses_keep_each_other_off_the_bus_for_a_part_of_their_time() {
        let mut locks = lock_box();
        for lock in 0..4 {
            assert_eq!(locks.take(lock, 0, 100), Some(100 + u64::from(lock) * BUS + ACCESS));
        }
        let end = 100 + 4 * BUS;
        assert_eq!(locks.free(0, end - 1).0, end + ACCESS, "a store has its turn after them");
        assert_eq!(locks.take(0, 1, end + BUS), Some(end + BUS + ACCESS));
    }
}
