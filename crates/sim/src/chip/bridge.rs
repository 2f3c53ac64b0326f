//! The module that joins the on-chip interconnects of nodes (DEOI §III), as Thunder's channel for loads and stores does
//! (ICT, TSM §4.2): a miss in borrowed memory leaves the last-level cache for it and travels layer by layer.
//!
//! Layers and links are [`interconnect::Module`](crate::interconnect::Module); it counts picoseconds, as the clocks of
//! chip, on-chip interconnect and links have no common period. Something of it that happens between two cycles of the
//! chip is seen in the second one. The lender's side is [`inbound`](super::inbound), as for a window behind an NTB.
//!
//! # Decisions
//!
//! - *Order.* AXI orders nothing between reads and writes, so a read of a line waits for the answer to a write of it.
//! - *Writes.* Borrowed lines are cached as local ones are (DEOI §III), so what is written are whole lines that caches
//!   give back, changes by the operating system, and bursts of the RDMA channel.
//! - *A lender that looks at what it lends.* Past its caches (`window.coherent = false`) others change blocks of which
//!   it may have copies. Caches of the model have rights and no contents, so it sees the change; hardware would show it
//!   the old copy for a while. What is lent has one user, so no program should look.

mod bulk;
mod devices;
mod saved;

use std::collections::VecDeque;

pub use devices::device_base;
use rackmem_rmc::amt::{Amt, Target};
use rackmem_rmc::imt::Imt;
pub use saved::Devices;

use super::card::{self, Card, CardAccess, Task};
use super::inbound::{Answer, Inbound};
use super::layout::{Layout, Part};
use super::message::Payload;
use super::ni::{Interface, Placement, Places, Side, Timer};
use super::pairs::{self, Pairs};
use super::rdma::Rdma;
use super::tile::Tile;
use super::wires::{self, Wires};
use crate::block::{BLOCK_BYTES, Block, Line};
use crate::coherence::Message;
use crate::engine::{Agenda, Cycle, Slab};
use crate::figures::Figures;
use crate::interconnect::INTERRUPT_LINES;
use crate::interconnect::module::{self, Action, Module};
use crate::interconnect::packet::{Channel, LAYER_NAMES, Layer, Packet, Trip};
use crate::interconnect::time::{Clock, Ps, ps};
use crate::machine::Machine;
use crate::report::LAYERS;
use crate::statistics::Simulated;
use crate::window::orq::Orq;
use crate::window::packet::{Asker, Packet as Access};

/// The module wants to be looked at.
const LOOK: Timer = Timer { part: Part::Window, what: 0, index: 0 };

/// The interrupt line of the RDMA channel, behind those of the card.
pub const RDMA_LINE: u8 = INTERRUPT_LINES as u8;

/// Content of a packet: an access, or its answer.
type Body = Option<Access>;

/// A frame on its way to another node's module.
#[derive(Clone, Copy, Debug)]
pub struct SentFrame {
    /// Time of its arrival.
    pub at: Ps,
    /// Number of the node that it goes to.
    pub node: u16,
    /// The end of a link there.
    pub port: u8,
    /// Header, packet and content.
    pub frame: crate::interconnect::lane::Frame<Body>,
}

/// An event to come.
#[derive(Clone, Copy, Debug)]
enum Event {
    Module(module::Event<Body>),
    /// A packet of this node is at the module.
    Leave(Packet<Body>),
    /// A request of another node is at this node's memory.
    Home(Packet<Body>),
    /// An answer is back at the last-level cache, or at a core.
    Back(Packet<Body>),
    /// The card has done an access to a register.
    Served(Packet<Body>),
    Card(card::Event),
    /// A step of the channel for queue pairs is over.
    Pairs(pairs::Done),
    /// The RDMA channel begins its next copy.
    Begin,
    /// The RDMA channel has done an access to this node's memory.
    Moved(Packet<Body>),
}

