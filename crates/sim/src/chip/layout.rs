//! The places of everything: homes, controllers and RRPPs by address; endpoints of the network on chip by
//! part.

use rackmem_abi::{Packet, Request, WQ_ENTRY_BYTES};

use super::message::NetPacket;
use super::ni::{Places, Side};
use crate::block::{BLOCK_BYTES, Line};
use crate::coherence::Party;
use crate::machine::Machine;
use crate::machine::spec::{Contents, NiCacheKind, NocTopology};
use crate::scratchpad::{Regions, Target};

/// Local buffers begin here (1 GiB).
pub const BUFFER_LINE: Line = 1 << 24;

/// The context segment begins here (64 GiB); page-aligned, as RRPP interleaving needs it.
pub const SEGMENT_LINE: Line = 1 << 30;

/// First party without a cache: RRPPs, then RGPs and RCPs.
const FIRST_UNIT: Party = 256;
const FIRST_ENGINE: Party = 512;

/// A part of the chip that messages can be for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// A core with its L1, and the NI frontend and cache behind it.
    Tile(u16),
    /// A home: LLC bank and directory slice.
    Home(u16),
    /// A memory controller, with the DRAM behind it.
    Memory(u16),
    /// An NI cache with a number of its own: at the edge, or separate in a tile; or the L1 of the
    /// chip's RMC, with what is behind it.
    NiCache(u16),
    /// RGP and RCP, or their backends.
    Engine(u16),
    /// The remote request processing pipeline of a network interface at the edge.
    Rrpp(u16),
    /// A port of the network router: an edge tile.
    Port(u16),
    /// The network interface in a tile's private cache.
    Integrated(u16),
    /// The DMA engine at the first memory controller.
    Dma,
    /// The window of borrowed memory.
    Window,
}

impl std::fmt::Display for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Part::Tile(n) => write!(f, "tile[{n}]"),
            Part::Home(n) => write!(f, "home[{n}]"),
            Part::Memory(n) => write!(f, "memory[{n}]"),
            Part::NiCache(n) => write!(f, "ni_cache[{n}]"),
            Part::Engine(n) => write!(f, "rmc[{n}]"),
            Part::Rrpp(n) => write!(f, "rrpp[{n}]"),
            Part::Port(n) => write!(f, "port[{n}]"),
            Part::Integrated(n) => write!(f, "integrated_ni[{n}]"),
            Part::Dma => f.write_str("dma"),
            Part::Window => f.write_str("window"),
        }
    }
}

/// The geometry of a chip.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Columns of tiles, without those of NIs and memory controllers.
    pub columns: u16,
    /// Tiles: columns times rows.
    pub tiles: u16,
    /// Homes: one per LLC bank.
    pub homes: u16,
    /// Network interfaces at the edge: RRPPs, ports, backends.
    pub units: u16,
    /// Memory controllers: addresses alternate between them by `memory.interleave_bytes`.
    pub controllers: u16,
    places: Places,
    /// Whether NI caches in tiles are behind the L1s, and no parts of their own.
    behind_l1s: bool,
    topology: NocTopology,
    /// First endpoint of homes that have endpoints of their own.
    homes_at: Option<u16>,
    lines_per_turn: u64,
    wq_lines: u64,
    queue_lines: u64,
}

impl Layout {
    /// The geometry of a machine's chips.
    pub fn new(machine: &Machine) -> Layout {
        let tiles = machine.tiles.columns * machine.tiles.rows;
        let homes = machine.llc_banks() as u16;
        let units = machine.edge_places() as u16;
        let own_homes = machine.has_own_banks();
        let entries = u64::from(machine.queue_entries());
        let wq_lines = (entries * 16).div_ceil(BLOCK_BYTES);
        let cq_lines = (entries * 4).div_ceil(BLOCK_BYTES);
        Layout {
            columns: machine.tiles.columns,
            tiles,
            homes,
            units,
            controllers: machine.memory.controllers,
            places: machine.ni.placement.places(),
            behind_l1s: machine.ni.cache == NiCacheKind::BackSide,
            topology: machine.noc.topology,
            homes_at: own_homes.then_some(tiles + units + machine.memory.controllers),
            lines_per_turn: machine.memory.interleave_bytes / BLOCK_BYTES,
            wq_lines,
            queue_lines: wq_lines + cq_lines,
        }
    }

