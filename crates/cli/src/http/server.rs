//! The thread that serves all connections of a listener.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rackmem_fabric::net::socket;
use rackmem_fabric::socket::timespec;
use rustix::event::{PollFd, PollFlags, poll};

use super::connection::Connection;
use super::endpoint::Endpoint;
use super::request::{Request, Response};
use crate::failure::{Failure, Result};

/// Connections at a time.
const MAX_CONNECTIONS: usize = 64;

/// Until the next look when there is no descriptor left for a connection.
const NO_DESCRIPTOR_PAUSE: Duration = Duration::from_millis(10);

/// A listener whose pages nobody serves yet.
#[derive(Debug)]
pub struct Server {
    listener: OwnedFd,
    address: SocketAddr,
}

impl Server {
    /// Listens.
    ///
    /// # Errors
    /// The port is taken.
    pub fn listen(endpoint: Endpoint) -> Result<Server> {
        let (listener, address) = socket::listen_tcp(&endpoint.to_string())?;
        Ok(Server { listener, address })
    }

    /// URL of the root, with a slash at its end.
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Serves pages from a thread of its own, which ends with the process. `page` gives the page of a path; `None`:
    /// there is none. No signal comes to that thread.
    ///
    /// # Errors
    /// There is no thread.
    pub fn serve(
        self,
        mut page: impl FnMut(&str) -> Option<Response> + Send + 'static,
    ) -> Result<()> {
        let mut answer =
            move |request: &Request| page(&request.path).unwrap_or_else(Response::not_found);
        let serve = move || {
            let mut connections = Vec::new();
            loop {
                self.round(&mut connections, &mut answer);
            }
        };
        let spawn = || std::thread::Builder::new().name("http".to_owned()).spawn(serve);
        let spawned = socket::without_signals(spawn);
        spawned.map(drop).map_err(|error| Failure::io("cannot start a thread", error))
    }

    /// Waits for clients and serves those that are ready.
    fn round(
        &self,
        connections: &mut Vec<Connection>,
        answer: &mut dyn FnMut(&Request) -> Response,
    ) {
        let (is_called, ready) = self.wait(connections);
        let now = Instant::now();
        let mut ready = ready.into_iter();
        connections.retain_mut(|connection| match ready.next() {
            // A client that sends a byte now and then gets no more time than another.
            Some(true) => now < connection.deadline() && connection.go_on(answer).is_ok(),
            _ => now < connection.deadline(),
        });
        if is_called {
            self.accept(connections, answer);
        }
    }

    /// Waits until something is ready or the time of a connection is over. Returns whether somebody calls, and which
    /// connections are ready.
    fn wait(&self, connections: &[Connection]) -> (bool, Vec<bool>) {
        let listener = PollFd::from_borrowed_fd(self.listener.as_fd(), PollFlags::IN);
        let clients = connections.iter().map(|connection| {
            let (fd, flags) = connection.awaited();
            PollFd::from_borrowed_fd(fd, flags)
        });
        let mut fds: Vec<PollFd<'_>> = [listener].into_iter().chain(clients).collect();
        let end = connections.iter().map(Connection::deadline).min();
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        if poll(&mut fds, left.map(timespec).as_ref()).is_err() {
            return (false, vec![false; connections.len()]);
        }
        let is_ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
        (is_ready(&fds[0]), fds[1..].iter().map(is_ready).collect())
    }

    /// Takes the clients that call. A crowd that does not ask takes no place of those who do.
    fn accept(
        &self,
        connections: &mut Vec<Connection>,
        answer: &mut dyn FnMut(&Request) -> Response,
    ) {
        // Those who are here get their turn in between.
        for _ in 0..MAX_CONNECTIONS {
            if connections.len() >= MAX_CONNECTIONS {
                let silent = connections.iter().position(Connection::asks);
                connections.remove(silent.unwrap_or(0));
            }
            let stream = match socket::accept(self.listener.as_fd(), true) {
                Ok(stream) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) if connections.is_empty() => return std::thread::sleep(NO_DESCRIPTOR_PAUSE),
                Err(_) => {
                    connections.remove(0);
                    continue;
                }
            };
            let mut connection = Connection::new(stream.into());
            if connection.go_on(answer).is_ok() {
                connections.push(connection);
            }
        }
    }
}