/// Module, address mapping table, and accesses under way.
#[derive(Clone, Debug)]
pub struct Bridge {
    nid: u16,
    /// The nodes whose memory it is, by address.
    pub amt: Amt,
    /// The part of the window for devices: registers of the neighbour's card, and memory for this node's own.
    devices: Amt,
    /// The node that each interrupt line of the card is for.
    imt: Imt,
    card: Card,
    tasks: VecDeque<Task>,
    /// Accesses of the card under way.
    moving: Slab<CardAccess>,
    /// Connections of the program, with their channel.
    pub pairs: Pairs,
    begun: Vec<(Ps, pairs::Done)>,
    /// The channel for copies of the operating system.
    pub rdma: Rdma,
    /// From a call of the operating system, or an interrupt of the channel, until the channel has its registers.
    begin_ps: Ps,
    /// Lines of bursts of other nodes, which wait for the packets that bring the last ones.
    ahead: Vec<Access>,
    /// Blocks of borrowed memory that the channel has written past this node's caches, with their contents.
    outdated: Vec<(Line, Block)>,
    module: Module<Body>,
    agenda: Agenda<Event>,
    /// Cycle in which it will be looked at.
    next_look: Cycle,
    orq: Orq,
    /// Lines of writes that their lender has not answered.
    unanswered: Slab<Line>,
    inbound: Inbound,
    /// Requests of other nodes at this node's memory, which answers in order.
    serving: VecDeque<Packet<Body>>,
    clock: Clock,
    /// Between last-level cache and module, each way.
    root_ps: Ps,
    /// On-chip interconnect, each way.
    oci_ps: Ps,
    /// At a register.
    register_ps: Ps,
    /// Addresses of this node's memory; its card's registers follow, for other nodes.
    memory_bytes: u64,
    /// Accesses of cores to registers, and their time in cycles.
    register_accesses: u64,
    register_cycles: Cycle,
    /// Cycle in which each core asked.
    asked_at: Vec<Cycle>,
    reads: u64,
    writes: u64,
    layers: [Ps; LAYERS],
}

impl Bridge {
    /// The operating system has changed a block: its lender learns of it.
    pub fn written_by_system(&mut self, line: Line, change: Block, wires: &mut Wires) {
        self.look(wires);
        self.write(line, change, wires.now);
        self.look(wires);
    }

    /// A frame of another node will arrive.
    pub fn frame(&mut self, sent: &SentFrame, wires: &mut Wires) {
        let event = module::Event::Arrive { port: sent.port, frame: sent.frame };
        self.agenda.at(sent.at, Event::Module(event));
        self.look_again(wires);
    }

    /// Lets reads leave that have an entry of the queue.
    fn leave(&mut self, now: Cycle) {
        while let Some(line) = self.orq.next_line()
            && self.is_answered(line)
            && !self.rdma.is_writing(line)
            && let Some((tag, asked)) = self.orq.issue()
        {
            let Target { destination, address } = self.target(line);
            let asker = Asker::Queue(self.nid);
            let body = Some(Access::Read { asker, tag, address, lines: 1 });
            let trip = Trip::begin(self.clock.at(asked.at));
            self.depart(now, Channel::ReadAddress, destination, tag, trip, body);
        }
    }

    /// A line that caches or the operating system give back leaves with the content that it has by now: since then
    /// another write of it may have left.
    fn renew(&self, packet: &mut Packet<Body>, wires: &Wires) {
        if let Some(Access::Write { block, asker: Some((Asker::Queue(_), tag)), .. }) =
            &mut packet.body
            && !block.is_change()
            && let Some(content) = wires.content(*self.unanswered.get(*tag))
        {
            *block = content;
        }
    }

    /// Whether no write of a line waits for its lender's answer.
    fn is_answered(&self, line: Line) -> bool {
        self.unanswered.values().all(|&written| written != line)
    }

    /// Writes a line, or a part of one.
    fn write(&mut self, line: Line, block: Block, now: Cycle) {
        let Target { destination, address } = self.target(line);
        let tag = self.unanswered.put(line);
        self.writes += 1;
        let body = write_of(address, block, (Asker::Queue(self.nid), tag));
        let trip = Trip::begin(self.clock.at(now));
        self.depart(now, Channel::WriteAddress, destination, tag, trip, None);
        self.depart(now, Channel::WriteData, destination, tag, trip, body);
    }

    /// A packet leaves for the module.
    fn depart(
        &mut self,
        now: Cycle,
        channel: Channel,
        destination: u16,
        tag: u32,
        trip: Trip,
        body: Body,
    ) {
        let bytes = match body {
            Some(Access::Write { block, .. }) => block.written_bytes(),
            _ => BLOCK_BYTES as u32,
        };
        let packet = Packet { channel, source: self.nid, destination, tag, bytes, trip, body };
        self.agenda.at(self.clock.at(now) + self.root_ps, Event::Leave(packet));
    }

    fn target(&self, line: Line) -> Target {
        let found = self.amt.lookup(line * BLOCK_BYTES, BLOCK_BYTES);
        found.expect("pages are mapped, and lines fetched, where memory is borrowed only")
    }

