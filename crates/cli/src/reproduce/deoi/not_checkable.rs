//! Claims that no run and no machine file can show to be true or false, each with the reason.

use crate::reproduce::paper::Remarks;

/// A figure of the world outside.
const BACKGROUND: &str = "a third party's figure, quoted as background";
/// Gates.
const LOGIC: &str = "logic of an FPGA: a model of cycles has none";
/// Reason for claims on the code of the benchmark.
const BENCHMARK: &str = "how the benchmark is built, not what it measures";
/// The FPGA and its software.
const PLATFORM: &str = "about the paper's boards and their software; this is a model of them";
/// Reason for claims on the structure of the module.
const STRUCTURE: &str =
    "how the model is built, not what it measures: shown by its source and the tests of its parts";
/// Another vendor's card.
const CONNECTX: &str =
    "a private communication about another vendor's card, of which the model has none";

/// Claims and reasons.
pub const NOT_CHECKABLE: Remarks = &[
    ("fig4/vs-connectx4", CONNECTX),
    ("abstract/order/beats-commercial", CONNECTX),
    ("fig5/param/iperf-duration", "the model repeats itself exactly, so that shorter runs do"),
    ("redis/param/metric", BENCHMARK),
    ("redis/param/version", PLATFORM),
    ("cost/master/luts", LOGIC),
    ("cost/master/registers", LOGIC),
    ("cost/slave/luts", LOGIC),
    ("cost/slave/registers", LOGIC),
    ("cost/share", LOGIC),
    ("cost/device/luts", LOGIC),
    ("cost/device/registers", LOGIC),
    ("cost/order/slave-above-master", LOGIC),
    ("arch/layers", STRUCTURE),
    ("arch/protocol-conversions", STRUCTURE),
    ("arch/software-modifications", "nothing is executed on these nodes that could be modified"),
    ("arch/sharing", STRUCTURE),
    ("arch/coherence", "caches of these nodes always miss, so nothing can become incoherent"),
    ("table1/cpu-width", "nothing is executed on these nodes that had a width"),
    ("table1/dram/remote-memory/size", "a size that no experiment on the model comes near to"),
    ("table1/dram/remote-nic/size", "a size that no experiment on the model comes near to"),
    ("table1/dram/remote-nic/rate", "one memory serves all experiments: that of the first column"),
    ("table1/gige/remote-memory", PLATFORM),
    ("table1/gige/remote-nic", PLATFORM),
    ("table1/os", PLATFORM),
    ("table1/tools", PLATFORM),
    ("proto/coherency-port", PLATFORM),
    ("proto/load-generator", PLATFORM),
    ("motivation/memory-idle/min", BACKGROUND),
    ("motivation/memory-idle/max", BACKGROUND),
    ("motivation/cpu-utilisation", BACKGROUND),
];
