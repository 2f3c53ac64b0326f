//! Why claims are missed, written by hand after looking at the runs.

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
    ("fig8b/bandwidth-8kb", MESSAGES),
    ("table2/hw/fetch-and-add", CACHED),
    ("sec7-4/faa-equals-read", CACHED),
    (
        "fig8a/half-duplex-latency",
        "a small message is one remote write of a line, and its receiver finds it in its own cache, \
         so it takes less than a read and back. The paper's takes longer than its own reads; of \
         what, it does not say",
    ),
];

const RATE: &str = "software is the limit, here as in the paper, but a core of the model takes some 50 \
                    cycles for a read, with the library inlined; the paper's takes 200, of which it \
                    says nothing";

const CHANNEL: &str = "large reads take whole rows of the DRAM one after the other, and lose little more \
                       than refreshes to it; the paper's DRAM gives three quarters of what its wires \
                       carry, and its policies are not published";

const MESSAGES: &str = "large messages are pulled by one read each, and reach a good part of what reads \
                        do; the paper's are far below its own reads, unless its unit is GB/s, which is \
                        more than they reach";

const CACHED: &str = "the counter stays in the caches of its node, so there is no access to DRAM in it, \
                      which is what a read takes longer";
