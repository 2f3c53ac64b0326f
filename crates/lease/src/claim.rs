//! A lease over the network on a new connection: resumed, or given back.

use rackmem_fabric::error::Error as Plain;
use std::time::{Duration, Instant};

use super::ANSWER;
use super::messages::{Reply, Request};
use crate::error::{Error, Result};
use rackmem_fabric::address::Address;
use rackmem_fabric::net::link::Link;
use rackmem_fabric::net::proof::Proof;
use rackmem_fabric::net::socket::is_refused;

/// Proof to a lender that a lease is ours.
pub(super) struct Claim {
    pub address: Address,
    pub proof: Option<Proof>,
    pub base: u64,
    pub token: String,
    /// Name of the lender, for error messages.
    pub lender: String,
    /// Longest silence on the connection.
    pub patience: Duration,
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
        let mut link = match Link::connect(&self.address, self.proof.as_ref(), ANSWER) {
            Err(error) if is_refused(&error) => return lost("its process has ended"),
            link => link.map_err(not_for_good)?,
        };
        let request = Request::Resume { base: self.base, token: self.token.clone() };
        let answer = link.send(&request).and_then(|()| link.receive(ANSWER));
        let error = match answer {
            Ok(Reply::Resumed) => {
                link.allow_silence(self.patience);
                return Ok(link);
            }
            Ok(Reply::NoLease) => return lost("it has the lease no more"),
            Ok(other) => Error::protocol(format!("it answers {other:?}")),
            Err(error) => not_for_good(error),
        };
        // The lender may have resumed the lease, and would end it with a connection that is closed in order.
        link.reset();
        Err(error)
    }
}

/// Tells the lender, and waits until it has the lease back.
///
/// # Errors
/// The connection is broken, or the lender does not answer before the deadline.
pub(super) fn give_back(mut link: Link, deadline: Instant) -> Result<()> {
    link.send(&Request::Return)?;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if matches!(link.receive(left)?, Reply::Returned) {
            return Ok(());
        }
    }
}

/// A connection that is lost says nothing of the lease.
fn not_for_good(error: Plain) -> Error {
    match error {
        Plain::PeerLost { peer, reason } => Error::Broken { lender: peer, reason },
        other => other.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read, Write, copy, sink};
    use std::net::TcpListener;

    use rackmem_fabric::Buffer;

    use super::*;
    use rackmem_fabric::net::SILENCE;
    use rackmem_fabric::net::greet::Greeter;

    #[test]
    fn a_lender_that_answers_late_sees_a_broken_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let claim = Claim {
            address: Address::Tcp(listener.local_addr().unwrap().to_string()),
            proof: None,
            base: 1,
            token: String::new(),
            lender: "late".to_owned(),
            patience: SILENCE,
        };
        let borrower = std::thread::spawn(move || claim.resume().map(drop));
        let (mut connection, _) = listener.accept().unwrap();
        let (mut greeter, mut input) = (Greeter::new(None, &[]), Buffer::default());
        let (mut bytes, mut out) = ([0; 256], Vec::new());
        while greeter.step(&mut input, &mut out).unwrap().is_none() {
            connection.write_all(&std::mem::take(&mut out)).unwrap();
            let n = connection.read(&mut bytes).unwrap();
            input.extend(&bytes[..n]);
        }
        let end = copy(&mut connection, &mut sink()).unwrap_err();
        assert_eq!(end.kind(), ErrorKind::ConnectionReset);
        assert!(matches!(borrower.join().unwrap(), Err(Error::Broken { .. })));
    }
}
