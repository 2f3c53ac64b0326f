//! A chip: tiles, homes, memory controllers, network interfaces, and the network that joins them
//! (Manycore NI §3 to §5).
//!
//! | file | part |
//! |---|---|
//! | [`core`] | what stands for a core: the microbenchmarks |
//! | [`cpu`], [`mmu`] | a core that executes a program, and what it sees of it |
//! | [`driver`] | accesses that somebody else makes, such as a test |
//! | [`tile`], [`cache`], [`back_side`] | L1s and NI caches |
//! | [`front`], [`rmc`], [`rrpp`] | the pipelines of the network interfaces |
//! | [`node_rmc`], [`link`] | the RMC of Scale-Out NUMA, and its fabric interface |
//! | [`integrated`], [`write_through`] | a network interface in the private cache, and an L1 before it |
//! | [`dma`] | a DMA engine and uncached memory |
//! | [`window`], [`inbound`] | borrowed memory with its DMA engine, and lent memory |
//! | [`through`] | stores to borrowed memory that go through the caches |
//! | [`home`], [`active`] | LLC banks with directory slices |
//! | [`memory`], [`ddr3`] | memory controllers |
//! | [`image`] | what memory holds while programs are executed |
//! | [`layout`], [`message`], [`wires`] | where things are, what travels, how |
//! | [`probe`], [`trace`], [`counts`] | what is measured |

pub mod active;
pub mod back_side;
pub mod block;
pub mod cache;
pub mod core;
pub mod counts;
pub mod cpu;
pub mod ddr3;
pub mod dma;
pub mod driver;
pub mod front;
pub mod home;
pub mod image;
pub mod inbound;
pub mod integrated;
pub mod layout;
pub mod link;
pub mod lock_box;
pub mod memory;
pub mod message;
pub mod mmu;
mod noc_spec;
pub mod node_rmc;
pub mod probe;
pub mod rmc;
pub mod rrpp;
pub mod tags;
pub mod through;
pub mod tile;
pub mod trace;
pub mod values;
pub mod window;
pub mod wires;
pub mod write_through;

use std::collections::VecDeque;

use rackmem_abi::Packet;
use rackmem_rmc::{Bounds, ContextTable};

use crate::cpu::Stop;
use crate::engine::{Cycle, Random};
use crate::machine::Machine;
use crate::machine::spec::{Contents, NiCacheKind, Placement};
use crate::noc;
use block::Block;
use dma::Dma;
use front::CONTEXT;
use home::Home;
use layout::{BLOCK_BYTES, Layout, Line, Part, SEGMENT_LINE};
use link::Freight;
use memory::Memory;
use message::{Letter, NetPacket, Payload, VNET_NETWORK, VNET_REQUEST, VNETS};
use node_rmc::NodeRmc;
use probe::Mark;
use rmc::{PORT_QUEUE, Rmc};
use rrpp::Rrpp;
use tile::{NiCache, Tile};
use values::Values;
use window::Window;
use wires::{Event, Wires};

/// First stream of random numbers for the contents of LLC banks; cores have those below.
const WARM_STREAM: u64 = 1 << 62;

/// A chip.
pub struct Chip {
    /// What joins the parts.
    pub wires: Wires,
    /// Tiles.
    pub tiles: Vec<Tile>,
    /// NI caches with numbers of their own.
    pub ni_caches: Vec<NiCache>,
    /// Homes.
    pub homes: Vec<Home>,
    /// Memory controllers.
    pub memories: Vec<Memory>,
    /// RGPs and RCPs, or their backends.
    pub rmcs: Vec<Rmc>,
    /// RRPPs.
    pub rrpps: Vec<Rrpp>,
    /// The one RMC of a chip as in Scale-Out NUMA, once its driver has set it up.
    pub node_rmc: Option<Box<NodeRmc>>,
    /// The DMA engine at a memory controller, if there is one.
    pub dma: Option<Dma>,
    /// The window of borrowed memory, if there is one.
    pub window: Option<Box<Window>>,
    /// Executing cores that have stopped in this cycle, for the operating system.
    pub stops: Vec<(u16, Stop)>,
    ports: Vec<Port>,
    /// Requests to each home from parts of the same tile.
    inboxes: Vec<Inbox>,
    /// When a tile's stores will ask for the network again.
    tile_pumps: Vec<Cycle>,
    due: Vec<Event>,
}

