//! Listening, a thread for each client, and an orderly end.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::Shutdown;

use super::connection::{self, Service, Tally};
use super::export::Export;
use super::negotiate::TlsMode;
use super::socket::Socket;
use super::wire::MAX_STRING_BYTES;
use crate::address::Address;
use crate::error::{Error, Result};
use crate::net::listener::Listener;
use crate::store::Store;

/// Clients at a time; more are turned away. Each has a thread.
pub const MAX_CONNECTIONS: usize = 256;

/// How long clients have for their outstanding requests when the server ends.
pub const GRACE: Duration = Duration::from_secs(2);

/// What to serve, and how.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where; port 0 is any that is free.
    pub address: Address,
    /// Name of the export; clients that name none get it, too.
    pub name: String,
    /// What people are told of it.
    pub description: String,
    /// Whether writes are refused.
    pub is_read_only: bool,
    /// Whether connections are encrypted.
    pub tls_mode: TlsMode,
    /// Certificates and key, unless `tls_mode` is [`TlsMode::Off`]; see [`super::tls::load`].
    pub tls: Option<Arc<rustls::ServerConfig>>,
}

/// A server that listens.
pub struct Server {
    listener: Listener,
    address: Address,
    service: Arc<Service>,
    clients: Arc<Clients>,
}

/// Who is connected.
#[derive(Default)]
struct Clients {
    state: Mutex<State>,
    one_has_gone: Condvar,
}

#[derive(Default)]
struct State {
    next: u64,
    sockets: HashMap<u64, Arc<OwnedFd>>,
    tally: Tally,
    served: u64,
}

/// What a server has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Clients.
    pub clients: u64,
    /// What they have done, all together.
    pub tally: Tally,
}

impl Clients {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Server {
    /// Listens from now on.
    ///
    /// # Errors
    /// Something else listens there, or the kernel refuses.
    pub fn bind(store: Arc<dyn Store>, config: Config) -> Result<Server> {
        if config.name.len() > MAX_STRING_BYTES || config.description.len() > MAX_STRING_BYTES {
            return Err(Error::Refused(format!(
                "the export's name and description may have {MAX_STRING_BYTES} bytes each"
            )));
        }
        let (listener, address) = Listener::bind(&config.address)?;
        let export = Export {
            name: config.name,
            description: config.description,
            size_bytes: store.size_bytes(),
            is_read_only: config.is_read_only,
        };
        let service = Service {
            store,
            export,
            tls_mode: config.tls_mode,
            tls: config.tls,
            loss_is_known: AtomicBool::new(false),
        };
        Ok(Server { listener, address, service: Arc::new(service), clients: Arc::default() })
    }

    /// Where it listens; with the port that the kernel chose.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Serves until `stop` becomes readable. Then clients get answers to what they have sent, no more is
    /// taken from them, and all connections end.
    ///
    /// # Errors
    /// The kernel refuses to accept clients.
    pub fn run(self, stop: BorrowedFd<'_>) -> Result<Summary> {
        loop {
            let mut fds = [
                PollFd::from_borrowed_fd(stop, PollFlags::IN),
                PollFd::from_borrowed_fd(self.listener.as_fd(), PollFlags::IN),
            ];
            match poll(&mut fds, None) {
                Ok(_) if !fds[0].revents().is_empty() => return Ok(self.end()),
                Ok(_) => self.accept(),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(Error::io("cannot wait for clients", error)),
            }
        }
    }

    /// Takes a client that waits. What fails concerns this client only.
    fn accept(&self) {
        let (fd, who) = match self.listener.accept() {
            Ok(client) => client,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(error) => {
                tracing::warn!("a client could not be accepted: {error}");
                // Descriptors or memory are short: come back when others may have gone.
                std::thread::sleep(Duration::from_millis(50));
                return;
            }
        };
        if self.clients.lock().sockets.len() >= MAX_CONNECTIONS {
            tracing::warn!("{who} was turned away: there are {MAX_CONNECTIONS} clients already");
            return;
        }
        if let Err(error) = self.start(fd, &who) {
            tracing::warn!("{who} was turned away: {error}");
        }
    }

    fn start(&self, fd: OwnedFd, who: &str) -> io::Result<()> {
        let socket = Socket::new(fd.try_clone()?);
        let number = {
            let mut state = self.clients.lock();
            let number = state.next;
            state.next += 1;
            state.sockets.insert(number, Arc::new(fd));
            number
        };
        let seat = Seat { clients: self.clients.clone(), number };
        let (service, who) = (self.service.clone(), who.to_owned());
        std::thread::Builder::new().name("rackmem-blk".to_owned()).spawn(move || {
            tracing::debug!("{who} is connected");
            let (end, tally) = connection::serve(&service, socket);
            let Tally { requests, errors, read_bytes, written_bytes } = tally;
            let did = format!(
                "{requests} requests ({errors} refused), {read_bytes} bytes read, {written_bytes} written"
            );
            match end.is_orderly() {
                true => tracing::info!("{who} is gone: {end}; {did}"),
                false => tracing::warn!("{who} is disconnected: {end}; {did}"),
            }
            seat.clients.lock().tally.add(&tally);
        })?;
        Ok(())
    }

    fn end(self) -> Summary {
        self.listener.remove();
        // First no more requests; then, for those who do not read their answers, nothing.
        for how in [Shutdown::Read, Shutdown::Both] {
            let mut state = self.clients.lock();
            for socket in state.sockets.values() {
                let _ = rustix::net::shutdown(socket, how);
            }
            let patience = self
                .clients
                .one_has_gone
                .wait_timeout_while(state, GRACE, |state| !state.sockets.is_empty());
            state = patience.unwrap_or_else(std::sync::PoisonError::into_inner).0;
            if state.sockets.is_empty() {
                break;
            }
        }
        let state = self.clients.lock();
        Summary { clients: state.served, tally: state.tally }
    }
}

/// A client's place; given back when its thread ends, however it does.
struct Seat {
    clients: Arc<Clients>,
    number: u64,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut state = self.clients.lock();
        state.sockets.remove(&self.number);
        state.served += 1;
        self.clients.one_has_gone.notify_all();
    }
}
