//! Interrupts of a lent device (DEOI §III-D): up to 16, as messages that go before everything else.
//!
//! Messages carry changes of level: asserted, deasserted. A source keeps a level and whether it has
//! changed for each interrupt, so nothing queues up: an interrupt that changes often while the way is
//! blocked is sent as one pulse, and its level at the end is right. The interrupt mapping table ([`Imt`])
//! says which node each one goes to.

/// Interrupts of a device.
pub const MAX_INTERRUPTS: usize = 16;

/// The link of the NIC: asserted while its cable is in.
pub const LINK: u8 = 0;
/// Errors: a pulse when the NIC counted new ones.
pub const ERROR: u8 = 1;
/// Reception: asserted while packets wait at the lender since the way to the borrower is full.
pub const RECEPTION: u8 = 2;
/// Settings: a pulse when address or MTU of the NIC were changed at the lender.
pub const SETTINGS: u8 = 3;

/// A change of level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Interrupt {
    /// Number of the interrupt, below [`MAX_INTERRUPTS`].
    pub id: u8,
    /// Its level from now on.
    pub asserted: bool,
}

/// Interrupt mapping table: the node of each interrupt, or none if it is masked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Imt([Option<u16>; MAX_INTERRUPTS]);

impl Imt {
    /// All interrupts go to one node.
    pub const fn all_to(node: u16) -> Imt {
        Imt([Some(node); MAX_INTERRUPTS])
    }

    /// The node that an interrupt goes to; `None`: it is masked.
    ///
    /// # Panics
    /// There is no such interrupt.
    pub const fn destination(&self, id: u8) -> Option<u16> {
        self.0[id as usize]
    }

    /// Sends an interrupt to another node from now on, or masks it.
    ///
    /// # Panics
    /// There is no such interrupt.
    pub const fn set(&mut self, id: u8, node: Option<u16>) {
        self.0[id as usize] = node;
    }
}

/// The interrupts of one source: levels, and changes that were not sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Interrupts {
    level: u16,
    /// The level that the destination knows.
    known: u16,
    /// It has changed since something was sent.
    changed: u16,
    /// The one that was sent last: the next goes first, so that none starves.
    last: u8,
}

impl Interrupts {
    /// All are deasserted, and everyone knows.
    pub const fn new() -> Interrupts {
        Interrupts { level: 0, known: 0, changed: 0, last: 0 }
    }

    /// Sets the level of an interrupt.
    ///
    /// # Panics
    /// There is no such interrupt.
    pub const fn set(&mut self, id: u8, asserted: bool) {
        assert!((id as usize) < MAX_INTERRUPTS, "a device has up to 16 interrupts");
        let bit = 1 << id;
        if (self.level & bit != 0) == asserted {
            return;
        }
        self.level ^= bit;
        self.changed |= bit;
    }

    /// Asserts and deasserts an interrupt: both will be sent.
    ///
    /// # Panics
    /// There is no such interrupt.
    pub const fn pulse(&mut self, id: u8) {
        self.set(id, true);
        self.set(id, false);
    }

    /// The level of an interrupt here.
    pub const fn is_asserted(&self, id: u8) -> bool {
        self.level & 1 << id != 0
    }

    /// Whether something has to be sent.
    pub const fn is_pending(&self) -> bool {
        self.changed != 0
    }

    /// The next interrupt to send, and its node by `imt`. Masked interrupts are dropped.
    pub fn take(&mut self, imt: &Imt) -> Option<(u16, Interrupt)> {
        while self.changed != 0 {
            let (id, bit) = self.next();
            self.last = id;
            let interrupt = self.step(id, bit);
            if let Some(node) = imt.destination(id) {
                return Some((node, interrupt));
            }
        }
        None
    }

    /// The interrupt that has changed and comes first after the last one.
    const fn next(&self) -> (u8, u16) {
        let mut id = self.last;
        loop {
            id = (id + 1) % MAX_INTERRUPTS as u8;
            let bit = 1 << id;
            if self.changed & bit != 0 {
                return (id, bit);
            }
        }
    }

