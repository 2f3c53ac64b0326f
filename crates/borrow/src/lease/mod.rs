//! Leases: who lends what to whom.
//!
//! Three pure state machines decide: [`borrowing`] is the borrower's side, [`pool`] the lender's,
//! [`monitor`] knows all lenders and says whom to ask ([`placement`]). They are walked by a model
//! checker. Processes around them: [`borrow`] for whoever needs memory, [`crate::agent`] for lenders
//! and the monitor.
//!
//! A lease lives as long as the borrower's connection to the lender: when that ends, for whatever
//! reason, the lender throws the memory away, and no other borrower ever sees what was in it. The
//! lender alone decides what is leased; a monitor that dies takes nothing with it that lenders do not
//! report to the next one.

mod ask;
mod books;
pub mod borrowing;
mod client;
pub mod directory;
mod driver;
pub mod messages;
pub mod monitor;
pub mod placement;
pub mod pool;
mod watch;

use std::time::Duration;

pub use client::{Borrowed, CopyState, LeaseState, Status, Wanted, borrow, ledger};

/// Entries of a borrower's address map, and so pieces of a copy (DE-07). The papers name no number;
/// sixteen are what a lookup in one cycle compares side by side.
pub const AMT_ENTRIES: usize = 16;

/// How often a lender and the monitor say that they are there.
pub const HEARTBEAT: Duration = Duration::from_secs(1);

/// A partner that must speak, or a network, is given up after so much silence.
pub const SILENCE: Duration = Duration::from_secs(3);

/// Longest wait for a lender's answer on a lane. A torn network is noticed within [`SILENCE`]; this is
/// for a lender that was stopped.
pub const ANSWER: Duration = Duration::from_secs(5);

/// Longest wait for a lender that makes the memory of a lease.
pub const MAKING: Duration = Duration::from_secs(30);

/// Wait before a lender looks for the monitor again, or becomes it.
pub const MONITOR_RETRY: Duration = Duration::from_millis(200);

/// A monitor that replaces one decides nothing until lenders had this time to report.
pub const SETTLE: Duration = Duration::from_secs(1);

/// How long a borrower waits for a monitor that is being replaced.
pub const TAKEOVER: Duration = Duration::from_secs(3);

/// How often a borrower asks for another decision when a lender is not what the monitor thought.
pub const MAX_ATTEMPTS: u32 = 4;
