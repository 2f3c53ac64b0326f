//! A lease over the network on a new connection: resumed, or given back.

use std::time::Instant;

use super::messages::{Reply, Request};
use super::{ANSWER, SILENCE};
use crate::address::Address;
use crate::error::{Error, Result};
use crate::net::link::Link;
use crate::net::secret::Secret;
use crate::net::socket::is_refused;

/// Proof to a lender that a lease is ours.
pub(super) struct Claim {
    pub address: Address,
    pub secret: Option<Secret>,
    pub base: u64,
    pub token: String,
    /// Name of the lender, for error messages.
    pub lender: String,
}

impl Claim {
    /// Makes a new connection to be that of the lease. One attempt.
    ///
    /// # Errors
    /// [`Error::Lost`]: the lender has the lease no more. Others say nothing of the lease.
    pub fn resume(&self) -> Result<Link> {
        let lost = |reason: &str| {
            Err(Error::Lost { lender: self.lender.clone(), reason: reason.to_owned() })
        };
        let mut link = match Link::connect(&self.address, self.secret.as_ref(), ANSWER) {
            Err(error) if is_refused(&error) => return lost("its process has ended"),
            link => link.map_err(not_for_good)?,
        };
        let request = Request::Resume { base: self.base, token: self.token.clone() };
        let answer = link.send(&request).and_then(|()| link.receive(ANSWER));
        match answer.map_err(not_for_good) {
            Ok(Reply::Resumed) => return Ok(link),
            Ok(Reply::NoLease) => return lost("it has the lease no more"),
            Ok(other) => Err(Error::Protocol(format!("it answers {other:?}"))),
            Err(error) => Err(error),
        }
        // The lender may have resumed the lease, and would end it with a connection that is closed in order.
        .inspect_err(|_| link.reset())
    }
}

/// Tells the lender, and waits until it has the lease back.
///
/// # Errors
/// The connection is broken.
pub(super) fn give_back(mut link: Link) -> Result<()> {
    let deadline = Instant::now() + SILENCE;
    link.send(&Request::Return)?;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if matches!(link.receive(left)?, Reply::Returned) {
            return Ok(());
        }
    }
}

/// A connection that is lost says nothing of the lease.
fn not_for_good(error: Error) -> Error {
    match error {
        Error::Lost { lender, reason } => Error::Broken { lender, reason },
        other => other,
    }
}
