//! Memory and devices of other nodes, lent to unmodified programs (TSM, DEOI).
//!
//! A lender offers memory; a borrower leases it. A lease has one user, so nothing needs to be kept
//! coherent between nodes. A borrower sees a lease as a [`store::Store`]: bytes that are elsewhere. Everything else
//! stands on that:
//!
//! | module | what it is |
//! |---|---|
//! | [`nic`] | a NIC of another host as an interface here |
//! | [`lease`] | lenders, borrowers and their leases: the protocol, and [`lease::borrow`] |
//! | [`agent`] | the process of a lender, of the monitor, or of both |
//! | [`store`] | borrowed bytes: stores of them, and lanes by which they are read and written |
//! | [`paging`] | borrowed bytes as plain memory: pages that leave and come back |
//! | [`region`] | borrowed memory for programs that know of it; in C, [`capi`] |
//! | [`program`] | settings of the library that is loaded into a program |
//! | [`blk`] | a block device on a store, served by the NBD protocol |
//! | [`qpair`] | user-level connections between processes: send, receive and completion queues |
//!
//! Borrowed memory has data connections of its own and does not travel on the links of contexts. A lease has one user,
//! so it needs no context, no line locks and no completion queues; and pages of any program may cross hosts, whichever
//! rack is up.

pub mod agent;
pub mod blk;
pub mod capi;
pub mod error;
#[cfg(fuzzing)]
pub mod fuzz;
pub mod lease;
pub mod nic;
pub mod paging;
pub mod program;
pub mod qpair;
pub mod region;
pub mod store;
mod sync;

pub use error::{Error, Result};
pub use region::Region;
