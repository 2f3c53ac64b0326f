//! Borrowing: the calls of a process that needs memory.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rackmem::rack::Rack;
use rackmem::rack_file::Membership;
use serde::Serialize;

use super::ask::ask_monitor;
use super::directory::Directory;
use super::driver::{Driver, Terms};
use super::keeper::Keeper;
use super::messages::{Ledger, Party, Reply, Request, Want};
use super::placement::LEASE_BYTES;
use crate::agent::this_party;
use crate::error::{Error, Result};
use crate::store::mirror::{DEFAULT_PATIENCE, Tell};
use crate::store::replicas::{MAX_MEMBERS, State};
use crate::store::{MirrorStore, Store};
use rackmem_fabric::address::Address;
use rackmem_fabric::net::names;
use rackmem_fabric::net::proof::Proof;
use rackmem_fabric::rights::Right;

/// A request for memory, and the lenders that it goes to.
#[derive(Clone)]
pub struct Wanted {
    /// Bytes; rounded up to pages.
    pub size_bytes: u64,
    /// Copies, each with lenders of its own: with two, one lender may die.
    pub copies: u32,
    /// Rack whose lenders are meant; `None`: `$RACKMEM_RACK`, else `default`.
    pub rack: Option<String>,
    /// Address of the monitor; `None`: `$RACKMEM_MONITOR`, else on this host.
    pub monitor: Option<Address>,
    /// What this process proves over the network; `None`: what the environment names, else nothing.
    pub proof: Option<Proof>,
    /// Right by which it borrows: plain memory, or the bytes of a block device.
    pub purpose: Right,
    /// Name by which people find the borrower; `None`: that of the program.
    pub name: Option<String>,
    /// Time that lanes poll for an answer before they sleep (only over the network).
    pub spin: Duration,
    /// Lenders of this host are reached over the network, too: for measurements.
    pub only_network: bool,
    /// Time that accesses wait while no lender that has the memory can be reached.
    pub patience: Duration,
    /// Reports events of the borrowing to people: lenders that do not answer, leave, are lost or replaced.
    pub tell: Tell,
}

impl fmt::Debug for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wanted")
            .field("size_bytes", &self.size_bytes)
            .field("copies", &self.copies)
            .finish_non_exhaustive()
    }
}

impl Wanted {
    /// Asks for one copy of `size_bytes`, of the rack and the monitor that the environment names, else of this host.
    pub fn new(size_bytes: u64) -> Wanted {
        Wanted {
            size_bytes,
            copies: 1,
            rack: None,
            monitor: None,
            proof: None,
            purpose: Right::Borrow,
            name: None,
            spin: Duration::ZERO,
            only_network: false,
            patience: DEFAULT_PATIENCE,
            tell: Arc::new(|text| tracing::warn!("{text}")),
        }
    }

    fn terms(&self) -> Result<Terms> {
        let size_bytes = self.size_bytes.checked_next_multiple_of(LEASE_BYTES);
        let size_bytes = size_bytes.filter(|&bytes| bytes > 0 && bytes < 1 << 60);
        let Some(size_bytes) = size_bytes else {
            return Err(Error::refused(format!("{} bytes cannot be borrowed", self.size_bytes)));
        };
        if !(1..=MAX_COPIES).contains(&self.copies) {
            return Err(Error::refused(format!(
                "{} copies cannot be had: 1 to {MAX_COPIES}",
                self.copies
            )));
        }
        let (monitor, proof) =
            monitor_of(self.rack.as_deref(), self.monitor.as_ref(), self.proof.clone())?;
        if let Some(name) = &self.name {
            names::check(name).map_err(Error::refused)?;
        }
        let borrower = this_party(self.name.as_deref());
        let want = Want {
            borrower,
            size_bytes,
            copies: self.copies,
            avoid: Vec::new(),
            purpose: self.purpose,
            account: None,
        };
        let only_network = self.only_network;
        let (spin, patience) = (self.spin, self.patience);
        let only_mapped = false;
        Ok(Terms { want, monitor, proof, spin, only_network, only_mapped, patience })
    }
}

/// Most copies of a borrowing.
pub const MAX_COPIES: u32 = 4;

/// The address of the monitor and the proof. Arguments go before the environment; without either it is the monitor of
/// the rack on this host.
fn monitor_of(
    rack: Option<&str>,
    monitor: Option<&Address>,
    proof: Option<Proof>,
) -> Result<(Address, Option<Proof>)> {
    let from = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let named = match (&proof, rack) {
        (None, None) => {
            Membership::from_environment().map_err(|error| Error::refused(error.to_string()))?
        }
        _ => None,
    };
    let (file_rack, proof) = match (proof, named) {
        (None, Some(named)) => (Some(named.rack), Some(named.proof)),
        (None, None) => (None, Proof::from_environment()?),
        (proof, _) => (None, proof),
    };
    if let Some(monitor) = monitor {
        return Ok((monitor.clone(), proof));
    }
    if let Some(text) = from("RACKMEM_MONITOR").filter(|_| rack.is_none()) {
        return Ok((text.parse().map_err(Error::refused)?, proof));
    }
    let rack = Rack::named(rack.or(file_rack.as_deref()))
        .map_err(|error| Error::refused(error.to_string()))?;
    Ok((Address::Unix(Directory::of(&rack).monitor_socket()), proof))
}

