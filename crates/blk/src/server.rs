//! Listening, a thread for each client, and an orderly end.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::Shutdown;

use super::connection::{self, End, Service, Tally};
use super::export::Export;
use super::negotiate::TlsMode;
use super::socket::Socket;
use super::tls::Certificates;
use super::wire::MAX_STRING_BYTES;
use rackmem_fabric::address::Address;
use rackmem_fabric::net::access::check_exposure;
use rackmem_fabric::net::listener::Listener;
use rackmem_fabric::net::stranger::Strangers;
use rackmem_lease::error::{Error, Result};
use rackmem_lease::store::Store;

/// Clients at a time that have shaken hands; more are turned away. Each has a thread.
pub const MAX_CONNECTIONS: usize = 256;

/// Time that clients have for their outstanding requests when the server ends.
pub const GRACE: Duration = Duration::from_secs(2);

/// Settings of a server.
#[derive(Clone, Debug)]
pub struct Config {
    /// Address to listen at; port 0 is any that is free.
    pub address: Address,
    /// Name of the export; clients that name none get it, too.
    pub name: String,
    /// Text that clients may show to people.
    pub description: String,
    /// Whether writes are refused.
    pub is_read_only: bool,
    /// Whether connections are encrypted.
    pub tls_mode: TlsMode,
    /// Certificates and key, unless `tls_mode` is [`TlsMode::Off`]; see [`super::tls::load`].
    pub tls: Option<Certificates>,
    /// Clients that reach a port need no certificate.
    pub is_insecure: bool,
    /// Permissions of a socket's file.
    pub mode: u32,
}

impl Config {
    /// Checks that every client of a port has to have a certificate.
    fn check_exposure(&self) -> Result<()> {
        let Address::Tcp(name) = &self.address else { return Ok(()) };
        let verifies = self.tls.as_ref().is_some_and(|tls| tls.verifies_clients);
        let has_proof = self.tls_mode == TlsMode::Require && verifies;
        let remedy =
            "use --tls require with --tls-certificates DIR and --verify-clients, or --socket PATH";
        Ok(check_exposure(name, has_proof, self.is_insecure, "read and write this memory", remedy)?)
    }
}

/// A server that listens.
pub struct Server {
    listener: Listener,
    address: Address,
    service: Arc<Service>,
    clients: Arc<Clients>,
    strangers: Strangers,
}

/// The connections of a server.
#[derive(Default)]
struct Clients {
    state: Mutex<State>,
    one_has_gone: Condvar,
}

#[derive(Default)]
struct State {
    next: u64,
    sockets: HashMap<u64, Arc<OwnedFd>>,
    /// Number of them that have shaken hands.
    trusted: usize,
    tally: Tally,
    served: u64,
}

/// Counters of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Connections that have ended.
    pub clients: u64,
    /// Sum over connections that have ended.
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
            return Err(Error::refused(format!(
                "the export's name and description may have {MAX_STRING_BYTES} bytes each"
            )));
        }
        config.check_exposure()?;
        let (listener, address) = Listener::bind(&config.address, config.mode)?;
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
            tls: config.tls.map(|tls| tls.config),
            loss_is_known: AtomicBool::new(false),
        };
        let (service, clients) = (Arc::new(service), Arc::default());
        Ok(Server { listener, address, service, clients, strangers: Strangers::default() })
    }

    /// The address it listens at, with the port that the kernel chose.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Serves until `stop` becomes readable. Then it answers the requests that clients have sent, takes no more, and
    /// ends all connections.
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

    /// Takes a client that waits. A failure concerns this client only.
    fn accept(&self) {
        let (fd, who) = match self.listener.accept() {
            Ok(client) => client,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(error) => {
                tracing::warn!("a client was not accepted: {error}");
                if error.kind() == io::ErrorKind::PermissionDenied {
                    return;
                }
                // Descriptors or memory are short: come back when others may have gone.
                std::thread::sleep(Duration::from_millis(50));
                return;
            }
        };
        if self.clients.lock().trusted >= MAX_CONNECTIONS {
            tracing::warn!("{who} was turned away: {}", End::Full);
            return;
        }
        if let Err(error) = self.start(fd, &who) {
            tracing::warn!("{who} was turned away: {error}");
        }
    }

    fn start(&self, fd: OwnedFd, who: &str) -> io::Result<()> {
        let stranger = self.strangers.admit(fd.as_fd())?;
        let socket = Socket::new(fd.try_clone()?);
        let number = {
            let mut state = self.clients.lock();
            let number = state.next;
            state.next += 1;
            state.sockets.insert(number, Arc::new(fd));
            number
        };
        let mut seat = Seat { clients: self.clients.clone(), number, is_trusted: false };
        let (service, who) = (self.service.clone(), who.to_owned());
        std::thread::Builder::new().name("rackmem-blk".to_owned()).spawn(move || {
            tracing::debug!("{who} is connected");
            let (end, tally) = connection::serve(&service, socket, stranger, || seat.trust());
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
        // First no more requests; then, for clients that do not read their answers, nothing.
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
    is_trusted: bool,
}

impl Seat {
    /// The client has shaken hands; `false` if others take all places.
    fn trust(&mut self) -> bool {
        let mut state = self.clients.lock();
        self.is_trusted = state.trusted < MAX_CONNECTIONS;
        state.trusted += usize::from(self.is_trusted);
        self.is_trusted
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut state = self.clients.lock();
        state.sockets.remove(&self.number);
        state.trusted -= usize::from(self.is_trusted);
        state.served += 1;
        self.clients.one_has_gone.notify_all();
    }
}
