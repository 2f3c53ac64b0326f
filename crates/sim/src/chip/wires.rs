//! The wires between the parts of a chip: the network on chip, short wires inside a tile, and time.

use std::collections::VecDeque;

use rackmem_abi::Op;
use rackmem_riscv::space::PAGE;
use rackmem_rmc::Work;

use super::bridge::SentFrame;
use super::counts::Counts;
use super::image::Image;
use super::layout::{Layout, Part, Queue};
use super::lock_box::LockBox;
use super::map::AddressMap;
use super::message::{Letter, NetPacket, Payload, UNTRACED, header};
use super::mmu::Mmu;
use super::ni::Timer;
use super::probe::Probe;
use super::trace::Trace;
use crate::block::{BLOCK_BYTES, Block, Line};
use crate::coherence::{Message, Party};
use crate::engine::{Cycle, Slab, Wheel};
use crate::interconnect::lane;
use crate::machine::Machine;
use crate::machine::spec::Placement;
use crate::measure::Histogram;
use crate::noc::{self, Network};
use crate::scratchpad::Misuse;

/// Something that happens at a certain cycle.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// A letter reaches its part without the network.
    Arrive(u32),
    /// A home may have room for requests from its own tile.
    Admit(u16),
    /// A letter enters the network at this part.
    Enter(u32, Part),
    /// A request has been through the bank of its home; whether it had been before, and then waited.
    LookedUp(u32, bool),
    /// A core goes on.
    Core(u16),
    /// A core's store buffer goes on.
    Drain(u16),
    /// A memory controller gives a command.
    Memory(u16),
    /// A core that executes a program goes on.
    Cpu(u16),
    /// A line is in a core's write-through L1, or a store has been over the lock box's bus.
    Filled(u16),
    /// The answer to a core's load from somebody else is there.
    Loaded(u16, u64),
    /// Something of the network interfaces is due.
    Ni(Timer),
}

/// Something that has left the chip for another one.
#[derive(Clone, Copy, Debug)]
pub struct Departure {
    /// Cycle in which its first flit leaves; the time to the other node is added later.
    pub cycle: Cycle,
    /// Number of the receiving node.
    pub to: u16,
    /// A packet of the network interfaces.
    pub payload: Payload,
}

/// A change of a block that its home has made for a network interface.
#[derive(Clone, Copy, Debug)]
pub struct Updated {
    /// Block that has changed.
    pub line: Line,
    /// Network interface that asked for the change.
    pub party: Party,
    /// Its content now.
    pub block: Block,
}

/// The way in which executing cores go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Cycle by cycle.
    Timed,
    /// Without timing.
    Fast,
    /// Not: caches are being warmed.
    Warming,
    /// Not: what the network interface has under way comes to its end.
    Held,
}

impl Pace {
    /// Whether the caches do not know of what cores have executed.
    pub fn is_untimed(self) -> bool {
        matches!(self, Pace::Fast | Pace::Held)
    }
}

