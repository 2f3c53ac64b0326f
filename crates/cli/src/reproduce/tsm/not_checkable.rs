//! Claims that no run and no machine file can show to be true or false, each with the reason.

use crate::reproduce::paper::Remarks;

/// A figure of the world outside.
const BACKGROUND: &str = "a third party's figure, quoted as background";
/// Disks and networks of the comparison.
const ORION: &str =
    "ORION on disks, solid-state drives, Ethernet and InfiniBand, of which the model has none";
/// Reason for claims on the code of the benchmark.
const BENCHMARK: &str = "how the benchmark is built, not what it measures";
/// Reason for claims on the structure of the prototype.
const STRUCTURE: &str =
    "how the prototype is built, not what it measures: the model has the latency of its chips only";
/// The paper's simulator.
const GEM5: &str = "about gem5, the simulator of the paper; this is another one";

/// Reason for claims on sizes of caches of the FPGA prototype's nodes.
const CACHES: &str =
    "a size that no experiment on the model comes near to: caches of these nodes are latencies";
const BOARD: &str = "about the paper's board; this is a model of it";
/// Reason for claims on the design of the protocol.
const PROTOCOL: &str = "how the protocol is built, not what it measures: shown by its source and the \
     tests of its parts";

/// Claims and reasons.
pub const NOT_CHECKABLE: Remarks = &[
    ("table1/10gige/peak-bandwidth", BACKGROUND),
    ("table1/10gige/application-latency", BACKGROUND),
    ("table1/ib/peak-bandwidth", BACKGROUND),
    ("table1/ib/application-latency", BACKGROUND),
    ("table1/order/bandwidth-similar", BACKGROUND),
    ("table1/order/latency-same", BACKGROUND),
    ("table1/ratio/10gige-latency", BACKGROUND),
    ("table1/order/10gige-lowest-bandwidth", BACKGROUND),
    ("traffic/east-west-share", BACKGROUND),
    ("traffic/small-flow-share", BACKGROUND),
    ("traffic/small-flow-size", BACKGROUND),
    ("traffic/top-flows", BACKGROUND),
    (
        "sect212/param/transfer-total",
        "the paper moves 1 GB a run; the model repeats itself exactly, so that less does",
    ),
    ("sect212/param/block-min", BENCHMARK),
    ("sect212/param/block-max", BENCHMARK),
    ("tlp/window", "the length of what the paper's analyser shows, to which counts are scaled"),
    ("orion/vbd-vs-10gige/bandwidth", ORION),
    ("orion/vbd-vs-10gige/iops", ORION),
    ("orion/vbd-vs-10gige/latency", ORION),
    ("orion/vbd-vs-sata-disk/bandwidth", ORION),
    ("orion/vbd-vs-ssd/bandwidth", ORION),
    ("orion/vbd-vs-sata-disk/iops", ORION),
    ("orion/vbd-vs-ssd/iops", ORION),
    ("orion/vbd-vs-sata-disk/latency", ORION),
    ("orion/vbd-vs-ssd/latency", ORION),
    ("orion/order/vbd-best-bandwidth", ORION),
    ("orion/order/vbd-best-iops", ORION),
    ("orion/order/vbd-best-latency", ORION),
    ("orion/param/alternatives", ORION),
    ("fig5/param/b1", BENCHMARK),
    ("fig5/param/b2", BENCHMARK),
    ("fig5/param/b3", BENCHMARK),
    ("fig5/param/b4", BENCHMARK),
    (
        "write-policy/write-back-failures",
        "about three processors of Intel; the model's prototype has the policy that they have",
    ),
    ("pcie/leaf-nodes", STRUCTURE),
    ("pcie/ntb-chips", STRUCTURE),
    ("pcie/transparent-bridges", STRUCTURE),
    ("sim/param/base", GEM5),
    ("sim/param/orq-sizes", BENCHMARK),
    ("sim/param/prefetch-degree-max-named", BENCHMARK),
    ("fig9/param/apps", BENCHMARK),
    // Thunder.
    ("table4/l2", CACHES),
    ("table4/memory-size", CACHES),
    ("fpga/board", BOARD),
    ("fpga/external-switches", PROTOCOL),
    ("fpga/channels", PROTOCOL),
    ("fpga/tables", PROTOCOL),
    ("fpga/layers", PROTOCOL),
    ("fpga/queues-per-connection", PROTOCOL),
    ("fpga/ict-granularity", PROTOCOL),
    ("fpga/rdma-granularity", PROTOCOL),
    ("fpga/order/routing-before-use", PROTOCOL),
    ("qpair/param/latency-definition", BENCHMARK),
];
