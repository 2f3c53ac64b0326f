//! Nodes whose on-chip interconnect is extended to their neighbours, as a machine file describes them:
//! `kind = "soc"`.

use serde::{Deserialize, Serialize};

/// The shape of the links between nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LinkTopology {
    /// Each node has a link to each other one.
    Full,
    /// Each node has a link to the one before and the one behind; switches pass on the rest.
    Chain,
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

/// The module between the on-chip interconnect and the links, layer by layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExtensionSpec {
    /// Number of nodes, 2 to 64.
    pub nodes: u16,
    /// Shape of the links between nodes.
    pub topology: LinkTopology,
    /// Ports of a node's switch: one is for the node itself, the others are for links.
    pub switch_ports: u16,
    /// Clock of the on-chip interconnect and of the module's side towards it.
    pub oci_mhz: f64,
    /// Bytes that a channel of the on-chip interconnect moves in a cycle.
    pub oci_bytes: u32,
    /// Address decoding and arbitration of the on-chip interconnect, each way.
    pub oci_cycles: u32,
    /// Transaction layer: the module's register at the on-chip interconnect.
    pub register_cycles: u32,
    /// Transaction layer: header of a packet.
    pub header_bytes: u32,
    /// Transaction layer: address and length in packets that have them.
    pub address_bytes: u32,
    /// Transaction layer: asynchronous FIFO of a channel, in packets.
    pub fifo_packets: u32,
    /// From a write into a FIFO to its pointer, in cycles of the side that writes.
    pub fifo_write_cycles: u32,
    /// From there to the data, in cycles of the side that reads.
    pub fifo_read_cycles: u32,
    /// Requests of other nodes that a module has under way.
    pub slave_transactions: u32,
    /// Routing layer: slots of the address mapping table.
    pub amt_slots: u16,
    /// Routing layer: slots that are compared in the cycle in which a packet leaves its FIFO; more take
    /// cycles of their own.
    pub amt_slots_per_cycle: u16,
    /// Window of locally visible addresses.
    pub lva_base_bytes: u64,
    /// Length of that window.
    pub lva_bytes: u64,
    /// Link layer: bytes of a frame beside its packet.
    pub frame_overhead_bytes: u32,
    /// Link layer: protocol engine, sender and receiver together, in cycles of the lane's clock.
    pub link_cycles: u32,
    /// Link layer: frames of a virtual channel that are sent and not acknowledged.
    pub link_window: u32,
    /// Link layer: frames of a virtual channel that a receiver has room for.
    pub link_room: u32,
    /// Link layer: time without an acknowledgement after which frames are sent again.
    pub link_timeout_ns: f64,
    /// Frames that are lost, of a million.
    pub lost_per_million: u32,
    /// Frames that arrive damaged, of a million.
    pub damaged_per_million: u32,
    /// Rate of a link before coding, all lanes.
    pub lane_gbps: f64,
    /// Line code: 8/10 or 64/66 of `lane_gbps` carries data.
    pub line_code: LineCode,
    /// Bytes that a lane takes in a cycle of its clock.
    pub lane_bytes: u32,
    /// Physical layer: both transceivers, in cycles of the lane's clock.
    pub transceiver_cycles: u32,
    /// Physical layer: time in the cable.
    pub flight_ns: f64,
    /// Whether interrupts go before all other packets.
    pub interrupts_first: bool,
}

/// A node: cores, caches and memory as far as accesses meet them, and its operating system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SocSpec {
    /// Number of cores, 1 to 64.
    pub cores: u16,
    /// Clock of the cores.
    pub core_mhz: f64,
    /// Line of the caches.
    pub line_bytes: u32,
    /// Random reads: cycles of a program from one read to the next.
    pub loop_cycles: u32,
    /// Caches that an access misses in.
    pub miss_cycles: u32,
    /// From the caches to the on-chip interconnect of the module and back, beside that interconnect.
    pub port_ns: f64,
    /// An access to a device's register, at the device.
    pub register_ns: f64,
    /// Lines that a core fetches at the same time when it goes through a buffer.
    pub line_fills: u32,
    /// Entering and leaving a system call.
    pub call_ns: f64,
    /// Entering and leaving an interrupt handler.
    pub interrupt_ns: f64,
    /// Waking a thread that waits for data.
    pub wake_ns: f64,
    /// Copying between user and kernel, with the checksum, a KB.
    pub copy_ns_per_kb: f64,
}

impl Default for ExtensionSpec {
    fn default() -> Self {
        Self {
            nodes: 4,
            topology: LinkTopology::Full,
            switch_ports: 7,
            oci_mhz: 200.0,
            oci_bytes: 4,
            oci_cycles: 2,
            register_cycles: 1,
            header_bytes: 4,
            address_bytes: 8,
            fifo_packets: 16,
            fifo_write_cycles: 1,
            fifo_read_cycles: 4,
            slave_transactions: 16,
            amt_slots: 16,
            amt_slots_per_cycle: 16,
            lva_base_bytes: 2 << 30,
            lva_bytes: 2 << 30,
            frame_overhead_bytes: 8,
            link_cycles: 37,
            link_window: 64,
            link_room: 32,
            link_timeout_ns: 10_000.0,
            lost_per_million: 0,
            damaged_per_million: 0,
            lane_gbps: 10.0,
            line_code: LineCode::SixtyFour,
            lane_bytes: 8,
            transceiver_cycles: 10,
            flight_ns: 5.0,
            interrupts_first: true,
        }
    }
}

impl Default for SocSpec {
    fn default() -> Self {
        Self {
            cores: 2,
            core_mhz: 800.0,
            line_bytes: 32,
            loop_cycles: 12,
            miss_cycles: 29,
            port_ns: 70.0,
            register_ns: 20.0,
            line_fills: 2,
            call_ns: 500.0,
            interrupt_ns: 2_000.0,
            wake_ns: 4_000.0,
            copy_ns_per_kb: 2_000.0,
        }
    }
}