/// Network, time and shared state of a chip's parts.
pub struct Wires {
    /// Cycle that is being simulated.
    pub now: Cycle,
    /// Number of the chip's node.
    pub nid: u16,
    /// Homes, controllers and endpoints by address and part.
    pub layout: Layout,
    /// The network on chip.
    pub net: Network,
    /// Events to come, by cycle.
    pub wheel: Wheel<Event>,
    /// Messages in the network on chip; packets name them by index.
    pub letters: Slab<Letter>,
    /// Cycles by which the head of the message that a part takes now has come before its tail; 0 if it has not come
    /// through the network on chip.
    pub ahead: u64,
    /// The most cycles by which the head of a packet leaves the chip before its last flit has come.
    pub most_ahead: u64,
    /// Packets that wait for the interface that they leave by, with the first cycle in which they may.
    pub outbound: VecDeque<(Cycle, NetPacket)>,
    /// What has left for other chips.
    pub departures: Vec<Departure>,
    /// Frames of links that have left for other chips.
    pub frames: Vec<SentFrame>,
    /// Interrupt lines that devices of other nodes have asserted, for the operating system.
    pub interrupts: Vec<u8>,
    /// Counters of the whole run, which reports list.
    pub counts: Counts,
    /// Moments of the reads under way, for the breakdown of their latency.
    pub probe: Probe,
    /// Latencies of asynchronous reads, since they were last taken.
    pub latencies: Histogram,
    /// Events of chosen reads.
    pub trace: Trace,
    /// Content of memory, if programs are executed: caches and homes have rights only.
    pub image: Option<Image>,
    /// Pages and decoded instructions of the executed program, for cores and network interfaces.
    pub mmu: Mmu,
    /// Executing cores that have a cycle now, and in the next cycle: a bit each.
    pub cpus_now: u128,
    /// Those of the next cycle.
    pub cpus_next: u128,
    /// Whether the network interfaces have a cycle now.
    pub ni_now: bool,
    /// Whether they have one in the next cycle.
    pub ni_next: bool,
    /// Hardware locks.
    pub lock_box: LockBox,
    /// What is at which address.
    pub map: AddressMap,
    /// The way in which executing cores go on.
    pub pace: Pace,
    /// Without timing, cores stay where a region of interest begins.
    pub holds_at_begin: bool,
    /// Cores without timing that have touched memory of which the caches have not heard: a bit each.
    pub unheard: u128,
    /// Caches hear of all that before any of these cores goes on.
    pub hears: bool,
    /// Cores that have asked for that and have not gone on: a bit each.
    pub asks: u128,
    /// Blocks that all homes together hold.
    pub shared_lines: usize,
    /// Blocks that cores without timing have changed in this cycle.
    pub changed: Vec<Line>,
    /// Act of a core that no program may do, for the operating system.
    pub misuse: Option<(u16, Misuse)>,
    /// Changes that homes have made for network interfaces, in order, if somebody wants to know.
    pub updates: Option<Vec<Updated>>,
    link_bytes: u32,
    header_bytes: u32,
    local_cycles: u64,
    port_packets: usize,
    /// Links between endpoints, by source and destination.
    hops: Vec<u8>,
}

impl Wires {
    /// The wires of a chip.
    ///
    /// # Errors
    /// The error of [`Network::new`].
    pub fn new(machine: &Machine, nid: u16, seed: u64) -> Result<Wires, noc::SpecError> {
        let net = Network::new(&super::noc_spec::of(machine), seed)?;
        let hops = all_hops(&net);
        Ok(Wires {
            now: 0,
            nid,
            layout: Layout::new(machine),
            map: AddressMap::new(machine),
            net,
            hops,
            wheel: Wheel::default(),
            letters: Slab::default(),
            ahead: 0,
            most_ahead: most_ahead(machine),
            outbound: VecDeque::new(),
            departures: Vec::new(),
            frames: Vec::new(),
            interrupts: Vec::new(),
            counts: Counts::default(),
            probe: Probe::new(machine),
            latencies: Histogram::default(),
            trace: Trace::default(),
            updates: None,
            image: None,
            mmu: Mmu::default(),
            lock_box: LockBox::new(machine),
            pace: Pace::Timed,
            holds_at_begin: false,
            unheard: 0,
            hears: false,
            asks: 0,
            shared_lines: 0,
            changed: Vec::new(),
            misuse: None,
            cpus_now: 0,
            cpus_next: 0,
            ni_now: false,
            ni_next: false,
            link_bytes: machine.noc.link_bytes,
            header_bytes: machine.noc.header_bytes,
            local_cycles: u64::from(machine.noc.local_cycles),
            port_packets: machine.noc.port_packets as usize,
        })
    }

    /// An executing core has a cycle now, after all messages.
    #[inline]
    pub fn tick_now(&mut self, cpu: u16) {
        self.cpus_now |= 1 << cpu;
    }

    /// An executing core has a cycle in the next cycle.
    #[inline]
    pub fn tick_next(&mut self, cpu: u16) {
        self.cpus_next |= 1 << cpu;
    }

    /// A core has done what no program may do; the first one is what its program ends with.
    pub fn misused(&mut self, core: u16, misuse: Misuse) {
        self.misuse.get_or_insert((core, misuse));
    }

    /// The content of a block, if programs are executed: then caches and homes do not know.
    #[inline]
    pub fn content(&self, line: Line) -> Option<Block> {
        self.image.as_ref().map(|image| Block::from_words(image.block(line)))
    }

    /// The block in which a byte of a local buffer is; buffers of programs have virtual addresses. `None` if the
    /// program has given the page back.
    pub fn local_line(&self, address: u64) -> Option<Line> {
        if self.image.is_none() {
            return Some(address / BLOCK_BYTES);
        }
        let page = self.mmu.page(address)?;
        Some((page.phys + address % PAGE) / BLOCK_BYTES)
    }

