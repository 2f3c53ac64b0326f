//! Request completion pipeline (RCP): replies fill the local buffer, the last one completes the
//! work queue entry (soNUMA §4.2; stages as in Manycore NI §4.2).
//!
//! | stage | here |
//! |---|---|
//! | 1: receive, extract tid | [`Itt::get`](crate::Itt::get), [`answers`] |
//! | 2: ITT | [`Itt::answer`](crate::Itt::answer) |
//! | 3: payload to the local buffer | [`store`] |
//! | 4: position in the CQ | [`Qp::complete`](crate::qp::Qp::complete) |
//! | 5: CQ entry | [`Memory::put_cq`] |

use rackmem_abi::{Reply, Status};

use crate::Memory;
use crate::itt::Entry;

/// Stage 1: whether the reply, which has the tid of `entry`, really answers one of its lines. It must
/// come from the entry's node, and its bytes must lie within the transfer: the local buffer ends there.
#[inline]
pub const fn answers(reply: &Reply, nid: u16, entry: &Entry) -> bool {
    let header = &reply.header;
    if header.dst_nid != nid || header.src_nid != entry.dst_nid {
        return false;
    }
    match reply.status {
        Status::Ok => {
            header.is_well_formed()
                && header.op as u8 == entry.op as u8
                && header.offset >= entry.base
                && header.offset - entry.base + header.length as u64 <= entry.length as u64
        }
        // Nothing of an error but its status is used.
        _ => true,
    }
}

/// Stage 3: local address for the bytes of a reply that [`answers`].
#[inline]
pub const fn target(reply: &Reply, entry: &Entry) -> u64 {
    entry.buffer + (reply.header.offset - entry.base)
}

/// Stage 3: stores the reply's payload; returns the status of the line.
#[inline]
pub fn store<M: Memory>(reply: &Reply, entry: &Entry, mem: &mut M) -> Status {
    let bytes = reply.payload_bytes();
    // No buffer is touched for a queue pair that is gone.
    let (Some(qp), 1..) = (entry.qp, bytes) else {
        return reply.status;
    };
    match mem.store(qp, target(reply, entry), &reply.payload[..bytes]) {
        Ok(()) => Status::Ok,
        Err(status) => status,
    }
}
