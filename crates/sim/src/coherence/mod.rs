//! The coherence protocol (Manycore NI §3.1, §3.4): a directory-based MESI with three hops, for
//! one block, as pure state machines.
//!
//! | module | content |
//! |---|---|
//! | [`message`] | the messages of the protocol |
//! | [`l1`] | a private cache: an L1, or an NI cache at the chip's edge |
//! | [`home`] | the directory entry at the block's home, and the LLC's duties |
//! | [`pair`] | an NI cache at the back side of an unmodified L1, one party together with it |
//!
//! Assumptions and rules of the controllers:
//! - The network loses nothing. It may reorder any two messages. Only the wires between an L1 and
//!   the NI cache behind it keep the order, each in its direction.
//! - The home is *blocking*: while a transaction is under way (until [`home::Action::Finished`]),
//!   the block's next request waits outside, be it a Put. The requester ends the transaction when
//!   it has the block and all acknowledgements, so what the home sent for one transaction has
//!   arrived before the next one begins. This is why there are so few transient states.
//! - The directory is *non-notifying*: shared copies go silently, hence a cache may be asked to
//!   invalidate a block that it does not have. Owners do report, and wait for the answer before
//!   they ask for the block again.
//! - After `Completed`, the waiting access is made before the next message is delivered.
//!   Otherwise the block may be gone again: nothing would break, but it could go on for ever.
//!
//! An illegal event panics with state and event; that is what the model checker looks for. It also
//! lists all steps that happen: `tests/coherence/tables`.
//!
//! The directory is sparse: an entry that is evicted takes the copies of its block back.

pub mod home;
pub mod l1;
pub mod message;
pub mod pair;

use std::fmt::Debug;

pub use message::{Forward, Grant, MAX_CACHES, Message, Party, Request, Response, Source, Update};

/// The content of a block. The default stands where there is none.
pub trait Content: Copy + Eq + Debug + Default {
    /// The block after [`Update::Modify`] with `change`.
    #[must_use]
    fn modified(self, change: Self) -> Self;
}

/// Answer to an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// The right is there: read or write `data` now.
    Hit,
    /// It has been asked for. Again after `Completed`.
    Miss,
    /// Something else is under way for this block. Again after `Completed`.
    Wait,
}

/// Answer to an eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Eviction {
    /// There is no copy (any more).
    Gone,
    /// The home is being told. The block is to be kept until `Completed`.
    Leaving,
    /// Something else is under way for this block. Again after `Completed`.
    Wait,
}
