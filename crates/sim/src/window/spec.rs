//! The parts of a machine file that describe borrowed memory and prefetching.

use serde::{Deserialize, Serialize};

use crate::section::section;

/// The treatment of stores to borrowed memory in caches (TSM §2.1.2, §3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WritePolicy {
    /// As stores to local memory.
    WriteBack,
    /// They go through to the lender; a copy in the last-level cache takes part ("option 0").
    WriteThroughUpdate,
    /// They go through to the lender, and copies are dropped ("option 1").
    WriteThroughInvalidate,
}

section! {
    /// A window of physical addresses whose lines are another node's memory (TSM §2.1), with
    /// `ni.placement = "window"`. It follows local memory; node `n` borrows of node `n + 1`.
    #[derive(Copy)]
    pub struct WindowSpec {
        /// Memory that each node lends: the end of its own, which its operating system does not see.
        lent_bytes: u64 = 64 << 20,
        /// Whether memory that programs ask for, besides their text, data and first stack, is borrowed.
        heap: bool = false,
        /// Memory that the operating system borrows at a time when a program asks for more than there is; 0 = none.
        plug_bytes: u64 = 0,
        /// Treatment of stores to borrowed memory in caches.
        policy: WritePolicy = WritePolicy::WriteBack,
        /// Entries of the outstanding request queue: reads of lines at the same time.
        outstanding: u32 = 16,
        /// Buffers of a core that combine stores which go through.
        combining_buffers: u32 = 10,
        /// Whether such a buffer is free when its store has left the node, as PCIe posts writes; else when
        /// the lender has answered.
        posted: bool = true,
        /// Root complex, or another part between the last-level cache and the link, each way.
        root_ns: f64 = 0.0,
        /// Transfers per lane: 10^9 a second; 0 = the link takes no time.
        link_gtps: f64 = 0.0,
        /// Lanes in parallel, each with `link_gtps`.
        link_lanes: u32 = 1,
        /// Bits of data per ten transfers: 8b/10b has eight.
        link_bits_per_ten: u32 = 8,
        /// Bytes of a request besides data: framing, sequence number, header, check sum.
        request_overhead_bytes: u32 = 24,
        /// The same for a completion.
        completion_overhead_bytes: u32 = 20,
        /// Bytes that the data-link layer sends back for each TLP.
        ack_bytes: u32 = 0,
        /// Data of a write TLP at most.
        max_payload_bytes: u32 = 128,
        /// Data that a read TLP of the DMA engine asks for at most.
        max_read_bytes: u32 = 512,
        /// Behind a module: whether accesses of other nodes pass this node's caches; else they go to its memory
        /// controller, beside the module.
        coherent: bool = true,
        /// Behind a module: an access to a device's register, at the device.
        register_ns: f64 = 20.0,
        /// Accesses of other nodes and of the DMA engine to this node's memory at the same time.
        accesses: u32 = 32,
        /// Descriptors of the DMA engine's ring; 0 = there is no engine.
        dma_descriptors: u32 = 0,
        /// Time of the engine for a descriptor before it asks for data.
        dma_setup_ns: f64 = 0.0,
    }
}

impl WindowSpec {
    /// Bytes that a link takes a nanosecond; `None` if it takes no time.
    pub fn link_bytes_per_ns(&self) -> Option<f64> {
        let bits = self.link_gtps * f64::from(self.link_lanes * self.link_bits_per_ten) / 10.0;
        (bits > 0.0).then_some(bits / 8.0)
    }

    /// Whether stores go through to the lender.
    pub fn is_through(&self) -> bool {
        self.policy != WritePolicy::WriteBack
    }
}

section! {
    /// A stride prefetcher at the last-level cache (TSM §3.1).
    #[derive(Copy, Eq)]
    pub struct PrefetchSpec {
        /// Streams that it tells apart; 0 = there is no prefetcher.
        streams: u32,
        /// Lines that it fetches ahead of an access to local memory.
        local_degree: u32,
        /// The same for borrowed memory.
        remote_degree: u32,
    }
}
