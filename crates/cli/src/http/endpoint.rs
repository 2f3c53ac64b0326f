//! Addresses at which pages may be served.

use std::fmt::{self, Display};
use std::net::SocketAddr;
use std::str::FromStr;

/// A port of the loopback network; port 0 is any free one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint(SocketAddr);

impl Endpoint {
    /// The endpoint `offset` ports above this one; any free port stays any. `None`: there are not so many ports.
    pub fn above(self, offset: u16) -> Option<Endpoint> {
        let port = match self.0.port() {
            0 => 0,
            port => port.checked_add(offset)?,
        };
        Some(Endpoint(SocketAddr::new(self.0.ip(), port)))
    }
}

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Endpoint, String> {
        let numeric = match text.strip_prefix("localhost:") {
            Some(port) => format!("127.0.0.1:{port}"),
            None => text.to_owned(),
        };
        let address: SocketAddr = numeric
            .parse()
            .map_err(|_| "expected an address of this host, such as 127.0.0.1:9469".to_owned())?;
        match address.ip().is_loopback() {
            true => Ok(Endpoint(address)),
            false => Err(format!(
                "everybody who reaches the port may read the page, so it is for this host alone: say \
                 127.0.0.1:{}, and give it to other hosts by a reverse proxy",
                address.port()
            )),
        }
    }
}

impl Display for Endpoint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_for_this_host() {
        for text in ["127.0.0.1:9469", "[::1]:9469", "localhost:9469", "127.3.2.1:0"] {
            assert!(text.parse::<Endpoint>().is_ok(), "{text}");
        }
        for text in ["0.0.0.0:9469", "[::]:9469", "192.168.0.1:80", "[::ffff:127.0.0.1]:80"] {
            let refused = text.parse::<Endpoint>().unwrap_err();
            assert!(refused.contains("reverse proxy"), "{text}: {refused}");
        }
        for text in ["9469", ":9469", "localhost", "localhost:x", "127.0.0.1:70000", "node0:80"] {
            assert!(text.parse::<Endpoint>().unwrap_err().starts_with("expected"), "{text}");
        }
    }

    #[test]
    fn nodes_have_ports_one_after_the_other() {
        let first: Endpoint = "127.0.0.1:65530".parse().unwrap();
        assert_eq!(first.above(5).unwrap().to_string(), "127.0.0.1:65535");
        assert_eq!(first.above(6), None);
        let any: Endpoint = "127.0.0.1:0".parse().unwrap();
        assert_eq!(any.above(4095), Some(any));
    }
}
