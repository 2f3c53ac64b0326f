//! Parts that are attached to the network: private caches, pairs, network interface units, and their users.

use std::fmt;

use rackmem_sim::coherence::pair::{self, Config};
use rackmem_sim::coherence::{Content, Message, Party, l1};

/// The block: its version. All versions of a run differ.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Version(pub u16);

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "v{}", self.0)
    }
}

impl Content for Version {
    fn modified(self, change: Version) -> Version {
        Version(self.0 + change.0)
    }
}

/// An operation of a core, a frontend or a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    Load,
    Store,
    Evict,
    ReadOnce,
    Replace,
    Modify,
}

/// A user of a part, with one operation after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Agent {
    /// Operations that may still be begun.
    pub left: u8,
    /// The one that is under way, and whether the right to it has been asked for.
    pub wants: Option<(Op, bool)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Node {
    Cache {
        cache: l1::Block<Version>,
        core: Agent,
    },
    Pair {
        owned: bool,
        l1: l1::Block<Version>,
        core: Agent,
        up: Vec<l1::Action<Version>>,
        down: Vec<Message<Version>>,
        ni: pair::Block<Version>,
        frontend: Agent,
    },
    Unit {
        agent: Agent,
    },
}

impl Node {
    pub fn cache(left: u8) -> Node {
        Node::Cache { cache: l1::Block::new(), core: Agent { left, wants: None } }
    }

    pub fn pair(party: Party, core: u8, frontend: u8) -> Node {
        Node::pair_with(Config { party, owned: true }, core, frontend)
    }

    pub fn plain_pair(party: Party, core: u8, frontend: u8) -> Node {
        Node::pair_with(Config { party, owned: false }, core, frontend)
    }

    fn pair_with(config: Config, core: u8, frontend: u8) -> Node {
        Node::Pair {
            l1: l1::Block::new(),
            core: Agent { left: core, wants: None },
            up: Vec::new(),
            down: Vec::new(),
            owned: config.owned,
            ni: pair::Block::new(config),
            frontend: Agent { left: frontend, wants: None },
        }
    }

    pub fn unit(left: u8) -> Node {
        Node::Unit { agent: Agent { left, wants: None } }
    }

    /// The cores' agent, or the unit's.
    pub fn agent(&self) -> &Agent {
        match self {
            Node::Cache { core: agent, .. }
            | Node::Pair { core: agent, .. }
            | Node::Unit { agent } => agent,
        }
    }

    pub fn agent_mut(&mut self, frontend: bool) -> &mut Agent {
        match self {
            Node::Pair { frontend: agent, .. } if frontend => agent,
            Node::Cache { core: agent, .. }
            | Node::Pair { core: agent, .. }
            | Node::Unit { agent } => agent,
        }
    }

    pub fn is_quiescent(&self) -> bool {
        match self {
            Node::Cache { cache, core } => cache.is_stable() && core.wants.is_none(),
            Node::Pair { l1, core, up, down, ni, frontend, .. } => {
                // The NI cache's controller forgets what is over.
                let l1_owns = matches!(l1.state(), l1::State::E | l1::State::M);
                let settled = match ni.state() {
                    pair::State::Plain(l1::State::I) => l1_owns != ni.is_idle(),
                    pair::State::Plain(state) => {
                        matches!(state, l1::State::S | l1::State::E | l1::State::M)
                    }
                    pair::State::Owned { .. } => true,
                };
                l1.is_stable()
                    && settled
                    && core.wants.is_none()
                    && frontend.wants.is_none()
                    && up.is_empty()
                    && down.is_empty()
            }
            Node::Unit { agent } => agent.wants.is_none(),
        }
    }
}
