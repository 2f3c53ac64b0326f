//! A machine as its file describes it: one struct per part.
//!
//! Every field has a default, so that a file names only its own settings. Machine files of published
//! machines name everything that the paper gives, and say of the rest why it was chosen.

use serde::{Deserialize, Serialize};

pub use super::experiment::{
    Buffers, ExperimentKind, ExperimentSpec, NicSpec, Place, QpairSpec, Translation,
};
pub use super::extension::{ExtensionSpec, LineCode, LinkTopology, SocSpec};
pub use super::kind::Kind;
pub use super::rack::{NodeSpec, RackSpec, TrafficLoop, TrafficOp, TrafficPattern, TrafficSpec};
pub use crate::chip::ni::Placement;
pub use crate::cpu::CpuSpec;
pub use crate::dram::{DramGrade, DramMapping, DramPagePolicy, DramScheduler, DramSpec};
pub use crate::measure::{RunSpec, Steadiness};
use crate::noc::{Pipeline, Sources};
pub use crate::scratchpad::ScratchpadSpec;
use crate::section::section;
pub use crate::sonuma::RmcSpec;
pub use crate::window::{PrefetchSpec, WindowSpec, WritePolicy};

section! {
    /// A machine: its chips, the networks between them, and their work.
    pub struct Machine {
        /// Kind of machine; it decides which of the other sections there are.
        kind: Kind = Kind::Chip,
        /// Name that reports give the machine.
        name: String = "unnamed".to_owned(),
        /// One line for people.
        description: String = String::new(),
        /// Start of all random numbers.
        seed: u64 = 1,
        /// Clock of the chips; cycles are its periods.
        clock_ghz: f64 = 2.0,
        /// Tiles of a chip.
        tiles: TileSpec,
        /// The instructions around queue accesses, where a microbenchmark stands for the program.
        core: CoreSpec,
        /// Cores that execute programs. Their L1 for data is `l1`.
        cpu: CpuSpec,
        /// The operating system of executed programs.
        system: SystemSpec,
        /// Private data caches of the cores.
        l1: L1Spec,
        /// Private caches behind write-through L1s, with `ni.placement = "cache-integrated"`.
        l2: L2Spec,
        /// Network interfaces in these.
        scratchpad: ScratchpadSpec,
        /// Borrowed memory, with `ni.placement = "window"`.
        window: WindowSpec,
        /// Prefetching into the last-level cache.
        prefetch: PrefetchSpec,
        /// Shared last-level cache, in banks.
        llc: LlcSpec,
        /// Directory slices, one per bank of it.
        directory: DirectorySpec,
        /// Memory controllers and memory.
        memory: MemorySpec,
        /// The DRAM behind a controller, with `memory.model = "ddr3"`.
        dram: DramSpec,
        /// Network on chip: topology, routing, routers.
        noc: NocSpec,
        /// Network interfaces: their places, and the times of their stages.
        ni: NiSpec,
        /// The remote memory controller, with `ni.placement = "sonuma"`. Its L1 is as `l1`.
        rmc: RmcSpec,
        /// Network between chips: hops, and the other end.
        network: NetworkSpec,
        /// The Ethernet that carries sockets of executed programs.
        lan: LanSpec,
        /// Routers between simplified nodes, with `kind = "torus"`.
        rack: RackSpec,
        /// A simplified node, with `kind = "torus"`.
        node: NodeSpec,
        /// Requests between simplified nodes.
        traffic: TrafficSpec,
        /// The module that extends the on-chip interconnect, with `kind = "soc"`.
        extension: ExtensionSpec,
        /// A node with such a module.
        soc: SocSpec,
        /// A network interface card of such a node.
        nic: NicSpec,
        /// The queue pair channel of such a module.
        qpair: QpairSpec,
        /// The measurement on such nodes.
        experiment: ExperimentSpec,
        /// The work of the cores: a microbenchmark or a program.
        workload: WorkloadSpec,
        /// Windows and limits of a run.
        run: RunSpec,
    }
}

section! {
    /// Tiles of a chip, each a core with its L1. On a mesh each also has an LLC bank.
    pub struct TileSpec {
        /// Columns of tiles.
        columns: u16 = 8,
        /// Rows of tiles.
        rows: u16 = 8,
    }
}