/// Borrows memory.
///
/// It may be used in any process: no signals, no memory but its own, descriptors that `exec` closes,
/// and one thread, which gets no signals. A child by `fork` has part in the leases as long as it
/// lives: they end when the last process with these descriptors does. When the process that borrowed
/// gives them back, those of lenders of this host end, too. A child gives back nothing.
///
/// # Errors
/// [`Error::Plain`]: nobody lends, there is not enough, or the proof is wrong; the text says what to do.
pub fn borrow(wanted: &Wanted) -> Result<Borrowed> {
    let terms = wanted.terms()?;
    let driver = Driver::borrow(terms.clone())?;
    let copies: Vec<Arc<dyn Store>> =
        driver.stores().into_iter().map(|store| Arc::new(store) as Arc<dyn Store>).collect();
    let store = MirrorStore::new(copies, wanted.patience, wanted.tell.clone())?;
    let keeper = Keeper::start(driver, terms, &store, wanted.tell.clone())?;
    Ok(Borrowed { keeper, store, owner: std::process::id() })
}

/// Asks the monitor for all lenders and leases.
///
/// # Errors
/// There is no monitor, or it does not answer.
pub fn ledger(
    rack: Option<&str>,
    monitor: Option<&Address>,
    proof: Option<Proof>,
) -> Result<Ledger> {
    let (monitor, proof) = monitor_of(rack, monitor, proof)?;
    if let Address::Unix(_) = &monitor
        && let Ok(rack) = Rack::named(rack)
    {
        // A lender that was killed has left its socket.
        Directory::of(&rack).sweep();
    }
    match ask_monitor(&monitor, proof.as_ref(), &Request::Show)? {
        (_, Reply::Ledger(ledger)) => Ok(ledger),
        (_, other) => Err(Error::protocol(format!("the monitor answers {other:?}"))),
    }
}

/// Borrowed memory; given back when dropped.
pub struct Borrowed {
    keeper: Keeper,
    store: MirrorStore,
    /// The process that borrowed: its children have copies of this, but not its thread.
    owner: u32,
}

impl std::fmt::Debug for Borrowed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.state().fmt(f)
    }
}

/// State of borrowed memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Status {
    /// Size in bytes.
    pub size_bytes: u64,
    /// Its copies, one entry each.
    pub copies: Vec<CopyState>,
    /// A copy is lost, another is there.
    pub is_degraded: bool,
    /// No copy is whole any more.
    pub is_lost: bool,
}

/// A copy: whether it has every write, and the leases that it lies in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CopyState {
    /// Whether it has every write.
    pub state: State,
    /// Its leases, side by side.
    pub leases: Vec<LeaseState>,
}

/// A lease: lender, size, and whether it is lost or claimed back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeaseState {
    /// Name, host and process of the lender.
    pub lender: Party,
    /// Size in bytes.
    pub size_bytes: u64,
    /// The lender is on this host, and its memory is mapped.
    pub is_mapped: bool,
    /// It is gone.
    pub is_lost: bool,
    /// The lender wants it back, and takes it in so many milliseconds.
    pub notice_ms: Option<u64>,
}

impl Borrowed {
    /// The bytes.
    pub fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    /// State of all copies and leases.
    pub fn state(&self) -> Status {
        let mut copies = Vec::new();
        // A child of fork does not wait for a thread that only its parent has.
        let places = match self.owner == std::process::id() {
            true => Some(self.keeper.places()),
            false => self.keeper.try_places(),
        };
        for member in 0..MAX_MEMBERS {
            let Some(places) = &places else { break };
            let Some((driver, copy)) = places.members[member] else { continue };
            let leases = places.drivers[driver].books.leases.iter().flatten();
            let left = |until: Instant| until.saturating_duration_since(Instant::now());
            let lease = |lease: &super::books::Lease| LeaseState {
                lender: lease.lender.clone(),
                size_bytes: lease.size_bytes,
                is_mapped: lease.is_local,
                is_lost: lease.health.is_over(),
                notice_ms: lease.notice.map(|until| left(until).as_millis() as u64),
            };
            let leases = leases.filter(|lease| lease.copy == copy).map(lease).collect();
            copies.push(CopyState { state: self.store.state(member), leases });
        }
        Status {
            size_bytes: self.store.size_bytes(),
            is_degraded: self.store.is_degraded(),
            is_lost: self.store.check().is_err(),
            copies,
        }
    }

    /// Gives everything back, and waits until the lenders have it. Stores that are still held fail from now on.
    ///
    /// # Errors
    /// None at present: a lender that is lost has nothing any more.
    pub fn release(mut self) -> Result<()> {
        self.end();
        Ok(())
    }

    fn end(&mut self) {
        if self.owner == std::process::id() {
            self.keeper.release();
        }
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        self.end();
    }
}
