//! Asking the monitor.

use rackmem_fabric::error::Error;
use rackmem_fabric::net::SILENCE;
use std::time::{Duration, Instant};

use super::messages::{Reply, Request};
use super::{SETTLE, TAKEOVER};
use crate::error::{Error as LeaseError, Result};
use rackmem_fabric::address::Address;
use rackmem_fabric::net::link::Link;
use rackmem_fabric::net::proof::Proof;
use rackmem_fabric::rights::Right;

/// Steps over which the wait for a monitor that is being replaced is divided.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// The monitor's answer to one request. A monitor that is being replaced gets time.
pub(super) fn ask_monitor(
    address: &Address,
    proof: Option<&Proof>,
    request: &Request,
) -> Result<(Link, Reply)> {
    let deadline = Instant::now() + TAKEOVER;
    let mut address = address.clone();
    loop {
        let asked = Instant::now();
        let answer = Link::connect(&address, proof, SILENCE).and_then(|mut link| {
            link.require(proof, Right::Monitor)?;
            link.send(request)?;
            let reply: Reply = link.receive(SILENCE + SETTLE)?;
            Ok((link, reply))
        });
        let error = match answer {
            Ok((_, Reply::Elsewhere(other))) if other != address => {
                address = other;
                continue;
            }
            Ok((_, Reply::Refused(why))) => return Err(LeaseError::refused(why)),
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        if !may_come_back(&error, asked.elapsed()) || Instant::now() > deadline {
            return Err(explain(&address, error));
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// Whether another process probably takes over: the monitor has ended. One that stays silent for so long is stopped.
fn may_come_back(error: &Error, asked_for: Duration) -> bool {
    let refused = |source: &std::io::Error| source.kind() == std::io::ErrorKind::ConnectionRefused;
    match error {
        Error::Io { source, .. } => refused(source),
        Error::PeerLost { .. } => asked_for < SILENCE,
        _ => false,
    }
}

fn explain(address: &Address, error: Error) -> LeaseError {
    match &error {
        Error::Io { source, .. } => match source.kind() {
            std::io::ErrorKind::NotFound if address.is_local() => LeaseError::refused(
                "nobody lends memory here: start a lender with `rackmem lend 2G`".to_owned(),
            ),
            std::io::ErrorKind::ConnectionRefused => LeaseError::refused(format!(
                "no monitor answers at {address}: start a lender with `rackmem lend 2G`, or over \
                 several hosts `rackmem monitor`"
            )),
            std::io::ErrorKind::PermissionDenied => LeaseError::refused(format!(
                "{address} belongs to another user: ask for a lender with --mode 0660 or 0666"
            )),
            _ => error.into(),
        },
        Error::PeerLost { reason, .. } => {
            LeaseError::refused(format!("the monitor at {address} is lost: {reason}"))
        }
        _ => error.into(),
    }
}
