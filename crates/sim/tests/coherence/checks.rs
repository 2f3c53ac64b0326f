//! Invariants of every state of the system.

use rackmem_sim::coherence::home::Directory;
use rackmem_sim::coherence::{Party, l1, pair};

use crate::node::{Node, Version};
use crate::system::System;

/// A copy of the block that may be read, or written too, where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding {
    pub node: Party,
    pub data: Version,
    pub kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// May be read.
    Shared,
    /// May be written.
    Only,
    /// May be read; the L1 in front may have a copy.
    Lent,
}

impl System {
    /// All copies that can be read.
    pub fn copies(&self) -> Vec<Holding> {
        let mut copies = Vec::new();
        let mut add = |node: usize, data, kind| {
            copies.push(Holding { node: node as Party, data, kind });
        };
        let plain = |state| match state {
            l1::State::S => Some(Kind::Shared),
            l1::State::E | l1::State::M => Some(Kind::Only),
            _ => None,
        };
        for (node, state) in self.nodes.iter().enumerate() {
            match state {
                Node::Cache { cache: l1, .. } => {
                    if let Some(kind) = plain(l1.state()) {
                        add(node, l1.data, kind);
                    }
                }
                Node::Pair { l1, ni, .. } => {
                    // Both are copies of the pair.
                    if let Some(kind) = plain(l1.state()) {
                        add(node, l1.data, kind);
                    }
                    let mut ni = *ni;
                    let kind = match ni.state() {
                        pair::State::Plain(state) => plain(state),
                        pair::State::Owned { .. } => Some(Kind::Lent),
                    };
                    if let Some(kind) = kind {
                        add(node, *ni.data(), kind);
                    }
                }
                Node::Unit { .. } => {}
            }
        }
        copies
    }

    /// A writer is alone; a cache that has lent the block shares it with the L1 in front only.
    pub fn has_one_writer(&self) -> bool {
        let copies = self.copies();
        copies.iter().enumerate().all(|(index, copy)| {
            let mut others = copies.iter().enumerate().filter(|(other, _)| *other != index);
            match copy.kind {
                Kind::Shared => true,
                Kind::Only => others.next().is_none(),
                Kind::Lent => {
                    others.all(|(_, other)| other.node == copy.node && other.kind == Kind::Shared)
                }
            }
        })
    }

    /// Every copy that can be read is the last version.
    pub fn copies_are_latest(&self) -> bool {
        self.copies().iter().all(|copy| copy.data == self.latest)
    }

    /// Between transactions, the directory knows every copy, and LLC or memory have the last
    /// version unless there is an owner.
    pub fn directory_is_right(&self) -> bool {
        if self.home.is_busy() {
            return true;
        }
        let copies = self.copies();
        let behind = self.llc.map_or(self.memory, |line| line.data) != self.latest;
        match self.home.directory() {
            Directory::Uncached => copies.is_empty() && !behind,
            Directory::Shared(mask) => {
                let known =
                    |copy: &Holding| mask & 1 << copy.node != 0 && copy.kind == Kind::Shared;
                copies.iter().all(known) && !behind
            }
            Directory::Owned(owner) => copies.iter().all(|copy| copy.node == owner),
        }
    }

    /// The owned state is an option.
    pub fn is_owned_only_if_configured(&self) -> bool {
        self.nodes.iter().all(|node| match node {
            Node::Pair { owned, ni, .. } => {
                *owned || !matches!(ni.state(), pair::State::Owned { .. })
            }
            _ => true,
        })
    }

    /// If nothing is on its way, nobody waits for anything, and the last version is where it is
    /// looked for.
    pub fn is_not_stuck(&self) -> bool {
        let wires = |node| self.on_wire(node, true) + self.on_wire(node, false);
        let moving = self.reading
            || self.network.iter().any(|packet| self.is_deliverable(packet))
            || (0..self.nodes.len()).any(|node| wires(node) > 0);
        moving || self.is_quiescent()
    }

    /// Nothing is under way.
    pub fn is_quiescent(&self) -> bool {
        let settled = self.network.is_empty()
            && !self.reading
            && !self.home.is_busy()
            && self.nodes.iter().all(Node::is_quiescent);
        settled
            && match self.home.directory() {
                Directory::Owned(owner) => self.copies().iter().any(|copy| copy.node == owner),
                Directory::Uncached | Directory::Shared(_) => true,
            }
    }
}
