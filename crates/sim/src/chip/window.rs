//! The window of borrowed memory on a chip (TSM §2.1, §4.1). A miss there in the last-level cache leaves by
//! the outstanding request queue and the root complex; beside it is the DMA engine of the NTB. Accesses of
//! other nodes to this node's memory come in by [`inbound`](super::inbound).

use rackmem_rmc::amt::{Amt, Target};

use super::inbound::{Answer, Inbound};
use super::layout::{Layout, Part};
use super::message::Payload;
use super::ni::{Interface, Placement, Places, Side, Timer};
use super::tile::Tile;
use super::wires::{Departure, Event, Wires};
use crate::block::{BLOCK_BYTES, Block, Line};
use crate::coherence::{Message, Party, Response};
use crate::engine::{Cycle, Slab};
use crate::figures::Figures;
use crate::machine::Machine;
use crate::machine::spec::WindowSpec;
use crate::statistics::Simulated;
use crate::window::dma::Engine;
use crate::window::orq::{Asked, Orq};
use crate::window::packet::{Asker, Packet};
use crate::window::wire::Wire;

/// Slots of the address mapping table.
pub const WINDOW_SLOTS: u16 = 16;

/// The next read may leave.
const READ: Timer = Timer { part: Part::Window, what: 0, index: 0 };
/// The DMA engine goes on.
const ENGINE: Timer = Timer { part: Part::Window, what: 1, index: 0 };

/// Tags of the engine's reads of its ring, and of its reads and writes of data.
const FETCH: u32 = 0;
const DATA: u32 = 1;

/// First, last and number of something.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    count: u64,
    first: Cycle,
    last: Cycle,
}

impl Seen {
    fn add(&mut self, at: Cycle) {
        if self.count == 0 {
            self.first = at;
        }
        self.count += 1;
        self.last = self.last.max(at);
    }
}

#[derive(Clone, Debug)]
pub struct Window {
    nid: u16,
    spec: WindowSpec,
    /// The nodes whose memory it is, by address.
    pub amt: Amt,
    /// The DMA engine, once its driver has given it a ring.
    pub engine: Option<Box<Engine>>,
    /// Physical address to which the engine writes the number of descriptors that it has carried out.
    pub status_address: u64,
    orq: Orq,
    /// Stores that go through, until their lender has answered: line, and the party that waits.
    unanswered: Slab<(Line, Party)>,
    inbound: Inbound,
    /// The link of this node, away from its root complex and to it.
    out: Wire,
    into: Wire,
    root_cycles: u64,
    /// From the engine's NTB to the root complex.
    hop_cycles: u64,
    setup_cycles: u64,
    /// Cycle in which the engine asks for more.
    ask_at: Cycle,
    tlps: Seen,
    dma_write_tlps: Seen,
    reads: u64,
    read_cycles: u64,
    writes: u64,
    cycle_ns: f64,
}

impl Window {
    /// A home answers an access to this node's memory.
    fn response(&mut self, line: Line, response: Response<Block>, wires: &mut Wires) {
        self.inbound.response(line, response, wires);
        self.answer(wires);
    }

    /// The operating system has changed a block: its lender learns of it.
    pub fn written_by_system(&mut self, line: Line, change: Block, wires: &mut Wires) {
        self.write(line, change, None, wires);
    }

    /// Lets reads leave that have an entry.
    fn leave(&mut self, wires: &mut Wires) {
        while let Some((tag, Asked { line, .. })) = self.orq.issue() {
            let Target { destination, address } = self.target(line);
            let bytes = self.spec.request_overhead_bytes;
            let cycle = self.out.send(wires.now + self.root_cycles, bytes);
            self.tlps.add(cycle);
            let asker = Asker::Queue(self.nid);
            let packet = Packet::Read { asker, tag, address, lines: 1 };
            depart(cycle, destination, packet, wires);
        }
    }

