//! Remote request processing pipeline (RRPP): a request becomes a memory access and exactly one
//! reply (soNUMA §4.2). It keeps nothing between requests.
//!
//! | stage | here |
//! |---|---|
//! | 1: decode | [`decode`] |
//! | 2, 3: context table, bounds | [`check`], [`Bounds::check`](crate::Bounds::check) |
//! | 4: translate | [`Memory`] |
//! | 5: access | [`execute`] |
//! | 6: reply | [`reply`] |

use rackmem_abi::{Header, LINE_BYTES, Op, Reply, Request, Status};

use crate::{ContextTable, Memory};

/// Stages 1 to 3: checks that node `nid` may carry out the request.
///
/// # Errors
/// For headers that no RGP writes: [`Status::NoNode`] if this is not their node,
/// [`Status::MisalignedAtomic`] or [`Status::BadOperation`] if they are malformed. Then
/// those of [`ContextTable::lookup`] and [`Bounds::check`](crate::Bounds::check).
#[inline]
pub fn check(header: &Header, nid: u16, contexts: &ContextTable) -> Result<(), Status> {
    decode(header, nid)?;
    contexts.lookup(header.ctx_id)?.check(header.offset, u64::from(header.length))
}

/// Stage 1: checks that the request is for node `nid` and that an RGP may have written the header.
///
/// # Errors
/// [`Status::NoNode`], [`Status::MisalignedAtomic`] or [`Status::BadOperation`].
#[inline]
pub const fn decode(header: &Header, nid: u16) -> Result<(), Status> {
    if header.dst_nid != nid {
        return Err(Status::NoNode);
    }
    if !header.is_well_formed() {
        let atomic = header.op.is_atomic();
        return Err(if atomic { Status::MisalignedAtomic } else { Status::BadOperation });
    }
    Ok(())
}

/// Stage 5: carries out a checked request and leaves the bytes for the reply in `result`.
#[inline]
pub fn execute<M: Memory>(request: &Request, mem: &mut M, result: &mut [u8; LINE_BYTES]) {
    let Header { op, ctx_id, offset, length, .. } = request.header;
    match op {
        Op::Nop => {}
        Op::Read => mem.read(ctx_id, offset, &mut result[..length as usize]),
        Op::Write => mem.write(ctx_id, offset, &request.payload[..length as usize]),
        Op::FetchAdd => {
            let old = mem.fetch_add(ctx_id, offset, operand(&request.payload, 0));
            result[..8].copy_from_slice(&old.to_le_bytes());
        }
        Op::CompareSwap => {
            let (expected, desired) = (operand(&request.payload, 0), operand(&request.payload, 1));
            let old = mem.compare_swap(ctx_id, offset, expected, desired);
            result[..8].copy_from_slice(&old.to_le_bytes());
        }
        Op::Notify => mem.notify(ctx_id),
    }
}

/// Stage 6: the one reply to a request, with room for the result of stage 5. The packet is made
/// first so that the bytes are copied once.
///
/// It carries the request's header turned round, except that the reply to a malformed request does
/// not repeat what was malformed: it could not travel.
#[inline]
pub const fn reply(request: &Header, status: Status) -> Reply {
    let mut header = Header { dst_nid: request.src_nid, src_nid: request.dst_nid, ..*request };
    if !header.is_well_formed() {
        header.op = Op::Nop;
        header.length = 0;
    }
    Reply { header, status, payload: [0; LINE_BYTES] }
}

/// Stages 1 to 6 for one request.
#[inline]
pub fn process<M: Memory>(
    request: &Request,
    nid: u16,
    contexts: &ContextTable,
    mem: &mut M,
) -> Reply {
    match check(&request.header, nid, contexts) {
        Ok(()) => {
            let mut reply = reply(&request.header, Status::Ok);
            execute(request, mem, &mut reply.payload);
            reply
        }
        Err(status) => reply(&request.header, status),
    }
}

/// The `index`-th operand of an atomic: `{addend}` or `{expected, desired}`.
#[inline]
pub fn operand(payload: &[u8; LINE_BYTES], index: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&payload[index * 8..index * 8 + 8]);
    u64::from_le_bytes(bytes)
}
