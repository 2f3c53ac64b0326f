//! A key-value cache in arenas that it is given one after the other, as its memory grows (DE-10). Once all
//! of them are full, it evicts the least recently used value.

use std::collections::HashMap;

use super::memory::Memory;

/// Memory of values.
pub enum Arena {
    /// Memory of this process.
    Local(Vec<u8>),
    /// Memory of a lender, behind a pager.
    Borrowed(Box<Memory>),
}

impl Arena {
    fn bytes(&mut self) -> &mut [u8] {
        match self {
            Arena::Local(bytes) => bytes,
            Arena::Borrowed(memory) => memory.bytes(),
        }
    }
}

/// No slot.
const NONE: u32 = u32::MAX;

/// A place for a value, in the order of their uses.
#[derive(Clone, Copy, Debug)]
struct Slot {
    key: u64,
    newer: u32,
    older: u32,
}

/// A cache of values of one size.
pub struct Cache {
    value_bytes: usize,
    /// With the number of each one's first slot.
    arenas: Vec<(u32, Arena)>,
    slots: Vec<Slot>,
    index: HashMap<u64, u32>,
    free: Vec<u32>,
    newest: u32,
    oldest: u32,
    evictions: u64,
}

impl Cache {
    /// An empty cache without memory.
    pub fn new(value_bytes: usize) -> Cache {
        Cache {
            value_bytes,
            arenas: Vec::new(),
            slots: Vec::new(),
            index: HashMap::new(),
            free: Vec::new(),
            newest: NONE,
            oldest: NONE,
            evictions: 0,
        }
    }

    /// More memory.
    pub fn grow(&mut self, mut arena: Arena) {
        let first = self.slots.len() as u32;
        let count = (arena.bytes().len() / self.value_bytes) as u32;
        self.slots.extend((0..count).map(|_| Slot { key: 0, newer: NONE, older: NONE }));
        self.free.extend((first..first + count).rev());
        self.arenas.push((first, arena));
    }

    /// Whether every slot has a value.
    pub fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    /// Values that made room for others.
    pub fn evictions(&self) -> u64 {
        self.evictions
    }

    /// The value of a key, if it is there.
    pub fn get(&mut self, key: u64, into: &mut [u8]) -> bool {
        let Some(&slot) = self.index.get(&key) else { return false };
        self.unlink(slot);
        self.link(slot);
        into.copy_from_slice(self.value(slot));
        true
    }

    /// Sets the value of a key.
    pub fn put(&mut self, key: u64, value: &[u8]) {
        let slot = match self.index.get(&key) {
            Some(&slot) => {
                self.unlink(slot);
                slot
            }
            None => {
                let Some(slot) = self.room() else { return };
                self.index.insert(key, slot);
                slot
            }
        };
        self.slots[slot as usize].key = key;
        self.link(slot);
        self.value(slot).copy_from_slice(value);
    }

    /// A slot that is free, or is made so; none without memory.
    fn room(&mut self) -> Option<u32> {
        if let Some(slot) = self.free.pop() {
            return Some(slot);
        }
        let slot = self.oldest;
        if slot == NONE {
            return None;
        }
        self.unlink(slot);
        self.index.remove(&self.slots[slot as usize].key);
        self.evictions += 1;
        Some(slot)
    }

    fn value(&mut self, slot: u32) -> &mut [u8] {
        let at = self.arenas.partition_point(|&(first, _)| first <= slot) - 1;
        let (first, arena) = &mut self.arenas[at];
        let begin = (slot - *first) as usize * self.value_bytes;
        &mut arena.bytes()[begin..begin + self.value_bytes]
    }

    fn link(&mut self, slot: u32) {
        let before = std::mem::replace(&mut self.newest, slot);
        let entry = &mut self.slots[slot as usize];
        (entry.newer, entry.older) = (NONE, before);
        match before {
            NONE => self.oldest = slot,
            before => self.slots[before as usize].newer = slot,
        }
    }

    fn unlink(&mut self, slot: u32) {
        let Slot { newer, older, .. } = self.slots[slot as usize];
        match newer {
            NONE => self.newest = older,
            newer => self.slots[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.slots[older as usize].newer = newer,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use rackmem_sim::engine::Random;

    use super::*;

    fn value(seed: u64) -> [u8; 8] {
        (seed * 7 + 1).to_le_bytes()
    }

    /// Against a list of keys in the order of their uses.
    #[test]
    fn what_was_used_least_recently_makes_room() {
        let mut cache = Cache::new(8);
        let (mut model, mut room) = (VecDeque::<(u64, u64)>::new(), 0);
        let mut random = Random::new(3, 0);
        let mut found = [0; 8];
        cache.put(1, &value(1));
        assert!(!cache.get(1, &mut found), "nothing is kept without memory");
        for step in 0..20_000 {
            if step % 5_000 == 0 {
                // A last value that does not fit is left over.
                cache.grow(Arena::Local(vec![0; 8 * 10 + 5]));
                room += 10;
            }
            let key = random.below(64);
            let known = model.iter().position(|&(other, _)| other == key);
            if random.below(2) == 0 {
                assert_eq!(cache.get(key, &mut found), known.is_some(), "{step}");
                if let Some(at) = known {
                    let used = model.remove(at).unwrap();
                    assert_eq!(found, value(used.1), "{step}");
                    model.push_back(used);
                }
                continue;
            }
            cache.put(key, &value(step));
            known.and_then(|at| model.remove(at));
            model.push_back((key, step));
            if model.len() > room {
                model.pop_front();
            }
            assert_eq!(cache.is_full(), model.len() == room);
        }
        assert!(cache.evictions() > 1_000);
    }
}
