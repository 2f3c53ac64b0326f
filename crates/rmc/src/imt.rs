//! Interrupts for other nodes: the interrupt mapping table (IMT), and the order in which changes are
//! sent (DEOI §III).
//!
//! A device's line has a level, and each change of it is a packet: assert, or deassert. A line keeps its
//! level and whether it has changed, so nothing queues up: a pulse that comes and goes before its packet
//! could be sent is sent as both, once. A shorter one would be lost, and a second one could not be
//! distinguished from the first, as with any interrupt controller. A line that is mapped to no node waits:
//! its change is sent when it is mapped.

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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Imt {
    destination: [u16; LINES],
    /// Lines that have a destination.
    mapped: u16,
    /// The level of each line: as the device drives it, and as the other node knows it.
    level: u16,
    known: u16,
    /// Lines that have changed since the other node was told.
    changed: u16,
    /// The line that is served first.
    next: u8,
}

impl Imt {
    /// A table that sends all lines to one node.
    pub const fn all_to(node: u16) -> Imt {
        let destination = [node; LINES];
        Imt { destination, mapped: u16::MAX, level: 0, known: 0, changed: 0, next: 0 }
    }

    /// Sets the node that gets the interrupts of a line; `None` for no node.
    ///
    /// # Panics
    /// If there is no such line.
    pub fn map(&mut self, line: u8, destination: Option<u16>) {
        let bit = bit(line);
        self.mapped = self.mapped & !bit | if destination.is_some() { bit } else { 0 };
        self.destination[usize::from(line)] = destination.unwrap_or(0);
    }

    /// The node that gets the interrupts of a line.
    ///
    /// # Panics
    /// If there is no such line.
    pub fn destination(&self, line: u8) -> Option<u16> {
        (self.mapped & bit(line) != 0).then(|| self.destination[usize::from(line)])
    }

    /// A device drives its line. Returns whether a change waits to be sent, of this line or another.
    ///
    /// # Panics
    /// If there is no such line.
    #[inline]
    pub fn drive(&mut self, line: u8, asserted: bool) -> bool {
        if self.is_asserted(line) != asserted {
            self.level ^= bit(line);
            self.changed |= bit(line);
        }
        self.has_changes()
    }

    /// A device drives its line to and fro. Returns as [`Imt::drive`].
    ///
    /// # Panics
    /// If there is no such line.
    pub fn pulse(&mut self, line: u8) -> bool {
        self.drive(line, true);
        self.drive(line, false)
    }

    /// The level to which a device drives its line.
    ///
    /// # Panics
    /// If there is no such line.
    #[inline]
    pub fn is_asserted(&self, line: u8) -> bool {
        self.level & bit(line) != 0
    }

    /// Whether a change waits to be sent.
    #[inline]
    pub fn has_changes(&self) -> bool {
        self.changed & self.mapped != 0
    }

    /// The change that is sent next: lines take turns.
    #[inline]
    pub fn take(&mut self) -> Option<Change> {
        let waiting = self.changed & self.mapped;
        if waiting == 0 {
            return None;
        }
        let turn = waiting.rotate_right(self.next.into()).trailing_zeros() as u8;
        let line = (self.next + turn) % LINES as u8;
        self.next = (line + 1) % LINES as u8;
        self.known ^= bit(line);
        // Back at its level, the line is served once more: for the other half of a pulse.
        if (self.level ^ self.known) & bit(line) == 0 {
            self.changed &= !bit(line);
        }
        let asserted = self.known & bit(line) != 0;
        Some(Change { line, asserted, destination: self.destination[usize::from(line)] })
    }
}

const fn bit(line: u8) -> u16 {
    assert!((line as usize) < LINES, "a module has 16 interrupt lines");
    1 << line
}
