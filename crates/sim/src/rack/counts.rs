//! Counters of a rack, since its start.

use super::packet::LANES;
use crate::noc::Delivered;

/// Packets of a lane that their pipelines have taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LaneCounts {
    pub packets: u64,
    pub flits: u64,
    /// Links between routers that they have crossed.
    pub hops: u64,
    /// Cycles in the queue to the router.
    pub source_wait_cycles: u64,
    /// Cycles from leaving that queue to the arrival of the tail.
    pub transit_cycles: u64,
    /// Cycles in the queue in front of the pipeline.
    pub arrival_wait_cycles: u64,
}

impl LaneCounts {
    /// A pipeline takes a packet in this cycle.
    #[inline]
    pub fn add(&mut self, now: u64, delivered: &Delivered) {
        self.packets += 1;
        self.flits += u64::from(delivered.packet.flits);
        self.hops += u64::from(delivered.hops);
        self.source_wait_cycles += delivered.injected - delivered.created;
        self.transit_cycles += delivered.arrived - delivered.injected;
        self.arrival_wait_cycles += now - delivered.arrived;
    }

    fn since(&self, before: &LaneCounts) -> LaneCounts {
        LaneCounts {
            packets: self.packets - before.packets,
            flits: self.flits - before.flits,
            hops: self.hops - before.hops,
            source_wait_cycles: self.source_wait_cycles - before.source_wait_cycles,
            transit_cycles: self.transit_cycles - before.transit_cycles,
            arrival_wait_cycles: self.arrival_wait_cycles - before.arrival_wait_cycles,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub requests_completed: u64,
    /// Payload of the lines that RRPPs have taken the requests for.
    pub served_bytes: u64,
    /// Cycles for which requests that RRPPs have taken wait for memory.
    pub memory_wait_cycles: u64,
    pub lanes: [LaneCounts; LANES],
}

impl Counts {
    /// The difference to an earlier reading.
    pub fn since(&self, before: &Counts) -> Counts {
        Counts {
            requests_completed: self.requests_completed - before.requests_completed,
            served_bytes: self.served_bytes - before.served_bytes,
            memory_wait_cycles: self.memory_wait_cycles - before.memory_wait_cycles,
            lanes: std::array::from_fn(|lane| self.lanes[lane].since(&before.lanes[lane])),
        }
    }
}
