//! Network interfaces with queue pairs (Manycore NI §3, §4): frontends and NI caches before the pipelines of
//! [`backends`](super::backends). Frontends behind an L1 are in their tiles.

use rackmem_abi::Packet;
use rackmem_rmc::Rights;
use rackmem_rmc::qp::{Cursor, QpConfig};

use super::backends::Backends;
use super::layout::{Layout, Part};
use super::message::{Letter, NetPacket, Payload};
use super::ni::{Interface, Placement, Places, Side, Timer};
use super::probe::Mark::{
    AtBackend, AtFrontend, AtRcp, Back, BackendDone, Begun, CqWritten, End, FrontendDone, Out,
    WqInNi, WqWritten,
};
use super::probe::Span::{Between, CqRead, CqTransfer};
use super::probe::Stages;
use super::tile::{BehindL1, NiCache, OwnCache, Tile};
use super::wires::Wires;
use crate::block::Line;
use crate::engine::Cycle;
use crate::figures::Figures;
use crate::machine::Machine;
use crate::machine::spec::{Completion, NiCacheKind, Remote};
use crate::statistics::Simulated;

/// The interfaces of a chip, without the frontends that are behind L1s.
#[derive(Clone, Debug)]
pub struct QueuePairs {
    placement: Placement,
    /// NI caches with numbers of their own.
    pub ni_caches: Vec<NiCache>,
    pub backends: Backends,
}

impl QueuePairs {
    /// A program has the queue pair of a core: [`Front::attach`]. `None` without queue pairs.
    pub fn attach(
        &mut self,
        qp: u16,
        shape: (u32, Rights),
        cursors: [Cursor; 2],
        tiles: &mut [Tile],
        wires: &mut Wires,
    ) -> Option<bool> {
        Some(match wires.layout.front_of(qp) {
            Part::NiCache(n) => {
                let NiCache { front, cache } = self.ni_caches.get_mut(usize::from(n))?;
                front.attach(qp, shape, cursors, cache, wires)
            }
            _ => {
                let BehindL1 { front, cache } = tiles[usize::from(qp)].ni.as_mut()?;
                front.attach(qp, shape, cursors, cache, wires)
            }
        })
    }

    /// [`Front::position`].
    pub fn position(
        &self,
        qp: u16,
        layout: &Layout,
        tiles: &[Tile],
    ) -> Option<(QpConfig, [Cursor; 2])> {
        let front = match layout.front_of(qp) {
            Part::NiCache(n) => self.ni_caches.get(usize::from(n)).map(|ni| &ni.front),
            _ => tiles[usize::from(qp)].ni.as_ref().map(|ni| &ni.front),
        };
        front.map(|front| front.position(qp))
    }

    /// Nobody posts to the queue pair of a core any more.
    pub fn detach(&mut self, qp: u16, layout: &Layout, tiles: &mut [Tile]) {
        let front = match layout.front_of(qp) {
            Part::NiCache(n) => self.ni_caches.get_mut(usize::from(n)).map(|ni| &mut ni.front),
            _ => tiles[usize::from(qp)].ni.as_mut().map(|ni| &mut ni.front),
        };
        if let Some(front) = front {
            front.detach(qp);
        }
    }
}

/// Stages with frontends at the edge, in one with their backends.
const EDGE: Stages = Stages {
    out: &[("wq_write", Between(Begun, WqWritten)), ("wq_read_rgp", Between(WqWritten, Out))],
    back: &[("rcp_cq_write", Between(Back, CqWritten)), ("cq_read", Between(CqWritten, End))],
};

const PER_TILE: Stages = Stages {
    out: &[
        ("wq_write", Between(Begun, WqWritten)),
        ("wq_transfer", Between(WqWritten, WqInNi)),
        ("rgp", Between(WqInNi, FrontendDone)),
        ("to_edge", Between(FrontendDone, Out)),
    ],
    back: &[
        ("to_rcp", Between(Back, AtRcp)),
        ("rcp", Between(AtRcp, CqWritten)),
        ("cq_transfer", CqTransfer),
        ("cq_read", CqRead),
    ],
};

const SPLIT: Stages = Stages {
    out: &[
        ("wq_write", Between(Begun, WqWritten)),
        ("wq_transfer", Between(WqWritten, WqInNi)),
        ("rgp_frontend", Between(WqInNi, FrontendDone)),
        ("to_backend", Between(FrontendDone, AtBackend)),
        ("rgp_backend", Between(AtBackend, Out)),
    ],
    back: &[
        ("rcp_backend", Between(Back, BackendDone)),
        ("to_rcp_frontend", Between(BackendDone, AtFrontend)),
        ("rcp_frontend", Between(AtFrontend, CqWritten)),
        ("cq_transfer", CqTransfer),
        ("cq_read", CqRead),
    ],
};

const NUMA: Stages = Stages {
    out: &[("load", Between(Begun, FrontendDone)), ("to_edge", Between(FrontendDone, Out))],
    back: &[("to_core", Between(Back, End))],
};

/// Whether so many nodes can execute programs with the other ends that there are.
fn check_mirror(machine: &Machine, nodes: u16) -> Result<(), String> {
    let why = match (machine.network.remote, machine.ni.completion) {
        (Remote::Generator, _) if nodes > 1 => {
            "network.remote: is \"generator\", which is one node; set it to \"nodes\""
        }
        (Remote::Nodes, Completion::Posted) => {
            "ni.completion: is \"posted\", with which programs may see completions before data; \
             set it to \"acknowledged\""
        }
        _ => return Ok(()),
    };
    Err(why.to_owned())
}

