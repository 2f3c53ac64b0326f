//! Explanations of missed claims, written by hand after looking at the runs.

use crate::reproduce::paper::Remarks;

/// Explanation: the waits of a core that sends.
const OUTBOUND: &str = "the modelled driver waits for one register write in the neighbour for each packet, 1 us of the \
     28 us that a core works for it; the paper does not say what else its driver does there";
/// Explanation: the waits of a message.
const EXTRA: &str = "a status read, two register writes, a descriptor, data and an interrupt cross the link one after \
     the other for each message; the paper does not say which of them its driver does without";
/// Explanation: the gain by a cache.
const REDIS: &str = "keys, connections and the prototype's time for a request are not published, and the gain follows \
     from them: it lies below the paper's with this model's";

/// Claims and explanations. A missed claim that is not here is explained by its figures alone.
pub const EXPLANATIONS: Remarks = &[
    ("fig5/bandwidth-disparity/outbound", OUTBOUND),
    ("abstract/nic/degradation", OUTBOUND),
    ("intro/nic/degradation", OUTBOUND),
    ("fig5/ping-pong-extra", EXTRA),
    ("abstract/nic/ping-pong-disparity", EXTRA),
    ("abstract/redis/improvement", REDIS),
];
