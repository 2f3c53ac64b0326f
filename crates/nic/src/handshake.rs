//! Waits by which two ends become borrower and lender: each waits for the other's next step, for a limited time.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use super::message::{Message, Setup};
use super::transport::Transport;
use super::waiter::Waiter;
use rackmem_fabric::error::{Error, Result};
use rackmem_fabric::random;

/// Time that a lender waits for the first message of a peer. Meanwhile no other peer can ask.
pub const HELLO_PATIENCE: Duration = Duration::from_secs(2);

/// Time that one end waits for a step of the other, which may have to change interfaces first. The kernel makes it wait
/// for all other processes that change some.
pub const STEP_PATIENCE: Duration = Duration::from_secs(10);

/// The other end's next step.
///
/// # Errors
/// It refuses or ends ([`Error::Refused`]), says nothing in time or goes ([`Error::PeerLost`]), says
/// something else ([`Error::Protocol`]); `stop` became readable ([`Error::Stopped`]).
pub fn expect(
    transport: &mut Transport,
    patience: Duration,
    stop: BorrowedFd<'_>,
) -> Result<Setup> {
    let deadline = Instant::now() + patience;
    loop {
        let now = Instant::now();
        // Until it has had its time for the step, it is not silent.
        transport.excuse(now);
        transport.drive(now)?;
        match transport.take(now)? {
            Some(Message::Setup(Setup::Refused { reason }) | Message::Bye(reason)) => {
                return Err(Error::Refused(reason));
            }
            Some(Message::Setup(setup)) => return Ok(setup),
            Some(Message::Alive | Message::Interrupt(_)) => continue,
            Some(other) => {
                let peer = transport.peer();
                return Err(Error::Protocol(format!(
                    "{peer} says {other:?} instead of the next step"
                )));
            }
            None => {}
        }
        if now >= deadline {
            let reason = format!("it said nothing for {} s", patience.as_secs());
            return Err(Error::PeerLost { peer: transport.peer().to_string(), reason });
        }
        let most = transport.due_in(now).min(deadline - now);
        wait(transport, stop, most)?;
    }
}

/// Waits until something arrives, or for `most`.
fn wait(transport: &Transport, stop: BorrowedFd<'_>, most: Duration) -> Result<()> {
    let failed = |error| Error::io("cannot wait for a step", error);
    let mut waiter = Waiter::new().map_err(failed)?;
    let stop = waiter.add(stop, true, false).map_err(failed)?;
    transport.await_with(&mut waiter, false).map_err(failed)?;
    waiter.wait(most).map_err(failed)?;
    if waiter.is_ready(stop) { Err(Error::Stopped) } else { Ok(()) }
}

/// Sends a step.
///
/// # Errors
/// [`Error::PeerLost`].
pub fn say(transport: &mut Transport, setup: Setup) -> Result<()> {
    transport.post(&Message::Setup(setup))?;
    transport.drive(Instant::now())
}

/// The other end took a step that does not come now.
pub fn out_of_step(transport: &Transport, setup: &Setup) -> Error {
    Error::Protocol(format!("{} is not in step: it says {setup:?}", transport.peer()))
}

/// Bytes that a tunnel between these addresses takes of each packet.
pub fn tunnel_overhead_bytes(local: std::net::IpAddr) -> u32 {
    // Ethernet inside, VXLAN, UDP, IP.
    14 + 8 + 8 + if local.is_ipv4() { 20 } else { 40 }
}

/// A number that nobody can guess.
///
/// # Errors
/// The kernel has none.
pub fn random() -> Result<u64> {
    let nonce = random::nonce().map_err(|error| Error::io("no random numbers", error))?;
    Ok(u64::from_le_bytes(*nonce.first_chunk().expect("a nonce has more bytes")))
}
