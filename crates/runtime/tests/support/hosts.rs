//! Racks whose nodes count as hosts of their own: each has an address of the loopback network.

use std::net::{SocketAddr, TcpListener};

use rackmem::rack::Rack;
use rackmem::rack_file::RackFile;

/// The way between the nodes of a rack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// Memory of one host.
    Shm,
    /// TCP, encrypted.
    Sealed,
    /// TCP in cleartext.
    Clear,
}

impl Wire {
    pub const ALL: [Wire; 3] = [Wire::Shm, Wire::Sealed, Wire::Clear];

    /// `$RACKMEM_TEST_WIRE`: shm (also if there is none), sealed or clear.
    pub fn from_env() -> Wire {
        match std::env::var("RACKMEM_TEST_WIRE").as_deref() {
            Ok("sealed") => Wire::Sealed,
            Ok("clear") => Wire::Clear,
            _ => Wire::Shm,
        }
    }

    /// Name of the rack's file in its directory; empty: there is none.
    pub fn file(self) -> &'static str {
        if self == Wire::Shm { "" } else { "rack.toml" }
    }

    /// Writes the file of a rack over hosts.
    pub fn write_file(self, rack: &Rack, nodes: u16) {
        if self == Wire::Shm {
            return;
        }
        use std::os::unix::fs::PermissionsExt;
        let secret = rack.dir().join("secret");
        std::fs::write(&secret, "a secret that nobody knows").unwrap();
        std::fs::set_permissions(&secret, PermissionsExt::from_mode(0o600)).unwrap();
        let clear = if self == Wire::Clear { "cleartext = true\n" } else { "" };
        let mut text = format!("name = \"{}\"\nsecret_file = \"secret\"\n{clear}", rack.name());
        for nid in 0..nodes {
            text += &format!("[[node]]\naddress = \"{}\"\n", free_address(nid));
        }
        std::fs::write(rack.dir().join("rack.toml"), text).unwrap();
    }
}

/// An address of the loopback network that belongs to this process and node, with a port that is free.
pub fn free_address(nid: u16) -> SocketAddr {
    let pid = std::process::id();
    let ip =
        [127, 64 | (pid >> 14 & 63) as u8, (pid >> 6) as u8, ((pid & 63) << 2) as u8 | nid as u8];
    TcpListener::bind((std::net::IpAddr::from(ip), 0)).unwrap().local_addr().unwrap()
}

/// The file of the rack that this process is a daemon of, if it has one.
pub fn file_of_child() -> Option<RackFile> {
    let name = std::env::var("RACKMEM_TEST_FILE").ok().filter(|name| !name.is_empty())?;
    let rack = Rack::named(None).unwrap();
    Some(RackFile::read(&rack.dir().join(name)).unwrap())
}
