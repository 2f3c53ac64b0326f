//! The way of a process to a link of its own with a daemon of another host, which expects it.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};

use crate::credentials::{Credentials, Psk};
use crate::greeter::Calling;
use crate::greeting::{Hello, Welcome};
use crate::socket;
use crate::stream::Stream;
use crate::tcp::TcpLink;

/// Time for connecting and the handshake.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Byte by which the daemon says that it has the link.
pub const READY: u8 = 1;

/// What a process has to know.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invitation {
    /// Address to connect from.
    pub here: SocketAddr,
    /// Address of the daemon.
    pub there: SocketAddr,
    /// Number of the admission.
    pub number: u64,
    /// Its secret.
    pub key: Psk,
    /// The first message.
    pub hello: Hello,
}

// Keys stay out of logs.
impl fmt::Debug for Invitation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Invitation").field("there", &self.there).finish_non_exhaustive()
    }
}

/// Connects, as the invitation says.
///
/// # Errors
/// The daemon does not answer in time, or refuses.
pub fn connect(invitation: &Invitation) -> io::Result<TcpLink> {
    let deadline = Instant::now() + TIMEOUT;
    let Invitation { here, there, number, key, hello } = invitation;
    let mut stream = Stream::new(socket::connect(here, there)?);
    wait(&stream, PollFlags::OUT, deadline)?;
    socket::connected(stream.as_fd())?;
    let credentials = Credentials::Guest { admission: *number, key: *key };
    let mut calling = Calling::new(&credentials, hello.to, hello, stream.out());
    let seal = loop {
        flush(&mut stream, deadline)?;
        receive(&mut stream, deadline)?;
        let (input, out) = stream.both();
        let step = calling.step::<Welcome>(input, out).map_err(io::Error::other)?;
        if let Some((_, seal)) = step {
            break seal;
        }
    };
    flush(&mut stream, deadline)?;
    stream.read_more();
    if hello.sealed {
        stream.seal(seal);
    }
    while stream.input().is_empty() {
        receive(&mut stream, deadline)?;
    }
    stream.take(1);
    Ok(TcpLink::new(stream))
}

fn receive(stream: &mut Stream, deadline: Instant) -> io::Result<()> {
    wait(stream, PollFlags::IN, deadline)?;
    stream.receive();
    match stream.lost() {
        Some(why) => Err(io::Error::other(why.to_owned())),
        None => Ok(()),
    }
}

fn flush(stream: &mut Stream, deadline: Instant) -> io::Result<()> {
    while stream.staged_bytes() > 0 {
        stream.transmit();
        if let Some(why) = stream.lost() {
            return Err(io::Error::other(why.to_owned()));
        }
        if stream.staged_bytes() > 0 {
            wait(stream, PollFlags::OUT, deadline)?;
        }
    }
    Ok(())
}

fn wait(stream: &Stream, flags: PollFlags, deadline: Instant) -> io::Result<()> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(stream, flags)], Some(&left)) {
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