    /// The home of a block: a function of its address only.
    #[inline]
    pub fn home_of(&self, line: Line) -> u16 {
        (line % u64::from(self.homes)) as u16
    }

    /// The block's number among those of its home, for indices of tables there.
    #[inline]
    pub fn index_at_home(&self, line: Line) -> u64 {
        line / u64::from(self.homes)
    }

    /// The memory controller of a block.
    #[inline]
    pub fn controller_of(&self, line: Line) -> u16 {
        (line / self.lines_per_turn % u64::from(self.controllers)) as u16
    }

    /// The block's number among those of its controller, without gaps.
    #[inline]
    pub fn index_at_controller(&self, line: Line) -> u64 {
        let turn = line / self.lines_per_turn / u64::from(self.controllers);
        turn * self.lines_per_turn + line % self.lines_per_turn
    }

    /// The RRPP nearest to a block's home (Manycore NI §4.3): its row's, or that of its LLC tile.
    #[inline]
    pub fn rrpp_of(&self, line: Line) -> u16 {
        match self.topology {
            NocTopology::NocOut => self.home_of(line),
            NocTopology::Mesh | NocTopology::Crossbar => self.home_of(line) / self.columns,
        }
    }

    /// The unit at the edge that a packet between chips goes to: the RRPP's whose home is nearest, or that of the RCP.
    pub fn unit_of_packet(&self, packet: &NetPacket) -> u16 {
        let NetPacket { packet, engine, .. } = packet;
        match packet {
            Packet::Request(Request { header, .. }) => self.rrpp_of_offset(header.offset),
            Packet::Reply(_) if self.engines_in_tiles() => self.unit_of_tile(*engine),
            Packet::Reply(_) => *engine,
        }
    }

    /// The RRPP of requests for an offset in the segment.
    pub fn rrpp_of_offset(&self, offset: u64) -> u16 {
        self.rrpp_of(SEGMENT_LINE + offset / BLOCK_BYTES)
    }

    /// The unit at the edge that serves a tile: its row's, or that of its column's LLC tile.
    #[inline]
    pub fn unit_of_tile(&self, tile: u16) -> u16 {
        match self.topology {
            NocTopology::NocOut => tile % self.columns,
            NocTopology::Mesh | NocTopology::Crossbar => tile / self.columns,
        }
    }

    /// The RGP and RCP that serve a tile.
    #[inline]
    pub fn engine_of_tile(&self, tile: u16) -> u16 {
        match self.places.engines {
            Side::Edge => self.unit_of_tile(tile),
            Side::Tiles => tile,
        }
    }

    /// The part with the frontend of a queue pair.
    #[inline]
    pub fn front_of(&self, qp: u16) -> Part {
        match self.places.frontends {
            Some(Side::Edge) => Part::NiCache(self.unit_of_tile(qp)),
            _ if self.behind_l1s => Part::Tile(qp),
            _ => Part::NiCache(qp),
        }
    }

    /// Whether RGP and RCP are in the tiles, so that packets cross the chip to the router; or the
    /// buffers of stores that go through.
    pub fn engines_in_tiles(&self) -> bool {
        self.places.engines == Side::Tiles
    }

    /// The endpoint of the network on chip at which a part is.
    pub fn endpoint(&self, part: Part) -> u16 {
        let noc_out = self.topology == NocTopology::NocOut;
        // LLC tiles of NOC-Out and edge tiles of a mesh have the same numbers.
        let unit = |n: u16| self.tiles + n;
        if let (Part::Home(n), Some(first)) = (part, self.homes_at) {
            return first + n;
        }
        match part {
            Part::Tile(n) | Part::Integrated(n) => n,
            Part::Home(n) if noc_out => unit(n),
            Part::Home(n) => n,
            Part::Memory(n) => self.tiles + self.units + n,
            Part::Dma => self.tiles + self.units,
            Part::Window => unit(0),
            Part::NiCache(n) if self.places.ni_caches == Side::Edge => unit(n),
            Part::NiCache(n) => n,
            Part::Engine(n) if self.engines_in_tiles() => n,
            Part::Engine(n) | Part::Rrpp(n) | Part::Port(n) => unit(n),
        }
    }

