//! A tile: a core with its L1 and, if its NI is there, the NI cache behind the L1 with the
//! frontends; and an NI cache that is a party of its own, at the edge or in a tile.

use super::back_side::BackSide;
use super::cache::{Back, CacheSpec, PrivateCache};
use super::core::Core;
use super::cpu::Cpu;
use super::driver::{Asked, Driver};
use super::front::{Front, QueueCache};
use super::integrated::Integrated;
use super::layout::{Layout, Part};
use super::message::Payload;
use super::probe::{Mark, ReadId};
use super::uncached::Homes;
use super::wires::Wires;
use crate::block::{Block, Line};
use crate::coherence::{Message, l1};
use crate::engine::Cycle;
use crate::machine::Machine;
use crate::machine::spec::{NiCacheKind, Placement};

/// A tile: one core or what stands for it, its L1, and the NI if that is here.
#[derive(Clone, Debug)]
pub struct Tile {
    /// The stand-in for the core, where no program is executed.
    pub core: Core,
    /// The core, once it executes a program.
    pub cpu: Option<Cpu>,
    /// The core's cache that the directory knows: its L1, or the L2 behind a write-through L1.
    pub l1: PrivateCache,
    /// Accesses to the L1 by others than the core and the NI, such as tests.
    pub driver: Driver,
    /// NI cache and frontends behind the L1, if the queue pair is served there.
    pub ni: Option<BehindL1>,
}

/// NI cache and frontends behind an L1.
#[derive(Clone, Debug)]
pub struct BehindL1 {
    /// NI cache at the back side of the L1 (Manycore NI §3.4).
    pub cache: BackSide,
    /// The frontends of the tile's queue pair.
    pub front: Front,
}

/// An NI cache with a number of its own, or what is there instead, and the frontends that use it.
#[derive(Clone, Debug)]
pub struct NiCache {
    /// Their way to the queues.
    pub cache: OwnCache,
    /// The frontends.
    pub front: Front,
}

/// The way of frontends outside of L1s to their queues.
#[derive(Clone, Debug)]
pub enum OwnCache {
    /// A cache, which acts like an L1.
    Cache(PrivateCache),
    /// None: the queues are used in their homes.
    Homes(Homes),
}

impl Tile {
    /// Tile `number` of node `nid`.
    pub fn new(number: u16, nid: u16, nodes: u16, machine: &Machine) -> Tile {
        let part = Part::Tile(number);
        let in_tile = matches!(machine.ni.placement, Placement::PerTile | Placement::Split)
            && machine.ni.cache == NiCacheKind::BackSide;
        let back = match in_tile {
            true => Back::NiCache(machine.ni.back_side_cycles.into()),
            false => Back::Network,
        };
        let mut l1 = PrivateCache::new(&CacheSpec { back, ..CacheSpec::of_core(part, machine) });
        l1.integrated = Integrated::of(number, machine);
        Tile {
            core: Core::new(number, nid, nodes, machine),
            cpu: None,
            l1,
            driver: Driver::default(),
            ni: in_tile.then(|| BehindL1 {
                cache: BackSide::new(number, machine),
                front: Front::new(part, [number].into_iter(), machine, nodes),
            }),
        }
    }

    /// Takes a message.
    pub fn receive(&mut self, payload: Payload, wires: &mut Wires) {
        match (payload, &mut self.ni) {
            (Payload::Coherence { line, message, .. }, None) => {
                self.l1_receives(line, message, wires)
            }
            (Payload::Coherence { line, message, .. }, Some(ni)) => {
                let complete = ni.cache.take_from_network(line, message, wires);
                ni.changed(line, complete, wires);
            }
            (Payload::ToL1 { line, message }, _) => self.l1_receives(line, message, wires),
            (Payload::ToBackSide { line, to, message }, Some(ni)) => {
                let complete = ni.cache.take_from_l1(line, to, message, wires);
                ni.changed(line, complete, wires);
            }
            (Payload::Completion { qp, slot, status, bytes }, Some(ni)) => {
                wires.probe.mark(ReadId { core: qp, slot }, Mark::AtFrontend, wires.head_at());
                ni.front.complete(qp, slot, status, bytes, wires);
            }
            (other, _) => panic!("a tile got {other:?}"),
        }
    }

