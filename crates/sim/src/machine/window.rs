//! The parts of a machine file that describe borrowed memory and prefetching.

use serde::{Deserialize, Serialize};

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

/// A window of physical addresses whose lines are another node's memory (TSM §2.1), with
/// `ni.placement = "window"`. It follows local memory; node `n` borrows of node `n + 1`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WindowSpec {
    /// Memory that each node lends: the end of its own, which its operating system does not see.
    pub lent_bytes: u64,
    /// Whether memory that programs ask for, besides their text, data and first stack, is borrowed.
    pub heap: bool,
    /// Treatment of stores to borrowed memory in caches.
    pub policy: WritePolicy,
    /// Entries of the outstanding request queue: reads of lines at the same time.
    pub outstanding: u32,
    /// Buffers of a core that combine stores which go through.
    pub combining_buffers: u32,
    /// Whether such a buffer is free when its store has left the node, as PCIe posts writes; else when
    /// the lender has answered.
    pub posted: bool,
    /// Root complex, or another part between the last-level cache and the link, each way.
    pub root_ns: f64,
    /// Transfers per lane: 10^9 a second; 0 = the link takes no time.
    pub link_gtps: f64,
    /// Lanes in parallel, each with `link_gtps`.
    pub link_lanes: u32,
    /// Bits of data per ten transfers: 8b/10b has eight.
    pub link_bits_per_ten: u32,
    /// Bytes of a request besides data: framing, sequence number, header, check sum.
    pub request_overhead_bytes: u32,
    /// The same for a completion.
    pub completion_overhead_bytes: u32,
    /// Bytes that the data-link layer sends back for each TLP.
    pub ack_bytes: u32,
    /// Data of a write TLP at most.
    pub max_payload_bytes: u32,
    /// Data that a read TLP of the DMA engine asks for at most.
    pub max_read_bytes: u32,
    /// Accesses of other nodes and of the DMA engine to this node's memory at the same time.
    pub accesses: u32,
    /// Descriptors of the DMA engine's ring; 0 = there is no engine.
    pub dma_descriptors: u32,
    /// Time of the engine for a descriptor before it asks for data.
    pub dma_setup_ns: f64,
}

impl Default for WindowSpec {
    fn default() -> Self {
        Self {
            lent_bytes: 64 << 20,
            heap: false,
            policy: WritePolicy::WriteBack,
            outstanding: 16,
            combining_buffers: 10,
            posted: true,
            root_ns: 0.0,
            link_gtps: 0.0,
            link_lanes: 1,
            link_bits_per_ten: 8,
            request_overhead_bytes: 24,
            completion_overhead_bytes: 20,
            ack_bytes: 0,
            max_payload_bytes: 128,
            max_read_bytes: 512,
            accesses: 32,
            dma_descriptors: 0,
            dma_setup_ns: 0.0,
        }
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

/// A stride prefetcher at the last-level cache (TSM §3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PrefetchSpec {
    /// Streams that it tells apart; 0 = there is no prefetcher.
    pub streams: u32,
    /// Lines that it fetches ahead of an access to local memory.
    pub local_degree: u32,
    /// The same for borrowed memory.
    pub remote_degree: u32,
}
