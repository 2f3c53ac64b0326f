//! A machine as its file describes it: one struct per part.
//!
//! Every field has a default, so that a file names only its own settings. Machine files of published
//! machines name everything that the paper gives, and say of the rest why it was chosen.

use serde::{Deserialize, Serialize};

pub use super::dram::{DramGrade, DramMapping, DramPagePolicy, DramScheduler, DramSpec};
pub use super::experiment::{
    Buffers, ExperimentKind, ExperimentSpec, KvSpec, NicSpec, Place, QpairSpec, Translation,
};
pub use super::extension::{ExtensionSpec, LineCode, LinkTopology, SocSpec};
pub use super::kind::Kind;
pub use super::rack::{NodeSpec, RackSpec, TrafficLoop, TrafficOp, TrafficPattern, TrafficSpec};
pub use super::scratchpad::ScratchpadSpec;
pub use super::window::{PrefetchSpec, WindowSpec, WritePolicy};
pub use crate::chip::ni::Placement;
pub use crate::cpu::CpuSpec;
use crate::noc::Pipeline;
pub use crate::sonuma::RmcSpec;

/// A machine: its chips, the networks between them, and their work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Machine {
    /// Kind of machine; it decides which of the other sections there are.
    pub kind: Kind,
    /// Name that reports give the machine.
    pub name: String,
    /// One line for people.
    pub description: String,
    /// Start of all random numbers.
    pub seed: u64,
    /// Clock of the chips; cycles are its periods.
    pub clock_ghz: f64,
    /// Tiles of a chip.
    pub tiles: TileSpec,
    /// The instructions around queue accesses, where a microbenchmark stands for the program.
    pub core: CoreSpec,
    /// Cores that execute programs. Their L1 for data is `l1`.
    pub cpu: CpuSpec,
    /// The operating system of executed programs.
    pub system: SystemSpec,
    /// Private data caches of the cores.
    pub l1: L1Spec,
    /// Private caches behind write-through L1s, with `ni.placement = "cache-integrated"`.
    pub l2: L2Spec,
    /// Network interfaces in these.
    pub scratchpad: ScratchpadSpec,
    /// Borrowed memory, with `ni.placement = "window"`.
    pub window: WindowSpec,
    /// Prefetching into the last-level cache.
    pub prefetch: PrefetchSpec,
    /// Shared last-level cache, in banks.
    pub llc: LlcSpec,
    /// Directory slices, one per bank of it.
    pub directory: DirectorySpec,
    /// Memory controllers and memory.
    pub memory: MemorySpec,
    /// The DRAM behind a controller, with `memory.model = "ddr3"`.
    pub dram: DramSpec,
    /// Network on chip: topology, routing, routers.
    pub noc: NocSpec,
    /// Network interfaces: their places, and the times of their stages.
    pub ni: NiSpec,
    /// The remote memory controller, with `ni.placement = "sonuma"`. Its L1 is as `l1`.
    pub rmc: RmcSpec,
    /// Network between chips: hops, and the other end.
    pub network: NetworkSpec,
    /// Routers between simplified nodes, with `kind = "torus"`.
    pub rack: RackSpec,
    /// A simplified node, with `kind = "torus"`.
    pub node: NodeSpec,
    /// Requests between simplified nodes.
    pub traffic: TrafficSpec,
    /// The module that extends the on-chip interconnect, with `kind = "soc"`.
    pub extension: ExtensionSpec,
    /// A node with such a module.
    pub soc: SocSpec,
    /// A network interface card of such a node.
    pub nic: NicSpec,
    /// The queue pair channel of such a module.
    pub qpair: QpairSpec,
    /// A key-value cache on such a node.
    pub kv: KvSpec,
    /// The measurement on such nodes.
    pub experiment: ExperimentSpec,
    /// The work of the cores: a microbenchmark or a program.
    pub workload: WorkloadSpec,
    /// Windows and limits of a run.
    pub run: RunSpec,
}

/// Tiles of a chip, each a core with its L1. On a mesh each also has an LLC bank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TileSpec {
    /// Columns of tiles.
    pub columns: u16,
    /// Rows of tiles.
    pub rows: u16,
}

/// The operating system of a node, as far as executed programs see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SystemSpec {
    /// Time of a system call, from its `ecall` to the next instruction.
    pub call_cycles: u32,
    /// Time of a look at a clock, for which Linux has no system call but a page of its own in every process
    /// (vDSO).
    pub clock_cycles: u32,
    /// Stack of a program's first thread.
    pub stack_bytes: u64,
    /// Entries of the context table.
    pub contexts: u16,
    /// Pages of memory: 4096 or 8192.
    pub page_bytes: u64,
}

