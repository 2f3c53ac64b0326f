//! One block in a small chip: private caches, pairs, network interface units, the home with its
//! LLC, memory, and a network that reorders everything.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use rackmem_sim::coherence::home::{self, Directory};
use rackmem_sim::coherence::pair::{self, Config};
use rackmem_sim::coherence::{
    Access, Content, Eviction, Forward, Message, Party, Request, Response, Update, l1,
};

use crate::trace::{self, Trace};

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

/// What a partial update adds, and what the first update of a whole block is. Stores add one.
const CHANGE: Version = Version(16);
const REPLACEMENT: Version = Version(256);

/// What cores, frontends and units do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    Load,
    Store,
    Evict,
    ReadOnce,
    Replace,
    Modify,
}

/// Who does it, one operation after the other.
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

    fn agent_mut(&mut self, frontend: bool) -> &mut Agent {
        match self {
            Node::Pair { frontend: agent, .. } if frontend => agent,
            Node::Cache { core: agent, .. }
            | Node::Pair { core: agent, .. }
            | Node::Unit { agent } => agent,
        }
    }

    fn is_quiescent(&self) -> bool {
        match self {
            Node::Cache { cache, core } => cache.is_stable() && core.wants.is_none(),
            Node::Pair { l1, core, up, down, ni, frontend, .. } => {
                let settled = matches!(
                    ni.state(),
                    pair::State::Owned { .. }
                        | pair::State::Plain(
                            l1::State::I | l1::State::S | l1::State::E | l1::State::M
                        )
                );
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

/// A copy of the block that may be read, or written too, where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy {
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    Home,
    Party(Party),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Packet {
    pub from: End,
    pub to: End,
    pub message: Message<Version>,
}

impl Packet {
    /// An order for the multiset of packets.
    fn key(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            End::Home => write!(f, "home"),
            End::Party(party) => write!(f, "{party}"),
        }
    }
}

impl fmt::Display for Packet {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} -> {}: ", self.from, self.to)?;
        match self.message {
            Message::Request(request) => write!(f, "{request:?}"),
            Message::Forward(forward) => write!(f, "{forward:?}"),
            Message::Response(response) => write!(f, "{response:?}"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Line {
    data: Version,
    dirty: bool,
}

/// Ways to build the chip wrong, to see that it is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// Invalidations are acknowledged, but not delivered.
    AckWithoutInv,
    /// The home takes a request although one is under way.
    HomeDoesNotWait,
    /// The wires between L1 and NI cache reorder.
    WiresReorder,
    /// The LLC forgets modified blocks.
    LostWriteBack,
    /// Units do not tell the home that an owner answered.
    NoUnblock,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct System {
    pub nodes: Vec<Node>,
    pub home: home::Block<Version>,
    pub llc: Option<Line>,
    pub memory: Version,
    /// Memory reads the block.
    pub reading: bool,
    /// In the order of their keys.
    pub network: Vec<Packet>,
    /// The last version that was written.
    pub latest: Version,
    /// Updates of the whole block so far.
    pub replaced: u16,
    /// How often the LLC may still evict the block and the directory its entry.
    pub llc_evictions: u8,
    pub recalls: u8,
    pub fault: Option<Fault>,
    pub trace: Trace,
    /// The first promise that was broken.
    pub broken: Option<&'static str>,
}

impl System {
    pub fn new(nodes: Vec<Node>) -> System {
        System {
            nodes,
            home: home::Block::new(),
            llc: None,
            memory: Version(0),
            reading: false,
            network: Vec::new(),
            latest: Version(0),
            replaced: 0,
            llc_evictions: 0,
            recalls: 0,
            fault: None,
            trace: Trace::default(),
            broken: None,
        }
    }

    /// Begins an operation, of the frontend's NI cache or of the core or unit. False if nothing
    /// comes of it.
    pub fn begin(&mut self, node: Party, frontend: bool, op: Op) -> bool {
        let agent = self.nodes[usize::from(node)].agent_mut(frontend);
        agent.left -= 1;
        match op {
            Op::Evict => return self.evict(node, frontend),
            Op::Load | Op::Store => {
                agent.wants = Some((op, false));
                self.access(node, frontend);
                // A load that hits changes nothing; that copies are good is checked anyway.
                let agent = self.nodes[usize::from(node)].agent_mut(frontend);
                return op == Op::Store || agent.wants.is_some();
            }
            Op::ReadOnce | Op::Replace | Op::Modify => agent.wants = Some((op, true)),
        }
        let request = match op {
            Op::ReadOnce => Request::ReadOnce,
            Op::Modify => Request::Update(Update::Modify(CHANGE)),
            _ => {
                self.replaced += 1;
                Request::Update(Update::Replace(Version(REPLACEMENT.0 * self.replaced)))
            }
        };
        self.send(End::Party(node), End::Home, Message::Request(request));
        true
    }

    /// Makes the access that the agent wants, or a part of the way to it.
    fn access(&mut self, node: Party, frontend: bool) {
        let agent = *self.nodes[usize::from(node)].agent_mut(frontend);
        let Some((op, _)) = agent.wants else { return };
        let mut l1_actions = l1::Actions::new();
        let mut pair_actions = pair::Actions::new();
        let (access, data) = match &mut self.nodes[usize::from(node)] {
            Node::Pair { ni, .. } if frontend => {
                let before = *ni;
                let access = match op {
                    Op::Load => ni.read(&mut pair_actions),
                    _ => ni.write(&mut pair_actions),
                };
                if access != Access::Wait {
                    self.trace.step(&before, &format!("{op:?}"), ni);
                }
                (access, ni.data())
            }
            Node::Cache { cache: l1, .. } | Node::Pair { l1, .. } => {
                let before = *l1;
                let access = match op {
                    Op::Load => l1.load(&mut l1_actions),
                    _ => l1.store(&mut l1_actions),
                };
                if access != Access::Wait {
                    self.trace.step(&before, &format!("{op:?}"), l1);
                }
                (access, &mut l1.data)
            }
            Node::Unit { .. } => unreachable!("units have no cache"),
        };
        if access == Access::Hit {
            if *data != self.latest {
                self.broken = Some("an access sees an old version");
            }
            if op == Op::Store {
                data.0 += 1;
                self.latest = *data;
            }
        }
        let agent = self.nodes[usize::from(node)].agent_mut(frontend);
        agent.wants = match access {
            Access::Hit => None,
            Access::Miss => Some((op, true)),
            Access::Wait => Some((op, false)),
        };
        self.l1_actions(node, l1_actions);
        self.pair_actions(node, pair_actions);
    }

    fn evict(&mut self, node: Party, frontend: bool) -> bool {
        let mut l1_actions = l1::Actions::new();
        let mut pair_actions = pair::Actions::new();
        let before = self.nodes[usize::from(node)].clone();
        let eviction = match &mut self.nodes[usize::from(node)] {
            Node::Pair { ni, .. } if frontend => {
                let before = *ni;
                let eviction = ni.evict(&mut pair_actions);
                if eviction != Eviction::Wait {
                    self.trace.step(&before, "Evict", ni);
                }
                eviction
            }
            Node::Cache { cache: l1, .. } | Node::Pair { l1, .. } => {
                let before = *l1;
                let eviction = l1.evict(&mut l1_actions);
                if eviction != Eviction::Wait {
                    self.trace.step(&before, "Evict", l1);
                }
                eviction
            }
            Node::Unit { .. } => unreachable!("units have no cache"),
        };
        self.l1_actions(node, l1_actions);
        self.pair_actions(node, pair_actions);
        // Nothing to evict: no step.
        eviction != Eviction::Wait && self.nodes[usize::from(node)] != before
    }

    /// Whether it may be delivered now.
    pub fn is_deliverable(&self, packet: &Packet) -> bool {
        let request = matches!(packet.message, Message::Request(_));
        !(request && self.home.is_busy()) || self.fault == Some(Fault::HomeDoesNotWait)
    }

    /// Delivers a packet.
    pub fn deliver(&mut self, index: usize) {
        let Packet { from, to, message } = self.network.remove(index);
        let others = self.network.clone();
        let mut home_actions = home::Actions::new();
        let before = self.home;
        match (to, from, message) {
            (End::Home, End::Party(from), Message::Request(request)) => {
                let llc = self.llc.map(|line| line.data);
                self.home.request(from, request, llc, &mut home_actions);
            }
            (End::Home, End::Party(from), Message::Response(response)) => {
                self.home.response(from, response, &mut home_actions);
            }
            (End::Party(node), _, message) => self.deliver_to(node, message),
            _ => panic!("{message:?} went astray"),
        }
        if to == End::Home {
            self.trace.step(&before, &trace::label(&message), &self.home);
        }
        self.home_actions(home_actions);
        let mut sent = self.network.iter().filter(|packet| !others.contains(packet));
        if !sent.all(|packet| may_cause(to, &message, &packet.message)) {
            self.broken = Some("a message depends on one of a lower network");
        }
    }

    fn deliver_to(&mut self, node: Party, message: Message<Version>) {
        let mut l1_actions = l1::Actions::new();
        let mut pair_actions = pair::Actions::new();
        match (&mut self.nodes[usize::from(node)], message) {
            (Node::Cache { .. }, Message::Forward(Forward::Inv { to }))
                if self.fault == Some(Fault::AckWithoutInv) =>
            {
                let ack = Message::Response(Response::InvAck);
                self.send(End::Party(node), to.map_or(End::Home, End::Party), ack);
            }
            (Node::Cache { cache, .. }, _) => {
                let before = *cache;
                cache.message(message, &mut l1_actions);
                self.trace.step(&before, &trace::label(&message), cache);
            }
            (Node::Pair { ni, .. }, _) => {
                let before = *ni;
                ni.from_network(message, &mut pair_actions);
                self.trace.step(&before, &trace::label(&message), ni);
                for action in &pair_actions {
                    if let pair::Action::ToParty(_, response) = action {
                        self.check_data(&Message::Response(*response));
                    }
                }
            }
            (Node::Unit { agent }, Message::Response(response)) => {
                let op = agent.wants.take().map(|(op, _)| op);
                let expected = match response {
                    Response::Data { .. } => op == Some(Op::ReadOnce),
                    Response::Updated(None) => op == Some(Op::Replace),
                    Response::Updated(Some(_)) => op == Some(Op::Modify),
                    _ => false,
                };
                assert!(expected, "{response:?} for {op:?}");
                if response.read_needs_unblock() && self.fault != Some(Fault::NoUnblock) {
                    let unblock = Message::Response(Response::Unblock(None));
                    self.send(End::Party(node), End::Home, unblock);
                }
            }
            (Node::Unit { .. }, _) => panic!("{message:?} went astray"),
        }
        self.l1_actions(node, l1_actions);
        self.pair_actions(node, pair_actions);
    }

    /// What a wire holds that may arrive now: all but the first wait, as wires keep the order.
    pub fn on_wire(&self, node: usize, up: bool) -> usize {
        let Node::Pair { up: ups, down: downs, .. } = &self.nodes[node] else { return 0 };
        let length = if up { ups.len() } else { downs.len() };
        if self.fault == Some(Fault::WiresReorder) { length } else { length.min(1) }
    }

    /// Something arrives at the end of a wire inside a pair.
    pub fn arrive(&mut self, node: Party, up: bool, index: usize) {
        let mut l1_actions = l1::Actions::new();
        let mut pair_actions = pair::Actions::new();
        match &mut self.nodes[usize::from(node)] {
            Node::Pair { ni, up: ups, .. } if up => {
                let (before, action) = (*ni, ups.remove(index));
                ni.from_l1(action, &mut pair_actions);
                let message = match action {
                    l1::Action::ToHome(message) => message,
                    l1::Action::ToParty(_, response) => Message::Response(response),
                    l1::Action::Completed => unreachable!("not for wires"),
                };
                self.trace.step(&before, &format!("L1: {}", trace::label(&message)), ni);
            }
            Node::Pair { l1, down: downs, .. } => {
                let (before, message) = (*l1, downs.remove(index));
                l1.message(message, &mut l1_actions);
                self.trace.step(&before, &trace::label(&message), l1);
            }
            _ => unreachable!("no wires here"),
        }
        self.l1_actions(node, l1_actions);
        self.pair_actions(node, pair_actions);
    }

    /// Memory answers.
    pub fn read_memory(&mut self) {
        self.reading = false;
        let mut actions = home::Actions::new();
        let before = self.home;
        self.home.memory(self.memory, &mut actions);
        self.trace.step(&before, "memory", &self.home);
        self.home_actions(actions);
    }

    /// The LLC evicts the block.
    pub fn evict_from_llc(&mut self) {
        self.llc_evictions -= 1;
        match self.llc.take() {
            Some(Line { data, dirty: true }) if self.fault != Some(Fault::LostWriteBack) => {
                self.memory = data;
            }
            _ => {}
        }
    }

    /// The directory evicts the entry.
    pub fn recall(&mut self) {
        self.recalls -= 1;
        let mut actions = home::Actions::new();
        let before = self.home;
        self.home.recall(&mut actions);
        self.trace.step(&before, "recall", &self.home);
        self.home_actions(actions);
    }

    fn send(&mut self, from: End, to: End, message: Message<Version>) {
        let packet = Packet { from, to, message };
        let key = packet.key();
        let place = self.network.partition_point(|other| other.key() < key);
        self.network.insert(place, packet);
    }

    /// Whoever answers with the block has its last version.
    fn check_data(&mut self, message: &Message<Version>) {
        if let Message::Response(Response::Data { data, .. }) = message
            && *data != self.latest
        {
            self.broken = Some("an answer with an old version");
        }
    }

    fn home_actions(&mut self, actions: home::Actions<Version>) {
        for action in actions {
            match action {
                home::Action::Send(to, message) => {
                    if let Message::Response(Response::Updated(old)) = message {
                        if old.is_some_and(|old| old != self.latest) {
                            self.broken = Some("an update of an old version");
                        }
                        self.latest = self.llc.expect("an update is written to the LLC").data;
                    }
                    self.check_data(&message);
                    self.send(End::Home, End::Party(to), message);
                }
                home::Action::Invalidate { sharers, to } => {
                    for party in (0..128).filter(|party| sharers & 1 << party != 0) {
                        let message = Message::Forward(Forward::Inv { to });
                        self.send(End::Home, End::Party(party), message);
                    }
                }
                home::Action::ReadMemory => {
                    assert!(self.llc.is_none() && !self.reading, "no need to read memory");
                    self.reading = true;
                }
                home::Action::WriteLlc { data, dirty } => {
                    if !dirty && data != self.memory {
                        self.broken = Some("a clean block differs from memory");
                    }
                    self.llc = Some(Line { data, dirty });
                }
                home::Action::Finished => {
                    if self.home.is_busy() {
                        self.broken = Some("finished, but busy");
                    }
                }
            }
        }
    }

    fn l1_actions(&mut self, node: Party, actions: l1::Actions<Version>) {
        for action in actions {
            if action == l1::Action::Completed {
                self.completed(node, false);
                continue;
            }
            if let l1::Action::ToParty(_, response) = action {
                self.check_data(&Message::Response(response));
            }
            match (&mut self.nodes[usize::from(node)], action) {
                (Node::Pair { up, .. }, _) => up.push(action),
                (_, l1::Action::ToHome(message)) => {
                    self.send(End::Party(node), End::Home, message);
                }
                (_, l1::Action::ToParty(to, response)) => {
                    self.send(End::Party(node), End::Party(to), Message::Response(response));
                }
                (_, l1::Action::Completed) => unreachable!("done above"),
            }
        }
    }

    fn pair_actions(&mut self, node: Party, actions: pair::Actions<Version>) {
        if !matches!(self.nodes[usize::from(node)], Node::Pair { .. }) {
            return;
        }
        self.pair_step(node, actions);
        loop {
            let Node::Pair { ni, .. } = &mut self.nodes[usize::from(node)] else { return };
            let (before, mut actions) = (*ni, pair::Actions::new());
            if !ni.resume(&mut actions) {
                break;
            }
            self.trace.step(&before, "resume", ni);
            self.pair_step(node, actions);
        }
    }

    fn pair_step(&mut self, node: Party, actions: pair::Actions<Version>) {
        for action in actions {
            match action {
                pair::Action::ToHome(message) => self.send(End::Party(node), End::Home, message),
                pair::Action::ToParty(to, response) => {
                    self.send(End::Party(node), End::Party(to), Message::Response(response));
                }
                pair::Action::ToL1(message) => {
                    let Node::Pair { down, .. } = &mut self.nodes[usize::from(node)] else {
                        unreachable!("only pairs have pair actions")
                    };
                    down.push(message);
                }
                pair::Action::Completed => self.completed(node, true),
            }
        }
    }

    /// What waited is tried again, at once.
    fn completed(&mut self, node: Party, frontend: bool) {
        let agent = *self.nodes[usize::from(node)].agent_mut(frontend);
        self.access(node, frontend);
        let now = *self.nodes[usize::from(node)].agent_mut(frontend);
        if matches!(agent.wants, Some((_, true))) && now.wants.is_some() {
            self.broken = Some("the right was asked for in vain");
        }
    }

    /// What the LLC has.
    pub fn llc_version(&self) -> Option<u16> {
        self.llc.map(|line| line.data.0)
    }

    /// All copies that can be read.
    pub fn copies(&self) -> Vec<Copy> {
        let mut copies = Vec::new();
        let mut add = |node: usize, data, kind| {
            copies.push(Copy { node: node as Party, data, kind });
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

    /// A writer is alone; who has lent the block shares it with the L1 in front only.
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

    /// Who can read reads the last version.
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
                let known = |copy: &Copy| mask & 1 << copy.node != 0 && copy.kind == Kind::Shared;
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

/// Whether the receipt of one message may depend on room for another: of a higher virtual network,
/// or responses for responses, which everybody has room for. Also, whoever waited may now send the
/// request that it keeps room for.
fn may_cause(at: End, message: &Message<Version>, sent: &Message<Version>) -> bool {
    match (message, sent) {
        (_, Message::Response(_)) => true,
        (Message::Request(_), Message::Forward(_)) => true,
        (Message::Forward(Forward::PutAck) | Message::Response(_), Message::Request(_)) => {
            at != End::Home
        }
        _ => false,
    }
}