    /// Writes a line, or a part of one; when it has left.
    fn write(
        &mut self,
        line: Line,
        block: Block,
        asker: Option<(Asker, u32)>,
        wires: &mut Wires,
    ) -> Cycle {
        let Target { destination, address } = self.target(line);
        let tlp_bytes = block.written_bytes();
        let bytes = self.spec.request_overhead_bytes + tlp_bytes;
        let cycle = self.out.send(wires.now + self.root_cycles, bytes);
        self.tlps.add(cycle);
        self.writes += 1;
        let packet = Packet::Write { address, block, asker, tlp_bytes };
        depart(cycle, destination, packet, wires);
        cycle
    }

    /// A store that goes through.
    fn through(&mut self, line: Line, block: Block, from: Party, wires: &mut Wires) {
        if self.spec.posted {
            let left = self.write(line, block, None, wires);
            return free_buffer(left - wires.now, line, from, wires);
        }
        let tag = self.unanswered.put((line, from));
        self.write(line, block, Some((Asker::Queue(self.nid), tag)), wires);
    }

    fn target(&self, line: Line) -> Target {
        let found = self.amt.lookup(line * BLOCK_BYTES, BLOCK_BYTES);
        found.expect("pages are mapped, and lines fetched, where memory is borrowed only")
    }

    /// The last byte of a packet of another node is at the link to the root complex, and beyond it if the link is free:
    /// chips on the way cut through. Others may have sent at the same time.
    fn come(&mut self, packet: Packet, wires: &mut Wires) {
        let Some((bytes, root_cycles)) = self.on_link(&packet) else {
            return self.arrive(packet, wires);
        };
        match self.into.pass(wires.now, bytes) + root_cycles - wires.now {
            0 => self.arrive(packet, wires),
            delay => wires.hand(delay, Part::Rrpp(0), Payload::Tlp(packet)),
        }
    }

    /// Bytes of a packet of another node on the link to the root complex, and cycles in that; `None` if it is for the
    /// engine, which is before the link.
    fn on_link(&self, packet: &Packet) -> Option<(u32, u64)> {
        let WindowSpec { request_overhead_bytes, completion_overhead_bytes, .. } = self.spec;
        match *packet {
            Packet::Read { .. } => Some((request_overhead_bytes, self.root_cycles)),
            Packet::Write { tlp_bytes: 0, .. } => Some((0, self.root_cycles)),
            Packet::Write { tlp_bytes, .. } => {
                Some((request_overhead_bytes + tlp_bytes, self.root_cycles))
            }
            // The home is told after the root complex.
            Packet::Data { asker: Asker::Queue(_), .. } => {
                Some((completion_overhead_bytes + BLOCK_BYTES as u32, 0))
            }
            Packet::Written { asker: Asker::Queue(_), .. } => Some((completion_overhead_bytes, 0)),
            _ => None,
        }
    }

    fn arrive(&mut self, packet: Packet, wires: &mut Wires) {
        match packet {
            Packet::Data { asker: Asker::Queue(_), tag, block, .. } => {
                self.tlps.add(wires.now);
                self.out.send(wires.now, self.spec.ack_bytes);
                let asked = self.orq.done(tag);
                self.reads += 1;
                self.read_cycles += wires.now + self.root_cycles - asked.at;
                let home = Part::Home(wires.layout.home_of(asked.line));
                let reply = Payload::MemoryData { line: asked.line, data: block };
                wires.send_after(self.root_cycles, Part::Window, home, reply);
                // The root complex goes on when it has passed the data on.
                if self.root_cycles == 0 {
                    self.leave(wires);
                } else {
                    wires.wheel.at(wires.now + self.root_cycles, Event::Ni(READ));
                }
            }
            Packet::Written { asker: Asker::Queue(_), tag } => {
                self.tlps.add(wires.now);
                let (line, from) = self.unanswered.take(tag);
                free_buffer(self.root_cycles, line, from, wires);
            }
            Packet::Written { asker: Asker::Engine(_), .. } => self.written(wires),
            Packet::Data { asker: Asker::Engine(_), tag, block, .. } => {
                self.engine_data(tag, block, wires);
            }
            _ => {
                self.out.send(wires.now, self.spec.ack_bytes);
                self.inbound.arrive(packet, wires);
                self.answer(wires);
            }
        }
    }

