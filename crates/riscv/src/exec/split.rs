//! Instructions in two halves, for drivers that know about time.
//!
//! [`issue`] executes everything that needs no memory. An instruction that does comes back as an
//! [`Access`] with address and data; the hart has gone on to the next instruction by then, only the
//! destination register is still missing. The driver carries the access out, when and how it sees
//! fit, and hands the value to [`complete`]. Many accesses of a hart may be under way at once, and
//! they may complete in any order, as long as the driver issues nothing that reads or writes a
//! register that is still missing ([`Inst::sources`], [`Inst::dest`]).
//!
//! ```
//! use rackmem_riscv::exec::split::{Issued, complete, issue};
//! use rackmem_riscv::{Hart, abi, decode};
//!
//! let inst = decode(0x0081_3083); // ld ra,8(sp)
//! let mut hart = Hart::new(0x1000);
//! hart.x[abi::SP] = 0x8000;
//! let Ok(Issued::Access(access)) = issue(&mut hart, &inst, |_counter| 0) else {
//!     panic!("it loads");
//! };
//! assert_eq!((access.address, access.size), (0x8008, 8));
//! assert_eq!(hart.pc, 0x1004);
//! // Any number of cycles later:
//! complete(&mut hart, &inst, 42);
//! assert_eq!(hart.x[abi::RA], 42);
//! ```

use super::{Exit, Trap, execute, loaded};
use crate::csr::Counter;
use crate::port::{AmoOp, Port};
use crate::{Class, Hart, Inst, Op};

/// Kinds of accesses, and the value with which each completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessKind {
    /// Load; completes with the bytes read.
    Load,
    /// Store; nothing to complete.
    Store,
    /// Read-modify-write with [`AmoOp::apply`]; completes with the old value.
    Amo(AmoOp),
    /// Load that reserves its line; completes with the bytes read.
    LoadReserved,
    /// Store if the reservation stands; completes with 0 if it did, else 1.
    StoreConditional,
    /// Fence; nothing to complete. Bits of the sets are `i, o, r, w` from 3 down to 0.
    Fence {
        /// Accesses that must be done before.
        predecessors: u8,
        /// Accesses that must wait.
        successors: u8,
    },
    /// Instruction fetches from here on see the stores before; nothing to complete.
    FenceI,
}

/// A memory access that an instruction asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Access {
    /// Load, store, atomic or fence.
    pub kind: AccessKind,
    /// Address of the first byte; 0 for fences.
    pub address: u64,
    /// Bytes: 1, 2, 4 or 8; 0 for fences.
    pub size: u8,
    /// Operand of stores and atomics, in the low `size` bytes.
    pub data: u64,
    /// No later access may be seen before it.
    pub acquire: bool,
    /// No earlier access may be seen after it.
    pub release: bool,
}

impl Access {
    /// Whether [`complete`] has to be called for it.
    pub const fn has_value(&self) -> bool {
        !matches!(self.kind, AccessKind::Store | AccessKind::Fence { .. } | AccessKind::FenceI)
    }

    /// Whether the address is a multiple of the size. Loads and stores may be misaligned, and may
    /// even lie in two pages; atomics may not.
    pub const fn is_aligned(&self) -> bool {
        self.size == 0 || self.address % self.size as u64 == 0
    }
}

/// Result of [`issue`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Issued {
    /// It needs no memory: its results are in the hart, and `pc` is at the next instruction.
    Done,
    /// The driver performs this access, then calls [`complete`] with its value.
    Access(Access),
}

/// Executes `inst`, which is the one at `hart.pc`, up to its access.
///
/// `counters` returns the values of `rdcycle`, `rdtime` and `rdinstret`. On a trap the hart is as
/// before.
#[inline]
pub fn issue(
    hart: &mut Hart,
    inst: &Inst,
    counters: impl FnMut(Counter) -> u64,
) -> Result<Issued, Trap> {
    match execute(hart, inst, &mut Deferring { counters }) {
        Ok(()) => Ok(Issued::Done),
        Err(Exit::Trap(trap)) => Err(trap),
        Err(Exit::Stop(access)) => {
            hart.pc = hart.pc.wrapping_add(inst.len.into());
            Ok(Issued::Access(with_ordering(access, inst)))
        }
    }
}

/// Brings the value of an access to the register that waits for it.
///
/// `raw` holds the bytes that were read, the rest zero; 0 or 1 for a store conditional.
#[inline]
pub fn complete(hart: &mut Hart, inst: &Inst, raw: u64) {
    let value = register_value(inst, raw);
    match inst.op {
        Op::Flw | Op::Fld => hart.set_f(inst.rd, value),
        _ => hart.set_x(inst.rd, value),
    }
}

/// The register value that [`complete`] writes, for drivers that keep registers elsewhere.
#[inline]
pub fn register_value(inst: &Inst, raw: u64) -> u64 {
    if matches!(inst.op, Op::ScW | Op::ScD) { raw } else { loaded(inst, raw) }
}

fn with_ordering(access: Access, inst: &Inst) -> Access {
    let is_atomic =
        matches!(inst.class(), Class::Amo | Class::LoadReserved | Class::StoreConditional);
    Access {
        acquire: is_atomic && inst.rm & Inst::ACQUIRE != 0,
        release: is_atomic && inst.rm & Inst::RELEASE != 0,
        ..access
    }
}

/// A port that stops at every access and returns it.
struct Deferring<C> {
    counters: C,
}

const fn access(kind: AccessKind, address: u64, size: u8, data: u64) -> Access {
    Access { kind, address, size, data, acquire: false, release: false }
}

impl<C: FnMut(Counter) -> u64> Port for Deferring<C> {
    type Stop = Access;

    #[inline(always)]
    fn load(&mut self, address: u64, size: u8) -> Result<u64, Access> {
        Err(access(AccessKind::Load, address, size, 0))
    }

    #[inline(always)]
    fn store(&mut self, address: u64, size: u8, data: u64) -> Result<(), Access> {
        Err(access(AccessKind::Store, address, size, data))
    }

    fn amo(&mut self, op: AmoOp, address: u64, size: u8, operand: u64) -> Result<u64, Access> {
        Err(access(AccessKind::Amo(op), address, size, operand))
    }

    fn load_reserved(&mut self, address: u64, size: u8) -> Result<u64, Access> {
        Err(access(AccessKind::LoadReserved, address, size, 0))
    }

    fn store_conditional(&mut self, address: u64, size: u8, data: u64) -> Result<bool, Access> {
        Err(access(AccessKind::StoreConditional, address, size, data))
    }

    fn fence(&mut self, predecessors: u8, successors: u8) -> Result<(), Access> {
        Err(access(AccessKind::Fence { predecessors, successors }, 0, 0, 0))
    }

    fn fence_i(&mut self) -> Result<(), Access> {
        Err(access(AccessKind::FenceI, 0, 0, 0))
    }

    fn counter(&mut self, counter: Counter) -> Result<u64, Access> {
        Ok((self.counters)(counter))
    }
}
