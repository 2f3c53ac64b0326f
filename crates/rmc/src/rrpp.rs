//! Remote request processing pipeline (RRPP): a request becomes a memory access and exactly one
//! reply (soNUMA §4.2). It keeps nothing between requests.
//!
//! | stage | here |
//! |---|---|
//! | 1: decode | [`decode`] |
//! | 2, 3: context table, bounds | [`check`], [`Bounds::check`](crate::Bounds::check) |
//! | 4: translate | [`Memory`] |
//! | 5: access | [`execute`] |
//! | 6: reply | [`turn`] |

use rackmem_abi::{Header, LINE_BYTES, Op, Reply, Status};

use crate::{ContextTable, Full, Memory, Network};

/// Stages 1 to 3: checks that node `nid` may carry out the request, which came over a link of this unit.
///
/// # Errors
/// For headers that no RGP writes: [`Status::NoNode`] if this is not their node,
/// [`Status::MisalignedAtomic`] or [`Status::BadOperation`] if they are malformed. Then
/// those of [`ContextTable::lookup`] and [`Bounds::check`](crate::Bounds::check).
#[inline]
pub fn check(
    header: &Header,
    nid: u16,
    unit_bytes: usize,
    contexts: &ContextTable,
) -> Result<(), Status> {
    decode(header, nid, unit_bytes)?;
    contexts.lookup(header.ctx_id)?.check(header.offset, u64::from(header.length))
}

/// Stage 1: checks that the request is for node `nid` and that an RGP may have written the header.
///
/// # Errors
/// [`Status::NoNode`], [`Status::MisalignedAtomic`] or [`Status::BadOperation`].
#[inline]
pub const fn decode(header: &Header, nid: u16, unit_bytes: usize) -> Result<(), Status> {
    if header.dst_nid != nid {
        return Err(Status::NoNode);
    }
    if !header.is_well_formed(unit_bytes) {
        let atomic = header.op.is_atomic();
        return Err(if atomic { Status::MisalignedAtomic } else { Status::BadOperation });
    }
    Ok(())
}

/// Stages 5 and 6: carries out the checked request that `net` has named, and sends its reply with the result. The
/// caller has made sure that the reply lane has room.
///
/// # Errors
/// [`Full`]: it had none.
#[inline]
pub fn execute<M: Memory, N: Network>(
    request: &Header,
    mem: &mut M,
    net: &mut N,
) -> Result<(), Full> {
    let Header { op, ctx_id, offset, .. } = *request;
    let reply = turn(request, net.unit_bytes(request.src_nid));
    let old = match op {
        Op::Read => {
            return net.send_reply(&reply, Status::Ok, |out| mem.read(ctx_id, offset, out));
        }
        Op::FetchAdd => mem.fetch_add(ctx_id, offset, net.operands().operand(0)),
        Op::CompareSwap => {
            let (expected, desired) = (net.operands().operand(0), net.operands().operand(1));
            mem.compare_swap(ctx_id, offset, expected, desired)
        }
        Op::Write => {
            mem.write(ctx_id, offset, net.operands());
            0
        }
        Op::Notify => {
            mem.notify(ctx_id);
            0
        }
        Op::Nop => 0,
    };
    net.send_reply(&reply, Status::Ok, |out| out.put(&old.to_le_bytes()))
}

/// Stage 6: the header of the one reply to a request: the request's turned round, except that the reply to a malformed
/// request does not repeat what was malformed: it could not travel.
#[inline]
pub const fn turn(request: &Header, unit_bytes: usize) -> Header {
    let mut header = Header { dst_nid: request.src_nid, src_nid: request.dst_nid, ..*request };
    if !header.is_well_formed(unit_bytes) {
        header.op = Op::Nop;
        header.length = 0;
    }
    header
}

/// Stage 6 for links whose unit is a line: the packet, with room for the result of stage 5. It is made first so that
/// the bytes are copied once.
#[inline]
pub const fn reply(request: &Header, status: Status) -> Reply {
    Reply { header: turn(request, LINE_BYTES), status, payload: [0; LINE_BYTES] }
}

/// Stages 1 to 6 for the request that `net` has named. Returns the status of the reply.
///
/// # Errors
/// [`Full`]: the reply lane had no room.
#[inline]
pub fn process<M: Memory, N: Network>(
    request: &Header,
    nid: u16,
    contexts: &ContextTable,
    mem: &mut M,
    net: &mut N,
) -> Result<Status, Full> {
    let unit_bytes = net.unit_bytes(request.src_nid);
    match check(request, nid, unit_bytes, contexts) {
        Ok(()) => execute(request, mem, net).map(|()| Status::Ok),
        Err(status) => net.send_reply(&turn(request, unit_bytes), status, |_| {}).map(|()| status),
    }
}

/// The `index`-th operand of an atomic in a packet of a line: `{addend}` or `{expected, desired}`.
#[inline]
pub fn operand(payload: &[u8; LINE_BYTES], index: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&payload[index * 8..index * 8 + 8]);
    u64::from_le_bytes(bytes)
}