    /// The core's next event.
    pub fn step(&mut self, wires: &mut Wires) {
        self.core.step(&mut self.l1, wires);
    }

    /// An access by somebody else than the core.
    pub fn ask(&mut self, asked: Asked, wires: &mut Wires) {
        self.driver.ask(asked, &mut self.l1, wires);
    }

    /// The store buffer's next event.
    pub fn drain(&mut self, wires: &mut Wires) {
        self.core.drain(&mut self.l1, wires);
    }

    /// Whether the interface in the private cache has room for a packet.
    pub fn has_room(&self, payload: &Payload, now: Cycle) -> bool {
        match (&self.l1.integrated, payload) {
            (Some(own), Payload::Scratchpad(packet)) => own.has_room(packet, now),
            _ => true,
        }
    }

    /// Cycles that an arrived payload is on its way through the private cache.
    pub fn pass_cache(&mut self, payload: &Payload, now: Cycle) -> u64 {
        match (&mut self.l1.integrated, payload) {
            (Some(own), Payload::Scratchpad(packet)) => own.pass(packet, now),
            _ => 1,
        }
    }

    /// A packet for the interface in the private cache.
    pub fn integrated(&mut self, payload: Payload, wires: &mut Wires) {
        let (Some(own), Payload::Scratchpad(packet)) = (&mut self.l1.integrated, payload) else {
            panic!("a tile without an interface got a packet");
        };
        if let Err(misuse) = own.arrive(&packet, wires) {
            wires.misused(self.core.number(), misuse);
        }
        own.take_changed(&mut self.l1.lost);
        self.told(wires);
    }

    /// Something that the core may wait for is there.
    pub fn told(&mut self, wires: &mut Wires) {
        if let Some(cpu) = &mut self.cpu {
            cpu.told(true, &mut self.l1, wires);
        }
    }

    /// The answer to the core's load from somebody else is there.
    pub fn loaded(&mut self, value: u64, wires: &mut Wires) {
        if let Some(own) = &mut self.l1.integrated {
            own.loaded(value);
        }
        if let Some(port) = self.cpu.as_mut().and_then(Cpu::device_port) {
            port.answered(value);
        }
        self.told(wires);
    }

    /// The root complex has taken a store of the core to borrowed memory.
    pub fn taken(&mut self, line: Line, wires: &mut Wires) {
        if let Some(through) = self.cpu.as_mut().and_then(Cpu::through) {
            through.taken(line, wires);
        }
        self.told(wires);
    }

    /// The outgoing traffic controller's next packet.
    pub fn pump_integrated(&mut self, wires: &mut Wires) {
        if let Some(own) = &mut self.l1.integrated {
            own.pump(wires);
            own.take_changed(&mut self.l1.lost);
        }
        self.told(wires);
    }

    fn l1_receives(&mut self, line: Line, message: Message<Block>, wires: &mut Wires) {
        let complete = self.l1.deliver(line, message, wires);
        if let Some(cpu) = &mut self.cpu {
            return cpu.told(complete, &mut self.l1, wires);
        }
        self.l1.lost.clear();
        self.core.changed(line, complete, &mut self.l1, wires);
        if complete {
            self.driver.resume(&mut self.l1, wires);
        }
    }
}

impl BehindL1 {
    /// Frontends that waited go on, then messages that waited.
    fn changed(&mut self, line: Line, complete: bool, wires: &mut Wires) {
        self.front.changed(line, complete, &mut self.cache, wires);
        while self.cache.resume(line, wires) {
            self.front.changed(line, true, &mut self.cache, wires);
        }
        self.front.changed(line, false, &mut self.cache, wires);
    }
}