/// Numbers of instructions that software executes around its accesses to the queues (Manycore NI §3.1).
/// They depend on each other, so each takes a cycle of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CoreSpec {
    /// Arithmetic instructions to make a WQ entry.
    pub wq_instructions: u32,
    /// Stores of a WQ entry, all to the same block.
    pub wq_stores: u32,
    /// Instructions to look at a CQ entry, one of which is the load.
    pub cq_instructions: u32,
    /// Stores that wait for their block.
    pub store_buffer: u32,
    /// Asynchronous reads: number of entries that are posted between two looks at the CQ.
    pub posts_per_poll: u32,
}

/// A private cache: an L1 for data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct L1Spec {
    /// Capacity.
    pub size_bytes: u64,
    /// Associativity.
    pub ways: u32,
    /// Tag and data.
    pub latency_cycles: u32,
    /// The tags alone: a miss is known, or a copy dropped.
    pub tag_cycles: u32,
    /// Accesses a cycle.
    pub ports: u32,
    /// Blocks in transition at most.
    pub mshrs: u32,
}

/// A private cache behind a write-through L1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct L2Spec {
    /// Capacity.
    pub size_bytes: u64,
    /// Associativity.
    pub ways: u32,
    /// From the L1 and back: tag and data, one after the other.
    pub latency_cycles: u32,
    /// The tags alone.
    pub tag_cycles: u32,
    /// Blocks in transition at most.
    pub mshrs: u32,
}

/// The shared last-level cache, statically interleaved over its banks by block (NUCA).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LlcSpec {
    /// Capacity of all banks together.
    pub size_bytes: u64,
    /// Banks beside the tiles of a crossbar; 0 = one per tile. Elsewhere there is one per tile, on NOC-Out one
    /// per column.
    pub banks: u16,
    /// Associativity.
    pub ways: u32,
    /// Time of an access to a bank.
    pub latency_cycles: u32,
    /// Time for which an access keeps its bank busy.
    pub occupancy_cycles: u32,
    /// Transactions that a bank's home has under way; requests beyond wait in the network.
    pub transactions: u32,
}

/// A directory slice per LLC bank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DirectorySpec {
    /// Entries of all slices together, per block that the private caches can hold.
    pub provisioning: f64,
    /// Associativity.
    pub ways: u32,
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

/// Memory controllers, and the memory behind them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MemorySpec {
    /// Model of the memory behind a controller.
    pub model: MemoryModel,
    /// Fixed latency: time from a controller's request to its data.
    pub latency_ns: f64,
    /// Memory of a chip that executes programs.
    pub size_bytes: u64,
    /// Memory controllers: 1 to one per row of tiles, on NOC-Out one per column.
    pub controllers: u16,
    /// Neighbouring addresses that one controller serves before the next one's turn.
    pub interleave_bytes: u64,
    /// Fixed latency: bandwidth of a controller; 0 = not limited.
    pub bytes_per_cycle: f64,
    /// Lines whose contents are kept. The time that anything takes does not depend on it.
    pub contents: Contents,
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

/// Network on chip: shape, routing, and times and sizes of its parts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NocSpec {
    /// Network that joins tiles, homes and controllers.
    pub topology: NocTopology,
    /// Routing; meshes only.
    pub routing: NocRouting,
    /// Width of a link, which is the size of a flit.
    pub link_bytes: u32,
    /// Bytes of a packet besides its payload: route, command, address.
    pub header_bytes: u32,
    /// Stages of the routers of a mesh, a crossbar or the flattened butterfly.
    pub router: Pipeline,
    /// Mesh: time of a flit from router to router. What the router's stages leave of it is the link.
    pub hop_cycles: u32,
    /// NOC-Out: time from router to router of a tree.
    pub tree_hop_cycles: u32,
    /// NOC-Out: tiles that a flit passes in a cycle on a link of the flattened butterfly.
    pub tiles_per_cycle: u32,
    /// From a part to its router: making a packet of a message, and the wire; 2 at least.
    pub injection_cycles: u32,
    /// From a router to its part: the wire, and making a message of the packet.
    pub ejection_cycles: u32,
    /// Between parts of the same tile.
    pub local_cycles: u32,
    /// Whether what ends waits goes first in routers, then what homes and integrated interfaces answer, then
    /// the rest; otherwise all take turns.
    pub priorities: bool,
    /// Virtual channels of each of the four virtual networks.
    pub vcs: u32,
    /// Buffer of a virtual channel.
    pub buffer_flits: u32,
    /// Packets of a virtual network that a part lets wait for its port before it stalls.
    pub port_packets: u32,
    /// Packets of a virtual network that wait at a port for the part that they are for.
    pub delivery_packets: u32,
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

