//! Questions to a daemon.

use std::io;
use std::os::fd::OwnedFd;

use crate::error::{Error, Result};
use crate::patience::{Patience, STEP};
use crate::protocol::{PROTOCOL_VERSION, Request, Response};
use crate::rack::Rack;
use crate::status::NodeStatus;
use crate::transport::{Channel, Received};

/// Daemons that are asked at the same time.
const ASKED_AT_ONCE: usize = 64;

/// A connection to the daemon of a node: one request, one response.
#[derive(Debug)]
pub struct Connection {
    channel: Channel,
    nid: u16,
    over_hosts: bool,
}

impl Connection {
    /// Connects and sends `Hello`. Returns the connection and the number of nodes of the rack.
    ///
    /// # Errors
    /// There is no rack or no daemon, it speaks another version, or it does not answer.
    pub fn open(rack: &Rack, nid: u16) -> Result<(Connection, u16)> {
        let nodes = rack.describe()?.nodes;
        if nid >= nodes {
            let name = rack.name();
            return Err(Error::new(
                libc::ENXIO,
                format!("rack '{name}' has no node {nid}: its nodes are 0 to {}", nodes - 1),
            ));
        }
        let mut connection = Connection { channel: connect(rack, nid)?, nid, over_hosts: false };
        let hello = Request::Hello { version: PROTOCOL_VERSION };
        match connection.call(&hello, None)?.message {
            Response::Welcome { nodes, over_hosts, .. } => {
                connection.over_hosts = over_hosts;
                Ok((connection, nodes))
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Sends a request and waits for its response.
    ///
    /// # Errors
    /// The daemon refuses, does not answer (see `patience.rs`), or is gone.
    pub fn call(&self, request: &Request, fd: Option<&OwnedFd>) -> Result<Received<Response>> {
        use std::os::fd::AsFd;
        let fds: Vec<_> = fd.iter().map(|fd| fd.as_fd()).collect();
        let mut patience = Patience::new(self.daemon_pid());
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::NotConnected => Error::daemon_gone(self.nid),
            _ => Error::io(format!("talking to the daemon of node {}", self.nid), error),
        };
        self.channel.send(request, &fds).map_err(failed)?;
        while !self.channel.wait(STEP).map_err(failed)? {
            if patience.is_over() {
                // A later answer must not be taken for that of another request.
                self.channel.hang_up();
                return Err(silent(self.nid, &patience));
            }
        }
        let answer = self.channel.receive().map_err(failed)?;
        match answer.message {
            Response::Error { errno, message } => Err(Error::new(errno, message)),
            _ => Ok(answer),
        }
    }

    /// Whether the rack has nodes on other hosts than the daemon's.
    pub fn over_hosts(&self) -> bool {
        self.over_hosts
    }

    /// Whether the daemon is gone.
    pub fn is_hung_up(&self) -> bool {
        self.channel.is_hung_up()
    }

    /// Process of the daemon, if the kernel reports it.
    pub fn daemon_pid(&self) -> Option<i32> {
        self.channel.peer().ok().map(|peer| peer.pid.as_raw_nonzero().get())
    }
}

/// Connects to the daemon of a node. Its queue of connections is full if it has not taken any for long.
fn connect(rack: &Rack, nid: u16) -> Result<Channel> {
    let path = rack.socket_path(nid);
    let mut patience = Patience::new(rack.daemon_pid(nid));
    loop {
        let error = match Channel::connect(&path) {
            Ok(channel) => return Ok(channel),
            Err(error) => error,
        };
        match error.kind() {
            io::ErrorKind::WouldBlock if patience.is_over() => return Err(silent(nid, &patience)),
            io::ErrorKind::WouldBlock => std::thread::sleep(STEP),
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                return Err(Error::daemon_gone(nid));
            }
            _ => return Err(Error::io(format!("cannot connect to {}", path.display()), error)),
        }
    }
}

fn silent(nid: u16, patience: &Patience) -> Error {
    Error::new(libc::ETIMEDOUT, format!("the daemon of node {nid} {}", patience.reason()))
}

/// Asks the daemon of a node for its status.
///
/// # Errors
/// It does not answer.
pub fn status(rack: &Rack, nid: u16) -> Result<NodeStatus> {
    ask_status(rack, nid, &Request::Status)
}

fn ask_status(rack: &Rack, nid: u16, question: &Request) -> Result<NodeStatus> {
    let (connection, _) = Connection::open(rack, nid)?;
    match connection.call(question, None)?.message {
        Response::Status(status) => Ok(*status),
        other => Err(unexpected(&other)),
    }
}

/// Has the daemons of this host ask that of a node on another host, one after the other until one of them reaches it.
fn far_status(rack: &Rack, here: &[u16], nid: u16) -> Result<NodeStatus> {
    let mut failed = None;
    for via in here {
        match ask_status(rack, *via, &Request::StatusOf { nid }) {
            Ok(status) => return Ok(status),
            // The link is up.
            Err(error) if error.errno() == libc::ETIMEDOUT => return Err(error),
            // That there is no link says more than that a daemon of this host is gone.
            Err(error) if error.errno() == libc::ENETUNREACH => failed = Some(error),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    Err(failed.unwrap_or_else(|| {
        Error::new(libc::EHOSTDOWN, format!("no daemon of this host can ask that of node {nid}"))
    }))
}

/// Asks the daemons of these nodes, many at a time: several that do not answer take no longer than one. Those that are
/// not among the nodes of this host are asked through these.
pub fn status_of(rack: &Rack, here: &[u16], nids: &[u16]) -> Vec<Result<NodeStatus>> {
    let ask_one = |nid| match here.contains(&nid) {
        true => status(rack, nid),
        false => far_status(rack, here, nid),
    };
    let ask = |nids: &[u16]| {
        std::thread::scope(|threads| {
            let asked: Vec<_> = nids.iter().map(|nid| threads.spawn(|| ask_one(*nid))).collect();
            asked.into_iter().map(|thread| thread.join().expect("no question panics")).collect()
        })
    };
    nids.chunks(ASKED_AT_ONCE).flat_map(|nids| -> Vec<_> { ask(nids) }).collect()
}

/// The daemon answered something else than was asked.
pub(crate) fn unexpected(response: &Response) -> Error {
    Error::new(libc::EPROTO, format!("the daemon gave an unexpected answer: {response:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_connection_means_that_the_daemon_is_gone() {
        let (ours, theirs) = Channel::pair();
        let connection = Connection { channel: ours, nid: 3, over_hosts: false };
        drop(theirs);
        let error = connection.call(&Request::Status, None).unwrap_err();
        assert_eq!(error.errno(), libc::EHOSTDOWN, "{error}");
    }
}
