//! What a node may do on the others.

use serde::{Deserialize, Serialize};

/// A use of other nodes that a rack file grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Right {
    /// Join contexts, and so read and write memory of other nodes and let them do the same.
    Context,
    /// Lend memory.
    Lend,
    /// Borrow memory.
    Borrow,
    /// Keep the ledger of lenders and borrowers.
    Monitor,
    /// Borrow network interfaces.
    Nic,
    /// Use block devices.
    Blk,
}

impl Right {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Right; 6] =
        [Right::Context, Right::Lend, Right::Borrow, Right::Monitor, Right::Nic, Right::Blk];

    /// Names of [`Right::ALL`], in the same order.
    pub const NAMES: [&str; 6] = ["context", "lend", "borrow", "monitor", "nic", "blk"];

    /// Its name in a rack file.
    pub const fn name(self) -> &'static str {
        Right::NAMES[self as usize]
    }

    /// The right of this name.
    pub fn named(name: &str) -> Option<Right> {
        Right::ALL.into_iter().find(|right| right.name() == name)
    }
}

/// The rights of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights(u8);

impl Rights {
    /// Every right.
    pub const ALL: Rights = Rights((1 << Right::ALL.len()) - 1);

    /// Whether the node has a right.
    pub const fn have(self, right: Right) -> bool {
        self.0 & 1 << right as u8 != 0
    }

    /// The names of the rights that it has.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Right::ALL.into_iter().filter(move |right| self.have(*right)).map(Right::name)
    }
}

impl FromIterator<Right> for Rights {
    fn from_iter<I: IntoIterator<Item = Right>>(rights: I) -> Rights {
        Rights(rights.into_iter().fold(0, |bits, right| bits | 1 << right as u8))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_those_that_were_named() {
        assert_eq!(Rights::ALL.names().collect::<Vec<_>>(), Right::NAMES);
        let some: Rights = ["blk", "context"].into_iter().filter_map(Right::named).collect();
        assert_eq!(some.names().collect::<Vec<_>>(), ["context", "blk"]);
        assert!(some.have(Right::Blk) && !some.have(Right::Lend));
        assert_eq!(Rights::from_iter([]).names().count(), 0);
        assert_eq!(Right::named("Context"), None);
    }
}