/// Network interfaces of a chip: RGPs, RCPs and RRPPs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NiSpec {
    /// Place on the chip.
    pub placement: Placement,
    /// Part of their caches in coherence; not for edge placement.
    pub cache: NiCacheKind,
    /// Whether a back-side cache has the owned state.
    pub owned_state: bool,
    /// Blocks of an NI cache.
    pub cache_blocks: u32,
    /// Time of an access to an NI cache.
    pub cache_latency_cycles: u32,
    /// Between an L1 and the NI cache behind it.
    pub back_side_cycles: u32,
    /// RGP frontend: select WQ, compute address, load, check (Figure 4a).
    pub rgp_frontend_cycles: u32,
    /// RGP backend up to the first request: ITT, unroll, packet (Figure 4a).
    pub rgp_backend_cycles: u32,
    /// RCP backend: receive, ITT, compute address, translate (Figure 4b).
    pub rcp_backend_cycles: u32,
    /// RCP frontend before it writes the CQ entry (Figure 4b).
    pub rcp_frontend_cycles: u32,
    /// The stage that makes a packet between frontend and backend; split placement only.
    pub interface_cycles: u32,
    /// RRPP before its memory access: decode, context table, bounds, translate.
    pub rrpp_request_cycles: u32,
    /// RRPP after its memory access: the reply packet.
    pub rrpp_reply_cycles: u32,
    /// Memory accesses that an RRPP has under way.
    pub rrpp_transactions: u32,
    /// Stores of an RCP that wait for its port before replies have to wait.
    pub rcp_stores: u32,
    /// Requests that an RGP sends a cycle.
    pub unroll_per_cycle: u32,
    /// Lines that an RGP has under way at most; 0 = not limited (source-based flow control).
    pub max_outstanding_lines: u32,
    /// Moment at which a transfer is complete.
    pub completion: Completion,
    /// Entries of WQ and CQ.
    pub wq_entries: u32,
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

/// The network between chips.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NetworkSpec {
    /// Time of a hop.
    pub hop_latency_ns: f64,
    /// Hops between source and destination, each way.
    pub hops: u32,
    /// The other end of the chip's network port.
    pub remote: Remote,
    /// Chips, if they are simulated.
    pub nodes: u16,
    /// Packets from one node for which another has room, on each lane; executed programs only.
    pub credits: u32,
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

/// The work of the cores: number of those that issue, transfers, and the memory that they cover.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WorkloadSpec {
    /// Work of issuing cores: one of two microbenchmarks, or a program.
    pub kind: WorkloadKind,
    /// Length of a read.
    pub transfer_bytes: u32,
    /// Cores that issue, from the first one; 0 = all.
    pub cores: u16,
    /// The first core that issues.
    pub first_core: u16,
    /// Memory that remote reads are spread over, and the same again for local buffers.
    pub footprint_bytes: u64,
    /// Synchronous reads per core before the measurement.
    pub warmup_reads: u32,
    /// Asynchronous reads that each core makes in a microsecond, whatever becomes of them; 0 = as many as the WQ
    /// has room for.
    pub rate: f64,
    /// The times of those reads.
    pub arrivals: Arrivals,
}

/// Length of a run: windows, precision, reads, and limits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RunSpec {
    /// Cycles between two looks at what the run has shown so far: a window.
    pub window_cycles: u64,
    /// The run ends when half the 95 % confidence interval of the bandwidth, in per cent of it, is not more.
    pub precision_percent: f64,
    /// Windows before the run may end.
    pub min_windows: u32,
    /// Windows at most; then the run ends without having converged, and says so.
    pub max_windows: u32,
    /// Synchronous reads that are measured per core.
    pub reads: u32,
    /// Cycles without any progress after which the run is given up.
    pub watchdog_cycles: u64,
    /// Threads for the chips of a rack; 0 = one per core of the host. The result is the same.
    pub threads: u32,
}

impl Machine {
    /// A time in cycles of the chips' clock, rounded.
    pub fn cycles(&self, time_ns: f64) -> u64 {
        (time_ns * self.clock_ghz).round() as u64
    }
}

