//! The state of an agent, for those who watch it: what it lends, what it has served, the ledger that it keeps.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crate::messages::{Ledger, Listing};
use crate::store::packet::{Op, Request};

/// State of an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// What it lends; `None`: it is a monitor alone.
    pub lender: Option<LenderStatus>,
    /// The ledger, if it is the monitor and lenders have had the time to report.
    pub ledger: Option<Ledger>,
}

/// State of a lender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LenderStatus {
    /// Its offer and its leases.
    pub listing: Listing,
    /// Whether the monitor knows it.
    pub is_registered: bool,
    /// What it has done since it started.
    pub served: Served,
}

/// Counters of a lender since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Leases that have begun.
    pub leases: u64,
    /// Bytes of these leases.
    pub leased_bytes: u64,
    /// Leases among them that have ended.
    pub ended: u64,
    /// Requests of borrowers over the network.
    pub requests: u64,
    /// Bytes that these requests have read.
    pub read_bytes: u64,
    /// Bytes that these requests have written.
    pub written_bytes: u64,
}

/// Counters of all lanes of a lender. Borrowers of the same host map their leases, and are not counted.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    requests: AtomicU64,
    read_bytes: AtomicU64,
    written_bytes: AtomicU64,
}

impl Traffic {
    pub fn count(&self, request: &Request) {
        self.requests.fetch_add(1, Relaxed);
        match request.op {
            Op::Read => self.read_bytes.fetch_add(request.length, Relaxed),
            Op::Write => self.written_bytes.fetch_add(request.length, Relaxed),
            Op::Discard => 0,
        };
    }

    /// Adds them to what else the lender has counted.
    pub fn of(&self, served: Served) -> Served {
        Served {
            requests: self.requests.load(Relaxed),
            read_bytes: self.read_bytes.load(Relaxed),
            written_bytes: self.written_bytes.load(Relaxed),
            ..served
        }
    }
}
