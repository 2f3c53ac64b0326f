//! Nodes whose on-chip interconnect is extended to their neighbours, as a machine file describes them:
//! `kind = "soc"`.

use serde::{Deserialize, Serialize};

use crate::section::section;

/// The shape of the links between nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LinkTopology {
    /// Each node has a link to each other one.
    Full,
    /// Each node has a link to the one before and the one behind; switches pass on the rest.
    Chain,
}

impl LinkTopology {
    /// Links of the node that has the most, of so many nodes.
    pub const fn links(self, nodes: u16) -> u16 {
        match self {
            LinkTopology::Chain if nodes > 3 => 2,
            LinkTopology::Full | LinkTopology::Chain => nodes - 1,
        }
    }
}

/// Line code of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LineCode {
    /// Ten bits carry eight.
    #[serde(rename = "8b10b")]
    EightTen,
    /// 66 bits carry 64.
    #[serde(rename = "64b66b")]
    SixtyFour,
}

section! {
    /// The module between the on-chip interconnect and the links, layer by layer.
    pub struct ExtensionSpec {
        /// Number of nodes, 2 to 64.
        nodes: u16 = 4,
        /// Shape of the links between nodes.
        topology: LinkTopology = LinkTopology::Full,
        /// Ports of a node's switch: one is for the node itself, the others are for links.
        switch_ports: u16 = 7,
        /// Clock of the on-chip interconnect and of the module's side towards it.
        oci_mhz: f64 = 200.0,
        /// Bytes that a channel of the on-chip interconnect moves in a cycle.
        oci_bytes: u32 = 4,
        /// Address decoding and arbitration of the on-chip interconnect, each way.
        oci_cycles: u32 = 2,
        /// Transaction layer: the module's register at the on-chip interconnect.
        register_cycles: u32 = 1,
        /// Transaction layer: header of a packet.
        header_bytes: u32 = 4,
        /// Transaction layer: address and length in packets that have them.
        address_bytes: u32 = 8,
        /// Transaction layer: asynchronous FIFO of a channel, in packets.
        fifo_packets: u32 = 16,
        /// From a write into a FIFO to its pointer, in cycles of the side that writes.
        fifo_write_cycles: u32 = 1,
        /// From there to the data, in cycles of the side that reads.
        fifo_read_cycles: u32 = 4,
        /// Requests of other nodes that a module has under way.
        slave_transactions: u32 = 16,
        /// Routing layer: slots of the address mapping table.
        amt_slots: u16 = 16,
        /// Routing layer: slots that are compared in the cycle in which a packet leaves its FIFO; more take
        /// cycles of their own.
        amt_slots_per_cycle: u16 = 16,
        /// Window of locally visible addresses.
        lva_base_bytes: u64 = 2 << 30,
        /// Length of that window.
        lva_bytes: u64 = 2 << 30,
        /// Link layer: bytes of a frame beside its packet.
        frame_overhead_bytes: u32 = 8,
        /// Link layer: protocol engine, sender and receiver together, in cycles of the lane's clock.
        link_cycles: u32 = 37,
        /// Link layer: frames of a virtual channel that are sent and not acknowledged.
        link_window: u32 = 64,
        /// Link layer: frames of a virtual channel that a receiver has room for.
        link_room: u32 = 32,
        /// Link layer: time without an acknowledgement after which frames are sent again.
        link_timeout_ns: f64 = 10_000.0,
        /// Frames that are lost, of a million.
        lost_per_million: u32 = 0,
        /// Frames that arrive damaged, of a million.
        damaged_per_million: u32 = 0,
        /// Rate of a link before coding, all lanes.
        lane_gbps: f64 = 10.0,
        /// Line code: 8/10 or 64/66 of `lane_gbps` carries data.
        line_code: LineCode = LineCode::SixtyFour,
        /// Bytes that a lane takes in a cycle of its clock.
        lane_bytes: u32 = 8,
        /// Physical layer: both transceivers, in cycles of the lane's clock.
        transceiver_cycles: u32 = 10,
        /// Physical layer: time in the cable.
        flight_ns: f64 = 5.0,
        /// Whether interrupts go before all other packets.
        interrupts_first: bool = true,
    }
}

section! {
    /// A node: cores, caches and memory as far as accesses meet them, and its operating system.
    pub struct SocSpec {
        /// Number of cores, 1 to 64.
        cores: u16 = 2,
        /// Clock of the cores.
        core_mhz: f64 = 800.0,
        /// Line of the caches.
        line_bytes: u32 = 32,
        /// Random reads: cycles of a program from one read to the next.
        loop_cycles: u32 = 12,
        /// Caches that an access misses in.
        miss_cycles: u32 = 29,
        /// From the caches to the on-chip interconnect of the module and back, beside that interconnect.
        port_ns: f64 = 70.0,
        /// An access to a device's register, at the device.
        register_ns: f64 = 20.0,
        /// Entering and leaving a system call.
        call_ns: f64 = 500.0,
        /// Entering and leaving an interrupt handler.
        interrupt_ns: f64 = 2_000.0,
        /// Waking a thread that waits for data.
        wake_ns: f64 = 4_000.0,
        /// Copying between user and kernel, with the checksum, a KB.
        copy_ns_per_kb: f64 = 2_000.0,
    }
}
