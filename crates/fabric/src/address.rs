//! Addresses of lenders and of the monitor: a Unix socket, or a host and port.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::net::names;

/// Address of a lender or of the monitor. As text, whatever has a `/` is a path.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Address {
    /// Path of a socket on this host; its file permissions decide which users may connect.
    Unix(PathBuf),
    /// `HOST:PORT`.
    Tcp(String),
}

impl Address {
    /// Whether only processes of the same host come there.
    pub fn is_local(&self) -> bool {
        matches!(self, Address::Unix(_))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => path.display().fmt(f),
            Address::Tcp(name) => name.fmt(f),
        }
    }
}

impl From<Address> for String {
    fn from(address: Address) -> String {
        address.to_string()
    }
}

impl TryFrom<String> for Address {
    type Error = String;

    fn try_from(text: String) -> Result<Address, String> {
        text.parse()
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Address, String> {
        if !text.chars().all(names::is_printable) {
            return Err(format!("{text:?} is no address: it has characters that do not show"));
        }
        if text.contains('/') {
            return Ok(Address::Unix(text.into()));
        }
        let wrong =
            || format!("'{text}' is no address: expected HOST:PORT, or a path with a '/' in it");
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        match (host.is_empty(), port.parse::<u16>()) {
            (false, Ok(_)) => Ok(Address::Tcp(text.to_owned())),
            _ => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_paths_or_ports() {
        assert_eq!("node-3:7000".parse(), Ok(Address::Tcp("node-3:7000".to_owned())));
        assert_eq!("[::1]:7000".parse(), Ok(Address::Tcp("[::1]:7000".to_owned())));
        assert_eq!("./a.sock".parse(), Ok(Address::Unix("./a.sock".into())));
        for wrong in ["", "node", ":70", "node:", "node:70000", "/x\u{1b}[2J", "a\n:7"] {
            assert!(wrong.parse::<Address>().is_err(), "{wrong}");
        }
        let text = serde_json::to_string(&Address::Unix("/x/y".into())).unwrap();
        assert_eq!(text, "\"/x/y\"");
    }
}