    /// Whether an operation can use its local buffer.
    pub fn has_buffer(&self, work: &Work) -> bool {
        if self.image.is_none() || work.length == 0 {
            return true;
        }
        let last = work.buffer + u64::from(work.length) - 1;
        let is_stored_to = work.op != Op::Write;
        (work.buffer / PAGE..=last / PAGE).all(|number| {
            let page = self.mmu.page(number * PAGE);
            page.is_some_and(|page| page.permissions.read)
                && (!is_stored_to || page.is_some_and(|page| page.permissions.write))
        })
    }

    /// Sends a message now.
    #[inline]
    pub fn send(&mut self, from: Part, to: Part, payload: Payload) {
        let trace = self.trace.sent(self.now, from, to, &payload);
        let tag = self.letters.put(Letter { to, payload, trace });
        self.enter(tag, from);
    }

    /// Sends a message about a block to its home, from a part without a cache.
    #[inline]
    pub fn ask_home(&mut self, from: Part, line: Line, message: Message<Block>) {
        let home = Part::Home(self.layout.home_of(line));
        let party = Some(self.layout.party_of(from));
        self.send(from, home, Payload::Coherence { line, from: party, message });
    }

    /// Sends a message in `delay` cycles.
    #[inline]
    pub fn send_after(&mut self, delay: u64, from: Part, to: Part, payload: Payload) {
        if delay == 0 {
            return self.send(from, to, payload);
        }
        let trace = self.trace.sent(self.now + delay, from, to, &payload);
        let tag = self.letters.put(Letter { to, payload, trace });
        self.wheel.at(self.now + delay, Event::Enter(tag, from));
    }

    /// Has something happen at `cycle`, unless it happens before. `next` is the cycle in which it will, as far as that
    /// is to come.
    #[inline]
    pub fn happen_by(&mut self, next: &mut Cycle, cycle: Cycle, event: Event) {
        if *next <= self.now || *next > cycle {
            *next = cycle;
            self.wheel.at(cycle, event);
        }
    }

    /// Hands a message to a part in `delay` cycles, at least 1, by a wire of its own.
    #[inline]
    pub fn hand(&mut self, delay: u64, to: Part, payload: Payload) {
        let tag = self.letters.put(Letter { to, payload, trace: UNTRACED });
        self.wheel.at(self.now + delay.max(1), Event::Arrive(tag));
    }

    /// A letter enters the network, or crosses its tile.
    #[inline]
    pub fn enter(&mut self, tag: u32, from: Part) {
        let letter = self.letters.get(tag);
        let (src, dst) = (self.layout.endpoint(from), self.layout.endpoint(letter.to));
        if src == dst {
            self.wheel.at(self.now + self.local_cycles, Event::Arrive(tag));
            return;
        }
        let bytes = self.header_bytes + letter.payload.bytes();
        self.net.send(noc::Packet {
            src,
            dst,
            vnet: letter.payload.vnet(),
            flits: bytes.div_ceil(self.link_bytes) as u8,
            class: class_of(from, letter.to),
            flow: flow_of(&letter.payload),
            tag,
        });
    }

    /// The part that has a block, behind its home.
    #[inline]
    pub fn memory_of(&self, line: Line) -> Part {
        match self.map.is_borrowed(line) {
            true => Part::Window,
            false => Part::Memory(self.layout.controller_of(line)),
        }
    }

    /// Counts a message of the coherence protocol.
    #[inline]
    pub fn count_message(&mut self, line: Line) {
        match self.layout.queue_of(line) {
            Some(Queue::Work) => self.counts.wq_messages += 1,
            Some(Queue::Completion) => self.counts.cq_messages += 1,
            None => {}
        }
    }

    /// Packets that a part may send now: so many may wait for the network at its endpoint before it stalls.
    #[inline]
    pub fn room_at_port(&self, at: Part, vnet: u8) -> usize {
        self.port_packets.saturating_sub(self.net.queued(self.layout.endpoint(at), vnet))
    }

    /// Whether a part may send another packet.
    #[inline]
    pub fn port_has_room(&self, at: Part, vnet: u8) -> bool {
        self.room_at_port(at, vnet) > 0
    }