section! {
    /// The operating system of a node, as far as executed programs see it.
    pub struct SystemSpec {
        /// Time of a system call, from its `ecall` to the next instruction.
        call_cycles: u32 = 200,
        /// Time of a look at a clock, for which Linux has no system call but a page of its own in every process
        /// (vDSO).
        clock_cycles: u32 = 40,
        /// Stack of a program's first thread.
        stack_bytes: u64 = 8 << 20,
        /// Entries of the context table.
        contexts: u16 = 64,
        /// Pages of memory: 4096 or 8192.
        page_bytes: u64 = 8192,
    }
}

section! {
    /// Numbers of instructions that software executes around its accesses to the queues (Manycore NI §3.1).
    /// They depend on each other, so each takes a cycle of its own.
    pub struct CoreSpec {
        /// Arithmetic instructions to make a WQ entry.
        wq_instructions: u32 = 12,
        /// Stores of a WQ entry, all to the same block.
        wq_stores: u32 = 2,
        /// Instructions to look at a CQ entry, one of which is the load.
        cq_instructions: u32 = 4,
        /// Stores that wait for their block.
        store_buffer: u32 = 4,
        /// Asynchronous reads: number of entries that are posted between two looks at the CQ.
        posts_per_poll: u32 = 4,
    }
}

section! {
    /// A private cache: an L1 for data.
    pub struct L1Spec {
        /// Capacity.
        size_bytes: u64 = 32 << 10,
        /// Associativity.
        ways: u32 = 2,
        /// Tag and data.
        latency_cycles: u32 = 3,
        /// The tags alone: a miss is known, or a copy dropped.
        tag_cycles: u32 = 1,
        /// Accesses a cycle.
        ports: u32 = 2,
        /// Blocks in transition at most.
        mshrs: u32 = 32,
    }
}

section! {
    /// A private cache behind a write-through L1.
    pub struct L2Spec {
        /// Capacity.
        size_bytes: u64 = 64 << 10,
        /// Associativity.
        ways: u32 = 4,
        /// From the L1 and back: tag and data, one after the other.
        latency_cycles: u32 = 4,
        /// The tags alone.
        tag_cycles: u32 = 1,
        /// Blocks in transition at most.
        mshrs: u32 = 8,
    }
}

section! {
    /// The shared last-level cache, statically interleaved over its banks by block (NUCA).
    pub struct LlcSpec {
        /// Capacity of all banks together.
        size_bytes: u64 = 16 << 20,
        /// Banks beside the tiles of a crossbar; 0 = one per tile. Elsewhere there is one per tile, on NOC-Out one
        /// per column.
        banks: u16 = 0,
        /// Associativity.
        ways: u32 = 16,
        /// Time of an access to a bank.
        latency_cycles: u32 = 6,
        /// Time for which an access keeps its bank busy.
        occupancy_cycles: u32 = 6,
        /// Transactions that a bank's home has under way; requests beyond wait in the network.
        transactions: u32 = 64,
    }
}

section! {
    /// A directory slice per LLC bank.
    pub struct DirectorySpec {
        /// Entries of all slices together, per block that the private caches can hold.
        provisioning: f64 = 2.0,
        /// Associativity.
        ways: u32 = 16,
    }
}

/// The lines whose contents are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Contents {
    /// Those of the queues; the rest moves, but is always zero.
    Queues,
    /// Those of queues, context segment and local buffers: takes memory in proportion.
    All,
}

/// The model of the memory behind a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryModel {
    /// Always the same latency, and a bandwidth if the machine limits it.
    Fixed,
    /// A DDR3 channel, command by command, as [`DramSpec`] has it.
    Ddr3,
}

section! {
    /// Memory controllers, and the memory behind them.
    pub struct MemorySpec {
        /// Model of the memory behind a controller.
        model: MemoryModel = MemoryModel::Fixed,
        /// Fixed latency: time from a controller's request to its data.
        latency_ns: f64 = 50.0,
        /// Memory of a chip that executes programs.
        size_bytes: u64 = 4 << 30,
        /// Memory controllers: 1 to one per row of tiles, on NOC-Out one per column.
        controllers: u16 = 8,
        /// Neighbouring addresses that one controller serves before the next one's turn.
        interleave_bytes: u64 = 4096,
        /// Fixed latency: bandwidth of a controller; 0 = not limited.
        bytes_per_cycle: f64 = 0.0,
        /// From the last-level cache to the controllers and back, beside the network on chip: accesses of other nodes
        /// by a module that is beside them (`window.coherent = false`) go without.
        port_ns: f64 = 0.0,
        /// Lines whose contents are kept. The time that anything takes does not depend on it.
        contents: Contents = Contents::Queues,
    }
}