    /// The next change of an interrupt that has changed.
    const fn step(&mut self, id: u8, bit: u16) -> Interrupt {
        // Back at the level that is known: it was away in between, which has to be seen.
        let is_pulse = (self.level ^ self.known) & bit == 0;
        self.known ^= bit;
        if !is_pulse {
            self.changed &= !bit;
        }
        Interrupt { id, asserted: self.known & bit != 0 }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const IMT: Imt = Imt::all_to(5);

    fn drained(source: &mut Interrupts) -> Vec<(u8, bool)> {
        std::iter::from_fn(|| source.take(&IMT)).map(|(_, i)| (i.id, i.asserted)).collect()
    }

    #[test]
    fn changes_are_sent_and_levels_are_not() {
        let mut source = Interrupts::new();
        source.set(LINK, true);
        source.set(LINK, true);
        assert_eq!(drained(&mut source), [(LINK, true)]);
        source.set(LINK, true);
        assert_eq!(drained(&mut source), []);
        source.set(LINK, false);
        assert_eq!(drained(&mut source), [(LINK, false)]);
    }

    #[test]
    fn pulses_are_seen_however_many() {
        let mut source = Interrupts::new();
        source.pulse(ERROR);
        source.pulse(ERROR);
        assert_eq!(drained(&mut source), [(ERROR, true), (ERROR, false)]);
        source.pulse(ERROR);
        assert_eq!(source.take(&IMT).unwrap().1, Interrupt { id: ERROR, asserted: true });
        source.pulse(ERROR);
        assert_eq!(drained(&mut source), [(ERROR, false)], "the second pulse joins the first");
    }

    #[test]
    fn the_imt_says_where_to_and_masks() {
        let mut imt = Imt::all_to(1);
        imt.set(3, Some(9));
        imt.set(4, None);
        let mut source = Interrupts::new();
        for id in [2, 3, 4] {
            source.set(id, true);
        }
        let mut sent: Vec<_> = std::iter::from_fn(|| source.take(&imt)).collect();
        sent.sort_by_key(|(_, interrupt)| interrupt.id);
        let asserted = |id| Interrupt { id, asserted: true };
        assert_eq!(sent, [(1, asserted(2)), (9, asserted(3))]);
        assert!(!source.is_pending());
    }

    #[test]
    fn none_starves() {
        let mut source = Interrupts::new();
        let mut seen = [0; MAX_INTERRUPTS];
        for round in 0..MAX_INTERRUPTS * 8 {
            for id in 0..MAX_INTERRUPTS as u8 {
                source.set(id, round % 2 == 0);
            }
            seen[usize::from(source.take(&IMT).unwrap().1.id)] += 1;
        }
        assert!(seen.iter().all(|&count| count >= 4), "{seen:?}");
    }

    proptest! {
        /// Under every order of changes and reads the destination's last value is the level, levels alternate, and no
        /// change goes unseen.
        #[test]
        fn the_destination_ends_with_the_right_levels(
            steps in proptest::collection::vec((0..MAX_INTERRUPTS as u8, any::<bool>(), 0..3), 0..200),
        ) {
            let mut source = Interrupts::new();
            let mut seen = [false; MAX_INTERRUPTS];
            let mut moved = [false; MAX_INTERRUPTS];
            let mut took = |interrupt: Interrupt, moved: &mut [bool]| {
                let at = usize::from(interrupt.id);
                assert_ne!(seen[at], interrupt.asserted, "levels alternate");
                seen[at] = interrupt.asserted;
                moved[at] = false;
                seen
            };
            for (id, asserted, takes) in steps {
                moved[usize::from(id)] |= source.is_asserted(id) != asserted;
                source.set(id, asserted);
                for _ in 0..takes {
                    if let Some((_, interrupt)) = source.take(&IMT) {
                        took(interrupt, &mut moved);
                    }
                }
            }
            while let Some((_, interrupt)) = source.take(&IMT) {
                took(interrupt, &mut moved);
            }
            for id in 0..MAX_INTERRUPTS {
                prop_assert_eq!(seen[id], source.is_asserted(id as u8));
                prop_assert!(!moved[id], "a change of {} was never seen", id);
            }
        }
    }
}