    /// The part to which packets for an address outside of ordinary memory go.
    pub fn part_of_target(&self, regions: &Regions, address: u64) -> Option<Part> {
        match regions.find(address)? {
            Target::Scratchpad { core, .. } | Target::Load(core) => Some(Part::Integrated(core)),
            Target::Dram { .. } => Some(Part::Dma),
            Target::Tag { .. } | Target::Lock(_) => None,
        }
    }

    /// The part that a party is.
    #[inline]
    pub fn part_of(&self, party: Party) -> Part {
        match party {
            FIRST_ENGINE.. => Part::Engine(party - FIRST_ENGINE),
            FIRST_UNIT.. => Part::Rrpp(party - FIRST_UNIT),
            _ if party < self.tiles => Part::Tile(party),
            _ => Part::NiCache(party - self.tiles),
        }
    }

    /// The party of a part that asks homes for blocks.
    #[inline]
    pub fn party_of(&self, part: Part) -> Party {
        match part {
            Part::Tile(n) => n,
            Part::NiCache(n) => self.tiles + n,
            Part::Rrpp(n) => FIRST_UNIT + n,
            Part::Engine(n) => FIRST_ENGINE + n,
            other => panic!("{other} is no party of the coherence protocol"),
        }
    }

    /// The block of a WQ entry. Queues of all cores follow each other without gaps, so that they
    /// are spread evenly over the homes.
    #[inline]
    pub fn wq_line(&self, qp: u16, slot: u32) -> Line {
        u64::from(qp) * self.queue_lines + u64::from(slot) * 16 / BLOCK_BYTES
    }

    /// The block of a CQ entry.
    #[inline]
    pub fn cq_line(&self, qp: u16, position: u32) -> Line {
        u64::from(qp) * self.queue_lines + self.wq_lines + u64::from(position) * 4 / BLOCK_BYTES
    }

    /// The slot of the WQ entry that is whole with a store to this word of a block, if there is one.
    pub fn published(&self, line: Line, word: usize) -> Option<u16> {
        const WORDS: usize = WQ_ENTRY_BYTES / 8;
        let is_first = self.queue_of(line) == Some(Queue::Work) && word.is_multiple_of(WORDS);
        let block = (line % self.queue_lines) as usize;
        is_first.then(|| ((block * BLOCK_BYTES as usize / 8 + word) / WORDS) as u16)
    }

    /// The queue pair that a block of the queues belongs to.
    pub fn owner_of(&self, line: Line) -> u16 {
        (line / self.queue_lines) as u16
    }

    /// Whether cores have queue pairs, which frontends of the interfaces serve.
    pub fn has_queue_pairs(&self) -> bool {
        self.places.frontends.is_some()
    }

    /// Blocks of all queues together; they begin at block 0.
    pub fn queue_lines(&self) -> u64 {
        self.queue_lines * u64::from(self.tiles)
    }

    /// The regions whose contents are kept: first block and number of blocks of each.
    pub fn kept(machine: &Machine) -> Vec<(Line, u64)> {
        let queues = (0, Layout::new(machine).queue_lines());
        match machine.memory.contents {
            Contents::Queues => vec![queues],
            Contents::All => {
                let footprint = machine.workload.footprint_bytes.div_ceil(BLOCK_BYTES);
                let transfer = u64::from(machine.workload.transfer_bytes).div_ceil(BLOCK_BYTES);
                // A core has one buffer at least; the last one may not begin at a block.
                let buffers = footprint.max(transfer * u64::from(machine.cores())) + 1;
                vec![queues, (BUFFER_LINE, buffers), (SEGMENT_LINE, footprint)]
            }
        }
    }

    /// The queue that a block belongs to, if it is one of the queues'.
    #[inline]
    pub fn queue_of(&self, line: Line) -> Option<Queue> {
        if line >= self.queue_lines() {
            None
        } else if line % self.queue_lines < self.wq_lines {
            Some(Queue::Work)
        } else {
            Some(Queue::Completion)
        }
    }
}

/// A queue of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// WQ.
    Work,
    /// CQ.
    Completion,
}
