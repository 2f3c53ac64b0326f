use super::{Agenda, Cycle};

/// Slots of the wheel: events less than so many cycles ahead cost no comparison. More than most delays
/// on a chip, and few enough to stay in the nearest cache.
const SLOTS: usize = 256;

/// Events in the order of their cycles; within a cycle in the order in which they were made.
///
/// A wheel for the near future and an [`Agenda`] for the far one. Finding the next event skips empty
/// cycles 64 at a time, so idle stretches cost nothing.
#[derive(Clone, Debug)]
pub struct Wheel<E> {
    now: Cycle,
    slots: Vec<Vec<E>>,
    /// Bit = slot that holds something.
    occupied: [u64; SLOTS / 64],
    far: Agenda<E>,
}

impl<E> Default for Wheel<E> {
    fn default() -> Self {
        Self {
            now: 0,
            slots: (0..SLOTS).map(|_| Vec::new()).collect(),
            occupied: [0; SLOTS / 64],
            far: Agenda::default(),
        }
    }
}

impl<E> Wheel<E> {
    /// Has `event` happen at cycle `at`.
    ///
    /// # Panics
    /// In debug builds, if that is not in the future: parts never act on each other within a cycle.
    #[inline]
    pub fn at(&mut self, at: Cycle, event: E) {
        debug_assert!(at > self.now, "an event at cycle {at}, which is not after {}", self.now);
        if at - self.now < SLOTS as u64 {
            let slot = at as usize % SLOTS;
            self.slots[slot].push(event);
            self.occupied[slot / 64] |= 1 << (slot % 64);
        } else {
            self.far.at(at, event);
        }
    }

    /// The cycle of the next event.
    pub fn next(&self) -> Option<Cycle> {
        match (self.next_near(), self.far.next()) {
            (Some(near), Some(far)) => Some(near.min(far)),
            (near, far) => near.or(far),
        }
    }

    fn next_near(&self) -> Option<Cycle> {
        let start = (self.now + 1) as usize % SLOTS;
        let words = SLOTS / 64;
        for step in 0..=words {
            let word = (start / 64 + step) % words;
            let mut bits = self.occupied[word];
            if step == 0 {
                bits &= !0 << (start % 64);
            }
            if step == words {
                bits &= !(!0 << (start % 64));
            }
            if bits != 0 {
                let slot = word * 64 + bits.trailing_zeros() as usize;
                let ahead = (slot + SLOTS - start) % SLOTS;
                return Some(self.now + 1 + ahead as u64);
            }
        }
        None
    }

    /// Goes on to cycle `to` and appends its events to `out`. No event may lie before it.
    #[inline]
    pub fn advance(&mut self, to: Cycle, out: &mut Vec<E>) {
        debug_assert!(to > self.now && self.next().is_none_or(|next| next >= to));
        self.now = to;
        while self.far.next() == Some(to) {
            out.extend(self.far.pop());
        }
        let slot = to as usize % SLOTS;
        if self.occupied[slot / 64] >> (slot % 64) & 1 != 0 {
            self.occupied[slot / 64] &= !(1 << (slot % 64));
            out.append(&mut self.slots[slot]);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn events_come_in_order(delays in prop::collection::vec(1u64..5000, 1..200)) {
            let mut wheel = Wheel::default();
            let mut expected = Vec::new();
            let (mut pending, mut seen, mut out) = (delays.into_iter(), Vec::new(), Vec::new());
            // Half at the start, the others as time goes by.
            for delay in pending.by_ref().take(100) {
                wheel.at(delay, delay);
                expected.push(delay);
            }
            while let Some(next) = wheel.next() {
                wheel.advance(next, &mut out);
                for at in out.drain(..) {
                    prop_assert_eq!(at, next);
                    seen.push(at);
                    if let Some(delay) = pending.next() {
                        wheel.at(next + delay, next + delay);
                        expected.push(next + delay);
                    }
                }
            }
            expected.sort_unstable();
            prop_assert_eq!(seen, expected);
        }
    }
}
