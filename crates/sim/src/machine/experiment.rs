//! Uses of nodes with an extended on-chip interconnect, as a machine file describes them: a network
//! interface card, a key-value cache, queue pairs, and the choice which of these is measured.

use serde::{Deserialize, Serialize};

/// A network interface card, its driver and the network stack over it, and the other end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NicSpec {
    /// Rate of the network, in Gbit/s.
    pub gbps: f64,
    /// Largest IP packet, its headers included.
    pub mtu: u32,
    /// Ethernet: preamble, header, check and gap of a frame.
    pub frame_bytes: u32,
    /// TCP and IP headers of a packet.
    pub header_bytes: u32,
    /// Bytes that the card reads or writes at once.
    pub burst_bytes: u32,
    /// Bursts that it has under way.
    pub bursts: u32,
    /// Size of a descriptor in a ring.
    pub descriptor_bytes: u32,
    /// Frames that the card holds, to be sent.
    pub buffer_frames: u32,
    /// Descriptors of a ring.
    pub ring: u32,
    /// Frames after which the card interrupts,
    pub coalesce_frames: u32,
    /// or time after the last one.
    pub coalesce_ns: f64,
    /// MAC and PHY, each way.
    pub mac_ns: f64,
    /// Switch between the card and the other end, beside a frame's own time.
    pub switch_ns: f64,
    /// The other end: from a message to its answer.
    pub peer_ns: f64,
    /// Data packets for which the receiver acknowledges once.
    pub packets_per_ack: u32,
    /// Window of a connection.
    pub window_bytes: u32,
    /// Stack and driver: a packet to be sent.
    pub send_ns: f64,
    /// Stack and driver: a packet that has come.
    pub receive_ns: f64,
    /// Stack and driver: an acknowledgement, sent or received.
    pub ack_ns: f64,
    /// Driver: a packet that has been sent is taken from the ring.
    pub reclaim_ns: f64,
}

/// A key-value cache in front of a database.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KvSpec {
    /// Local memory for values.
    pub local_bytes: u64,
    /// Borrowed memory for values.
    pub remote_bytes: u64,
    /// Size of every value.
    pub value_bytes: u32,
    /// Bytes that are kept of an item beside its value.
    pub item_bytes: u32,
    /// Items that are asked for, all with the same probability.
    pub keys: u64,
    /// Time of the database for an item, in microseconds.
    pub database_us: f64,
    /// Connections that ask, each for one item at a time.
    pub connections: u32,
    /// Server: from a request to its answer, without memory and network.
    pub command_ns: f64,
    /// Server: evicting an item.
    pub evict_ns: f64,
    /// Reads of memory that depend on each other before a value is found.
    pub dependent_reads: u32,
    /// Frames after which the card of the cache's node interrupts; for others it is
    /// `nic.coalesce_frames`.
    pub coalesce_frames: u32,
    /// Requests before the additional memory is there.
    pub warm_up: u64,
    /// Requests that are measured.
    pub requests: u64,
    /// Intervals that the measured requests are divided into.
    pub intervals: u32,
}

/// The queue pair channel, and the library over it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QpairSpec {
    /// Connections of a node.
    pub connections: u32,
    /// Descriptors of a queue.
    pub queue_entries: u32,
    /// A descriptor, or a completion.
    pub descriptor_bytes: u32,
    /// Data of a packet.
    pub packet_bytes: u32,
    /// Bytes that the channel reads or writes at once.
    pub burst_bytes: u32,
    /// Bursts that it has under way.
    pub bursts: u32,
    /// Place of the buffers.
    pub buffers: Buffers,
    /// Translator of the addresses of buffers.
    pub translation: Translation,
    /// Pages that are translated.
    pub page_bytes: u32,
    /// Translation by the channel.
    pub mmu_cycles: u32,
    /// Translation of a page by a system call, beside the call.
    pub translate_ns: f64,
    /// Bytes of on-chip memory.
    pub ocm_bytes: u64,
    /// Its part that holds descriptors and tables.
    pub ocm_reserved_bytes: u64,
    /// An access to on-chip memory by the channel.
    pub ocm_ns: f64,
    /// An access to the second-level cache by the channel.
    pub l2_ns: f64,
    /// Largest message whose buffers stay in the second-level cache.
    pub l2_message_bytes: u64,
    /// The library: from the socket call to the descriptor, and from a completion back.
    pub library_ns: f64,
    /// A read of a completion by a core that polls for it.
    pub poll_ns: f64,
    /// A read of a line of uncached memory by a core.
    pub uncached_ns: f64,
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
    /// A key-value cache.
    KeyValue,
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

/// The measurement, and its length.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExperimentSpec {
    /// The experiment that runs: it decides which of the other sections count.
    pub kind: ExperimentKind,
    /// Place of the memory or the card.
    pub place: Place,
    /// Bytes of a message, or of a call of the program that sends or receives.
    pub message_bytes: u32,
    /// Memory that is read at random.
    pub footprint_bytes: u64,
    /// Reads or messages before those that are measured.
    pub warm_up: u64,
    /// Reads or messages that are measured.
    pub count: u64,
}

impl Default for NicSpec {
    fn default() -> Self {
        Self {
            gbps: 1.0,
            mtu: 1500,
            frame_bytes: 38,
            header_bytes: 52,
            burst_bytes: 64,
            bursts: 4,
            descriptor_bytes: 64,
            buffer_frames: 2,
            ring: 64,
            coalesce_frames: 24,
            coalesce_ns: 20_000.0,
            mac_ns: 500.0,
            switch_ns: 3_000.0,
            peer_ns: 10_000.0,
            packets_per_ack: 2,
            window_bytes: 64 << 10,
            send_ns: 6_000.0,
            receive_ns: 6_000.0,
            ack_ns: 2_000.0,
            reclaim_ns: 500.0,
        }
    }
}

impl Default for KvSpec {
    fn default() -> Self {
        Self {
            local_bytes: 1 << 30,
            remote_bytes: 512 << 20,
            value_bytes: 512,
            item_bytes: 128,
            keys: 2 << 20,
            database_us: 100.0,
            connections: 1,
            command_ns: 20_000.0,
            evict_ns: 10_000.0,
            dependent_reads: 4,
            coalesce_frames: 1,
            warm_up: 0,
            requests: 200_000,
            intervals: 20,
        }
    }
}

impl Default for QpairSpec {
    fn default() -> Self {
        Self {
            connections: 16,
            queue_entries: 64,
            descriptor_bytes: 32,
            packet_bytes: 1024,
            burst_bytes: 128,
            bursts: 4,
            buffers: Buffers::Ocm,
            translation: Translation::Channel,
            page_bytes: 4 << 10,
            mmu_cycles: 4,
            translate_ns: 1_000.0,
            ocm_bytes: 256 << 10,
            ocm_reserved_bytes: 128 << 10,
            ocm_ns: 60.0,
            l2_ns: 60.0,
            l2_message_bytes: 16 << 10,
            library_ns: 2_000.0,
            poll_ns: 100.0,
            uncached_ns: 150.0,
        }
    }
}

impl Default for ExperimentSpec {
    fn default() -> Self {
        Self {
            kind: ExperimentKind::Reads,
            place: Place::Remote,
            message_bytes: 64,
            footprint_bytes: 256 << 20,
            warm_up: 100,
            count: 2_000,
        }
    }
}
