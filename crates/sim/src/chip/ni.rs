//! The network interfaces of a chip. A machine has one kind of them, as `ni.placement` says.
//!
//! A new one is a file with a type that is an [`Interface`], and a line in the list below: the line makes its name a
//! value of `ni.placement`.

use rackmem_rmc::amt::Amt;
use serde::{Deserialize, Serialize};

use super::layout::{Layout, Part};
use super::message::{Letter, Payload};
use super::probe::Stages;
use super::tile::Tile;
use super::wires::Wires;
use crate::block::Line;
use crate::engine::Cycle;
use crate::figures::Figures;
use crate::machine::Machine;
use crate::statistics::Simulated;

/// Something of an interface that is due at a certain cycle. The interface decides what it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timer {
    /// The part of the interface.
    pub part: Part,
    /// What is due there.
    pub what: u8,
    /// A number that goes with it.
    pub index: u32,
}

impl Timer {
    /// The only thing that is ever due at a part.
    pub const fn of(part: Part) -> Timer {
        Timer { part, what: 0, index: 0 }
    }
}

/// The side of a chip on which parts of an interface are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// In the tiles: part `n` is at tile `n`.
    Tiles,
    /// At the edge: part `n` is at the unit of row `n`, or of LLC tile `n` of NOC-Out.
    Edge,
}

/// Places of an interface's parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    /// [`Part::Engine`].
    pub engines: Side,
    /// [`Part::NiCache`].
    pub ni_caches: Side,
    /// Those that serve the queue pairs of its cores, if they have such. They are in their NI caches, or behind L1s.
    pub frontends: Option<Side>,
}

/// The network interfaces of a chip. They keep their own state; they see other parts through the wires, by messages of
/// at least a cycle. Tiles are there for interfaces that have a part in them.
pub trait Interface: Sized {
    /// What `rackmem sim stats` lists for machines with it.
    const STATISTICS: &'static [Simulated];

    /// Whether its packets are those of Manycore NI, which a chip's mirror image can answer.
    const CAN_BE_MIRRORED: bool = false;

    /// The places of its parts.
    fn places(placement: Placement) -> Places;

    /// The stages of remote reads, if the cores' own workload can use it.
    fn stages(_placement: Placement) -> Option<Stages> {
        None
    }

    /// Whether programs can use it, on so many nodes.
    ///
    /// # Errors
    /// The setting, the problem and the remedy.
    fn check_programs(_machine: &Machine, _nodes: u16) -> Result<(), String> {
        Err("ni.placement: is an interface without a driver for programs; use another one"
            .to_owned())
    }

    /// Those of the chip of node `nid`, in a rack of `nodes` nodes.
    fn new(nid: u16, nodes: u16, machine: &Machine, layout: &Layout) -> Self;

    /// Begins with what it does by itself.
    fn start(&mut self, _tiles: &mut [Tile], _wires: &mut Wires) {}

    /// The part that something of another node is for, and cycles until it is there.
    fn entry(&self, payload: &Payload, layout: &Layout) -> (Part, u64);

    /// Whether a message that has arrived at one of its parts may come in.
    fn has_room(&self, _letter: &Letter, _tiles: &[Tile], _now: Cycle) -> bool {
        true
    }

    /// Takes a message for one of its parts.
    fn receive(&mut self, to: Part, payload: Payload, tiles: &mut [Tile], wires: &mut Wires);

    /// Something is due.
    fn happen(&mut self, timer: Timer, tiles: &mut [Tile], wires: &mut Wires);

    /// A cycle that it has asked for ([`Wires::ni_now`]), after all messages.
    fn tick(&mut self, _wires: &mut Wires) {}

    /// Somebody outside of the coherence domain has changed a block.
    fn changed(&mut self, _line: Line, _tiles: &mut [Tile], _wires: &mut Wires) {}

    /// Names the parts that have something under way.
    fn under_way(&self, tiles: &[Tile]) -> Vec<String>;

    /// Adds its counters.
    fn write_stats(&self, tiles: &[Tile], wires: &Wires, stats: &mut Figures);
}