/// The network that joins the parts of a chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NocTopology {
    /// A mesh with a column of NIs at one side and one of memory controllers at the other.
    Mesh,
    /// NOC-Out: trees and a flattened butterfly (Manycore NI §6.3).
    NocOut,
    /// Every endpoint one hop from every other.
    Crossbar,
}

/// The way of packets through a mesh (Manycore NI §4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NocRouting {
    /// Columns first.
    Xy,
    /// Rows first.
    Yx,
    /// Either, by chance.
    O1turn,
    /// Class-based: memory requests YX, the rest XY.
    Cdr,
    /// Class-based: packets of directories YX, the rest XY.
    CdrDirectory,
}

section! {
    /// Network on chip: shape, routing, and times and sizes of its parts.
    pub struct NocSpec {
        /// Network that joins tiles, homes and controllers.
        topology: NocTopology = NocTopology::Mesh,
        /// Routing; meshes only.
        routing: NocRouting = NocRouting::CdrDirectory,
        /// Width of a link, which is the size of a flit.
        link_bytes: u32 = 16,
        /// Bytes of a packet besides its payload: route, command, address.
        header_bytes: u32 = 16,
        /// Stages of the routers of a mesh, a crossbar or the flattened butterfly.
        router: Pipeline = Pipeline::Three,
        /// Mesh: time of a flit from router to router. What the router's stages leave of it is the link.
        hop_cycles: u32 = 3,
        /// NOC-Out: time from router to router of a tree.
        tree_hop_cycles: u32 = 1,
        /// NOC-Out: tiles that a flit passes in a cycle on a link of the flattened butterfly.
        tiles_per_cycle: u32 = 2,
        /// From a part to its router: making a packet of a message, and the wire; 2 at least.
        injection_cycles: u32 = 2,
        /// From a router to its part: the wire, and making a message of the packet.
        ejection_cycles: u32 = 2,
        /// Between parts of the same tile.
        local_cycles: u32 = 1,
        /// Whether what ends waits goes first in routers, then what homes and integrated interfaces answer, then
        /// the rest; otherwise all take turns.
        priorities: bool = false,
        /// Virtual channels on which a packet may go: each of the four virtual networks has so many for each order
        /// of dimensions, XY or YX, that its routing uses.
        vcs: u32 = 2,
        /// Buffer of a virtual channel.
        buffer_flits: u32 = 6,
        /// Queues in which packets wait at a part's port: one for each virtual network, or one for all.
        sources: Sources = Sources::PerNetwork,
        /// Packets of a queue that a part lets wait for its port before it stalls.
        port_packets: u32 = 2,
        /// Packets of a virtual network that wait at a port for the part that they are for; 0: whatever arrives.
        delivery_packets: u32 = 4,
    }
}

/// The part of a tile's NI cache in coherence (Manycore NI §3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NiCacheKind {
    /// At the back side of the L1, one party with it.
    BackSide,
    /// A cache of its own, which the directory tracks apart.
    Separate,
}

/// The moment at which the last line of a transfer counts as stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Completion {
    /// The RCP has sent it to its home, which does not answer: nothing orders the data before the CQ entry.
    Posted,
    /// Its home has acknowledged it.
    Acknowledged,
}