    /// Answers accesses to this node's memory that are done.
    fn answer(&mut self, wires: &mut Wires) {
        while let Some(answer) = self.inbound.answer(wires) {
            let (asker, packet, data_bytes) = match answer {
                // The engine need not be told over the link: its writes are posted.
                Answer::Written(Asker::Engine(_), _) => {
                    self.written(wires);
                    continue;
                }
                Answer::Written(asker, packet) => (asker, packet, 0),
                Answer::Data(asker, packet) => (asker, packet, BLOCK_BYTES as u32),
            };
            let bytes = self.spec.completion_overhead_bytes + data_bytes;
            let cycle = self.out.send(wires.now + self.root_cycles, bytes);
            if asker.node() == self.nid {
                let delay = cycle + self.hop_cycles - wires.now;
                wires.hand(delay, Part::Rrpp(0), Payload::Tlp(packet));
            } else {
                depart(cycle, asker.node(), packet, wires);
            }
        }
    }

    /// The engine goes on: fetches descriptors, asks for data.
    fn run_engine(&mut self, wires: &mut Wires) {
        let Some(mut engine) = self.engine.take() else { return };
        if let Some(address) = engine.fetch() {
            let asker = Asker::Engine(self.nid);
            let packet = Packet::Read { asker, tag: FETCH, address, lines: 1 };
            self.ask_own_memory(self.spec.request_overhead_bytes, packet, wires);
        }
        if self.ask_at <= wires.now
            && let Some(read) = engine.read(self.spec.max_read_bytes.into())
        {
            let setup = if read.is_first { self.setup_cycles } else { 0 };
            // As fast as the link brings it, so that nothing has to be kept.
            let per_line = BLOCK_BYTES as u32 + self.spec.completion_overhead_bytes;
            let bytes = u32::from(read.lines) * per_line + self.spec.ack_bytes;
            self.ask_at = wires.now + setup + self.into.cycles(bytes).max(1);
            self.ask(setup, read.address, read.lines, wires);
            if engine.wants_to_read() {
                wires.wheel.at(self.ask_at, Event::Ni(ENGINE));
            }
        }
        self.engine = Some(engine);
    }

    /// Asks for lines, of this node or of another one.
    fn ask(&mut self, setup: u64, address: u64, lines: u16, wires: &mut Wires) {
        let asker = Asker::Engine(self.nid);
        let read = |address| Packet::Read { asker, tag: DATA, address, lines };
        let bytes = u64::from(lines) * BLOCK_BYTES;
        match self.amt.lookup(address, bytes) {
            Ok(Target { destination, address }) => {
                let cycle = wires.now + setup;
                depart(cycle, destination, read(address), wires);
            }
            Err(_) => self.ask_own_memory(self.spec.request_overhead_bytes, read(address), wires),
        }
    }

    /// A line for the engine.
    fn engine_data(&mut self, tag: u32, block: Block, wires: &mut Wires) {
        let Some(engine) = &mut self.engine else { return };
        if tag == FETCH {
            engine.fetched(&block);
            return self.schedule_engine(wires);
        }
        let Some(write) = engine.data(block) else { return };
        let payload_bytes = write.blocks.len() as u32 * BLOCK_BYTES as u32;
        let to = self.amt.lookup(write.to, BLOCK_BYTES);
        for (index, block) in write.blocks.into_iter().enumerate() {
            let offset = index as u64 * BLOCK_BYTES;
            // The TLP's bytes count once, with its first line.
            let tlp_bytes = if index == 0 { payload_bytes } else { 0 };
            match to {
                Ok(Target { destination, address }) => {
                    let (address, asker) = (address + offset, None);
                    let packet = Packet::Write { address, block, asker, tlp_bytes };
                    depart(wires.now, destination, packet, wires);
                    self.written(wires);
                }
                Err(_) => {
                    let (address, asker) =
                        (write.to + offset, Some((Asker::Engine(self.nid), DATA)));
                    let packet = Packet::Write { address, block, asker, tlp_bytes };
                    let header = if index == 0 { self.spec.request_overhead_bytes } else { 0 };
                    self.ask_own_memory(header + tlp_bytes, packet, wires);
                }
            }
        }
        self.dma_write_tlps.add(wires.now);
        self.schedule_engine(wires);
    }

