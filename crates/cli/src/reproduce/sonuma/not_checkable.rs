//! Claims that no run and no machine file can show to be true or false, each with the reason.

use crate::reproduce::paper::Remarks;

/// A figure of the world outside.
const BACKGROUND: &str = "a third party's figure, quoted as background";
/// Guarantees of the protocol.
const PROTOCOL: &str = "a property of the protocol, not of a run: shown by model checking of the code \
                        that the model and the runtime share";
/// Reason for claims on the interface that programs see.
const INTERFACE: &str =
    "how the interface is made, not what it measures: shown by its header and the tests of it";
/// Reason for claims on the structure of the RMC.
const STRUCTURE: &str =
    "how the model is built, not what it measures: shown by its source and the tests of its parts";
/// Reason for claims on the code of messages and barriers.
const LIBRARY: &str =
    "how the library is written, not what it measures: shown by its source and its tests";
/// The server with Xen.
const SERVER: &str = "about the paper's server with Xen, for which the runtime on this host stands";
/// Its times.
const ABSOLUTE: &str = "an absolute figure of the paper's server with Xen and an emulated RMC; what \
                        the runtime on this host has is shown beyond the paper, and only orderings and \
                        limits are compared";
/// The paper's simulator.
const FLEXUS: &str = "about Flexus, the simulator of the paper; this is another one";
/// Reason for claims on the code of the benchmark.
const BENCHMARK: &str = "how the benchmark is built, not what it measures";

/// Claims and reasons.
pub const NOT_CHECKABLE: Remarks = &[
    ("abstract/rdma-vs-dram-min", BACKGROUND),
    ("abstract/rdma-vs-dram-max", BACKGROUND),
    ("sec1/commodity-node-to-node", BACKGROUND),
    ("sec1/local-memory", BACKGROUND),
    ("sec1/local-vs-commodity", BACKGROUND),
    ("sec1/disk-to-memory", BACKGROUND),
    ("sec1/rdma-read-latency", BACKGROUND),
    ("sec1/rdma-vs-dram", BACKGROUND),
    (
        "sec1/emulation-wall-clock",
        "so by construction: the runtime's programs are processes of this host",
    ),
    ("sec2/commodity-rtt", BACKGROUND),
    ("sec2/local-dram-100ns", BACKGROUND),
    ("sec2/rdma-kvs", BACKGROUND),
    ("fig1/calxeda-latency", BACKGROUND),
    ("fig1/calxeda-bandwidth", BACKGROUND),
    ("fig1/calxeda-fabric", BACKGROUND),
    ("sec2/pcie-latency-min", BACKGROUND),
    ("sec2/pcie-latency-max", BACKGROUND),
    ("sec2/pcie-vs-dram-min", BACKGROUND),
    ("sec2/pcie-vs-dram-max", BACKGROUND),
    ("sec2/rack-trace-delay", BACKGROUND),
    ("sec3/alpha-router-delay", BACKGROUND),
    ("sec3/alpha-nodes", BACKGROUND),
    ("sec3/fabric/topology", "a statement about designs; the paper runs a crossbar, and so do we"),
    ("sec4-1/ordering", PROTOCOL),
    ("sec4-1/abstractions", INTERFACE),
    ("sec4-1/cq-size-equals-wq", INTERFACE),
    ("sec4-1/wq-writer", INTERFACE),
    ("sec4-1/cq-entry", INTERFACE),
    ("sec4-1/remote-address", INTERFACE),
    ("sec4-2/pipelines", STRUCTURE),
    ("sec4-2/router-virtual-lanes", PROTOCOL),
    ("sec4-2/error-reply", PROTOCOL),
    ("sec4-2/completions-per-wq-entry", PROTOCOL),
    ("sec4-2/out-of-order-completion", PROTOCOL),
    ("sec4-3/rmc-interfaces", STRUCTURE),
    ("sec4-3/l1-interfaces", STRUCTURE),
    ("sec4-3/maq-features", STRUCTURE),
    ("sec4-3/base-registers", STRUCTURE),
    ("sec4-3/tlb-miss", STRUCTURE),
    ("sec5-3/push-writes-per-small-send", LIBRARY),
    ("sec5-3/pull-reads-per-large-message", LIBRARY),
    ("sec5-3/buffer-slot", LIBRARY),
    ("sec5-3/barrier-writes", LIBRARY),
    ("sec6/virtual-lanes", PROTOCOL),
    ("sec6/flow-control", PROTOCOL),
    ("sec6/tid", PROTOCOL),
    ("devplat/sockets", SERVER),
    ("devplat/cores-per-socket", SERVER),
    ("devplat/llc", SERVER),
    ("devplat/ram", SERVER),
    ("devplat/numa-domains", SERVER),
    ("devplat/rmcemu-loc", SERVER),
    ("devplat/rmcemu-threads", SERVER),
    ("devplat/queue-pairs-per-vm-pair", SERVER),
    ("devplat/fabric", SERVER),
    ("devplat/placement", SERVER),
    ("devplat/placement-16", SERVER),
    ("table1/rmc/pipelines", STRUCTURE),
    (
        "sec7-1/fabric-conservative",
        "compares with interconnects of others, of which the paper gives no figure",
    ),
    ("sec7-1/isa", FLEXUS),
    ("sec7-1/sim-speed", FLEXUS),
    ("sec7-1/slowdown", FLEXUS),
    ("fig7/modes", BENCHMARK),
    ("fig7c/base-latency", ABSOLUTE),
    ("fig7c/vs-simulated", ABSOLUTE),
    ("fig8/thresholds", BENCHMARK),
    (
        "fig8b/vs-qdr-infiniband",
        "compares with a figure of others that the paper does not print; fig8b/bandwidth-8kb has our \
         side of it",
    ),
    ("fig8c/half-duplex-latency", ABSOLUTE),
    ("fig8c/vs-simulated", ABSOLUTE),
    ("fig8c/threshold", ABSOLUTE),
    ("fig8c/bandwidth-vs-simulated", ABSOLUTE),
    ("table2/dev/max-bw", ABSOLUTE),
    ("table2/dev/read-rtt", ABSOLUTE),
    ("table2/dev/fetch-and-add", ABSOLUTE),
    ("table2/dev/iops", ABSOLUTE),
    ("table2/rdma/max-bw", BACKGROUND),
    ("table2/rdma/read-rtt", BACKGROUND),
    ("table2/rdma/fetch-and-add", BACKGROUND),
    ("table2/rdma/iops", BACKGROUND),
    ("sec7-4/rdma-bandwidth-limit", BACKGROUND),
    ("sec7-4/rdma-link", BACKGROUND),
    ("sec7-4/rdma-qps-cores", BACKGROUND),
    (
        "sec7-4/atomicity",
        "a guarantee, not a measurement: shown by the tests that mix local and remote atomics",
    ),
    ("fig9/implementations", BENCHMARK),
    (
        "fig9/graph",
        "which part of the Twitter graph is not said; --graph takes any, and partitions it as the \
         paper does",
    ),
    ("fig9/ranks-per-vertex", BENCHMARK),
    ("sec8/rack-nodes", BACKGROUND),
];