section! {
    /// Network interfaces of a chip: RGPs, RCPs and RRPPs.
    pub struct NiSpec {
        /// Place on the chip.
        placement: Placement = Placement::Split,
        /// Part of their caches in coherence; not for edge placement.
        cache: NiCacheKind = NiCacheKind::BackSide,
        /// Whether a back-side cache has the owned state.
        owned_state: bool = true,
        /// Blocks of an NI cache.
        cache_blocks: u32 = 64,
        /// Time of an access to an NI cache.
        cache_latency_cycles: u32 = 2,
        /// Between an L1 and the NI cache behind it.
        back_side_cycles: u32 = 1,
        /// RGP frontend: select WQ, compute address, load, check (Figure 4a).
        rgp_frontend_cycles: u32 = 4,
        /// RGP backend up to the first request: ITT, unroll, packet (Figure 4a).
        rgp_backend_cycles: u32 = 3,
        /// RCP backend: receive, ITT, compute address, translate (Figure 4b).
        rcp_backend_cycles: u32 = 4,
        /// RCP frontend before it writes the CQ entry (Figure 4b).
        rcp_frontend_cycles: u32 = 2,
        /// The stage that makes a packet between frontend and backend; split placement only.
        interface_cycles: u32 = 1,
        /// RRPP before its memory access: decode, context table, bounds, translate.
        rrpp_request_cycles: u32 = 4,
        /// RRPP after its memory access: the reply packet.
        rrpp_reply_cycles: u32 = 1,
        /// Memory accesses that an RRPP has under way.
        rrpp_transactions: u32 = 256,
        /// Stores of an RCP that wait for its port before replies have to wait.
        rcp_stores: u32 = 4,
        /// Requests for which an RRPP has room, and replies for which an RCP or its port of the router has.
        lane_credits: u32 = 16,
        /// Requests that an RGP sends a cycle.
        unroll_per_cycle: u32 = 1,
        /// Lines that an RGP has under way at most; 0 = not limited (source-based flow control).
        max_outstanding_lines: u32 = 0,
        /// Moment at which a transfer is complete.
        completion: Completion = Completion::Posted,
        /// Entries of WQ and CQ.
        wq_entries: u32 = 128,
    }
}

/// The other end of the chip's network port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Remote {
    /// A traffic generator that sends as many requests as it gets, and answers after the time
    /// that this chip's own RRPPs take (Manycore NI §5).
    Generator,
    /// Other chips of the same kind, all simulated.
    Nodes,
}

section! {
    /// The network between chips.
    pub struct NetworkSpec {
        /// Time of a hop.
        hop_latency_ns: f64 = 35.0,
        /// Hops between source and destination, each way.
        hops: u32 = 1,
        /// The other end of the chip's network port.
        remote: Remote = Remote::Generator,
        /// Chips, if they are simulated.
        nodes: u16 = 2,
        /// Packets from one node for which another has room, on each lane of a link, for each hop between them.
        credits: u32 = 32,
    }
}

section! {
    /// The Ethernet that carries sockets between nodes that execute programs: a switch, and a link of both directions
    /// for each node.
    pub struct LanSpec {
        /// From the last bit of a frame at the sender's link to the receiver's program: the switch, both interfaces,
        /// interrupt and protocols.
        latency_ns: f64 = 11500.0,
        /// Rate of a link, in each direction.
        gbit_s: f64 = 1.0,
    }
}

/// The work of issuing cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkloadKind {
    /// One remote read after the other, each waited for.
    SyncRead,
    /// Remote reads as long as the WQ has room.
    AsyncRead,
    /// Cores execute a program, which `rackmem sim exec` brings.
    Program,
}

/// The times at which the reads of an open loop come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// By chance, independent of each other.
    Poisson,
    /// At equal distances; each core begins at a time of its own.
    Fixed,
}

section! {
    /// The work of the cores: number of those that issue, transfers, and the memory that they cover.
    pub struct WorkloadSpec {
        /// Work of issuing cores: one of two microbenchmarks, or a program.
        kind: WorkloadKind = WorkloadKind::AsyncRead,
        /// Length of a read.
        transfer_bytes: u32 = 512,
        /// Cores that issue, from the first one; 0 = all.
        cores: u16 = 0,
        /// The first core that issues.
        first_core: u16 = 0,
        /// Memory that remote reads are spread over, and the same again for local buffers.
        footprint_bytes: u64 = 1 << 30,
        /// Synchronous reads per core before the measurement.
        warmup_reads: u32 = 136,
        /// Asynchronous reads that each core makes in a microsecond, whatever becomes of them; 0 = as many as the WQ
        /// has room for.
        rate: f64 = 0.0,
        /// The times of those reads.
        arrivals: Arrivals = Arrivals::Poisson,
    }
}

impl Machine {
    /// A time in cycles of the chips' clock, rounded.
    pub fn cycles(&self, time_ns: f64) -> u64 {
        (time_ns * self.clock_ghz).round() as u64
    }

    /// Packets that may be on each lane of a link of two nodes: the routers between them have buffers, too.
    pub fn link_credits(&self) -> u32 {
        self.network.credits.saturating_mul(self.network.hops.max(1))
    }
}