    /// A line of the engine has been written.
    fn written(&mut self, wires: &mut Wires) {
        let Some(engine) = &mut self.engine else { return };
        if engine.written() {
            let done = engine.done();
            let address = self.status_address;
            let offset = (address % BLOCK_BYTES) as usize;
            let block = Block::write(offset, &done.to_le_bytes());
            let (address, asker) = (address - offset as u64, None);
            let packet = Packet::Write { address, block, asker, tlp_bytes: 8 };
            self.ask_own_memory(self.spec.request_overhead_bytes + 8, packet, wires);
        }
        self.schedule_engine(wires);
    }

    /// The engine goes on in this cycle or when it may.
    fn schedule_engine(&mut self, wires: &mut Wires) {
        wires.wheel.at(self.ask_at.max(wires.now + 1), Event::Ni(ENGINE));
    }

    /// Descriptors have been posted.
    pub fn ring_doorbell(&mut self, wires: &mut Wires) {
        let delay = self.root_cycles + self.hop_cycles;
        wires.wheel.at(wires.now + delay.max(1), Event::Ni(ENGINE));
    }

    /// A packet of the engine to the node beside it.
    fn ask_own_memory(&mut self, bytes: u32, packet: Packet, wires: &mut Wires) {
        let left = self.into.send(wires.now, bytes);
        let delay = left + self.hop_cycles + self.root_cycles - wires.now;
        wires.hand(delay, Part::Rrpp(0), Payload::Tlp(packet));
    }
}

impl Interface for Window {
    const STATISTICS: &'static [Simulated] = &[Simulated::Program, Simulated::Window];

    fn places(_placement: Placement) -> Places {
        Places { engines: Side::Tiles, ni_caches: Side::Tiles, frontends: None }
    }

    fn check_programs(_machine: &Machine, nodes: u16) -> Result<(), String> {
        let why = "ni.placement: is \"window\", where nodes borrow of each other; use -n 2 or more";
        if nodes < 2 { Err(why.to_owned()) } else { Ok(()) }
    }

    fn new(nid: u16, _nodes: u16, machine: &Machine, _layout: &Layout) -> Window {
        let spec = machine.window;
        let per_cycle = spec.link_bytes_per_ns().map(|bytes| bytes / machine.clock_ghz);
        Window {
            nid,
            spec,
            amt: Amt::new(WINDOW_SLOTS, machine.memory.size_bytes, spec.lent_bytes),
            engine: None,
            status_address: 0,
            orq: Orq::new(spec.outstanding as usize),
            unanswered: Slab::default(),
            inbound: Inbound::new(spec.accesses as usize, true),
            out: Wire::new(per_cycle),
            into: Wire::new(per_cycle),
            root_cycles: machine.cycles(spec.root_ns),
            hop_cycles: machine.cycles(machine.network.hop_latency_ns),
            setup_cycles: machine.cycles(spec.dma_setup_ns),
            ask_at: 0,
            tlps: Seen::default(),
            dma_write_tlps: Seen::default(),
            reads: 0,
            read_cycles: 0,
            writes: 0,
            cycle_ns: 1.0 / machine.clock_ghz,
        }
    }

    fn entry(&self, _payload: &Payload, _layout: &Layout) -> (Part, u64) {
        (Part::Window, 0)
    }

