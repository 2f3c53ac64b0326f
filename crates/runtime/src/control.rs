//! Questions to a daemon.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::protocol::{PROTOCOL_VERSION, Request, Response};
use crate::rack::Rack;
use crate::status::NodeStatus;
use crate::transport::{Channel, Received};

/// How long a daemon may take to answer. It does so at once, but its host may be busy.
const ANSWER: Duration = Duration::from_secs(60);

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
        let connection = Connection::over(channel, nid, ANSWER)?;
        let hello = Request::Hello { version: PROTOCOL_VERSION };
        let answer = connection.call(&hello, None)?;
        Ok((connection, answer))
    }

    fn over(channel: Channel, nid: u16, patience: Duration) -> Result<Connection> {
        channel.set_patience(patience).map_err(|error| Error::io("cannot limit a wait", error))?;
        Ok(Connection { channel, nid })
    }

    /// Sends a request and waits for its response.
    ///
    /// # Errors
    /// The daemon refuses, does not answer, or is gone.
    pub fn call(&self, request: &Request, fd: Option<&OwnedFd>) -> Result<Received<Response>> {
        use std::os::fd::AsFd;
        let fds: Vec<_> = fd.iter().map(|fd| fd.as_fd()).collect();
        let gone = |error: io::Error| match error.kind() {
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::NotConnected => Error::daemon_gone(self.nid),
            io::ErrorKind::WouldBlock => self.give_up(),
            _ => Error::io(format!("talking to the daemon of node {}", self.nid), error),
        };
        self.channel.send(request, &fds).map_err(gone)?;
        let answer = self.channel.receive().map_err(gone)?;
        match answer.message {
            Response::Error { errno, message } => Err(Error::new(errno, message)),
            _ => Ok(answer),
        }
    }

    /// A later answer must not be taken for that of another request.
    fn give_up(&self) -> Error {
        let process = self.daemon_pid().map_or(String::new(), |pid| format!(" (process {pid})"));
        self.channel.hang_up();
        let nid = self.nid;
        Error::new(
            libc::ETIMEDOUT,
            format!(
                "the daemon of node {nid}{process} does not answer: if it was stopped, let it go on, or take \
                 the rack down"
            ),
        )
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_not_answer_is_given_up() {
        let (ours, _theirs) = Channel::pair();
        let connection = Connection::over(ours, 3, Duration::from_millis(10)).unwrap();
        let error = connection.call(&Request::Status, None).unwrap_err();
        assert_eq!(error.errno(), libc::ETIMEDOUT);
        assert!(error.to_string().contains("the daemon of node 3"), "{error}");
        let error = connection.call(&Request::Status, None).unwrap_err();
        assert_eq!(error.errno(), libc::EHOSTDOWN, "{error}");
    }
}