    /// Links between two parts.
    #[inline]
    pub fn hops(&self, from: Part, to: Part) -> u64 {
        let (src, dst) = (self.layout.endpoint(from), self.layout.endpoint(to));
        u64::from(self.hops[usize::from(src) * self.net.endpoints() + usize::from(dst)])
    }

    /// When the head of the message that a part takes now has come. Flits count as coming without gaps, so that of a
    /// packet which was held up on its way counts as later than it was.
    #[inline]
    pub fn head_at(&self) -> Cycle {
        self.now - self.ahead
    }

    /// When so many stages of a network interface have done with the message that it takes now. They begin with the
    /// head, which says what to do (Manycore NI Fig. 4); what they send needs the tail.
    #[inline]
    pub fn done_at(&self, stages: u64) -> Cycle {
        (self.head_at() + stages).max(self.now)
    }

    /// Flits of a packet between chips, whose links are as wide as those on the chip.
    #[inline]
    pub fn flits_between(&self, packet: &NetPacket) -> u64 {
        u64::from(packet.bytes().div_ceil(self.link_bytes))
    }

    /// When the first flit of a packet leaves the chip that so many stages make of the message which they take now:
    /// they pass flits on as these come, so its last flit leaves no earlier than the last one has come.
    #[inline]
    pub fn leaves_at(&self, stages: u64, packet: &NetPacket) -> Cycle {
        let ahead = (self.flits_between(packet) - 1).min(self.most_ahead);
        (self.head_at() + stages).max(self.now - ahead)
    }

    /// A request is ready to leave the chip.
    pub fn depart(&mut self, packet: NetPacket) {
        self.outbound.push_back((self.leaves_at(0, &packet), packet));
    }

    /// The head of something leaves the chip in this cycle, which may be over.
    pub fn depart_at(&mut self, cycle: Cycle, to: u16, payload: Payload) {
        self.departures.push(Departure { cycle, to, payload });
    }

    /// Something leaves the chip in `delay` cycles.
    pub fn depart_after(&mut self, delay: u64, to: u16, payload: Payload) {
        self.depart_at(self.now + delay, to, payload);
    }
}

fn all_hops(net: &Network) -> Vec<u8> {
    let endpoints = 0..net.endpoints();
    let pairs = endpoints.clone().flat_map(|src| endpoints.clone().map(move |dst| (src, dst)));
    let hops = |(src, dst)| net.topology().hops(noc::Order::Xy, src, dst).len() as u8;
    pairs.map(hops).collect()
}

/// From one node to another.
pub(crate) fn latency_cycles(machine: &Machine) -> Cycle {
    if machine.ni.placement == Placement::Bridge {
        // Frames know when they arrive: this is the least time that one takes.
        let least_ns = lane::Times::new(&machine.extension).least_ps() as f64 / 1000.0;
        return (least_ns * machine.clock_ghz) as Cycle;
    }
    machine.cycles(machine.network.hop_latency_ns) * Cycle::from(machine.network.hops)
}

/// [`Wires::most_ahead`]: the flits of a block behind its header, but less than packets are on their way.
fn most_ahead(machine: &Machine) -> u64 {
    if !machine.ni.placement.can_be_mirrored() {
        return 0;
    }
    let behind = (BLOCK_BYTES as u32).div_ceil(machine.noc.link_bytes);
    u64::from(behind).min(latency_cycles(machine).saturating_sub(1))
}

/// The class of a message, by which some routings choose its way (Manycore NI §4.3).
#[inline]
fn class_of(from: Part, to: Part) -> noc::Class {
    match (from, to) {
        (Part::Home(_), Part::Memory(_)) => noc::Class::MemoryRequest,
        (Part::Home(_), _) => noc::Class::Directory,
        _ => noc::Class::Other,
    }
}

/// Messages of one flow stay in order where the network is asked for it: those about one block.
#[inline]
fn flow_of(payload: &Payload) -> u32 {
    let line = match payload {
        Payload::Coherence { line, .. }
        | Payload::MemoryRead { line, .. }
        | Payload::MemoryWrite { line, .. }
        | Payload::MemoryData { line, .. } => *line,
        Payload::Net(NetPacket { packet, .. }) => header(packet).offset / BLOCK_BYTES,
        Payload::ThroughWrite { line, .. } => *line,
        _ => 0,
    };
    // Neighbouring blocks take different virtual channels and ways.
    (line.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as u32
}
