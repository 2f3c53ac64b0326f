//! Sockets of programs that know nothing of queue pairs, carried over queue pairs (TSM §2.4, socket layer).
//!
//! A program connects to a [`Connector`], a socket like any other. Each of its connections gets a queue pair of
//! its own to the [`Acceptor`] in another process, which connects to the program that serves, and from then on
//! both carry bytes. All queue pairs of two processes share one link.
//!
//! | what a socket does | what the one at the other end sees |
//! |---|---|
//! | it sends | the same bytes; a receiver that does not read them stops the sender, through all buffers between |
//! | it is shut down in one direction | that direction ends after all bytes, the other one goes on |
//! | it is reset, or its program or proxy dies | a reset within [`STALL`] (TCP), the end (Unix, which has no other) |
//! | its proxy is stopped, or the network torn | the same, within [`rackmem_fabric::net::SILENCE`] and [`STALL`] |
//!
//! Urgent bytes (TCP) and descriptors (Unix) are not carried.

mod accept;
mod connect;
mod crew;
mod pump;
mod socket;

use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};

pub use accept::Acceptor;
pub use connect::Connector;
pub use crew::Summary;
pub use pump::STALL;

use super::board::DEPTH;
use super::window::Terms;
use rackmem_fabric::error::{Error, Result};

/// Most sockets that a proxy carries at a time: each takes two threads.
pub const MAX_SOCKETS: u32 = 4096;

/// Sockets that a proxy carries at a time, unless another number is given.
pub const DEFAULT_SOCKETS: u32 = 256;

/// Most processes that an acceptor is linked to at a time.
pub const MAX_LINKS: usize = 64;

/// Bytes of each of the buffers that a connection has posted.
pub const BUFFER_BYTES: usize = 16 << 10;

/// Longest wait for the other side of a connection.
const PATIENCE: Duration = Duration::from_secs(5);

/// Time that connections have to end when the proxy does.
const GRACE: Duration = Duration::from_secs(2);

/// Wait before the next look when descriptors, memory or places are short.
const RETRY: Duration = Duration::from_millis(10);

/// Descriptors that a process has beside those of its sockets.
const OTHER_DESCRIPTORS: u64 = 64;

fn terms(sockets: u32) -> Terms {
    Terms { connections: sockets, registered_bytes: DEPTH * BUFFER_BYTES }
}

/// Makes room for as many sockets.
fn check(sockets: u32) -> Result<()> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    if !(1..=MAX_SOCKETS).contains(&sockets) {
        return Err(Error::Refused(format!(
            "{sockets} sockets at a time: there may be 1 to {MAX_SOCKETS}"
        )));
    }
    let wanted = u64::from(sockets) + OTHER_DESCRIPTORS;
    let limit = getrlimit(Resource::Nofile);
    if limit.maximum.is_some_and(|maximum| maximum < wanted) {
        return Err(Error::Refused(format!(
            "{sockets} sockets need {wanted} file descriptors, and this process may have {}: \
             raise its limit (ulimit -n) or ask for fewer",
            limit.maximum.unwrap_or_default()
        )));
    }
    if limit.current.is_some_and(|current| current < wanted) {
        let raised = Rlimit { current: Some(wanted), maximum: limit.maximum };
        setrlimit(Resource::Nofile, raised)
            .map_err(|error| Error::io(format!("no {wanted} file descriptors"), error))?;
    }
    Ok(())
}

/// Waits until somebody comes, or for `patience` if nobody is to be let in; `false` once it is time to stop.
fn wait(
    stop: BorrowedFd<'_>,
    listener: Option<BorrowedFd<'_>>,
    patience: Option<Duration>,
) -> Result<bool> {
    let patience = patience.map(rackmem_fabric::socket::timespec);
    let mut fds = vec![PollFd::from_borrowed_fd(stop, PollFlags::IN)];
    fds.extend(listener.map(|listener| PollFd::from_borrowed_fd(listener, PollFlags::IN)));
    rustix::io::retry_on_intr(|| poll(&mut fds, patience.as_ref()))
        .map_err(|error| Error::io("cannot wait for connections", error))?;
    Ok(fds[0].revents().is_empty())
}
