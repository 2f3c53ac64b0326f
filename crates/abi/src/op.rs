/// Operation of a work queue entry or packet. Codes 6 and 7 are free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Op {
    /// Completes without touching the destination's memory, but visits it.
    Nop = 0,
    /// Copy from the remote segment to the local buffer.
    Read = 1,
    /// Copy from the local buffer to the remote segment.
    Write = 2,
    /// `{addend -> old}`: add to 8 remote bytes.
    FetchAdd = 3,
    /// `{expected, desired -> old}`: replace 8 remote bytes if they equal `expected`.
    CompareSwap = 4,
    /// Remote interrupt: wakes the waiters for notifications of the context (soNUMA §8).
    Notify = 5,
}

impl Op {
    /// Every operation, in the order of its code.
    pub const ALL: [Op; 6] =
        [Op::Nop, Op::Read, Op::Write, Op::FetchAdd, Op::CompareSwap, Op::Notify];

    /// The operation with this code, or `None` for the free codes.
    pub const fn from_code(code: u8) -> Option<Op> {
        match code {
            0 => Some(Op::Nop),
            1 => Some(Op::Read),
            2 => Some(Op::Write),
            3 => Some(Op::FetchAdd),
            4 => Some(Op::CompareSwap),
            5 => Some(Op::Notify),
            _ => None,
        }
    }

    /// Whether the operation changes remote memory.
    pub const fn modifies(self) -> bool {
        matches!(self, Op::Write | Op::FetchAdd | Op::CompareSwap)
    }

    /// Whether the operation is an 8-byte read-modify-write.
    pub const fn is_atomic(self) -> bool {
        matches!(self, Op::FetchAdd | Op::CompareSwap)
    }

    /// Bytes that the source reads from its local buffer to build a request over `length_bytes`.
    pub const fn operand_bytes(self, length_bytes: usize) -> usize {
        match self {
            Op::Nop | Op::Read | Op::Notify => 0,
            Op::Write => length_bytes,
            Op::FetchAdd => 8,
            Op::CompareSwap => 16,
        }
    }

    /// Bytes that a successful reply brings back for a request over `length_bytes`.
    pub const fn result_bytes(self, length_bytes: usize) -> usize {
        match self {
            Op::Nop | Op::Write | Op::Notify => 0,
            Op::Read => length_bytes,
            Op::FetchAdd | Op::CompareSwap => 8,
        }
    }
}
