//! Questions to a daemon.

use std::io;
use std::os::fd::OwnedFd;

use crate::error::{Error, Result};
use crate::protocol::{PROTOCOL_VERSION, Request, Response};
use crate::rack::Rack;
use crate::status::NodeStatus;
use crate::transport::{Channel, Received};

/// A connection to the daemon of a node: one request, one response.
#[derive(Debug)]
pub struct Connection {
    channel: Channel,
    nid: u16,
}

impl Connection {
    /// Connects and says hello; the answer and what comes with it: the daemon's bell.
    ///
    /// # Errors
    /// There is no rack or no daemon, or it speaks another version.
    pub fn open(rack: &Rack, nid: u16) -> Result<(Connection, Received<Response>)> {
        let nodes = rack.describe()?.nodes;
        if nid >= nodes {
            let name = rack.name();
            return Err(Error::new(
                libc::ENXIO,
                format!("rack '{name}' has no node {nid}: its nodes are 0 to {}", nodes - 1),
            ));
        }
        let path = rack.socket_path(nid);
        let channel = Channel::connect(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Error::daemon_gone(nid),
            _ => Error::io(format!("cannot connect to {}", path.display()), error),
        })?;
        let connection = Connection { channel, nid };
        let hello = Request::Hello { version: PROTOCOL_VERSION };
        let answer = connection.call(&hello, None)?;
        Ok((connection, answer))
    }

    /// Sends a request and waits for its response.
    ///
    /// # Errors
    /// The daemon refuses, or is gone.
    pub fn call(&self, request: &Request, fd: Option<&OwnedFd>) -> Result<Received<Response>> {
        use std::os::fd::AsFd;
        let fds: Vec<_> = fd.iter().map(|fd| fd.as_fd()).collect();
        let gone = |error: io::Error| match error.kind() {
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::NotConnected => Error::daemon_gone(self.nid),
            _ => Error::io(format!("talking to the daemon of node {}", self.nid), error),
        };
        self.channel.send(request, &fds).map_err(gone)?;
        let answer = self.channel.receive().map_err(gone)?;
        match answer.message {
            Response::Error { errno, message } => Err(Error::new(errno, message)),
            _ => Ok(answer),
        }
    }

    /// Whether the daemon is gone.
    pub fn is_hung_up(&self) -> bool {
        self.channel.is_hung_up()
    }

    /// Process of the daemon, if the kernel tells.
    pub fn daemon_pid(&self) -> Option<i32> {
        self.channel.peer().ok().map(|peer| peer.pid.as_raw_nonzero().get())
    }
}

/// Asks a daemon how it is.
///
/// # Errors
/// It does not answer.
pub fn status(rack: &Rack, nid: u16) -> Result<NodeStatus> {
    let (connection, _) = Connection::open(rack, nid)?;
    match connection.call(&Request::Status, None)?.message {
        Response::Status(status) => Ok(*status),
        other => Err(unexpected(&other)),
    }
}

/// The daemon answered something else than was asked.
pub(crate) fn unexpected(response: &Response) -> Error {
    Error::new(libc::EPROTO, format!("the daemon gave an unexpected answer: {response:?}"))
}
