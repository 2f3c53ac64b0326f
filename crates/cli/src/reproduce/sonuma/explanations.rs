//! Explanations of missed claims, written by hand after looking at the runs.

use crate::reproduce::paper::Remarks;

/// Claims and explanations. A missed claim that is not here is explained by its figures alone.
pub const EXPLANATIONS: Remarks = &[
    ("abstract/op-rate-per-core", RATE),
    ("sec10/op-rate", RATE),
    ("fig7b/op-rate-64b", RATE),
    ("fig7b/small-fraction", RATE),
    ("table2/hw/iops", RATE),
    ("sec7-4/per-core-ops", RATE),
    ("fig9/fine-op-limit", RATE),
    ("fig7b/bandwidth-8kb", CHANNEL),
    ("table2/hw/max-bw", CHANNEL),
    (
        "fig7b/double-sided",
        "one direction alone takes nine tenths of a node's channel (fig7b/bandwidth-8kb), which the \
         paper's does not; in both directions, each channel also stores what arrives",
    ),
    ("fig8b/bandwidth-8kb", MESSAGES),
    ("table2/hw/fetch-and-add", OPERAND),
    ("sec7-4/faa-equals-read", OPERAND),
    (
        "fig9/sim/shm-vs-bulk",
        "both follow the imbalance of the partition, but a superstep of this graph is short: to pull the \
         results of all peers, and to read them out of the caches of the RMC, takes bulk a fifth of \
         it, while threads get lines as they need them. How large the paper's graph is, it does not say",
    ),
    (
        "fig8a/half-duplex-latency",
        "a small message is one remote write of a line, and its receiver finds it in its own cache, \
         so it takes less than a read and back. The paper's takes longer than its own reads; of \
         what, it does not say",
    ),
];

const RATE: &str = "software is the limit, here as in the paper, but a core of the model takes some 85 \
                    cycles for a read and a look at its reply, with the library inlined; the \
                    paper's takes nearly 200, of which it says nothing";

const CHANNEL: &str = "first-ready scheduling over 16 banks in two ranks keeps the wires of the channel \
                       busy nine tenths of the time; the paper's DRAM gives three quarters of what \
                       they carry. The scheduling that DRAMSim2 is shipped with (dram.scheduler = \
                       \"rank-then-bank-round-robin\") is not the reason: it gives 2 % less. One rank \
                       instead of two gives 9.4 GB/s with either; how many its 4 GB are, the paper does \
                       not say";

const MESSAGES: &str = "large messages are pulled by one read each, and reach a good part of what reads \
                        do; the paper's are far below its own reads, unless its unit is GB/s, which is \
                        more than they reach";

const OPERAND: &str = "its operand is a word of the local buffer that the core has just written, which the \
                       RGP gets out of the core's cache before it can send; a read has none";
