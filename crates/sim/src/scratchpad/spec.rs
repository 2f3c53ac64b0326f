//! The part of a machine file that describes cache-integrated network interfaces.

use crate::section::section;

section! {
    /// Cache-integrated network interfaces (CINI), with `ni.placement = "cache-integrated"`.
    #[derive(Copy)]
    pub struct ScratchpadSpec {
        /// Commands and notifications in an interface's job list; a store that would start another one
        /// waits.
        job_entries: u32 = 16,
        /// Reads of others that an interface answers at a time; more wait in the network.
        read_entries: u32 = 16,
        /// Acknowledgements that wait for the network; arrivals that would cause more wait there.
        ack_entries: u32 = 8,
        /// Packets of remote stores that wait for the network; further stores wait in the core.
        store_entries: u32 = 4,
        /// From the cache's pipeline to the network: job list, arguments, packet.
        send_cycles: u32 = 2,
        /// Bytes of an access to the cache's data array, of which core, arriving and leaving packets share one in each
        /// cycle (CINI §3: "1 access per cycle").
        bytes_per_cycle: u32 = 8,
        /// Time that remote stores wait for others to the same line, counted from the latest one, if nothing
        /// else leaves; 0 = they are joined only while something else does.
        combine_cycles: u32 = 0,
        /// A full single-reader queue refuses an item with a negative acknowledgement (CINI §2), if the item asks for
        /// acknowledgements; else the program ends.
        nacks: bool = false,
        /// Memory that caches do not keep, which DMA reaches.
        dram_bytes: u64 = 64 << 20,
        /// Locks of the lock box; 0 = there is none.
        locks: u16 = 16,
        /// An access to the lock box over its bus.
        lock_cycles: u32 = 16,
        /// Time for which such an access keeps others off the bus.
        lock_bus_cycles: u32 = 4,
    }
}