macro_rules! interfaces {
    ($($(#[$doc:meta])* $name:ident($type:ty) { $($(#[$place_doc:meta])* $place:ident,)+ })+) => {
        /// Place and kind of the network interfaces.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum Placement {
            $($($(#[$place_doc])* $place,)+)+
        }

        /// The interfaces of a chip.
        #[derive(Clone, Debug)]
        pub enum Ni {
            $($(#[$doc])* $name(Box<$type>),)+
        }

        // `Interface` describes these.
        impl Placement {
            /// Whether other nodes' memory is at addresses behind the node's own.
            pub(crate) const fn has_window(self) -> bool {
                matches!(self, Placement::Window | Placement::Bridge)
            }

            pub(crate) fn places(self) -> Places {
                match self {
                    $($(Placement::$place)|+ => <$type>::places(self),)+
                }
            }

            pub(crate) fn stages(self) -> Option<Stages> {
                match self {
                    $($(Placement::$place)|+ => <$type>::stages(self),)+
                }
            }

            pub(crate) fn check_programs(self, machine: &Machine, nodes: u16) -> Result<(), String> {
                match self {
                    $($(Placement::$place)|+ => <$type>::check_programs(machine, nodes),)+
                }
            }

            pub(crate) fn statistics(self) -> &'static [Simulated] {
                match self {
                    $($(Placement::$place)|+ => <$type>::STATISTICS,)+
                }
            }

            pub(crate) fn can_be_mirrored(self) -> bool {
                match self {
                    $($(Placement::$place)|+ => <$type>::CAN_BE_MIRRORED,)+
                }
            }
        }

        impl Ni {
            /// The address mapping table, if it has borrowed memory.
            pub(crate) fn amt(&mut self) -> Option<&mut Amt> {
                match self {
                    Ni::Window(window) => Some(&mut window.amt),
                    Ni::Bridge(bridge) => Some(&mut bridge.amt),
                    _ => None,
                }
            }

            pub(super) fn new(nid: u16, nodes: u16, machine: &Machine, layout: &Layout) -> Ni {
                match machine.ni.placement {
                    $($(Placement::$place)|+ => {
                        Ni::$name(Box::new(Interface::new(nid, nodes, machine, layout)))
                    })+
                }
            }

            pub(super) fn start(&mut self, tiles: &mut [Tile], wires: &mut Wires) {
                match self { $(Ni::$name(ni) => ni.start(tiles, wires),)+ }
            }

            pub(super) fn entry(&self, payload: &Payload, layout: &Layout) -> (Part, u64) {
                match self { $(Ni::$name(ni) => Interface::entry(&**ni, payload, layout),)+ }
            }

            #[inline]
            pub(super) fn has_room(&self, letter: &Letter, tiles: &[Tile], now: Cycle) -> bool {
                match self { $(Ni::$name(ni) => ni.has_room(letter, tiles, now),)+ }
            }

            #[inline]
            pub(super) fn receive(&mut self, to: Part, payload: Payload, tiles: &mut [Tile], wires: &mut Wires) {
                match self { $(Ni::$name(ni) => Interface::receive(&mut **ni, to, payload, tiles, wires),)+ }
            }

            #[inline]
            pub(super) fn happen(&mut self, timer: Timer, tiles: &mut [Tile], wires: &mut Wires) {
                match self { $(Ni::$name(ni) => ni.happen(timer, tiles, wires),)+ }
            }

            #[inline]
            pub(super) fn tick(&mut self, wires: &mut Wires) {
                match self { $(Ni::$name(ni) => Interface::tick(&mut **ni, wires),)+ }
            }

            pub(super) fn changed(&mut self, line: Line, tiles: &mut [Tile], wires: &mut Wires) {
                match self { $(Ni::$name(ni) => Interface::changed(&mut **ni, line, tiles, wires),)+ }
            }

            pub(crate) fn under_way(&self, tiles: &[Tile]) -> Vec<String> {
                match self { $(Ni::$name(ni) => Interface::under_way(&**ni, tiles),)+ }
            }

            /// [`Interface::write_stats`].
            pub fn write_stats(&self, tiles: &[Tile], wires: &Wires, stats: &mut Figures) {
                match self { $(Ni::$name(ni) => Interface::write_stats(&**ni, tiles, wires, stats),)+ }
            }
        }
    };
}

interfaces! {
    /// Queue pairs, and pipelines that serve them (Manycore NI).
    QueuePairs(super::queue_pairs::QueuePairs) {
        /// RGP and RCP at the edge, one pair per row (Manycore NI §3).
        Edge,
        /// RGP and RCP in every tile.
        PerTile,
        /// Frontends in every tile, a backend per row at the edge.
        Split,
        /// No queue pairs: cores load from remote memory through the edge.
        Numa,
        /// RGP and RCP at the edge, without NI caches: each look at a queue crosses the chip.
        Uncached,
    }
    /// The one remote memory controller of a chip (Scale-Out NUMA).
    Sonuma(super::node_rmc::NodeRmc) {
        /// One RMC per chip with a private L1, as in Scale-Out NUMA: [`RmcSpec`](crate::sonuma::RmcSpec).
        Sonuma,
    }
    /// Network interfaces in the private caches, and a DMA engine (CINI).
    CacheIntegrated(super::cache_integrated::CacheIntegrated) {
        /// In every private L2, lines of which become scratchpad memory (CINI): `scratchpad`.
        CacheIntegrated,
    }
    /// A window of borrowed memory (TSM).
    Window(super::window::Window) {
        /// None: memory of other nodes is at physical addresses of a window (TSM): `window`.
        Window,
    }
    /// Such a window behind a module that extends the on-chip interconnect (DEOI, Thunder).
    Bridge(super::bridge::Bridge) {
        /// A module that joins the on-chip interconnects of nodes: `window` and `extension`.
        Bridge,
    }
}