    /// Does all that is due up to this cycle.
    fn look(&mut self, wires: &mut Wires) {
        let now = self.clock.at(wires.now);
        while self.agenda.next().is_some_and(|at| at <= now)
            && let Some(event) = self.agenda.pop()
        {
            self.due(self.agenda.now(), event, wires);
        }
        self.look_again(wires);
    }

    /// Is looked at in the cycle of its next event.
    fn look_again(&mut self, wires: &mut Wires) {
        if let Some(at) = self.agenda.next() {
            let cycle = self.clock.count(at).max(wires.now + 1);
            wires.happen_by(&mut self.next_look, cycle, wires::Event::Ni(LOOK));
        }
    }

    fn due(&mut self, at: Ps, event: Event, wires: &mut Wires) {
        match event {
            Event::Module(event) => self.module.happen(at, event),
            Event::Leave(mut packet) => {
                packet.trip.charge(Layer::Software, at);
                self.renew(&mut packet, wires);
                self.module.send(at, packet);
            }
            Event::Home(packet) if self.is_register(&packet) => self.register(at, packet, wires),
            Event::Home(packet) => {
                self.serving.push_back(packet);
                self.serve(packet.body.expect("a request has an access"), wires);
                self.answer(wires);
            }
            Event::Back(packet) => self.back(at, packet, wires),
            Event::Served(packet) if packet.destination == self.nid => {
                self.agenda.at(at + self.root_ps, Event::Back(packet));
            }
            Event::Served(packet) => self.module.answer(at, at + self.oci_ps, packet),
            Event::Pairs(done) => {
                self.with_pairs(at, wires, |pairs, event| pairs.done(done, event))
            }
            Event::Begin => {
                self.rdma.begin();
                self.run_rdma(at, wires);
            }
            Event::Moved(packet) => self.moved(at, packet, wires),
            Event::Card(event) => {
                self.card.happen(at, event, &mut self.tasks);
                self.run_card(at);
            }
        }
        self.act(at, wires);
    }

    /// Does what the module wants done.
    fn act(&mut self, now: Ps, wires: &mut Wires) {
        while let Some(action) = self.module.next_action() {
            match action {
                Action::Plan(at, event) => self.agenda.at(at, Event::Module(event)),
                Action::Frame { at, node, port, frame } => {
                    wires.frames.push(SentFrame { at, node, port, frame });
                }
                Action::Arrived { port, packet } => self.arrived(now, port, packet, wires),
                Action::Dropped { packet } => panic!("no way to node {}", packet.destination),
                Action::Room => self.with_pairs(now, wires, Pairs::has_room),
            }
        }
    }

    fn arrived(&mut self, now: Ps, port: u8, packet: Packet<Body>, wires: &mut Wires) {
        match (packet.channel, packet.body) {
            (Channel::Interrupt, _) if packet.tag & 1 != 0 => {
                wires.interrupts.push((packet.tag >> 1) as u8);
            }
            (Channel::Message | Channel::MessageResponse, _) => {
                self.with_pairs(now, wires, |pairs, event| pairs.arrive(port, packet, event));
            }
            (_, Some(Access::Data { asker: Asker::Rdma(_), tag, index, block })) => {
                self.rdma.read(tag, index.into(), block);
                self.burst_done(now, tag, wires);
            }
            (_, Some(Access::Written { asker: Asker::Rdma(_), tag })) => {
                self.burst_done(now, tag, wires);
                self.leave(wires.now);
            }
            (_, Some(Access::Data { asker: Asker::Engine(_), block, .. })) => {
                self.card_finished(now, packet.tag, block);
            }
            (_, Some(Access::Written { asker: Asker::Engine(_), .. })) => {
                self.card_finished(now, packet.tag, Block::ZERO);
            }
            (channel, _) => self.arrived_for_cores(now, channel, packet),
        }
    }

    fn arrived_for_cores(&mut self, now: Ps, channel: Channel, mut packet: Packet<Body>) {
        match channel {
            Channel::ReadAddress | Channel::WriteData => {
                self.agenda.at(now + self.oci_ps, Event::Home(packet));
            }
            Channel::ReadData | Channel::WriteResponse => {
                packet.trip.charge(Layer::Master, now);
                self.agenda.at(now + self.root_ps, Event::Back(packet));
            }
            _ => {}
        }
    }

