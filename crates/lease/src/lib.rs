//! Leases: memory that a lender gives to one borrower for a time.
//!
//! Three pure state machines decide: [`borrowing`] is the borrower's side, [`pool`] the lender's,
//! [`monitor`] knows all lenders and chooses among them ([`placement`]). They are walked by a model
//! checker. Processes around them: [`borrow`] for borrowers, [`agent`] for lenders
//! and the monitor.
//!
//! | module | what it is |
//! |---|---|
//! | [`borrowing`], [`pool`], [`monitor`], [`placement`] | the state machines |
//! | [`borrow`]: `client`, `driver`, `books`, `claim`, `ask` | a borrower, until it has its leases |
//! | `keeper` | the thread that keeps a borrowing whole |
//! | [`messages`], [`directory`] | what the parties say; where the monitor of a host is |
//! | [`agent`] | the process of a lender, of the monitor, or of both |
//! | [`store`] | borrowed bytes: stores of them, and lanes by which they are read and written |
//! | [`sync`] | locks and arrays that loom can check, also for the pager |
//! | [`mod@error`] | errors of leases |
//!
//! A lease lives as long as the borrower: when its connection to the lender is closed, the lender lets the memory go,
//! and no other borrower ever sees what was in it. A connection that breaks may be replaced by another
//! (`keeper`) for as long as the borrower is patient. The lender alone decides what is leased; a monitor that
//! dies takes nothing with it that lenders do not report to the next one.
//!
//! # One borrowing, followed through the code
//!
//! 1. `client.rs` takes the request, and `driver.rs` reserves a window of addresses (`store/window.rs`).
//! 2. It asks the monitor (`agent/monitor.rs`, `placement.rs`), which names lenders.
//! 3. It asks these lenders. Each makes a sealed memfd (`agent/memory.rs`), enters the lease in its pool (`pool.rs`)
//!    and answers base and size.
//! 4. The address map gets an entry. From a lender of this host the memfd comes along and is mapped in the window;
//!    lanes to other hosts are TCP connections (`store/tcp.rs` here, `agent/lane.rs` there).
//! 5. From then on a thread keeps the borrowing whole (`keeper.rs`): it listens to lenders that leave or die, replaces
//!    connections that broke, and leases and fills further copies.
//!
//! # Decisions
//!
//! - *Connections.* Borrowed memory does not travel on the links of contexts: a lease has one user, so it needs no
//!   context, no line locks and no completion queues, and pages of any program may cross hosts, whichever rack is up.
//! - *Where the monitor is.* In the first lender of a host: the process that holds a lock is the monitor. If it dies,
//!   other lenders look again after [`MONITOR_RETRY`]; the one that gets the lock becomes the monitor, and decides
//!   nothing until lenders had [`SETTLE`] to report. For several hosts the monitor is a process of its own.
//! - *Detection of a loss.* By the end of a connection, at once. For a torn network or a dead host by the probes of
//!   TCP, after [`SILENCE`](rackmem_fabric::net::SILENCE); a process that was merely stopped survives these. A lender
//!   that does not answer a lane for [`ANSWER`] is reported, and counts as lost only when the borrower's patience is
//!   over. Lenders and monitor exchange a heartbeat each second.
//! - *The connections of a lease*, its lanes among them, bear silence as long as the borrower's patience, at both
//!   ends. So they go on after an outage, and of a process that has ended meanwhile the lender is told by its host.
//! - *Memory that is still mapped is never taken away.* The end of a lease is a word in the last page of its memory,
//!   which lender, borrower and children of fork share, and the kernel frees pages with their last mapping. So a copy
//!   out of the memory is right whenever it is made, and no check has to come between a copy and its use.
//! - *A lane that fails* is reopened under its number, and the lender ends the old one first. Unanswered requests are
//!   made again, and nothing takes effect late.
//! - *A connection that breaks* is resumed by a token within the borrower's patience. Addresses that a lender counts
//!   are never used again.
//! - *The only copy, mapped, whose lender leaves* is copied and mapped in place of the old one. So only another lender
//!   of the same host will do.
//! - *A lender that wants its memory back* tells its borrowers, which move to other lenders. It ends when none is left,
//!   or after a grace time.
//! - *A borrower that keeps the memfd after its lease* keeps the pages, as any process of the host can occupy memory.
//! - *Which lenders.* One that has enough alone, the one with the most free memory first; else as few as possible.
//!   Copies have no lender in common, and no host if there are enough.
//! - *Children of fork* have the copies that they were born with; nothing is made anew for them.
//!
//! # Trust
//!
//! On a host a process of the lender's user or of root may borrow, and others if `--mode` says so. The borrower's
//! address map and the lender's check of each request keep a borrower to its own leases. Over a network both ends prove
//! themselves, by a secret or by the keys of their nodes ([`rackmem_fabric::net`]), and a lane shows the random number
//! that came with its lease. With keys a node does what its rights say, and holds no more than its quota ([`quota`]). A
//! lender sees the bytes that are stored with it: borrowers trust lenders with their data, and lenders trust borrowers
//! with nothing but the leased memory. The monitor chooses the lenders to ask and can make nobody lend; lenders and
//! borrowers believe the names that it gives.

pub mod agent;
mod ask;
mod books;
pub mod borrowing;
mod claim;
mod client;
pub mod directory;
mod driver;
pub mod error;
#[cfg(fuzzing)]
pub mod fuzz;
mod keeper;
pub mod messages;
pub mod monitor;
pub mod placement;
pub mod pool;
pub mod quota;
pub mod store;
pub mod sync;

use std::time::Duration;

pub use error::{Error, Result};
pub use rackmem_fabric::descriptors;

pub use client::{Borrowed, CopyState, LeaseState, Status, Wanted, borrow, ledger};

/// Longest wait for a lender's answer on a lane. After it the lender is reported as silent, another copy is used, or
/// the lane is opened anew.
pub const ANSWER: Duration = Duration::from_secs(2);

/// Longest wait for a lender that makes the memory of a lease.
pub const MAKING: Duration = Duration::from_secs(30);

/// Wait before a lender looks for the monitor again, or becomes it.
pub const MONITOR_RETRY: Duration = Duration::from_millis(200);

/// A monitor that replaces one decides nothing until lenders had this time to report.
pub const SETTLE: Duration = Duration::from_secs(1);

/// Time that a borrower waits for a monitor that is being replaced.
pub const TAKEOVER: Duration = Duration::from_secs(3);

/// Decisions that a borrower asks for when lenders refuse or do not answer.
pub const MAX_ATTEMPTS: u32 = 4;