    fn receive(&mut self, to: Part, payload: Payload, tiles: &mut [Tile], wires: &mut Wires) {
        match (to, payload) {
            (Part::Engine(n), Payload::Coherence { line, .. }) => {
                tiles[usize::from(n)].taken(line, wires);
            }
            (
                Part::Rrpp(_),
                Payload::Coherence { line, message: Message::Response(response), .. },
            ) => self.response(line, response, wires),
            (_, Payload::MemoryRead { line, .. }) => {
                self.orq.ask(line, wires.now);
                self.leave(wires);
            }
            (_, Payload::MemoryWrite { line, data }) => {
                self.write(line, data, None, wires);
            }
            (_, Payload::ThroughWrite { line, data, from }) => {
                self.through(line, data, from, wires);
            }
            // The link is behind it.
            (Part::Rrpp(_), Payload::Tlp(packet)) => self.arrive(packet, wires),
            (_, Payload::Tlp(packet)) => self.come(packet, wires),
            (to, other) => panic!("{to} got {other:?}"),
        }
    }

    fn happen(&mut self, timer: Timer, _tiles: &mut [Tile], wires: &mut Wires) {
        if timer == READ { self.leave(wires) } else { self.run_engine(wires) }
    }

    fn under_way(&self, _tiles: &[Tile]) -> Vec<String> {
        let engine = self.engine.as_ref();
        let descriptors = engine.map_or(0, |engine| engine.posted() - engine.done());
        let stores = self.unanswered.len();
        let accesses = self.orq.len() + stores + self.inbound.under_way();
        let is_busy = accesses as u64 + descriptors > 0;
        let text = format!("window: {accesses} accesses, {descriptors} descriptors");
        is_busy.then_some(text).into_iter().collect()
    }

    fn write_stats(&self, _tiles: &[Tile], wires: &Wires, stats: &mut Figures) {
        let ns = |seen: Seen| (seen.last - seen.first) as f64 * self.cycle_ns;
        for (name, value) in [
            ("tlps", self.tlps.count as f64),
            ("tlps_ns", ns(self.tlps)),
            ("dma_write_tlps", self.dma_write_tlps.count as f64),
            ("dma_write_tlps_ns", ns(self.dma_write_tlps)),
            ("reads", self.reads as f64),
            ("writes", self.writes as f64),
            ("most_outstanding", self.orq.most() as f64),
            ("through_writes", wires.counts.through_writes as f64),
            ("through_dropped", wires.counts.through_dropped as f64),
            ("prefetches", wires.counts.prefetches as f64),
        ] {
            stats.insert(format!("window.{name}"), value);
        }
        let read_ns = self.read_cycles as f64 * self.cycle_ns;
        stats.mean("window.read_mean_ns".to_owned(), read_ns, self.reads as f64);
    }
}

/// A packet leaves for another node.
fn depart(cycle: Cycle, to: u16, packet: Packet, wires: &mut Wires) {
    wires.departures.push(Departure { cycle, to, payload: Payload::Tlp(packet) });
}

/// Tells a core that a store of a line is done.
fn free_buffer(delay: u64, line: Line, from: Party, wires: &mut Wires) {
    let to = wires.layout.part_of(from);
    let message = Message::Response(Response::Updated(None));
    let payload = Payload::Coherence { line, from: None, message };
    wires.send_after(delay, Part::Window, to, payload);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::load;

    /// Lines that several nodes write at the same time share the link to their lender.
    #[test]
    fn what_others_send_is_no_faster_than_the_link() {
        let machine = load("pcie-ntb", &[]).unwrap();
        let mut wires = Wires::new(&machine, 0, 5).unwrap();
        let mut window = Window::new(0, 5, &machine, &wires.layout);
        let packet = Packet::Write { address: 0, block: Block::ZERO, asker: None, tlp_bytes: 64 };
        for _ in 0..100 {
            window.receive(Part::Window, Payload::Tlp(packet), &mut [], &mut wires);
        }
        // The first one came while the link was free; each takes 88 bytes of it, at 4 bytes in 3.4 cycles.
        let cycles = 99.0 * 88.0 * 3.4 / 4.0;
        let busy = window.into.free_at() as f64;
        assert!((cycles..cycles + 80.0).contains(&busy), "{busy}");
    }
}
