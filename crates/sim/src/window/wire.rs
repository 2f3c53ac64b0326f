//! One direction of a link: bytes leave one after the other.

use crate::engine::Cycle;

/// Parts of a cycle.
const PARTS: u64 = 1024;

/// One direction of a link.
#[derive(Clone, Debug)]
pub struct Wire {
    /// Time of a byte, in parts of a cycle; 0 = none.
    byte_time: u64,
    free_at: u64,
    busy: u64,
}

impl Wire {
    /// A link of so many bytes a cycle; `None`: without limit.
    pub fn new(bytes_per_cycle: Option<f64>) -> Wire {
        let byte_time = bytes_per_cycle.map_or(0, |bytes| (PARTS as f64 / bytes).round() as u64);
        Wire { byte_time, free_at: 0, busy: 0 }
    }

    /// Sends so many bytes, not before a cycle; in which cycle the last of them has left.
    pub fn send(&mut self, not_before: Cycle, bytes: u32) -> Cycle {
        let start = self.free_at.max(not_before * PARTS);
        let time = u64::from(bytes) * self.byte_time;
        self.free_at = start + time;
        self.busy += time;
        self.free_at.div_ceil(PARTS)
    }

    /// Passes on so many bytes, behind those before; the cycle in which the last is there. If the link were free, that
    /// would be cycle `free`.
    pub fn pass(&mut self, free: Cycle, bytes: u32) -> Cycle {
        let time = u64::from(bytes) * self.byte_time;
        let start = self.free_at.max((free * PARTS).saturating_sub(time));
        self.free_at = start + time;
        self.busy += time;
        self.free_at.div_ceil(PARTS)
    }

    /// Cycles that so many bytes take.
    pub fn cycles(&self, bytes: u32) -> u64 {
        (u64::from(bytes) * self.byte_time).div_ceil(PARTS)
    }

    /// Cycle in which it is free again.
    pub const fn free_at(&self) -> Cycle {
        self.free_at.div_ceil(PARTS)
    }

    /// Cycles during which it has been busy.
    pub const fn busy_cycles(&self) -> u64 {
        self.busy / PARTS
    }
}