    /// An answer is where the access came from.
    fn back(&mut self, at: Ps, mut packet: Packet<Body>, wires: &mut Wires) {
        match packet.body {
            Some(Access::Data { asker: Asker::Core(_), tag, block, .. }) => {
                // The register's bytes are at their place, and there is nothing else in the block.
                let value = block.words.iter().fold(0, |all, word| all | word);
                self.answer_core(tag as u16, value, wires);
            }
            Some(Access::Written { asker: Asker::Core(_), tag }) => {
                self.answer_core(tag as u16, 0, wires);
            }
            Some(Access::Data { tag, block, .. }) => {
                packet.trip.charge(Layer::Software, at);
                let layers = self.layers.iter_mut().zip(packet.trip.layers);
                layers.for_each(|(sum, layer)| *sum += layer);
                self.reads += 1;
                let line = self.orq.done(tag).line;
                let home = Part::Home(wires.layout.home_of(line));
                wires.send(Part::Window, home, Payload::MemoryData { line, data: block });
            }
            _ => {
                self.unanswered.take(packet.tag);
                self.run_rdma(at, wires);
            }
        }
        self.leave(wires.now);
    }

    /// Does something with the channel for queue pairs.
    fn with_pairs(
        &mut self,
        now: Ps,
        wires: &mut Wires,
        work: impl FnOnce(&mut Pairs, &mut pairs::Event<'_>),
    ) {
        let Bridge { pairs, module, begun, agenda, .. } = self;
        work(pairs, &mut pairs::Event { now, module, done: begun, wires });
        begun.drain(..).for_each(|(at, done)| agenda.at(at, Event::Pairs(done)));
    }

    /// Cores that repeat themselves look again at blocks that have changed past their caches.
    fn tell_changed(&mut self, tiles: &mut [Tile], wires: &mut Wires) {
        while let Some(line) = self.inbound.take_changed().or_else(|| self.pairs.take_changed()) {
            for cpu in tiles.iter_mut().filter_map(|tile| tile.cpu.as_mut()) {
                cpu.changed(line, wires);
            }
        }
    }

    /// Answers accesses to this node's memory that are done.
    fn answer(&mut self, wires: &mut Wires) {
        let now = self.clock.at(wires.now);
        while let Some(answer) = self.inbound.answer(wires) {
            let (channel, body) = match answer {
                Answer::Data(_, data) => (Channel::ReadData, data),
                Answer::Written(_, written) => (Channel::WriteResponse, written),
            };
            if self.has_more(&body) {
                let Some(request) = self.serving.front() else { return };
                wires.depart_after(0, request.source, Payload::Tlp(body));
                continue;
            }
            let Some(request) = self.serving.pop_front() else { return };
            let (source, destination) = (request.destination, request.source);
            let packet = Packet { channel, source, destination, body: Some(body), ..request };
            if destination == self.nid {
                self.agenda.at(now + self.oci_ps, Event::Moved(packet));
            } else {
                self.module.answer(now, now + self.oci_ps, packet);
            }
        }
        self.act(now, wires);
    }
}

impl Interface for Bridge {
    const STATISTICS: &'static [Simulated] = &[Simulated::Program, Simulated::Bridge];

    fn places(_placement: Placement) -> Places {
        Places { engines: Side::Tiles, ni_caches: Side::Tiles, frontends: None }
    }

    fn check_programs(machine: &Machine, nodes: u16) -> Result<(), String> {
        let spec = &machine.extension;
        if nodes < 2 {
            let why =
                "ni.placement: is \"bridge\", where nodes borrow of each other; use -n 2 or more";
            return Err(why.to_owned());
        }
        let links = spec.topology.links(nodes);
        if links >= spec.switch_ports {
            return Err(format!(
                "extension.switch_ports: is {}, and with {nodes} nodes a node has {links} links beside its own port; \
                 use fewer nodes or extension.topology = \"chain\"",
                spec.switch_ports
            ));
        }
        Ok(())
    }

    fn new(nid: u16, nodes: u16, machine: &Machine, _layout: &Layout) -> Bridge {
        let window = &machine.window;
        let spec = &machine.extension;
        Bridge {
            nid,
            amt: Amt::new(spec.amt_slots, machine.memory.size_bytes, window.lent_bytes),
            devices: devices::devices(nid, nodes, machine),
            imt: Imt::all_to((nid + nodes - 1) % nodes),
            card: Card::new(&machine.nic),
            tasks: VecDeque::new(),
            moving: Slab::default(),
            pairs: Pairs::new(nid, nodes, machine),
            begun: Vec::new(),
            rdma: Rdma::new(&machine.qpair),
            begin_ps: bulk::begin_ps(machine),
            ahead: Vec::new(),
            outdated: Vec::new(),
            module: Module::new(spec, machine.seed, nid, nodes),
            agenda: Agenda::default(),
            next_look: 0,
            orq: Orq::new(window.outstanding as usize),
            unanswered: Slab::default(),
            inbound: Inbound::new(window.accesses as usize, window.coherent),
            serving: VecDeque::new(),
            clock: Clock::of_mhz(machine.clock_ghz * 1000.0),
            root_ps: ps(window.root_ns),
            oci_ps: Clock::of_mhz(spec.oci_mhz).cycles(spec.oci_cycles),
            register_ps: ps(window.register_ns),
            memory_bytes: machine.memory.size_bytes,
            register_accesses: 0,
            register_cycles: 0,
            asked_at: vec![0; machine.private_caches() as usize],
            reads: 0,
            writes: 0,
            layers: [0; LAYERS],
        }
    }

