//! One block in a small chip: private caches, pairs, network interface units, the home with its
//! LLC, memory, and a network that reorders everything.

use rackmem_sim::coherence::{
    Access, Eviction, Forward, Message, Party, Request, Response, Update, home, l1, pair,
};

use crate::node::{Node, Op, Version};
use crate::packet::{End, Packet, may_cause};
use crate::trace::{self, Trace};

/// The addend of a partial update, and the value of the first update of a whole block. Stores add one.
const CHANGE: Version = Version(16);
const REPLACEMENT: Version = Version(256);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Line {
    pub data: Version,
    pub dirty: bool,
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
    /// Evictions of the block from the LLC, and of its entry from the directory, that may still happen.
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
                    self.trace.step(&before, || format!("{op:?}"), ni);
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
                    self.trace.step(&before, || format!("{op:?}"), l1);
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
                    self.trace.step(&before, || "Evict".to_string(), ni);
                }
                eviction
            }
            Node::Cache { cache: l1, .. } | Node::Pair { l1, .. } => {
                let before = *l1;
                let eviction = l1.evict(&mut l1_actions);
                if eviction != Eviction::Wait {
                    self.trace.step(&before, || "Evict".to_string(), l1);
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
            self.trace.step(&before, || trace::label(&message), &self.home);
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
                self.trace.step(&before, || trace::label(&message), cache);
            }
            (Node::Pair { ni, .. }, _) => {
                let before = *ni;
                ni.from_network(message, &mut pair_actions);
                self.trace.step(&before, || trace::label(&message), ni);
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

    /// Number of messages on a wire that may arrive now: all but the first wait, as wires keep the order.
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
                self.trace.step(&before, || format!("L1: {}", trace::label(&message)), ni);
            }
            Node::Pair { l1, down: downs, .. } => {
                let (before, message) = (*l1, downs.remove(index));
                l1.message(message, &mut l1_actions);
                self.trace.step(&before, || trace::label(&message), l1);
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
        self.trace.step(&before, || "memory".to_string(), &self.home);
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
        self.trace.step(&before, || "recall".to_string(), &self.home);
        self.home_actions(actions);
    }

    fn send(&mut self, from: End, to: End, message: Message<Version>) {
        let packet = Packet { from, to, message };
        let key = packet.key();
        let place = self.network.partition_point(|other| other.key() < key);
        self.network.insert(place, packet);
    }

    /// Every answer with the block has its last version.
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
            self.trace.step(&before, || "resume".to_string(), ni);
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

    /// The access that waited is tried again, at once.
    fn completed(&mut self, node: Party, frontend: bool) {
        let agent = *self.nodes[usize::from(node)].agent_mut(frontend);
        self.access(node, frontend);
        let now = *self.nodes[usize::from(node)].agent_mut(frontend);
        if matches!(agent.wants, Some((_, true))) && now.wants.is_some() {
            self.broken = Some("the right was asked for in vain");
        }
    }

    /// Version in the LLC.
    pub fn llc_version(&self) -> Option<u16> {
        self.llc.map(|line| line.data.0)
    }
}