impl Interface for QueuePairs {
    const STATISTICS: &'static [Simulated] =
        &[Simulated::Workload, Simulated::Program, Simulated::ManycoreNi];
    const CAN_BE_MIRRORED: bool = true;

    fn places(placement: Placement) -> Places {
        match placement {
            Placement::Edge | Placement::Uncached => {
                Places { engines: Side::Edge, ni_caches: Side::Edge, frontends: Some(Side::Edge) }
            }
            Placement::Split => {
                Places { engines: Side::Edge, ni_caches: Side::Tiles, frontends: Some(Side::Tiles) }
            }
            Placement::PerTile => Places {
                engines: Side::Tiles,
                ni_caches: Side::Tiles,
                frontends: Some(Side::Tiles),
            },
            _ => Places { engines: Side::Tiles, ni_caches: Side::Tiles, frontends: None },
        }
    }

    fn stages(placement: Placement) -> Option<Stages> {
        Some(match placement {
            Placement::Edge | Placement::Uncached => EDGE,
            Placement::PerTile => PER_TILE,
            Placement::Split => SPLIT,
            _ => NUMA,
        })
    }

    fn check_programs(machine: &Machine, nodes: u16) -> Result<(), String> {
        if machine.ni.placement == Placement::Numa {
            let why = "ni.placement: programs need queue pairs, which \"numa\" lacks";
            return Err(why.to_owned());
        }
        check_mirror(machine, nodes)
    }

    fn new(nid: u16, nodes: u16, machine: &Machine, layout: &Layout) -> QueuePairs {
        let placement = machine.ni.placement;
        let ni_caches = match (placement, machine.ni.cache) {
            (Placement::Edge | Placement::Uncached, _) => layout.units,
            (Placement::PerTile | Placement::Split, NiCacheKind::Separate) => layout.tiles,
            _ => 0,
        };
        QueuePairs {
            placement,
            ni_caches: (0..ni_caches).map(|n| NiCache::new(n, nodes, machine, layout)).collect(),
            backends: Backends::new(nid, nodes, machine, layout),
        }
    }

    /// The frontends poll the queue pairs that there are.
    fn start(&mut self, tiles: &mut [Tile], wires: &mut Wires) {
        for ni in tiles.iter_mut().filter_map(|tile| tile.ni.as_mut()) {
            ni.front.start(wires);
        }
        for ni in &mut self.ni_caches {
            ni.front.start(wires);
        }
    }

    fn entry(&self, payload: &Payload, layout: &Layout) -> (Part, u64) {
        (self.backends.entry(payload, layout), 0)
    }

    fn has_room(&self, letter: &Letter, _tiles: &[Tile], _now: Cycle) -> bool {
        self.backends.has_room(letter)
    }

    fn receive(&mut self, to: Part, payload: Payload, tiles: &mut [Tile], wires: &mut Wires) {
        match (to, &payload) {
            (Part::NiCache(n), _) => self.ni_caches[usize::from(n)].receive(payload, wires),
            (Part::Engine(n), Payload::Net(NetPacket { packet: Packet::Reply(reply), .. }))
                if self.placement == Placement::Numa =>
            {
                tiles[usize::from(n)].core.loaded(reply, wires);
            }
            _ => self.backends.receive(to, payload, wires),
        }
    }

    fn happen(&mut self, timer: Timer, tiles: &mut [Tile], wires: &mut Wires) {
        match timer.part {
            Part::Tile(n) => {
                if let Some(ni) = &mut tiles[usize::from(n)].ni {
                    ni.front.happen(timer, &mut ni.cache, wires);
                }
            }
            Part::NiCache(n) => {
                let NiCache { front, cache } = &mut self.ni_caches[usize::from(n)];
                front.happen(timer, cache, wires);
            }
            _ => self.backends.happen(timer, wires),
        }
    }

    fn tick(&mut self, wires: &mut Wires) {
        self.backends.tick(wires);
    }

    fn changed(&mut self, line: Line, tiles: &mut [Tile], wires: &mut Wires) {
        for NiCache { cache, front } in &mut self.ni_caches {
            if let OwnCache::Homes(homes) = cache {
                homes.changed(line);
            }
            front.wake(line, wires);
        }
        if wires.layout.queue_of(line).is_some() {
            for ni in tiles.iter_mut().filter_map(|tile| tile.ni.as_mut()) {
                ni.front.wake(line, wires);
            }
        }
    }

    fn under_way(&self, tiles: &[Tile]) -> Vec<String> {
        let caches = self.ni_caches.iter().enumerate().map(|(n, ni)| {
            let (blocks, operations) = (ni.cache.in_transition(), ni.front.under_way());
            let text = format!("ni_cache[{n}]: {blocks} blocks, {operations} operations");
            (blocks + operations, text)
        });
        let fronts = tiles.iter().enumerate().map(|(n, tile)| {
            let operations = tile.ni.as_ref().map_or(0, |ni| ni.front.under_way());
            (operations, format!("frontend of tile[{n}]: {operations} operations"))
        });
        let all = caches.chain(fronts).filter(|&(count, _)| count > 0).map(|(_, text)| text);
        self.backends.under_way().into_iter().chain(all).collect()
    }

    fn write_stats(&self, _tiles: &[Tile], _wires: &Wires, stats: &mut Figures) {
        self.backends.write_stats(stats);
    }
}
