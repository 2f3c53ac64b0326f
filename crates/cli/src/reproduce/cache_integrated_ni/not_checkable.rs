//! Claims that no run and no machine file can show to be true or false, each with the reason.

use crate::reproduce::paper::Remarks;

/// A figure of the world outside.
const BACKGROUND: &str = "a third party's figure, quoted as background";
/// Gates.
const LOGIC: &str = "gates of an FPGA: a model of cycles has none";
/// The FPGA and its tools.
const FPGA: &str = "about the paper's FPGA and its tools; this is a model of it";
/// Reason for claims on the structure of the chip.
const STRUCTURE: &str =
    "how the model is built, not what it measures: shown by its source and the tests of its parts";
/// Reason for claims on the code of locks and barriers.
const LIBRARY: &str =
    "how the library is written, not what it measures: shown by syslib.h and scr_test";
/// Reason for claims on the code of the benchmark.
const BENCHMARK: &str = "how the benchmark is built, not what it measures";
/// Reason for claims on the length of the paper's runs.
const EPISODES: &str =
    "how often the paper ran it; the model repeats itself exactly, so that fewer do";
/// The paper's simulator.
const GEMS: &str = "about GEMS and Simics, the simulator of the paper; this is another one";
/// Reason for claims that the paper argues.
const ARGUMENT: &str =
    "an argument for the design that the paper does not measure, and has no program for";

/// Claims and reasons.
pub const NOT_CHECKABLE: Remarks = &[
    ("sect541/commercial-multicore/lock-pair", BACKGROUND),
    ("sect541/commercial-multicore/lock-pair-time", BACKGROUND),
    ("sect541/commercial-multicore/barrier", BACKGROUND),
    ("sect541/commercial-multicore/barrier-time", BACKGROUND),
    ("sect41/simple-integrated/overhead", LOGIC),
    ("sect41/simple-integrated/saving-vs-partitioned", LOGIC),
    ("sect41/feature-cost/counters", LOGIC),
    ("sect41/feature-cost/mrq", LOGIC),
    ("sect41/feature-cost/srq", LOGIC),
    ("sect41/feature-cost/barrel-shifter", LOGIC),
    ("sect41/feature-cost/combining-buffer", LOGIC),
    ("sect41/feature-cost/advanced-sum", LOGIC),
    ("sect41/feature-cost/full-total", LOGIC),
    ("sect41/alignment/saving", LOGIC),
    ("sect41/order/cost", LOGIC),
    ("sect41/order/feature-most-expensive", LOGIC),
    ("sect41/param/gates-per-lut", LOGIC),
    ("sect41/param/simple-rdma-alignment", LOGIC),
    ("stream/param/arrays", BENCHMARK),
    ("stream/param/on-chip-layout", BENCHMARK),
    ("stream/param/swept", BENCHMARK),
    ("bench/param/streamit", BENCHMARK),
    ("sim/param/simulator", GEMS),
    ("sim/param/measurement", GEMS),
    ("sim/param/barrier-episodes", EPISODES),
    ("sim/param/lock-acquisitions/min", EPISODES),
    ("sim/param/lock-acquisitions/max", EPISODES),
    ("sim/param/arrival-store-value", LIBRARY),
    ("sim/param/barrier-trees", LIBRARY),
    ("sim/param/lock-tokens", LIBRARY),
    ("proto/core-type", FPGA),
    ("proto/fpga", FPGA),
    ("proto/compiler", FPGA),
    (
        "proto/off-chip-links",
        "intended for a system of several chips, which the paper does not have",
    ),
    ("proto/l2-throughput", STRUCTURE),
    ("proto/l1-write-policy", STRUCTURE),
    ("proto/noc-priorities", STRUCTURE),
    (
        "func/ack/unordered-network",
        "a property of the protocol, not of a run: shown by the tests of the interface alone, which \
         deliver its packets in any order",
    ),
    (
        "func/command-buffer/write-once",
        "a rule for programs; scr_test --wrong double-write shows that breaking it ends them",
    ),
    ("func/srq/locate-input", ARGUMENT),
    ("func/srq/buffer-space", ARGUMENT),
    ("func/order/rdma-fewer-packets", ARGUMENT),
];