impl NiCache {
    /// NI cache `number`, with the frontends of these queue pairs.
    pub fn new(number: u16, nodes: u16, machine: &Machine, layout: &Layout) -> NiCache {
        let part = Part::NiCache(number);
        let cache = CacheSpec {
            // Fully associative: the heads of its queues must not drive each other out.
            sets: 1,
            ways: machine.ni.cache_blocks,
            latency_cycles: machine.ni.cache_latency_cycles,
            ..CacheSpec::of_core(part, machine)
        };
        let mine = |&tile: &u16| layout.front_of(tile) == part;
        NiCache {
            cache: match machine.ni.placement {
                Placement::Uncached => OwnCache::Homes(Homes::new(number)),
                _ => OwnCache::Cache(PrivateCache::new(&cache)),
            },
            front: Front::new(part, (0..layout.tiles).filter(mine), machine, nodes),
        }
    }

    /// Takes a message.
    pub fn receive(&mut self, payload: Payload, wires: &mut Wires) {
        match payload {
            Payload::Coherence { line, message, .. } => {
                let complete = self.cache.deliver(line, message, wires);
                self.front.changed(line, complete, &mut self.cache, wires);
            }
            Payload::Completion { qp, slot, status, bytes } => {
                wires.probe.mark(ReadId { core: qp, slot }, Mark::AtFrontend, wires.head_at());
                self.front.complete(qp, slot, status, bytes, wires);
            }
            other => panic!("an NI cache got {other:?}"),
        }
    }
}

impl OwnCache {
    /// Takes a message; whether accesses that had to wait may be tried again.
    fn deliver(&mut self, line: Line, message: Message<Block>, wires: &mut Wires) -> bool {
        match self {
            OwnCache::Cache(cache) => cache.deliver(line, message, wires),
            OwnCache::Homes(homes) => {
                homes.deliver(line, message, wires);
                true
            }
        }
    }

    /// The state of a block and its content, for checks.
    pub fn peek(&self, line: Line) -> (l1::State, Block) {
        match self {
            OwnCache::Cache(cache) => cache.peek(line),
            OwnCache::Homes(_) => (l1::State::I, Block::ZERO),
        }
    }

    /// Blocks in transition.
    pub fn in_transition(&self) -> usize {
        match self {
            OwnCache::Cache(cache) => cache.in_transition(),
            OwnCache::Homes(homes) => homes.under_way(),
        }
    }
}

impl QueueCache for OwnCache {
    fn read(&mut self, line: Line, wires: &mut Wires) -> Option<[u64; 8]> {
        match self {
            OwnCache::Cache(cache) => cache.load(line, wires),
            OwnCache::Homes(homes) => homes.read(line, wires),
        }
    }

    fn write(&mut self, line: Line, word: usize, value: u32, wires: &mut Wires) -> bool {
        match self {
            OwnCache::Cache(cache) => {
                cache.store(line, wires, |words| put_word(words, word, value))
            }
            OwnCache::Homes(homes) => homes.write(line, word, value, wires),
        }
    }

    fn is_readable(&self, line: Line) -> bool {
        match self {
            OwnCache::Cache(cache) => cache.is_readable(line),
            OwnCache::Homes(_) => false,
        }
    }

    fn stores_to(&self, qp: u16, layout: &Layout) -> bool {
        match self {
            OwnCache::Cache(_) => false,
            OwnCache::Homes(homes) => homes.stores_to(qp, layout),
        }
    }
}

/// Puts 4 bytes into a block.
pub(super) fn put_word(words: &mut [u64; 8], word: usize, value: u32) {
    let shift = word % 2 * 32;
    let place = &mut words[word / 2];
    *place = *place & !(0xffff_ffff << shift) | u64::from(value) << shift;
}
