//! Settings of an agent, and the terms on which it lends.

use std::net::SocketAddr;
use std::time::Duration;

use rackmem::rack::Rack;

use super::memory;
use crate::error::{Error, Result};
use crate::messages::{Network, Party};
use crate::placement::{LEASE_BYTES, size};
use crate::quota::Account;
use rackmem_fabric::address::Address;
use rackmem_fabric::net::access::Access;
use rackmem_fabric::net::names;

/// Terms of lending: size, and how memory and lanes are provided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lend {
    /// Bytes, all leases together.
    pub size_bytes: u64,
    /// Every page of a lease is there before the borrower has it.
    pub populate: bool,
    /// The kernel is asked for huge pages.
    pub huge_pages: bool,
    /// Time that a lane's thread polls for the next request before it sleeps.
    pub spin: Duration,
    /// More may be lent than the host has left.
    pub overcommit: bool,
}

impl Lend {
    /// Time that a lane's thread polls unless another is given: as long as two wake-ups take.
    pub const DEFAULT_SPIN: Duration = Duration::from_micros(50);

    /// Lends `size_bytes` with the default spin, not populated, without huge pages, without overcommit.
    pub fn new(size_bytes: u64) -> Lend {
        let spin = Lend::DEFAULT_SPIN;
        Lend { size_bytes, populate: false, huge_pages: false, spin, overcommit: false }
    }
}

/// Address of the monitor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MonitorAt {
    /// In a lender of this host: this one, if no other is.
    Embedded,
    /// There.
    Address(Address),
}

/// Settings of an agent: a process that lends, is the monitor, or both.
#[derive(Clone, Debug)]
pub struct Config {
    /// The rack whose lender or monitor this is.
    pub rack: Rack,
    /// Terms of lending; `None`: the agent is a monitor alone.
    pub lend: Option<Lend>,
    /// Name by which people know it; by default host and process.
    pub name: Option<String>,
    /// Address of the monitor, or this process if there is no other.
    pub monitor: MonitorAt,
    /// `HOST:PORT` to listen at over the network.
    pub listen: Option<String>,
    /// Rights to connect, over the network and to sockets on this host.
    pub access: Access,
    /// Time that borrowers have to move their memory after the notice.
    pub grace: Duration,
}

impl Config {
    /// Grace time unless another is said.
    pub const DEFAULT_GRACE: Duration = Duration::from_secs(10);

    /// A lender on this host.
    pub fn lender(rack: Rack, size_bytes: u64) -> Config {
        Config {
            rack,
            lend: Some(Lend::new(size_bytes)),
            name: None,
            monitor: MonitorAt::Embedded,
            listen: None,
            access: Access::default(),
            grace: Config::DEFAULT_GRACE,
        }
    }

    /// A monitor on this host.
    pub fn monitor(rack: Rack) -> Config {
        Config { lend: None, ..Config::lender(rack, 0) }
    }

    pub(super) fn party(&self) -> Party {
        let party = this_party(None);
        match &self.name {
            Some(name) => Party { name: name.clone(), ..party },
            None => Party { name: names::own(&format!("{}:{}", party.host, party.pid)), ..party },
        }
    }

    /// The address for peers: the host of `name`, or this host's if it listens at every address, with the actual port.
    pub(super) fn advertised(&self, name: &str, at: SocketAddr) -> Address {
        let host = name.rsplit_once(':').map_or(name, |(host, _)| host);
        let host = match at.ip().is_unspecified() {
            true => this_party(None).host,
            false => host.to_owned(),
        };
        Address::Tcp(format!("{host}:{}", at.port()))
    }

    /// The account of a node that borrows.
    pub(super) fn account(&self, node: u16) -> Account {
        let proof = self.access.proof.as_ref();
        let max_bytes = proof.and_then(|proof| proof.max_borrowed_bytes(node));
        Account { node, max_bytes }
    }

    /// The account of this node, where nodes have keys.
    pub(super) fn own_account(&self) -> Option<Account> {
        self.access.proof.as_ref()?.own_node().map(|node| self.account(node))
    }

    /// The protection of what travels.
    pub(super) fn network(&self) -> Network {
        match (&self.listen, &self.access.proof) {
            (None, _) => Network::None,
            (_, None) => Network::Insecure,
            (_, Some(proof)) if proof.is_cleartext() => Network::Cleartext,
            (_, Some(_)) => Network::Encrypted,
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        if let Some(name) = &self.name {
            names::check(name).map_err(Error::refused)?;
        }
        if let Some(lend) = &self.lend {
            if lend.size_bytes < LEASE_BYTES {
                return Err(Error::refused(format!(
                    "{} bytes cannot be lent: a lease has {LEASE_BYTES} at least",
                    lend.size_bytes
                )));
            }
            if !lend.overcommit {
                memory::check_available(lend.size_bytes)?;
            }
        }
        if let Some(listen) = &self.listen {
            self.access.check(listen, "lend, borrow and see who does")?;
        }
        if self.lend.is_some_and(|lend| lend.size_bytes >= 1 << 60) {
            return Err(Error::refused(format!("{} cannot be lent", size(u64::MAX))));
        }
        Ok(())
    }
}

/// This process, by this name or that of its program.
pub fn this_party(name: Option<&str>) -> Party {
    let text = |path: &str| names::own(std::fs::read_to_string(path).unwrap_or_default().trim());
    let program = || text("/proc/self/comm");
    Party {
        name: name.map_or_else(program, names::own),
        host: text("/proc/sys/kernel/hostname"),
        host_id: text("/proc/sys/kernel/random/boot_id"),
        pid: std::process::id(),
    }
}
