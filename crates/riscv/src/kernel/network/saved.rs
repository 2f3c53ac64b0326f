//! Networks in checkpoints: only the next port is saved, as sockets that are open are not.

use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Network;

impl Serialize for Network {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.is_used() {
            true => Err(S::Error::custom(
                "the program has sockets, which checkpoints do not keep; take it before it opens one, or when all \
                 are closed and their data has arrived",
            )),
            false => self.next_port().serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Network {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Network, D::Error> {
        let port = u16::deserialize(deserializer)?;
        let wrong = || D::Error::custom(format!("{port} is no port for sockets without one"));
        Network::with_next_port(port).ok_or_else(wrong)
    }
}
