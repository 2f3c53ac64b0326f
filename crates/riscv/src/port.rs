//! The port of a hart to memory and counters.

use crate::csr::Counter;

/// Function of an atomic on the old value and the operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // The names are those of the instructions.
pub enum AmoOp {
    Swap,
    Add,
    Xor,
    And,
    Or,
    Min,
    Max,
    MinUnsigned,
    MaxUnsigned,
}

impl AmoOp {
    /// The new value in memory; only the low `size` bytes (4 or 8) of operands and result count.
    #[inline]
    pub fn apply(self, size: u8, old: u64, operand: u64) -> u64 {
        let (a, b) = if size == 4 {
            (old as i32 as i64, operand as i32 as i64)
        } else {
            (old as i64, operand as i64)
        };
        // Sign extension keeps the unsigned order of 32-bit values, too.
        let result = match self {
            AmoOp::Swap => b,
            AmoOp::Add => a.wrapping_add(b),
            AmoOp::Xor => a ^ b,
            AmoOp::And => a & b,
            AmoOp::Or => a | b,
            AmoOp::Min => a.min(b),
            AmoOp::Max => a.max(b),
            AmoOp::MinUnsigned => (a as u64).min(b as u64) as i64,
            AmoOp::MaxUnsigned => (a as u64).max(b as u64) as i64,
        };
        if size == 4 { u64::from(result as u32) } else { result as u64 }
    }
}

/// Memory and counters as a hart sees them.
///
/// Values are little endian in the low `size` bytes (1, 2, 4 or 8), the rest zero. An access that
/// does not complete returns its reason as [`Port::Stop`]; the hart is then as it was before.
pub trait Port {
    /// Reason why an access did not complete.
    type Stop;

    /// Loads `size` bytes.
    fn load(&mut self, address: u64, size: u8) -> Result<u64, Self::Stop>;

    /// Stores the low `size` bytes of `data`.
    fn store(&mut self, address: u64, size: u8, data: u64) -> Result<(), Self::Stop>;

    /// Replaces the value by [`AmoOp::apply`] of it and `operand`; returns the old one.
    fn amo(&mut self, op: AmoOp, address: u64, size: u8, operand: u64) -> Result<u64, Self::Stop>;

    /// Loads `size` bytes and reserves their line.
    fn load_reserved(&mut self, address: u64, size: u8) -> Result<u64, Self::Stop>;

    /// Stores if the reservation still stands; returns whether it did.
    fn store_conditional(&mut self, address: u64, size: u8, data: u64) -> Result<bool, Self::Stop>;

    /// Orders accesses before (`predecessors`) and after it (`successors`); bits are
    /// `i, o, r, w` from 3 down to 0.
    fn fence(&mut self, predecessors: u8, successors: u8) -> Result<(), Self::Stop>;

    /// Makes stores visible to instruction fetches of this hart.
    fn fence_i(&mut self) -> Result<(), Self::Stop>;

    /// Reads a counter.
    fn counter(&mut self, counter: Counter) -> Result<u64, Self::Stop>;
}
