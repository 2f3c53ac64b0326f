//! Racks whose nodes count as hosts of their own: each has an address of the loopback network.

use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

use rackmem::key_file::{self, PublicKey};
use rackmem::rack::Rack;
use rackmem::rack_file::RackFile;
use rackmem_fabric::Faults;
use rackmem_fabric::ucx::Engine;

/// The way between the nodes of a rack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// Memory of one host.
    Shm,
    /// TCP, encrypted; nodes know each other by a secret.
    Sealed,
    /// The same; nodes know each other by keys.
    Keys,
    /// TCP in cleartext.
    Clear,
    /// TCP, encrypted, by links with faults.
    Faulty,
    /// UCX over TCP, beside a connection in cleartext.
    Ucx,
}

impl Wire {
    /// All but UCX, which may not be there.
    pub const BUILT_IN: [Wire; 5] =
        [Wire::Shm, Wire::Sealed, Wire::Keys, Wire::Clear, Wire::Faulty];

    /// All that this host has.
    pub fn all() -> Vec<Wire> {
        let mut all = Wire::BUILT_IN.to_vec();
        match Engine::load() {
            Ok(_) => all.push(Wire::Ucx),
            Err(error) => eprintln!("not tested: links by UCX: {error}"),
        }
        all
    }

    /// `$RACKMEM_TEST_WIRE`: shm (also if there is none), sealed, keys, clear, faulty or ucx.
    pub fn from_env() -> Wire {
        match std::env::var("RACKMEM_TEST_WIRE").as_deref() {
            Ok("sealed") => Wire::Sealed,
            Ok("keys") => Wire::Keys,
            Ok("clear") => Wire::Clear,
            Ok("faulty") => Wire::Faulty,
            Ok("ucx") => Wire::Ucx,
            _ => Wire::Shm,
        }
    }

    /// Name of the rack's file in its directory; empty: there is none.
    pub fn file(self) -> &'static str {
        if self == Wire::Shm { "" } else { "rack.toml" }
    }

    /// Seed of the faults of its links; 0: they have none. `$RACKMEM_TEST_SEED` or 1.
    pub fn faults(self) -> u64 {
        let seed = std::env::var("RACKMEM_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
        if self == Wire::Faulty { seed.unwrap_or(1) } else { 0 }
    }

    /// Writes the file of a rack over hosts.
    pub fn write_file(self, rack: &Rack, nodes: u16) {
        if self == Wire::Shm {
            return;
        }
        let clear = match self {
            Wire::Clear => "cleartext = true\n",
            Wire::Ucx => "cleartext = true\nlink = \"ucx\"\n",
            _ => "",
        };
        let mut text = format!("name = \"{}\"\n{clear}", rack.name());
        if self != Wire::Keys {
            write_secret(rack, "secret", "a secret that nobody knows");
            text += "secret_file = \"secret\"\n";
        }
        for nid in 0..nodes {
            text += &format!("[[node]]\naddress = \"{}\"\n", free_address(nid));
            if self == Wire::Keys {
                let key = new_key(rack, &format!("{}-{nid}.key", rack.name()));
                text += &format!("key = \"{key}\"\n");
            }
        }
        std::fs::write(rack.dir().join("rack.toml"), text).unwrap();
    }
}

/// Writes a secret into the directory of a rack.
pub fn write_secret(rack: &Rack, name: &str, secret: &str) {
    use std::os::unix::fs::PermissionsExt;
    let path = rack.dir().join(name);
    std::fs::write(&path, secret).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
}

/// Makes a key in the directory of a rack.
pub fn new_key(rack: &Rack, name: &str) -> PublicKey {
    key_file::create(&rack.dir().join(name)).unwrap().public()
}

/// An address of the loopback network that belongs to this process and node, with a port that is free and that no other
/// call gives. The kernel gives such ports to nobody who connects, as it might between this call and the use of the
/// address.
pub fn free_address(nid: u16) -> SocketAddr {
    static NEXT_PORT: AtomicU16 = AtomicU16::new(10_000);
    let pid = std::process::id();
    let ip =
        [127, 64 | (pid >> 14 & 63) as u8, (pid >> 6) as u8, ((pid & 63) << 2) as u8 | nid as u8];
    loop {
        let port = NEXT_PORT.fetch_add(1, Ordering::Relaxed);
        assert!(port < 30_000, "all ports are taken");
        let address = SocketAddr::from((ip, port));
        if TcpListener::bind(address).is_ok() {
            return address;
        }
    }
}

/// The file of the rack that this process is a daemon of, if it has one.
pub fn file_of_child() -> Option<RackFile> {
    let name = std::env::var("RACKMEM_TEST_FILE").ok().filter(|name| !name.is_empty())?;
    let rack = Rack::named(None).unwrap();
    Some(RackFile::read(&rack.dir().join(name)).unwrap())
}

/// The faults of the links of this process, if it is a daemon whose links have some.
pub fn faults_of_child() -> Option<Faults> {
    let seed = std::env::var("RACKMEM_TEST_FAULTS").ok()?.parse().ok().filter(|seed| *seed != 0)?;
    Some(Faults { seed, rate_permille: 50, longest_turns: 20, ends_within: None })
}
