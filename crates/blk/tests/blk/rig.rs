//! A server in this process.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use rackmem_blk::{Config, Server, Summary, TlsMode};
use rackmem_fabric::Address;
use rackmem_lease::Result;
use rackmem_lease::store::{HeapStore, Lane, Store};
use tempfile::TempDir;

pub const SIZE_BYTES: u64 = 64 << 20;

/// Way from a server to its store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    Mapped,
    Lane,
}

pub const BOTH: [Reach; 2] = [Reach::Mapped, Reach::Lane];

/// A store whose lender is elsewhere.
struct Elsewhere(HeapStore);

impl Store for Elsewhere {
    fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }

    fn lane(&self) -> Result<Box<dyn Lane>> {
        self.0.lane()
    }

    fn check(&self) -> Result<()> {
        self.0.check()
    }
}

pub struct Rig {
    pub heap: HeapStore,
    pub address: Address,
    dir: TempDir,
    stop: Option<UnixStream>,
    server: Option<JoinHandle<Summary>>,
}

pub fn config(address: Address) -> Config {
    Config {
        address,
        name: "memory".to_owned(),
        description: "for tests".to_owned(),
        is_read_only: false,
        tls_mode: TlsMode::Off,
        tls: None,
        is_insecure: false,
        mode: 0o600,
    }
}

impl Rig {
    pub fn new(reach: Reach) -> Rig {
        Rig::with(reach, |_| {})
    }

    pub fn tcp() -> Rig {
        let any = Address::Tcp("127.0.0.1:0".to_owned());
        Rig::with(Reach::Mapped, |config| {
            config.address = any;
            config.is_insecure = true;
        })
    }

    pub fn with(reach: Reach, change: impl FnOnce(&mut Config)) -> Rig {
        Rig::sized(reach, SIZE_BYTES, change)
    }

    pub fn sized(reach: Reach, size_bytes: u64, change: impl FnOnce(&mut Config)) -> Rig {
        let dir = TempDir::new().unwrap();
        let heap = HeapStore::new(size_bytes).unwrap();
        let store: Arc<dyn Store> = match reach {
            Reach::Mapped => Arc::new(heap.clone()),
            Reach::Lane => Arc::new(Elsewhere(heap.clone())),
        };
        let mut config = config(Address::Unix(dir.path().join("socket")));
        change(&mut config);
        let server = Server::bind(store, config).unwrap();
        let address = server.address().clone();
        let (stop, stopped) = UnixStream::pair().unwrap();
        let server = std::thread::spawn(move || server.run(stopped.as_fd()).unwrap());
        Rig { heap, address, dir, stop: Some(stop), server: Some(server) }
    }

    pub fn path(&self) -> PathBuf {
        match &self.address {
            Address::Unix(path) => path.clone(),
            Address::Tcp(_) => panic!("not a Unix socket"),
        }
    }

    pub fn scratch(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// As tools want it.
    pub fn uri(&self) -> String {
        match &self.address {
            Address::Unix(path) => format!("nbd+unix:///memory?socket={}", path.display()),
            Address::Tcp(address) => format!("nbd://{address}/memory"),
        }
    }

    /// Ends the server in order.
    pub fn end(mut self) -> Summary {
        self.stop.take();
        self.server.take().unwrap().join().unwrap()
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(server) = self.server.take() {
            let outcome = server.join();
            if !std::thread::panicking() {
                outcome.unwrap();
            }
        }
    }
}
