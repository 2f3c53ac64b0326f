//! The surroundings of a core: memory, translation, counters.

use rackmem_riscv::Inst;
use rackmem_riscv::csr::Counter;
use rackmem_riscv::space::{Fault, Wanted};

use crate::block::{Line, Words};
use crate::engine::Cycle;

/// The private cache of a core, as `chip::cache::PrivateCache` is one.
///
/// An access that is refused was asked for: the core tries again after [`Core::complete`], which
/// the owner calls when any line has arrived. Whenever a copy goes away, for whatever reason
/// (evictions are one), the owner calls [`Core::lost`] in the same cycle. A copy that is kept while
/// the cache asks for the right to write it is not lost, even if it can not be read meanwhile: else
/// no store conditional would ever succeed.
///
/// [`Core::complete`]: super::Core::complete
/// [`Core::lost`]: super::Core::lost
pub trait Port {
    /// Reads a line; `None` if it has to be waited for.
    fn load(&mut self, line: Line) -> Option<Words>;

    /// Changes a line that nobody else has a copy of then; `false` if that has to be waited for.
    fn store(&mut self, line: Line, change: impl FnOnce(&mut Words)) -> bool;

    /// Lines from this one on are no ordinary memory: stores to them, and loads of those that are not
    /// plain, happen once and in order, by the methods below. None are unless the owner says so.
    fn special_from(&self) -> Line {
        Line::MAX
    }

    /// Whether a special line can be read like ordinary memory just now, be it on a wrong path.
    fn is_plain(&self, _line: Line) -> bool {
        true
    }

    /// Loads from a special line, when nothing older is left; `None` if it has to be waited for.
    fn special_load(&mut self, _address: u64, _size: u8) -> Option<u64> {
        None
    }

    /// Stores to a special line; `false` if that has to be waited for.
    fn special_store(&mut self, _address: u64, _size: u8, _value: u64) -> bool {
        true
    }

    /// Whether the core waits for the end of a store to a special line before it goes on.
    fn is_waited_for(&self, _line: Line) -> bool {
        false
    }

    /// Stores before this are to be seen by others; `false` if that has to be waited for.
    fn fence(&mut self) -> bool {
        true
    }

    /// Whether stores are seen by others in the order in which they leave.
    fn keeps_stores_in_order(&self) -> bool {
        true
    }

    /// Brings a line for the L1 of instructions; `false` if it has to be waited for.
    fn fetch(&mut self, line: Line) -> bool {
        self.load(line).is_some()
    }
}

/// Address translation, as the owner of the core does it: without time of its own.
pub trait Translate {
    /// The physical address of a virtual one. Also asked for addresses that only a wrong path
    /// names, so it may not change anything.
    fn translate(&mut self, address: u64, wanted: Wanted) -> Result<u64, Fault>;
}

/// Decoded instructions, as [`rackmem_riscv::code`] keeps them, and counters.
pub trait Program {
    /// The instruction at a virtual address.
    fn inst(&mut self, pc: u64) -> Result<&Inst, Fault>;

    /// A `fence.i` was executed: instructions have to be decoded again.
    fn fence_i(&mut self);

    /// Value of a counter in this cycle, after so many instructions. Time is in cycles unless the owner
    /// says otherwise.
    fn counter(&mut self, counter: Counter, now: Cycle, retired: u64) -> u64 {
        match counter {
            Counter::Cycle | Counter::Time => now,
            Counter::Instret => retired,
        }
    }
}

/// All that a core needs around it.
pub trait Outside: Port + Translate + Program {}

impl<T: Port + Translate + Program> Outside for T {}
