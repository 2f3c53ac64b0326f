//! Lenders in this process, on racks of their own.

#![allow(dead_code, reason = "every test file uses its own part")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rackmem::rack::Rack;
use rackmem_fabric::Buffer;
use rackmem_fabric::net::greet::Greeter;
use rackmem_fabric::net::proof::Proof;
use rackmem_lease::agent::{Agent, Config, Event};
use rackmem_lease::messages::Ledger;
use rackmem_lease::store::Store;
use rackmem_lease::{Wanted, ledger};

pub const PAGE: u64 = 4096;

/// Longest wait for something that happens sooner or later.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A name that no other test has.
pub fn rack() -> Rack {
    static RACKS: AtomicU32 = AtomicU32::new(0);
    let number = RACKS.fetch_add(1, Ordering::Relaxed);
    Rack::named(Some(&format!("t{}-{number}", std::process::id()))).unwrap()
}

/// Removes the files of a rack that killed processes have left.
pub struct Cleaner(pub Rack);

impl Drop for Cleaner {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(directory(&self.0));
    }
}

pub fn directory(rack: &Rack) -> PathBuf {
    rackmem::rack::base_dir().join(".memory").join(rack.name())
}

pub fn lend(rack: &Rack, name: &str, pages: u64) -> Agent {
    start(Config { name: Some(name.to_owned()), ..Config::lender(rack.clone(), pages * PAGE) })
}

pub fn start(config: Config) -> Agent {
    Agent::start(config, |_| {}).unwrap()
}

/// An agent whose events are kept.
pub fn listening(config: Config) -> (Agent, Arc<Mutex<Vec<Event>>>) {
    let events = Arc::new(Mutex::new(Vec::new()));
    let kept = events.clone();
    let agent = Agent::start(config, move |event| kept.lock().unwrap().push(event)).unwrap();
    (agent, events)
}

pub fn wanted(rack: &Rack, pages: u64) -> Wanted {
    Wanted { rack: Some(rack.name().to_owned()), ..Wanted::new(pages * PAGE) }
}

/// The monitor's ledger, as soon as there is a monitor: another takes over if it was killed.
pub fn who(rack: &Rack) -> Ledger {
    let mut known = None;
    until("there is a monitor", || {
        known = ledger(Some(rack.name()), None, None).ok();
        known.is_some()
    });
    known.unwrap()
}

/// Pages that are leased, by lender.
pub fn leased(rack: &Rack) -> Vec<(String, u64)> {
    let mut leased: Vec<(String, u64)> = who(rack)
        .lenders
        .iter()
        .map(|lender| {
            let bytes: u64 = lender.leases.iter().map(|lease| lease.size_bytes).sum();
            (lender.offer.lender.name.clone(), bytes / PAGE)
        })
        .collect();
    leased.sort();
    leased
}

pub fn secret() -> Proof {
    Proof::secret(b"a secret of all hosts")
}

/// The called end of a handshake, by hand, of a connection that blocks; also what has come behind it.
pub fn greet(stream: &mut TcpStream, proof: Option<&Proof>) -> std::io::Result<Buffer> {
    let (mut greeter, mut input) = (Greeter::new(proof, &[]), Buffer::default());
    let (mut bytes, mut out) = ([0; 256], Vec::new());
    loop {
        let step = greeter.step(&mut input, &mut out).map_err(std::io::Error::other)?;
        if step.is_some() {
            return Ok(input);
        }
        stream.write_all(&std::mem::take(&mut out))?;
        match stream.read(&mut bytes)? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            n => input.extend(&bytes[..n]),
        }
    }
}

pub fn until(what: &str, mut happened: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !happened() {
        assert!(Instant::now() < deadline, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// All connections over TCP that this process has, and the addresses of their other ends.
pub fn connections() -> Vec<(OwnedFd, SocketAddr)> {
    let entries = std::fs::read_dir("/proc/self/fd").unwrap();
    let number = |entry: std::fs::DirEntry| entry.file_name().to_str().unwrap().parse().unwrap();
    let connection = |entry: std::io::Result<std::fs::DirEntry>| {
        // SAFETY: what is no descriptor any more is refused by the kernel.
        let fd = unsafe { BorrowedFd::borrow_raw(number(entry.ok()?)) };
        let fd = fd.try_clone_to_owned().ok()?;
        let peer = rustix::net::getpeername(&fd).ok()??;
        Some((fd, SocketAddr::try_from(peer).ok()?))
    };
    entries.filter_map(connection).collect()
}

/// Whether a socket blocks. Lanes do, other connections do not.
pub fn blocks(fd: &OwnedFd) -> bool {
    let flags = rustix::fs::fcntl_getfl(fd).unwrap();
    !flags.contains(rustix::fs::OFlags::NONBLOCK)
}

/// Fills a store with the bytes that `check` expects.
pub fn fill(store: &dyn Store, seed: u8) {
    let mut lane = store.lane().unwrap();
    for page in 0..store.size_bytes() / PAGE {
        lane.write(page * PAGE, &[seed.wrapping_add(page as u8); PAGE as usize]).unwrap();
    }
}

pub fn check(store: &dyn Store, seed: u8) {
    let mut lane = store.lane().unwrap();
    let mut bytes = [0; PAGE as usize];
    for page in 0..store.size_bytes() / PAGE {
        lane.read(page * PAGE, &mut bytes).unwrap();
        assert_eq!(bytes, [seed.wrapping_add(page as u8); PAGE as usize], "page {page}");
    }
}