/// A port of the network router: replies that wait to cross the chip, and whose turn it is to send
/// requests to homes.
#[derive(Clone, Debug, Default)]
struct Port {
    replies: VecDeque<NetPacket>,
    rrpp_first: bool,
    /// When it will be looked at again.
    next_pump: Cycle,
}

/// Requests to a home that have not come through the network on chip, and whose turn it is.
#[derive(Clone, Debug, Default)]
struct Inbox {
    letters: VecDeque<u32>,
    network_first: bool,
    /// When it will be looked at again.
    next_look: Cycle,
}

impl Chip {
    /// The chip of node `nid`.
    ///
    /// # Errors
    /// What [`noc::Network::new`] says.
    pub fn new(machine: &Machine, nid: u16, nodes: u16) -> Result<Chip, noc::SpecError> {
        let wires = Wires::new(machine, nid, machine.seed ^ u64::from(nid) << 48)?;
        let layout = wires.layout.clone();
        let own_caches = match (machine.ni.placement, machine.ni.cache) {
            (Placement::Edge, _) => layout.units,
            (Placement::PerTile | Placement::Split, NiCacheKind::Separate) => layout.tiles,
            _ => 0,
        };
        let units = match layout.placement {
            Placement::Sonuma | Placement::CacheIntegrated | Placement::Window => 0,
            _ => layout.units,
        };
        let values = || {
            let mut values = Values::default();
            for (start, lines) in Layout::kept(machine) {
                values.keep(start, lines);
            }
            values
        };
        let mut contexts = ContextTable::new();
        let bounds = Bounds { size_bytes: wires.segment_bytes };
        contexts.install(CONTEXT, bounds).expect("the first context");
        let caches = machine.private_caches() as u16;
        let home = |n| Home::new(n, machine, layout.homes, caches, values());
        Ok(Chip {
            tiles: (0..layout.tiles).map(|n| Tile::new(n, nid, nodes, machine)).collect(),
            ni_caches: (0..own_caches).map(|n| NiCache::new(n, nodes, machine, &layout)).collect(),
            homes: (0..layout.homes).map(home).collect(),
            memories: (0..layout.controllers).map(|n| Memory::new(n, machine, values())).collect(),
            rmcs: (0..layout.engines()).map(|n| Rmc::new(n, nid, machine, &layout)).collect(),
            rrpps: (0..units).map(|n| Rrpp::new(n, nid, machine, contexts.clone())).collect(),
            node_rmc: None,
            dma: Dma::of(machine),
            window: Window::of(nid, machine),
            stops: Vec::new(),
            ports: vec![Port::default(); usize::from(units)],
            inboxes: vec![Inbox::default(); usize::from(layout.homes)],
            tile_pumps: vec![0; usize::from(layout.tiles)],
            wires,
            due: Vec::new(),
        })
    }

    /// Starts the frontends.
    pub fn start(&mut self) {
        let Chip { tiles, ni_caches, wires, .. } = self;
        for ni in tiles.iter_mut().filter_map(|tile| tile.ni.as_mut()) {
            ni.front.start(wires);
        }
        for ni in ni_caches {
            ni.front.start(wires);
        }
    }

    /// Fills the LLC as a long run would, unless contents are kept, of which it has none to show.
    pub fn warm(&mut self, machine: &Machine) {
        if machine.memory.contents == Contents::All {
            return;
        }
        let lines = machine.workload.footprint_bytes / BLOCK_BYTES;
        for (number, home) in self.homes.iter_mut().enumerate() {
            let mut random = Random::new(machine.seed, WARM_STREAM + number as u64);
            home.warm(lines, &mut random, &self.wires);
        }
    }

    /// Puts a block into memory, before anything has a copy of it.
    pub fn poke(&mut self, line: Line, block: Block) {
        let controller = self.wires.layout.controller_of(line);
        self.memories[usize::from(controller)].poke(line, block);
    }

