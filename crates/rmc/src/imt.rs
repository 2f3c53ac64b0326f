//! Interrupts for other nodes: the interrupt mapping table (IMT), and the order in which changes are
//! sent (DEOI §III).
//!
//! A device's line has a level, and each change of it is a packet: assert, or deassert. A pulse that
//! comes and goes before its packet could be sent is sent as both, once: a shorter one would be lost, and
//! a second one could not be distinguished from the first, as with any interrupt controller.

/// Interrupt lines of a module (DEOI §III: up to 16).
pub const LINES: usize = 16;

/// A change of a line, for the node that the table names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Change {
    /// Number of the line, below [`LINES`].
    pub line: u8,
    /// Whether it is asserted now.
    pub asserted: bool,
    /// Number of the node that handles the interrupt.
    pub destination: u16,
}

/// Lines that change, and the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Imt {
    destination: [Option<u16>; LINES],
    /// The level of each line: as the device drives it, and as the other node knows it.
    level: u16,
    known: u16,
    /// Lines that went back to the known level before their change could be sent.
    pulsed: u16,
    /// The line that is served first.
    next: u8,
}

impl Default for Imt {
    fn default() -> Self {
        Self { destination: [None; LINES], level: 0, known: 0, pulsed: 0, next: 0 }
    }
}

impl Imt {
    /// Sets the node that gets the interrupts of a line; `None` for no node.
    ///
    /// # Panics
    /// If there is no such line.
    pub fn map(&mut self, line: u8, destination: Option<u16>) {
        assert!(usize::from(line) < LINES, "a module has 16 interrupt lines");
        self.destination[usize::from(line)] = destination;
    }

    /// A device drives its line. Returns whether a change waits to be sent, of this line or another.
    ///
    /// # Panics
    /// If there is no such line.
    #[inline]
    pub fn drive(&mut self, line: u8, asserted: bool) -> bool {
        assert!(usize::from(line) < LINES, "a module has 16 interrupt lines");
        let bit = 1 << line;
        let was = self.level & bit != 0;
        if was != asserted {
            self.level ^= bit;
            // Back at the known level: the pulse in between is still to be sent.
            if (self.known & bit != 0) == asserted {
                self.pulsed |= bit;
            }
        }
        self.has_changes()
    }

    /// Whether a change waits to be sent.
    #[inline]
    pub fn has_changes(&self) -> bool {
        self.changed() != 0
    }

    /// The change that is sent next: lines take turns.
    #[inline]
    pub fn take(&mut self) -> Option<Change> {
        let changed = self.changed();
        if changed == 0 {
            return None;
        }
        let turn = changed.rotate_right(self.next.into()).trailing_zeros() as u8;
        let line = (self.next + turn) % LINES as u8;
        let bit = 1u16 << line;
        self.pulsed &= !bit;
        self.known ^= bit;
        self.next = (line + 1) % LINES as u8;
        let destination = self.destination[usize::from(line)]?;
        Some(Change { line, asserted: self.known & bit != 0, destination })
    }

    /// Mapped lines with a change to send.
    fn changed(&self) -> u16 {
        let mapped = (0..LINES).filter(|&line| self.destination[line].is_some());
        let mapped = mapped.fold(0u16, |bits, line| bits | 1 << line);
        ((self.level ^ self.known) | self.pulsed) & mapped
    }
}
