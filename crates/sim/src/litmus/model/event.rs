//! Memory operations, and the paths that a thread can take through its instructions.

use crate::litmus::test::Place;

/// Most memory operations of an execution.
pub(super) const EVENTS: usize = 64;

/// A set of memory operations: of a thread, or of an execution.
pub(super) type Set = u64;

/// What a memory operation is part of, as far as the model cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Plain,
    /// Loads and stores at once.
    Amo,
    LoadReserved,
    /// One that succeeded.
    StoreConditional,
}

/// A memory operation. Sets are those of operations of the same thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    pub(super) kind: Kind,
    pub(super) place: Place,
    /// The value that it loads.
    pub(super) loads: Option<u64>,
    /// The value that it stores.
    pub(super) stores: Option<u64>,
    pub(super) acquire: bool,
    pub(super) release: bool,
    /// Those on whose results its address depends.
    pub(super) address: Set,
    /// Those on whose results the stored value depends.
    pub(super) data: Set,
    /// Those on whose results depends whether it is there.
    pub(super) control: Set,
    /// Those that a fence orders before it.
    pub(super) fenced: Set,
    /// Of a store conditional: the load that it is paired with.
    pub(super) pair: Option<usize>,
}

/// A way through a thread's instructions, with values that its loads may or may not get.
#[derive(Clone, Debug)]
pub(super) struct Path {
    /// In program order.
    pub(super) events: Vec<Event>,
    /// Integer registers at the end.
    pub(super) registers: [u64; 32],
    /// It ends at an access of something that is no location.
    pub(super) trap: Option<u64>,
}