    /// The next cycle in which something happens, if anything will.
    #[inline]
    pub fn next_cycle(&self) -> Option<Cycle> {
        if self.wires.cpus_next != 0 || self.wires.rmc_next {
            return Some(self.wires.now + 1);
        }
        let network = self.wires.net.next_event();
        let waiting = self.wires.net.arrived_words().iter().any(|&word| word != 0);
        let network = if waiting { Some(self.wires.now + 1) } else { network };
        match (network, self.wires.wheel.next()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Simulates one cycle; all cycles before it must have been, or have nothing in them.
    pub fn cycle(&mut self, now: Cycle) {
        let Wires { net, cpus_now, cpus_next, rmc_now, rmc_next, .. } = &mut self.wires;
        (*cpus_now, *cpus_next) = (*cpus_next, 0);
        (*rmc_now, *rmc_next) = (*rmc_next, false);
        if net.next_event().is_some_and(|event| event <= now) {
            net.skip_to(now);
            net.tick();
        } else {
            net.skip_to(now + 1);
        }
        self.wires.now = now;
        self.deliver();
        let mut due = std::mem::take(&mut self.due);
        self.wires.wheel.advance(now, &mut due);
        for event in due.drain(..) {
            self.happen(event);
        }
        self.due = due;
        self.tick_programs();
    }

    /// Executing cores and the RMC have their cycle, after all messages.
    #[inline]
    fn tick_programs(&mut self) {
        let Chip { wires, tiles, node_rmc, stops, .. } = self;
        let mut left = wires.cpus_now;
        while left != 0 {
            let number = left.trailing_zeros() as u16;
            left &= left - 1;
            let Tile { cpu, l1, .. } = &mut tiles[usize::from(number)];
            let stop = cpu.as_mut().and_then(|cpu| cpu.tick(l1, wires));
            stops.extend(stop.map(|stop| (number, stop)));
        }
        if let (true, Some(rmc)) = (wires.rmc_now, node_rmc) {
            rmc.tick(wires);
        }
    }

    /// The operating system has changed a block of memory: who has read it learns of it as if it
    /// had been taken away.
    pub fn changed_by_system(&mut self, line: Line) {
        let Chip { wires, tiles, homes, node_rmc, .. } = self;
        for cpu in tiles.iter_mut().filter_map(|tile| tile.cpu.as_mut()) {
            cpu.changed(line, wires);
        }
        homes[usize::from(wires.layout.home_of(line))].changed_by_system(line, wires);
        if let Some(rmc) = node_rmc {
            rmc.changed(line, wires);
        }
    }

    /// The operating system changes a block of borrowed memory; `changed_by_system` tells of it.
    pub fn change_borrowed(&mut self, line: Line, change: Block) {
        let Chip { wires, homes, window, .. } = self;
        let Some(window) = window else { return };
        window.written_by_system(line, change, wires.now);
        if homes[usize::from(wires.layout.home_of(line))].is_fetching(line) {
            wires.late_changes.push((line, change));
        }
    }

    /// Lets the operating system see stores that wait in combining buffers.
    pub fn show_stores(&mut self) {
        let Chip { wires, tiles, .. } = self;
        let Some(image) = &mut wires.image else { return };
        for through in tiles.iter_mut().filter_map(|tile| tile.cpu.as_mut()?.through()) {
            through.show(image);
        }
    }

    /// Blocks have come from their lender with another content than copies had.
    #[inline]
    fn tell_refreshed(&mut self) {
        let Chip { wires, tiles, .. } = self;
        while let Some(line) = wires.refreshed.pop() {
            for cpu in tiles.iter_mut().filter_map(|tile| tile.cpu.as_mut()) {
                cpu.changed(line, wires);
            }
        }
    }

    /// Wakes executing cores that repeat themselves, before something changes that they could not
    /// be told of; their counts are then those of the end of this cycle.
    pub fn settle(&mut self) {
        let Chip { wires, tiles, .. } = self;
        for Tile { cpu, l1, .. } in tiles {
            if let Some(cpu) = cpu {
                cpu.settle(l1, wires);
            }
        }
    }

    /// Something of another node reaches the RMC's fabric interface in `delay` cycles.
    pub fn receive_freight(&mut self, delay: u64, from: u16, freight: Freight) {
        self.wires.hand(delay, Part::NiCache(0), Payload::Freight { from, freight });
    }

    /// A packet of another node reaches the window in `delay` cycles.
    pub fn receive_tlp(&mut self, delay: u64, packet: crate::window::packet::Packet) {
        let Some(window) = &self.window else { return };
        let delay = delay + window.latency_cycles(&packet);
        self.wires.hand(delay, Part::Window, Payload::Tlp(packet));
    }

    /// What is still under way, by part; nothing once a chip has come to rest.
    pub fn left(&self) -> Vec<String> {
        let mut left = Vec::new();
        let mut note = |what: String, count: usize| {
            if count > 0 {
                left.push(format!("{what}: {count}"));
            }
        };
        note("letters".to_owned(), self.wires.letters.len());
        note("network".to_owned(), usize::from(!self.wires.net.is_idle()));
        note("departures".to_owned(), self.wires.departures.len());
        for (n, inbox) in self.inboxes.iter().enumerate() {
            note(format!("inbox of home[{n}]"), inbox.letters.len());
        }
        for (n, port) in self.ports.iter().enumerate() {
            note(format!("port[{n}]"), port.replies.len());
        }
        for (n, home) in self.homes.iter().enumerate() {
            note(format!("home[{n}]"), home.inside());
        }
        for (n, memory) in self.memories.iter().enumerate() {
            note(format!("memory[{n}]"), memory.waiting());
        }
        for (n, rrpp) in self.rrpps.iter().enumerate() {
            let (waiting, accesses) = rrpp.under_way();
            note(format!("rrpp[{n}]"), waiting + accesses);
        }
        for (n, rmc) in self.rmcs.iter().enumerate() {
            note(format!("rmc[{n}]"), rmc.under_way());
        }
        if let Some(window) = &self.window {
            note("window".to_owned(), window.under_way());
        }
        for (n, tile) in self.tiles.iter().enumerate() {
            note(format!("accesses to the L1 of tile[{n}]"), tile.driver.waiting());
            note(format!("L1 of tile[{n}]"), tile.l1.in_transition());
            let front = tile.ni.as_ref().map_or(0, |ni| ni.front.under_way());
            note(format!("frontend of tile[{n}]"), front);
        }
        for (n, ni) in self.ni_caches.iter().enumerate() {
            note(format!("ni_cache[{n}]"), ni.cache.in_transition());
            note(format!("frontend of ni_cache[{n}]"), ni.front.under_way());
        }
        left
    }

    /// A packet of the fabric reaches this chip in `delay` cycles.
    pub fn receive(&mut self, delay: u64, packet: NetPacket) {
        let layout = &self.wires.layout;
        let to = match &packet.packet {
            Packet::Request(request) => {
                let line = SEGMENT_LINE + request.header.offset / BLOCK_BYTES;
                Part::Rrpp(layout.rrpp_of(line))
            }
            Packet::Reply(_) if layout.engines_in_tiles() => {
                Part::Port(layout.unit_of_tile(packet.engine))
            }
            Packet::Reply(_) => Part::Engine(packet.engine),
        };
        self.wires.hand(delay, to, Payload::Net(packet));
    }

    /// Takes what has arrived at the endpoints, as far as the parts have room.
    fn deliver(&mut self) {
        for word in 0..self.wires.net.arrived_words().len() {
            let mut left = self.wires.net.arrived_words()[word];
            while left != 0 {
                let endpoint = (word * 64) as u16 + left.trailing_zeros() as u16;
                left &= left - 1;
                for vnet in 0..VNETS as u8 {
                    self.deliver_from(endpoint, vnet);
                }
            }
        }
    }

    fn deliver_from(&mut self, endpoint: u16, vnet: u8) {
        while let Some(packet) = self.wires.net.peek(endpoint, vnet) {
            let to = self.wires.letters.get(packet.tag).to;
            if let (Part::Home(n), VNET_REQUEST) = (to, vnet)
                && !self.inboxes[usize::from(n)].letters.is_empty()
            {
                return self.admit(n);
            }
            let tag = packet.tag;
            if !self.has_room(self.wires.letters.get(tag)) {
                return;
            }
            self.wires.net.take(endpoint, vnet);
            self.arrive(tag);
        }
    }

    /// A letter that has not come through the network.
    fn arrive_locally(&mut self, tag: u32) {
        let letter = self.wires.letters.get(tag);
        match (letter.to, letter.payload.vnet()) {
            (Part::Home(n), VNET_REQUEST) => {
                self.inboxes[usize::from(n)].letters.push_back(tag);
                self.admit(n);
            }
            (Part::Integrated(_), _) if !self.has_room(self.wires.letters.get(tag)) => {
                self.wires.wheel.at(self.wires.now + 1, Event::Arrive(tag));
            }
            _ => self.arrive(tag),
        }
    }

    /// Lets requests into a home as long as it has room, from its own tile and from the network in
    /// turn.
    fn admit(&mut self, home: u16) {
        let n = usize::from(home);
        let endpoint = self.wires.layout.endpoint(Part::Home(home));
        while self.homes[n].has_room() {
            let network = self.wires.net.peek(endpoint, VNET_REQUEST).map(|packet| packet.tag);
            let inbox = &mut self.inboxes[n];
            let (tag, from_network) = match (inbox.letters.front(), network) {
                (None, None) => return,
                (Some(_), Some(tag)) if inbox.network_first => (tag, true),
                (None, Some(tag)) => (tag, true),
                (Some(&tag), _) => (tag, false),
            };
            inbox.network_first = !from_network;
            if from_network {
                self.wires.net.take(endpoint, VNET_REQUEST);
            } else {
                inbox.letters.pop_front();
            }
            self.arrive(tag);
        }
        let inbox = &mut self.inboxes[n];
        if !inbox.letters.is_empty() && inbox.next_look <= self.wires.now {
            inbox.next_look = self.wires.now + 1;
            self.wires.wheel.at(inbox.next_look, Event::Admit(home));
        }
    }

    fn has_room(&self, letter: &Letter) -> bool {
        match (letter.to, letter.payload.vnet()) {
            (Part::Home(n), VNET_REQUEST) => self.homes[usize::from(n)].has_room(),
            (Part::Engine(n), VNET_NETWORK) => {
                self.wires.layout.placement != Placement::PerTile
                    || self.rmcs[usize::from(n)].has_room()
            }
            (Part::Memory(n), _) => self.memories[usize::from(n)].has_room(&letter.payload),
            (Part::Integrated(n), _) => self.tiles[usize::from(n)].has_room(&letter.payload),
            (Part::Dma, _) => match (&self.dma, &letter.payload) {
                (Some(dma), Payload::Scratchpad(packet)) => dma.has_room(packet),
                _ => true,
            },
            _ => true,
        }
    }

    fn arrive(&mut self, tag: u32) {
        let letter = self.wires.letters.take(tag);
        self.wires.trace.arrived(letter.trace, self.wires.now);
        let Chip { wires, .. } = self;
        match letter.to {
            Part::Tile(n) => self.tiles[usize::from(n)].receive(letter.payload, wires),
            Part::NiCache(n) => match &mut self.node_rmc {
                Some(rmc) => rmc.receive(letter.payload, wires),
                None => self.ni_caches[usize::from(n)].receive(letter.payload, wires),
            },
            Part::Home(n) => {
                self.homes[usize::from(n)].receive(letter, wires);
                self.tell_refreshed();
            }
            Part::Memory(n) => self.memories[usize::from(n)].receive(letter.payload, wires),
            Part::Engine(n) => self.engine_receives(n, letter.payload),
            Part::Rrpp(n) => self.rrpp_receives(n, letter.payload),
            Part::Port(n) => self.port_receives(n, letter.payload),
            Part::Integrated(n) => {
                // Whatever arrives is an access to the cache, and passes its pipeline first.
                let tile = &self.tiles[usize::from(n)];
                let at = wires.now + tile.integrated_latency(&letter.payload);
                let tag = wires.letters.put(letter);
                wires.wheel.at(at, Event::Accessed(tag));
            }
            Part::Window => {
                if let Some(window) = &mut self.window {
                    window.receive(letter.payload, wires);
                }
            }
            Part::Dma => {
                if let (Some(dma), Payload::Scratchpad(packet)) = (&mut self.dma, letter.payload) {
                    dma.arrive(&packet, wires);
                }
            }
        }
    }

    fn engine_receives(&mut self, number: u16, payload: Payload) {
        use crate::coherence::Message;
        let Chip { wires, rmcs, tiles, window, .. } = self;
        if window.is_some() {
            let Payload::Coherence { line, .. } = payload else { return };
            return tiles[usize::from(number)].taken(line, wires);
        }
        let rmc = &mut rmcs[usize::from(number)];
        match payload {
            Payload::Work { qp, slot, work } => rmc.accept(qp, slot, work, wires),
            Payload::Net(NetPacket { packet: Packet::Reply(reply), served, .. }) => {
                match wires.layout.placement {
                    Placement::Numa => tiles[usize::from(number)].core.loaded(&reply, wires),
                    Placement::PerTile => rmc.reply(reply, wires),
                    _ => {
                        wires.probe.back(served, wires.now);
                        rmc.reply(reply, wires);
                    }
                }
            }
            Payload::Coherence { line, message: Message::Response(response), .. } => {
                rmc.response(line, response, wires);
            }
            other => panic!("rmc[{number}] got {other:?}"),
        }
    }

    fn rrpp_receives(&mut self, number: u16, payload: Payload) {
        use crate::coherence::Message;
        if let (
            Some(window),
            Payload::Coherence { line, message: Message::Response(response), .. },
        ) = (&mut self.window, &payload)
        {
            return window.response(*line, *response, &mut self.wires);
        }
        let rrpp = &mut self.rrpps[usize::from(number)];
        match payload {
            Payload::Net(NetPacket { packet: Packet::Request(request), engine, .. }) => {
                rrpp.receive(request, engine, &mut self.wires);
            }
            Payload::Coherence { line, message: Message::Response(response), .. } => {
                rrpp.response(line, response, &mut self.wires);
            }
            other => panic!("rrpp[{number}] got {other:?}"),
        }
    }

    fn port_receives(&mut self, number: u16, payload: Payload) {
        let Payload::Net(packet) = payload else { panic!("port[{number}] got {payload:?}") };
        match packet.packet {
            Packet::Request(_) => {
                self.wires.probe.mark(Mark::Out, self.wires.now);
                self.wires.depart(packet);
            }
            Packet::Reply(_) => {
                self.wires.probe.back(packet.served, self.wires.now);
                self.ports[usize::from(number)].replies.push_back(packet);
                self.pump_port(number);
            }
        }
    }

    fn happen(&mut self, event: Event) {
        let Chip { wires, tiles, ni_caches, rmcs, homes, memories, .. } = self;
        match event {
            Event::Arrive(tag) => self.arrive_locally(tag),
            Event::Admit(n) => self.admit(n),
            Event::Enter(tag, from) => wires.enter(tag, from),
            Event::LookedUp(tag) => {
                let letter = wires.letters.take(tag);
                if let Part::Home(n) = letter.to {
                    homes[usize::from(n)].looked_up(letter.payload, wires);
                }
            }
            Event::LookedUpAgain(tag) => {
                let letter = wires.letters.take(tag);
                if let Part::Home(n) = letter.to {
                    homes[usize::from(n)].looked_up_again(letter.payload, wires);
                }
            }
            Event::Core(n) => tiles[usize::from(n)].step(wires),
            Event::Drain(n) => tiles[usize::from(n)].drain(wires),
            Event::Poll { front: Part::Tile(n), index } => {
                if let Some(ni) = &mut tiles[usize::from(n)].ni {
                    ni.front.poll(index, &mut ni.cache, wires);
                }
            }
            Event::Poll { front, index } => {
                let ni = &mut ni_caches[usize::from(number_of(front))];
                ni.front.poll(index, &mut ni.cache, wires);
            }
            Event::Complete { front: Part::Tile(n), index } => {
                if let Some(ni) = &mut tiles[usize::from(n)].ni {
                    ni.front.write_completion(index, &mut ni.cache, wires);
                }
            }
            Event::Complete { front, index } => {
                let ni = &mut ni_caches[usize::from(number_of(front))];
                ni.front.write_completion(index, &mut ni.cache, wires);
            }
            Event::Unroll(n) => rmcs[usize::from(n)].unroll(wires),
            Event::Memory(n) => memories[usize::from(n)].go_on(wires),
            Event::Cpu(n) => wires.tick_now(n),
            Event::Accessed(tag) => {
                let letter = wires.letters.take(tag);
                tiles[usize::from(number_of(letter.to))].integrated(letter.payload, wires);
            }
            Event::Filled(n) => tiles[usize::from(n)].told(wires),
            Event::Loaded(n, value) => tiles[usize::from(n)].loaded(value, wires),
            Event::Integrated(n) => tiles[usize::from(n)].pump_integrated(wires),
            Event::Dma => {
                if let Some(dma) = &mut self.dma {
                    dma.pump(wires);
                }
            }
            Event::NodeRmc => wires.rmc_now = true,
            Event::WindowRead => {
                if let Some(window) = &mut self.window {
                    window.go_on(wires);
                }
            }
            Event::WindowEngine => {
                if let Some(window) = &mut self.window {
                    window.run_engine(wires);
                }
            }
            Event::Pump(Part::Port(n)) => self.pump_port(n),
            Event::Pump(part) => self.pump_tile(number_of(part)),
        }
    }

    /// Sends what waits at a port, as long as the network takes it: replies that cross the chip;
    /// requests of RRPP and RCP to homes, in turn.
    fn pump_port(&mut self, number: u16) {
        let n = usize::from(number);
        let Chip { wires, rmcs, rrpps, ports, .. } = self;
        let (port, rrpp) = (&mut ports[n], &mut rrpps[n]);
        while wires.queued(Part::Port(number), VNET_NETWORK) < PORT_QUEUE {
            let Some(packet) = port.replies.pop_front() else { break };
            wires.send(Part::Port(number), Part::Engine(packet.engine), Payload::Net(packet));
        }
        let mut rmc = if wires.layout.engines_in_tiles() { None } else { rmcs.get_mut(n) };
        while rrpp.port_has_room(wires) {
            let sent = match (port.rrpp_first, &mut rmc) {
                (_, None) => rrpp.access(wires),
                (true, Some(rmc)) => rrpp.access(wires) || rmc.store(wires),
                (false, Some(rmc)) => rmc.store(wires) || rrpp.access(wires),
            };
            if !sent {
                break;
            }
            port.rrpp_first = !port.rrpp_first;
        }
        let stores = rmc.and_then(|rmc| rmc.wants_port());
        let replies = (!port.replies.is_empty()).then_some(wires.now);
        let wanted = [rrpp.wants_port(), stores, replies].into_iter().flatten().min();
        let Some(wanted) = wanted else { return };
        let next = wanted.max(wires.now + 1);
        if port.next_pump <= wires.now || port.next_pump > next {
            port.next_pump = next;
            wires.wheel.at(next, Event::Pump(Part::Port(number)));
        }
    }

    /// The same for the stores of an RCP in a tile.
    fn pump_tile(&mut self, number: u16) {
        let Chip { wires, rmcs, tile_pumps, .. } = self;
        let rmc = &mut rmcs[usize::from(number)];
        while rmc.port_has_room(wires) && rmc.store(wires) {}
        let Some(wanted) = rmc.wants_port() else { return };
        let next = wanted.max(wires.now + 1);
        let pump = &mut tile_pumps[usize::from(number)];
        if *pump <= wires.now || *pump > next {
            *pump = next;
            wires.wheel.at(next, Event::Pump(Part::Engine(number)));
        }
    }
}

fn number_of(part: Part) -> u16 {
    match part {
        Part::Tile(n)
        | Part::Home(n)
        | Part::Memory(n)
        | Part::NiCache(n)
        | Part::Engine(n)
        | Part::Rrpp(n)
        | Part::Port(n)
        | Part::Integrated(n) => n,
        Part::Dma | Part::Window => 0,
    }
}
