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

use rackmem_abi::{Header, MAX_UNIT_BYTES, Status};

use crate::itt::Entry;
use crate::{Memory, Source};

/// Stage 1: whether a reply with this header and status, which has the tid of `entry`, really answers a piece of it. It
/// must come from the entry's node, and its bytes must lie within the transfer: the local buffer ends there.
#[inline]
pub const fn answers(header: &Header, status: Status, nid: u16, entry: &Entry) -> bool {
    if header.dst_nid != nid || header.src_nid != entry.dst_nid {
        return false;
    }
    match status {
        Status::Ok => {
            header.is_well_formed(MAX_UNIT_BYTES)
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
pub const fn target(header: &Header, entry: &Entry) -> u64 {
    entry.buffer + (header.offset - entry.base)
}

/// Stage 3: stores the reply's payload; returns the status of the piece.
#[inline]
pub fn store<M: Memory>(
    header: &Header,
    status: Status,
    payload: Source<'_>,
    entry: &Entry,
    mem: &mut M,
) -> Status {
    // No buffer is touched for a queue pair that is gone.
    let (Some(qp), false) = (entry.qp, payload.is_empty()) else {
        return status;
    };
    match mem.store(qp, target(header, entry), payload) {
        Ok(()) => Status::Ok,
        Err(status) => status,
    }
}
