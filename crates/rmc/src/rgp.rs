//! Request generation pipeline (RGP): a work queue entry becomes requests of at most the link's unit, in the papers a
//! line (soNUMA §4.2; stages as in Manycore NI §4.2).
//!
//! | stage | here |
//! |---|---|
//! | 1 to 3: select a WQ, find and load its current entry | [`Rmc::poll_rgp`](crate::Rmc::poll_rgp), [`Memory::wq_words`](crate::Memory::wq_words) |
//! | 4: is it new? may it be done? | [`accept`], [`check`] |
//! | 5: ITT entry, tid | [`Itt::alloc`](crate::Itt::alloc) |
//! | 6: unroll | [`Unroll`] |
//! | 7: local data | [`Memory::load`](crate::Memory::load) |
//! | 8: packet | [`header`] |

use rackmem_abi::{
    ATOMIC_BYTES, Header, LINE_BYTES, MAX_OFFSET, MAX_UNIT_BYTES, Op, Request, Status, WqEntry,
};

/// Operations that the owner of a queue pair may do to the segments of its context.
///
/// File permission decides when the context is opened (soNUMA §5.1), and the source checks: the nodes
/// of a rack trust each other's controllers, not each other's applications.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rights {
    /// Reads and no-ops.
    ReadOnly,
    /// Every operation: writes, atomics and notifications too.
    ReadWrite,
}

/// A work queue entry that has passed every check the source can make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Work {
    /// Operation that the code in the entry stands for.
    pub op: Op,
    /// Destination node; it exists, but may be down.
    pub dst_nid: u16,
    /// Offset in the destination's segment; 0 if the operation addresses nothing.
    pub offset: u64,
    /// Length in bytes; 0 if the operation addresses nothing.
    pub length: u32,
    /// Address of the local buffer.
    pub buffer: u64,
}

/// Stage 4: the entry in these words, if it is of the round with this `phase` and thus new.
#[inline]
pub const fn accept(words: [u64; 2], phase: bool) -> Option<WqEntry> {
    let entry = WqEntry::decode(words);
    if entry.phase == phase { Some(entry) } else { None }
}

/// Stage 4: checks that need no answer of the destination, in a rack of `nodes` nodes.
///
/// # Errors
/// In this order: [`Status::BadOperation`], [`Status::NoNode`], [`Status::NoPermission`],
/// [`Status::MisalignedAtomic`], and [`Status::OutOfSegment`] for a range that no segment can
/// contain, because packets could not even name its end.
#[inline]
pub const fn check(entry: &WqEntry, nodes: u16, rights: Rights) -> Result<Work, Status> {
    let Some(op) = Op::from_code(entry.op_code) else {
        return Err(Status::BadOperation);
    };
    if entry.dst_nid >= nodes {
        return Err(Status::NoNode);
    }
    // A notification disturbs its waiters, so it takes the right to write.
    if matches!(rights, Rights::ReadOnly) && (op.modifies() || matches!(op, Op::Notify)) {
        return Err(Status::NoPermission);
    }
    if op.is_atomic() && (entry.length != ATOMIC_BYTES || entry.offset % 8 != 0) {
        return Err(Status::MisalignedAtomic);
    }
    let (offset, length) = match op {
        Op::Nop | Op::Notify => (0, 0),
        _ => (entry.offset, entry.length),
    };
    if offset > MAX_OFFSET || length as u64 > MAX_OFFSET + 1 - offset {
        return Err(Status::OutOfSegment);
    }
    Ok(Work { op, dst_nid: entry.dst_nid, offset, length, buffer: entry.buffer })
}

/// The part of a transfer that lies in one block of the destination's segment: a line, or the unit of a wider link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Piece {
    /// Offset in the destination's segment.
    pub offset: u64,
    /// Length in bytes, at most the unit.
    pub length: u16,
    /// Address of the piece in the local buffer.
    pub buffer: u64,
}

/// Stage 6: splits a transfer at the boundaries of blocks of the *remote* offset, because the line is
/// the unit of atomicity there, and no line is split. A transfer without bytes is one empty piece: it still visits the
/// destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Unroll {
    offset: u64,
    buffer: u64,
    length: u32,
    pieces: u32,
    unit_bytes: u32,
}

impl Unroll {
    /// Starts at the first piece of `work`, on a link with a unit of `unit_bytes`.
    ///
    /// # Panics
    /// The unit is no power of two from a line to [`MAX_UNIT_BYTES`].
    #[inline]
    pub const fn new(work: &Work, unit_bytes: usize) -> Self {
        assert!(unit_bytes.is_power_of_two());
        assert!(unit_bytes >= LINE_BYTES && unit_bytes <= MAX_UNIT_BYTES);
        let unit_bytes = unit_bytes as u32;
        // A shift and a mask: a division takes as long as all else here.
        let (shift, mask) = (unit_bytes.trailing_zeros(), unit_bytes - 1);
        let in_unit = work.offset as u32 & mask;
        let pieces = if work.length == 0 { 1 } else { ((in_unit + work.length - 1) >> shift) + 1 };
        Self { offset: work.offset, buffer: work.buffer, length: work.length, pieces, unit_bytes }
    }

    /// Pieces left, the current one included.
    #[inline]
    pub const fn pieces(&self) -> u32 {
        self.pieces
    }

    /// The current piece. It stays current until [`Unroll::advance`], so that a full lane costs
    /// nothing but time.
    #[inline]
    pub const fn peek(&self) -> Option<Piece> {
        if self.pieces == 0 {
            return None;
        }
        let to_boundary = self.unit_bytes - (self.offset as u32 & (self.unit_bytes - 1));
        let length = if self.length < to_boundary { self.length } else { to_boundary };
        Some(Piece { offset: self.offset, length: length as u16, buffer: self.buffer })
    }

    /// Bytes of payload of the request for the current piece of an operation, and of its reply.
    #[inline]
    pub const fn payload_bytes(&self, op: Op) -> (usize, usize) {
        match self.peek() {
            Some(piece) => {
                let length = piece.length as usize;
                (op.operand_bytes(length), op.result_bytes(length))
            }
            None => (0, 0),
        }
    }

    /// Goes on to the next piece.
    #[inline]
    pub const fn advance(&mut self) {
        if let Some(piece) = self.peek() {
            self.offset += piece.length as u64;
            self.buffer += piece.length as u64;
            self.length -= piece.length as u32;
            self.pieces -= 1;
        }
    }
}

impl Iterator for Unroll {
    type Item = Piece;

    #[inline]
    fn next(&mut self) -> Option<Piece> {
        let piece = self.peek();
        self.advance();
        piece
    }
}

/// Stage 8: the header of the request for one piece.
#[inline]
pub const fn header(work: &Work, piece: &Piece, src_nid: u16, ctx_id: u16, tid: u32) -> Header {
    Header {
        dst_nid: work.dst_nid,
        src_nid,
        op: work.op,
        ctx_id,
        length: piece.length,
        offset: piece.offset,
        tid,
    }
}

/// Stage 8 for links whose unit is a line: the packet, with room for the local data of stage 7. It is made first so
/// that the data are copied once.
#[inline]
pub const fn request(work: &Work, piece: &Piece, src_nid: u16, ctx_id: u16, tid: u32) -> Request {
    Request { header: header(work, piece, src_nid, ctx_id, tid), payload: [0; LINE_BYTES] }
}
