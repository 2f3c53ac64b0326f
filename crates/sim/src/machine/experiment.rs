//! Uses of nodes with an extended on-chip interconnect, as a machine file describes them: a network
//! interface card, queue pairs, and the choice which of these is measured.

use serde::{Deserialize, Serialize};

use crate::section::section;

section! {
    /// A network interface card, its driver and the network stack over it, and the other end.
    pub struct NicSpec {
        /// Rate of the network, in Gbit/s.
        gbps: f64 = 1.0,
        /// Largest IP packet, its headers included.
        mtu: u32 = 1500,
        /// Ethernet: preamble, header, check and gap of a frame.
        frame_bytes: u32 = 38,
        /// TCP and IP headers of a packet.
        header_bytes: u32 = 52,
        /// Bytes that the card reads or writes at once.
        burst_bytes: u32 = 64,
        /// Bursts that it has under way.
        bursts: u32 = 4,
        /// Size of a descriptor in a ring.
        descriptor_bytes: u32 = 64,
        /// Frames that the card holds, to be sent.
        buffer_frames: u32 = 2,
        /// Descriptors of a ring.
        ring: u32 = 64,
        /// Frames after which the card interrupts,
        coalesce_frames: u32 = 24,
        /// or time after the last one.
        coalesce_ns: f64 = 20_000.0,
        /// MAC and PHY, each way.
        mac_ns: f64 = 500.0,
        /// Switch between the card and the other end, beside a frame's own time.
        switch_ns: f64 = 3_000.0,
        /// The other end: from a message to its answer.
        peer_ns: f64 = 10_000.0,
        /// Data packets for which the receiver acknowledges once.
        packets_per_ack: u32 = 2,
        /// Window of a connection.
        window_bytes: u32 = 64 << 10,
        /// Stack and driver: a packet to be sent.
        send_ns: f64 = 6_000.0,
        /// Stack and driver: a packet that has come.
        receive_ns: f64 = 6_000.0,
        /// Stack and driver: an acknowledgement, sent or received.
        ack_ns: f64 = 2_000.0,
        /// Driver: a packet that has been sent is taken from the ring.
        reclaim_ns: f64 = 500.0,
    }
}

section! {
    /// The queue pair channel, and the library over it.
    pub struct QpairSpec {
        /// Connections of a node.
        connections: u32 = 16,
        /// Descriptors of a queue.
        queue_entries: u32 = 64,
        /// A descriptor, or a completion.
        descriptor_bytes: u32 = 32,
        /// Data of a packet.
        packet_bytes: u32 = 1024,
        /// Bytes that the channel reads or writes at once.
        burst_bytes: u32 = 128,
        /// Bursts that it has under way.
        bursts: u32 = 4,
        /// Place of the buffers.
        buffers: Buffers = Buffers::Ocm,
        /// Translator of the addresses of buffers.
        translation: Translation = Translation::Channel,
        /// Pages that are translated.
        page_bytes: u32 = 4 << 10,
        /// Translation by the channel.
        mmu_cycles: u32 = 4,
        /// Translation of a page by a system call, beside the call.
        translate_ns: f64 = 1_000.0,
        /// Bytes of on-chip memory.
        ocm_bytes: u64 = 256 << 10,
        /// Its part that holds descriptors and tables.
        ocm_reserved_bytes: u64 = 128 << 10,
        /// An access to on-chip memory by the channel.
        ocm_ns: f64 = 60.0,
        /// An access to the second-level cache by the channel.
        l2_ns: f64 = 60.0,
        /// Largest message whose buffers stay in the second-level cache.
        l2_message_bytes: u64 = 16 << 10,
        /// The library: from the socket call to the descriptor, and from a completion back.
        library_ns: f64 = 2_000.0,
        /// A read of a completion by a core that polls for it.
        poll_ns: f64 = 100.0,
        /// A read of a line of uncached memory by a core.
        uncached_ns: f64 = 150.0,
    }
}

/// The place of the queue pair channel's buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Buffers {
    /// In memory that caches do not keep.
    Uncached,
    /// In memory that caches keep, coherent with the channel.
    Cached,
    /// In on-chip memory.
    Ocm,
}

/// The translator of buffer addresses for the queue pair channel (TSM §2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Translation {
    /// A system call for each message.
    Call,
    /// Nobody: the library copies through a buffer that was translated beforehand.
    Copy,
    /// The channel itself.
    Channel,
}

/// The experiment: the operations that are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExperimentKind {
    /// Random reads of lines.
    Reads,
    /// Bandwidth of a network interface card, to the other end.
    NicSend,
    /// Bandwidth of a network interface card, from the other end.
    NicReceive,
    /// Messages to and fro through a network interface card.
    NicPingPong,
    /// Blocks of borrowed memory that a channel copies.
    Rdma,
    /// Messages from node to node by the queue pair channel, to and fro.
    QpairPingPong,
    /// The same in one direction, as many as go.
    QpairStream,
}

/// The place of the memory or the card that an experiment uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// In the node that uses it.
    Local,
    /// In another node, reached over the link.
    Remote,
}

section! {
    /// The measurement, and its length.
    pub struct ExperimentSpec {
        /// The experiment that runs: it decides which of the other sections count.
        kind: ExperimentKind = ExperimentKind::Reads,
        /// Place of the memory or the card.
        place: Place = Place::Remote,
        /// Bytes of a message, or of a call of the program that sends or receives.
        message_bytes: u32 = 64,
        /// Memory that is read at random.
        footprint_bytes: u64 = 256 << 20,
        /// Reads or messages before those that are measured.
        warm_up: u64 = 100,
        /// Reads or messages that are measured.
        count: u64 = 2_000,
    }
}
