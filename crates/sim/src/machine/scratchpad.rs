//! The part of a machine file that describes cache-integrated network interfaces.

use serde::{Deserialize, Serialize};

/// Cache-integrated network interfaces (CINI), with `ni.placement = "cache-integrated"`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScratchpadSpec {
    /// Commands and notifications in an interface's job list; a store that would start another one
    /// waits.
    pub job_entries: u32,
    /// Reads of others that an interface answers at a time; more wait in the network.
    pub read_entries: u32,
    /// Acknowledgements that wait for the network; arrivals that would cause more wait there.
    pub ack_entries: u32,
    /// Packets of remote stores that wait for the network; further stores wait in the core.
    pub store_entries: u32,
    /// From the cache's pipeline to the network: job list, arguments, packet.
    pub send_cycles: u32,
    /// Bytes that the outgoing traffic controller reads from the cache's data array in a cycle.
    pub bytes_per_cycle: u32,
    /// Time that remote stores wait for others to the same line, counted from the latest one, if nothing
    /// else leaves; 0 = they are joined only while something else does.
    pub combine_cycles: u32,
    /// Memory that caches do not keep, which DMA reaches.
    pub dram_bytes: u64,
    /// Locks of the lock box; 0 = there is none.
    pub locks: u16,
    /// An access to the lock box over its bus.
    pub lock_cycles: u32,
    /// Time for which such an access keeps others off the bus.
    pub lock_bus_cycles: u32,
}

impl Default for ScratchpadSpec {
    fn default() -> Self {
        Self {
            job_entries: 16,
            read_entries: 16,
            ack_entries: 8,
            store_entries: 4,
            send_cycles: 2,
            bytes_per_cycle: 8,
            combine_cycles: 0,
            dram_bytes: 64 << 20,
            locks: 16,
            lock_cycles: 16,
            lock_bus_cycles: 4,
        }
    }
}
