//! Claims that no run and no machine file can show to be true or false, each with the reason.

/// A figure of the world outside.
const BACKGROUND: &str = "a third party's figure, quoted as background";
/// The soNUMA machine.
const SONUMA: &str = "about soNUMA's node with a single core, which is another machine and paper";
/// The rack around the chip.
const RACK: &str = "as in the paper, only hop counts enter the model: the torus is not simulated";
/// Reason for claims on the structure of the chip.
const STRUCTURE: &str =
    "how the model is built, not what it measures: shown by its source and the tests of its parts";
/// Reason for claims on the code of the benchmark.
const BENCHMARK: &str = "how the benchmark is built, not what it measures";

/// Claims and reasons.
pub const NOT_CHECKABLE: &[(&str, &str)] = &[
    (
        "abstract/best-design/no-protocol-or-core-change",
        "a constraint on the design: the protocol and the core model are the same in all designs",
    ),
    ("intro/sonuma/remote-latency", SONUMA),
    ("intro/system/nodes", RACK),
    ("intro/system/rack-topology", RACK),
    ("intro/placement/rrpp-at-edge", STRUCTURE),
    ("sec1/dram-bandwidth-per-socket", BACKGROUND),
    ("sec2/kv-object-size-min", BACKGROUND),
    ("sec2/kv-object-size-max", BACKGROUND),
    ("sec2/memcached-object-size", BACKGROUND),
    ("sec2/commodity-network-latency", BACKGROUND),
    ("sec2/local-memory-latency", BACKGROUND),
    ("sec2/pcie-rdma-vs-local", BACKGROUND),
    ("sec2/pcie-bandwidth", BACKGROUND),
    ("sec2/ddr-channel-bandwidth", BACKGROUND),
    (
        "fig2/protocol/hops",
        "a property of the protocol, not of a run: shown by the tests of the protocol's state \
         machines",
    ),
    ("fig2/home-tile", STRUCTURE),
    ("fig2/ni-cache-scope", STRUCTURE),
    (
        "sec3-1/numa-bulk",
        "stated in the paper, not measured; loads of the NUMA machine end in registers, so what they \
         bring cannot be compared with transfers that are written to memory",
    ),
    ("sec3-2/per-tile/message-pairs", STRUCTURE),
    ("sec3-2/per-tile/response-detour", STRUCTURE),
    ("sec3-2/per-tile/qp-traffic", STRUCTURE),
    ("sec3-4/ni-cache/edge-tile-id", STRUCTURE),
    ("sec3-4/directory/type", STRUCTURE),
    ("sec4/sonuma/multiple-of-local-dram", SONUMA),
    ("sec4-1/pipelines", STRUCTURE),
    ("sec4-2/fbi/edge-per-tile", STRUCTURE),
    ("sec4-3/rrpp-interleave", STRUCTURE),
    ("sec4-3/interface-placement", STRUCTURE),
    (
        "table2/core/type",
        "cores execute the instructions around queue accesses one after the other, as these depend \
         on each other; there is no out-of-order core in these runs",
    ),
    (
        "table2/core/width",
        "the instructions of the benchmark depend on each other: width is not modelled",
    ),
    (
        "table2/core/rob",
        "the instructions of the benchmark depend on each other: no reorder buffer",
    ),
    ("table2/llc/organisation", STRUCTURE),
    ("table2/coherence", STRUCTURE),
    ("table2/ni/pipelines", STRUCTURE),
    ("sec5/traffic-generator/interleave", STRUCTURE),
    ("sec5/hmc-bandwidth", BACKGROUND),
    ("sec5/hmc-vs-ddr3", BACKGROUND),
    ("sec5/backplane-ethernet", BACKGROUND),
    ("sec5/photonics", BACKGROUND),
    ("sec5/latency-bench/cores", BENCHMARK),
    ("sec5/bandwidth-bench/issue-policy", BENCHMARK),
    ("fig5/hops-average", RACK),
    ("fig5/hops-maximum", RACK),
    ("fig7/metric", "the definition of a metric; it is the one that is used"),
    ("noc-out/organisation", STRUCTURE),
];