    fn start(&mut self, _tiles: &mut [Tile], wires: &mut Wires) {
        let now = self.clock.at(wires.now);
        self.module.start(now);
        self.act(now, wires);
        self.look_again(wires);
    }

    fn entry(&self, _payload: &Payload, _layout: &Layout) -> (Part, u64) {
        (Part::Window, 0)
    }

    fn receive(&mut self, to: Part, payload: Payload, tiles: &mut [Tile], wires: &mut Wires) {
        self.look(wires);
        match (to, payload) {
            (
                Part::Rrpp(_),
                Payload::Coherence { line, message: Message::Response(response), .. },
            ) => self.inbound.response(line, response, wires),
            (Part::Rrpp(_), Payload::MemoryData { line, data }) => {
                self.inbound.read(line, data, wires);
            }
            (_, Payload::MemoryRead { line, .. }) => {
                self.orq.ask(line, wires.now);
                self.leave(wires.now);
            }
            (_, Payload::MemoryWrite { line, data }) => self.write(line, data, wires.now),
            (_, Payload::Content { from, block, bytes }) => self.pairs.content(from, block, bytes),
            (_, Payload::Tlp(access)) => self.came_ahead(access),
            (_, Payload::Device(access)) => self.ask_device(access, wires.now),
            (to, other) => panic!("{to} got {other:?}"),
        }
        self.answer(wires);
        self.look(wires);
        self.tell_changed(tiles, wires);
    }

    fn happen(&mut self, _timer: Timer, tiles: &mut [Tile], wires: &mut Wires) {
        self.look(wires);
        self.tell_changed(tiles, wires);
    }

    fn under_way(&self, _tiles: &[Tile]) -> Vec<String> {
        let accesses = self.orq.len()
            + self.unanswered.len()
            + self.inbound.under_way()
            + self.rdma.under_way()
            + self.at_devices();
        let messages = self.pairs.under_way();
        let both = [(accesses, "accesses"), (messages, "messages, as without a buffer for them")];
        let both = both.into_iter().filter(|&(count, _)| count > 0);
        both.map(|(count, what)| format!("bridge: {count} {what}")).collect()
    }

    fn write_stats(&self, _tiles: &[Tile], _wires: &Wires, stats: &mut Figures) {
        let mut put = |name: String, value: u64| stats.insert(name, value as f64);
        put("bridge.reads".to_owned(), self.reads);
        put("bridge.writes".to_owned(), self.writes);
        put("bridge.most_outstanding".to_owned(), self.orq.most() as u64);
        put("bridge.register_accesses".to_owned(), self.register_accesses);
        let (interrupts, dropped) = self.card.counts();
        put("nic.interrupts".to_owned(), interrupts);
        put("nic.dropped".to_owned(), dropped);
        put("bridge.messages".to_owned(), self.pairs.messages());
        put("rdma.bursts".to_owned(), self.rdma.moved.0);
        put("rdma.bytes".to_owned(), self.rdma.moved.1);
        self.module.figures(put);
        let cycle_ns = self.clock.at(1_000_000) as f64 / 1e9;
        let registers_ns = self.register_cycles as f64 * cycle_ns;
        let accesses = self.register_accesses as f64;
        stats.mean("bridge.register_mean_ns".to_owned(), registers_ns, accesses);
        let mut mean = |name: &str, sum: Ps| {
            stats.mean(format!("bridge.{name}"), sum as f64 / 1000.0, self.reads as f64);
        };
        mean("read_mean_ns", self.layers.iter().sum());
        for (name, layer) in LAYER_NAMES.iter().zip(self.layers) {
            mean(&format!("layers.{name}_mean_ns"), layer);
        }
    }
}

/// The body of a write, which is answered.
fn write_of(address: u64, block: Block, asker: (Asker, u32)) -> Body {
    let tlp_bytes = block.written_bytes();
    Some(Access::Write { address, block, asker: Some(asker), tlp_bytes })
}