impl Default for Machine {
    fn default() -> Self {
        Self {
            kind: Kind::Chip,
            name: "unnamed".to_owned(),
            description: String::new(),
            seed: 1,
            clock_ghz: 2.0,
            tiles: TileSpec::default(),
            core: CoreSpec::default(),
            cpu: CpuSpec::default(),
            system: SystemSpec::default(),
            l1: L1Spec::default(),
            l2: L2Spec::default(),
            scratchpad: ScratchpadSpec::default(),
            window: WindowSpec::default(),
            prefetch: PrefetchSpec::default(),
            llc: LlcSpec::default(),
            directory: DirectorySpec::default(),
            memory: MemorySpec::default(),
            dram: DramSpec::default(),
            noc: NocSpec::default(),
            ni: NiSpec::default(),
            rmc: RmcSpec::default(),
            network: NetworkSpec::default(),
            rack: RackSpec::default(),
            node: NodeSpec::default(),
            traffic: TrafficSpec::default(),
            extension: ExtensionSpec::default(),
            soc: SocSpec::default(),
            nic: NicSpec::default(),
            qpair: QpairSpec::default(),
            kv: KvSpec::default(),
            experiment: ExperimentSpec::default(),
            workload: WorkloadSpec::default(),
            run: RunSpec::default(),
        }
    }
}

impl Default for TileSpec {
    fn default() -> Self {
        Self { columns: 8, rows: 8 }
    }
}

impl Default for SystemSpec {
    fn default() -> Self {
        Self {
            call_cycles: 200,
            clock_cycles: 40,
            stack_bytes: 8 << 20,
            contexts: 64,
            page_bytes: 8192,
        }
    }
}

impl Default for CoreSpec {
    fn default() -> Self {
        Self {
            wq_instructions: 12,
            wq_stores: 2,
            cq_instructions: 4,
            store_buffer: 4,
            posts_per_poll: 4,
        }
    }
}

impl Default for L1Spec {
    fn default() -> Self {
        Self {
            size_bytes: 32 << 10,
            ways: 2,
            latency_cycles: 3,
            tag_cycles: 1,
            ports: 2,
            mshrs: 32,
        }
    }
}

impl Default for L2Spec {
    fn default() -> Self {
        Self { size_bytes: 64 << 10, ways: 4, latency_cycles: 4, tag_cycles: 1, mshrs: 8 }
    }
}

impl Default for LlcSpec {
    fn default() -> Self {
        Self {
            size_bytes: 16 << 20,
            banks: 0,
            ways: 16,
            latency_cycles: 6,
            occupancy_cycles: 6,
            transactions: 64,
        }
    }
}

impl Default for DirectorySpec {
    fn default() -> Self {
        Self { provisioning: 2.0, ways: 16 }
    }
}

impl Default for MemorySpec {
    fn default() -> Self {
        Self {
            model: MemoryModel::Fixed,
            latency_ns: 50.0,
            size_bytes: 4 << 30,
            controllers: 8,
            interleave_bytes: 4096,
            bytes_per_cycle: 0.0,
            contents: Contents::Queues,
        }
    }
}

impl Default for NocSpec {
    fn default() -> Self {
        Self {
            topology: NocTopology::Mesh,
            routing: NocRouting::CdrDirectory,
            link_bytes: 16,
            header_bytes: 16,
            router: Pipeline::Three,
            hop_cycles: 3,
            tree_hop_cycles: 1,
            tiles_per_cycle: 2,
            injection_cycles: 2,
            ejection_cycles: 2,
            local_cycles: 1,
            priorities: false,
            vcs: 2,
            buffer_flits: 6,
            port_packets: 2,
            delivery_packets: 4,
        }
    }
}

impl Default for NiSpec {
    fn default() -> Self {
        Self {
            placement: Placement::Split,
            cache: NiCacheKind::BackSide,
            owned_state: true,
            cache_blocks: 64,
            cache_latency_cycles: 2,
            back_side_cycles: 1,
            rgp_frontend_cycles: 4,
            rgp_backend_cycles: 3,
            rcp_backend_cycles: 4,
            rcp_frontend_cycles: 2,
            interface_cycles: 1,
            rrpp_request_cycles: 4,
            rrpp_reply_cycles: 1,
            rrpp_transactions: 256,
            rcp_stores: 4,
            unroll_per_cycle: 1,
            max_outstanding_lines: 0,
            completion: Completion::Posted,
            wq_entries: 128,
        }
    }
}

impl Default for NetworkSpec {
    fn default() -> Self {
        Self { hop_latency_ns: 35.0, hops: 1, remote: Remote::Generator, nodes: 2, credits: 32 }
    }
}

impl Default for WorkloadSpec {
    fn default() -> Self {
        Self {
            kind: WorkloadKind::AsyncRead,
            transfer_bytes: 512,
            cores: 0,
            first_core: 0,
            footprint_bytes: 1 << 30,
            warmup_reads: 136,
            rate: 0.0,
            arrivals: Arrivals::Poisson,
        }
    }
}

impl Default for RunSpec {
    fn default() -> Self {
        Self {
            window_cycles: 500_000,
            precision_percent: 2.0,
            min_windows: 2,
            max_windows: 40,
            reads: 128,
            watchdog_cycles: 200_000,
            threads: 0,
        }
    }
}
