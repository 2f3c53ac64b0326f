//! The lock box of the cache-integrated prototype (CINI §4): hardware locks that cores reach over a bus.

use crate::engine::Cycle;
use crate::machine::Machine;

/// Hardware locks on a bus of their own, which cores use one after the other (CINI §4).
#[derive(Clone, Debug)]
pub struct LockBox {
    taken: Vec<bool>,
    access_cycles: u64,
    /// Of an access, in which the bus is of no use to others.
    bus_cycles: u64,
    free_at: Cycle,
    /// A store that is on the bus, of which its core does not know yet that it is done.
    storing: Vec<Option<Cycle>>,
}

impl LockBox {
    /// The lock box of a machine.
    pub fn new(machine: &Machine) -> LockBox {
        let locks = usize::from(machine.scratchpad.locks);
        LockBox {
            taken: vec![false; locks],
            access_cycles: machine.scratchpad.lock_cycles.into(),
            bus_cycles: machine.scratchpad.lock_bus_cycles.into(),
            free_at: 0,
            storing: vec![None; locks],
        }
    }

    /// A load: takes the lock. When the value is there, and whether it was taken already.
    pub fn take(&mut self, lock: u16, now: Cycle) -> (Cycle, bool) {
        let at = self.access(now);
        (at, std::mem::replace(&mut self.taken[usize::from(lock)], true))
    }

    /// A store frees the lock; when it is done, unless it is. Only the holder stores.
    pub fn free(&mut self, lock: u16, now: Cycle) -> Option<Cycle> {
        let n = usize::from(lock);
        let at = match self.storing[n].take() {
            Some(at) => at,
            None => {
                self.taken[n] = false;
                self.access(now)
            }
        };
        self.storing[n] = (at > now).then_some(at);
        self.storing[n]
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
        assert_eq!(locks.take(1, 100), (100 + ACCESS, false));
        assert_eq!(locks.take(2, 200), (200 + ACCESS, false), "another lock");
        assert_eq!(locks.take(1, 300), (300 + ACCESS, true));
        let done = 400 + ACCESS;
        assert_eq!(locks.free(1, 400), Some(done));
        assert_eq!(locks.free(1, done - 1), Some(done), "the same store, on its way");
        assert_eq!(locks.free(1, done), None);
        assert_eq!(locks.take(1, 500), (500 + ACCESS, false));
    }

    #[test]
    fn accesses_keep_each_other_off_the_bus_for_a_part_of_their_time() {
        let mut locks = lock_box();
        for core in 0..4 {
            assert_eq!(locks.take(0, 100).0, 100 + core * BUS + ACCESS);
        }
        let end = 100 + 4 * BUS;
        assert_eq!(locks.free(0, end - 1), Some(end + ACCESS), "a store has its turn after them");
        assert_eq!(locks.take(0, end + BUS), (end + BUS + ACCESS, false));
    }
}
