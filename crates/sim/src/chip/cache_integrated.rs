//! Network interfaces in the private caches (CINI §3), with the DMA engine at a memory controller (§4). What is in a
//! tile is [`integrated`](super::integrated).

use super::dma::Dma;
use super::layout::{Layout, Part};
use super::message::{Letter, Payload};
use super::ni::{Interface, Placement, Places, Side, Timer};
use super::tile::Tile;
use super::wires::{Event, Wires};
use crate::engine::Cycle;
use crate::figures::Figures;
use crate::machine::Machine;
use crate::scratchpad::dram::Dram;
use crate::statistics::Simulated;

/// The outgoing traffic controller of a tile's interface sends.
pub(super) const SEND: u8 = 0;
/// A letter has passed the pipeline of a tile's cache; its number goes with it.
const ACCESSED: u8 = 1;

/// What is not in the tiles: the DMA engine.
#[derive(Clone, Debug)]
pub struct CacheIntegrated {
    dma: Dma,
}

impl Interface for CacheIntegrated {
    const STATISTICS: &'static [Simulated] = &[Simulated::Program, Simulated::CacheIntegrated];

    fn places(_placement: Placement) -> Places {
        Places { engines: Side::Edge, ni_caches: Side::Tiles, frontends: None }
    }

    fn check_programs(_machine: &Machine, nodes: u16) -> Result<(), String> {
        let why =
            "ni.placement: is \"cache-integrated\", which joins the cores of one chip; use -n 1";
        if nodes > 1 { Err(why.to_owned()) } else { Ok(()) }
    }

    fn new(_nid: u16, _nodes: u16, machine: &Machine, _layout: &Layout) -> CacheIntegrated {
        CacheIntegrated { dma: Dma::new(machine) }
    }

    fn entry(&self, payload: &Payload, _layout: &Layout) -> (Part, u64) {
        panic!("cache-integrated interfaces are of one chip, and got {payload:?} of another")
    }

    fn has_room(&self, letter: &Letter, tiles: &[Tile], now: Cycle) -> bool {
        match (letter.to, &letter.payload) {
            (Part::Integrated(n), payload) => tiles[usize::from(n)].has_room(payload, now),
            (_, Payload::Scratchpad(packet)) => self.dma.has_room(packet),
            _ => true,
        }
    }

    fn receive(&mut self, to: Part, payload: Payload, tiles: &mut [Tile], wires: &mut Wires) {
        match (to, payload) {
            (Part::Integrated(n), payload) => {
                // Whatever arrives is an access to the cache, and passes its pipeline first.
                let delay = tiles[usize::from(n)].pass_cache(&payload, wires.now);
                let index =
                    wires.letters.put(Letter { to, payload, trace: super::message::UNTRACED });
                let timer = Timer { part: to, what: ACCESSED, index };
                wires.wheel.at(wires.now + delay, Event::Ni(timer));
            }
            (Part::Dma, Payload::Scratchpad(packet)) => self.dma.arrive(&packet, wires),
            (to, other) => panic!("{to} got {other:?}"),
        }
    }

    fn happen(&mut self, timer: Timer, tiles: &mut [Tile], wires: &mut Wires) {
        match (timer.part, timer.what) {
            (Part::Integrated(n), ACCESSED) => {
                let letter = wires.letters.take(timer.index);
                tiles[usize::from(n)].integrated(letter.payload, wires);
            }
            (Part::Integrated(n), _) => tiles[usize::from(n)].pump_integrated(wires),
            _ => self.dma.pump(wires),
        }
    }

    /// Packets on their way are letters, which the chip counts.
    fn under_way(&self, tiles: &[Tile]) -> Vec<String> {
        let own = tiles.iter().filter_map(|tile| tile.l1.integrated.as_ref());
        let waiting = own.enumerate().filter(|(_, own)| own.has_work());
        let mut names: Vec<String> =
            waiting.map(|(n, _)| format!("scratchpad[{n}]: packets wait")).collect();
        names.extend(self.dma.dram().has_work().then(|| "dma: packets wait".to_owned()));
        names
    }

    fn write_stats(&self, tiles: &[Tile], _wires: &Wires, stats: &mut Figures) {
        for own in tiles.iter().filter_map(|tile| tile.l1.integrated.as_ref()) {
            own.write_stats(stats);
        }
        self.dma.write_stats(stats);
    }
}

impl CacheIntegrated {
    /// The memory that caches do not keep.
    pub const fn dram(&self) -> &Dram {
        self.dma.dram()
    }

    /// The same, to go on from a state.
    pub const fn dram_mut(&mut self) -> &mut Dram {
        self.dma.dram_mut()
    }
}
