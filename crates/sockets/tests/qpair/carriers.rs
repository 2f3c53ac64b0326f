//! All carriers: tests of queue pairs run over each.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rackmem_fabric::Address;
use rackmem_fabric::net::proof::Proof;
use rackmem_sockets::{Access, Link, Listener, QPair, Terms};

/// Longest that anything may take: nobody hangs.
pub const LONG: Duration = Duration::from_secs(60);

/// The carrier between two ends.
#[derive(Clone, Copy, Debug)]
pub enum Carrier {
    Memory,
    Network,
    Sealed,
}

impl Carrier {
    /// A listener; one at a path lies in `dir`.
    pub fn listen(self, dir: &Path) -> Listener {
        let address = match self {
            Carrier::Memory => Address::Unix(dir.join("link")),
            Carrier::Network | Carrier::Sealed => Address::Tcp("127.0.0.1:0".to_owned()),
        };
        let access = self.secret().map_or_else(Access::insecure, Access::with_proof);
        Listener::bind(&address, access).unwrap()
    }

    /// The secret of both ends.
    pub fn secret(self) -> Option<Proof> {
        matches!(self, Carrier::Sealed).then(|| Proof::secret(b"a secret of both ends"))
    }

    /// Two ends in this process: the first one begins connections.
    pub fn linked(self, terms: Terms) -> (Arc<Link>, Arc<Link>) {
        let dir = tempfile::TempDir::new().unwrap();
        let listener = self.listen(dir.path());
        let address = listener.address().clone();
        let secret = self.secret();
        let connect = move || Link::connect(&address, secret.as_ref(), terms).unwrap();
        let connecting = std::thread::spawn(connect);
        let accepted = listener.accept().unwrap();
        (connecting.join().unwrap(), accepted)
    }

    /// Both ends of a connection, with so much registered memory.
    pub fn pairs(self, registered_bytes: usize) -> (QPair, QPair) {
        let (near, far) = self.linked(Terms { connections: 4, registered_bytes });
        let pair = near.open().unwrap();
        (pair, far.accept().unwrap())
    }
}

/// Begins a connection when the last one with its number has ended at the peer, too.
pub fn open(link: &Arc<Link>) -> QPair {
    let deadline = Instant::now() + LONG;
    loop {
        match link.open() {
            Ok(pair) => return pair,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
        std::thread::yield_now();
    }
}

/// Makes a test for each carrier of functions that take one.
macro_rules! over_all {
    ($($name:ident),* $(,)?) => {
        mod over_memory {
            $(#[test] fn $name() { super::$name(crate::carriers::Carrier::Memory); })*
        }
        mod sealed {
            $(#[test] fn $name() { super::$name(crate::carriers::Carrier::Sealed); })*
        }
        mod over_network {
            $(#[test] fn $name() { super::$name(crate::carriers::Carrier::Network); })*
        }
    };
}
pub(crate) use over_all;
