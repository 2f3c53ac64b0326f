//! Leases: who lends what to whom.
//!
//! Three pure state machines decide: [`borrowing`] is the borrower's side, [`pool`] the lender's,
//! [`monitor`] knows all lenders and says whom to ask ([`placement`]). They are walked by a model
//! checker. Processes around them: [`borrow`] for whoever needs memory, [`crate::agent`] for lenders
//! and the monitor.
//!
//! A lease lives as long as the borrower: when its connection to the lender is closed, the lender lets the memory go,
//! and no other borrower ever sees what was in it. A connection that breaks may be replaced by another
//! (`keeper`) for as long as the borrower is patient. The lender alone decides what is leased; a monitor that
//! dies takes nothing with it that lenders do not report to the next one.

mod ask;
mod books;
pub mod borrowing;
mod claim;
mod client;
pub mod directory;
mod driver;
mod keeper;
pub mod messages;
pub mod monitor;
pub mod placement;
pub mod pool;

use std::time::Duration;

pub use client::{Borrowed, CopyState, LeaseState, Status, Wanted, borrow, ledger};

/// Entries of a borrower's address map, and so pieces of a copy (DE-07). The papers name no number;
/// sixteen are what a lookup in one cycle compares side by side.
pub const AMT_ENTRIES: usize = 16;

/// How often a lender and the monitor say that they are there.
pub const HEARTBEAT: Duration = Duration::from_secs(1);

/// A partner that must speak, or a network, is given up after so much silence.
pub const SILENCE: Duration = Duration::from_secs(3);

/// Longest wait for a lender's answer on a lane. Then it is said that the lender does not answer, another copy is
/// used, or the lane is opened anew.
pub const ANSWER: Duration = Duration::from_secs(2);

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
