//! Ways of packets, and their virtual channels.

use std::fmt;
use std::hint::select_unpredictable;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::error::{SpecError, find};
use super::spec::{Class, Dateline, Packet, Spec};
use super::topology::{Shape, Topology};
use crate::section::text_form;

/// The rule by which packets choose their way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Routing {
    /// Along the row, then along the column.
    Xy,
    /// Along the column, then along the row.
    Yx,
    /// XY or YX, by the packet's flow (Seo and others, ISCA 2005).
    O1Turn,
    /// By class: requests to memory YX, all others XY (Abts and others, ISCA 2009).
    Cdr,
    /// By class: packets of directories YX, all others XY (manycore NI paper, section 4.3).
    CdrDirectory,
    /// The only shortest way that the topology's table knows.
    Minimal,
    /// On a list of links: up to a router from which the destination is down, then down. No ring of channels closes.
    UpDown,
}

const NAMES: [&str; 7] = ["xy", "yx", "o1turn", "cdr", "cdr-directory", "minimal", "up-down"];
const ALL: [Routing; 7] = [
    Routing::Xy,
    Routing::Yx,
    Routing::O1Turn,
    Routing::Cdr,
    Routing::CdrDirectory,
    Routing::Minimal,
    Routing::UpDown,
];

/// The order in which a packet uses the dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// X first; also the only order where there is just one.
    Xy,
    /// Y first.
    Yx,
}

/// The part of its virtual network's VCs that a packet may use on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VcClass {
    /// The lower half: before the dateline of a ring.
    First,
    /// The upper half: after it, or packets that do not cross it.
    Second,
    /// All, or those of the packet's order where both orders share a virtual network.
    Any,
    /// All: links from and to endpoints have no cyclic dependency, so they need no classes.
    Whole,
}

impl Routing {
    /// The name in machine files and on the command line.
    pub fn name(self) -> &'static str {
        NAMES[self as usize]
    }

    /// The usual routing of a topology.
    pub fn usual(shape: &Shape) -> Routing {
        match shape {
            Shape::Mesh { .. } | Shape::ChipMesh { .. } => Routing::Xy,
            Shape::Edges(_) => Routing::UpDown,
            _ => Routing::Minimal,
        }
    }

    /// The orders that packets of a virtual network may take.
    pub fn orders(self) -> &'static [Order] {
        match self {
            Routing::Xy | Routing::Minimal | Routing::UpDown => &[Order::Xy],
            Routing::Yx => &[Order::Yx],
            Routing::O1Turn | Routing::Cdr | Routing::CdrDirectory => &[Order::Xy, Order::Yx],
        }
    }

    /// The order of a packet whose flow has this hash.
    #[inline]
    pub(super) fn order(self, packet: &Packet, hash: u32) -> Order {
        let yx = match self {
            Routing::Xy | Routing::Minimal | Routing::UpDown => false,
            Routing::Yx => true,
            Routing::O1Turn => hash >> 31 != 0,
            Routing::Cdr => packet.class == Class::MemoryRequest,
            Routing::CdrDirectory => packet.class.is_of_directory(),
        };
        if yx { Order::Yx } else { Order::Xy }
    }

    /// Checks that the topology can be routed like this.
    pub(super) fn check(self, shape: &Shape) -> Result<(), SpecError> {
        let fits = match self {
            Routing::Minimal => true,
            Routing::UpDown => matches!(shape, Shape::Edges(_)),
            Routing::Xy => shape.has_dimensions(),
            _ => shape.is_mesh(),
        };
        let possible = match shape {
            Shape::Edges(_) => "up-down or minimal",
            _ if shape.has_dimensions() => "xy or minimal",
            _ => "minimal",
        };
        match fits {
            true => Ok(()),
            false => Err(SpecError::RoutingUnsafe {
                routing: self.name(),
                topology: shape.to_string(),
                possible,
            }),
        }
    }
}

impl fmt::Display for Routing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Routing {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Routing, SpecError> {
        find("routing", text, &NAMES, &ALL)
    }
}

text_form!(Routing, SpecError);

/// Next ports of all routers for all destinations, and the VCs that may be used.
#[derive(Clone, Debug)]
pub struct Tables {
    endpoints: usize,
    routers: usize,
    /// By order, router, destination.
    hops: Vec<Hop>,
    /// By virtual network, order and class.
    vcs: Vec<VcRange>,
    /// The same as masks.
    masks: Vec<u32>,
    /// By virtual network.
    ordered: Vec<bool>,
    /// A packet keeps its class of VCs in a dimension.
    keeps_class: bool,
}

/// Classes of [`VcClass`].
const CLASSES: usize = 4;

/// Output port in the lower byte, class of VCs above it, and whether the opposite port is as good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop(u16);

const TIE: u16 = 1 << 15;

impl Hop {
    /// Output port of the router.
    #[inline]
    pub fn port(self) -> usize {
        usize::from(self.0 & 0xff)
    }

    /// Whether the opposite port leads there as well.
    #[inline]
    pub(super) fn is_tie(self) -> bool {
        self.0 & TIE != 0
    }

    /// Whether the output leads to an endpoint.
    #[inline]
    pub fn ejects(self) -> bool {
        self.class() == VcClass::Whole as usize
    }

    /// Number of the class of VCs.
    #[inline]
    fn class(self) -> usize {
        usize::from(self.0 >> 8 & 3)
    }

    fn new(port: usize, class: VcClass, tie: bool) -> Hop {
        Hop(port as u16 | (class as u16) << 8 | if tie { TIE } else { 0 })
    }
}

/// Consecutive VCs of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VcRange {
    /// Lowest VC of the range; a port numbers the VCs of all virtual networks from 0.
    pub first: u8,
    /// VCs from `first` on.
    pub count: u8,
}

impl VcRange {
    /// One bit per VC.
    #[inline]
    pub fn mask(self) -> u32 {
        (((1u64 << self.count) - 1) << self.first) as u32
    }

    /// The bit of the VC that a flow with this hash uses.
    #[inline]
    fn of_flow(self, hash: u16) -> u32 {
        let nth = (u32::from(hash) * u32::from(self.count)) >> 16;
        1 << (u32::from(self.first) + nth)
    }
}

impl Tables {
    /// The tables of a topology.
    ///
    /// # Errors
    /// The routing is not possible there, or a virtual network has too few VCs.
    pub fn new(spec: &Spec, topology: &Topology) -> Result<Tables, SpecError> {
        spec.routing.check(&spec.topology)?;
        let (endpoints, routers) = (topology.endpoints.len(), topology.routers.len());
        let yx = if spec.topology.is_mesh() { Order::Yx } else { Order::Xy };
        let orders: &[Order] =
            if spec.topology.is_mesh() { &[Order::Xy, yx] } else { &[Order::Xy] };
        let mut hops = Vec::with_capacity(orders.len() * endpoints * routers);
        for &order in orders {
            for dst in 0..endpoints {
                hops.extend((0..routers).map(|router| {
                    let (port, class, tie) = topology.next_hop(order, router, dst);
                    Hop::new(port, class, tie)
                }));
            }
        }
        let vcs = vc_ranges(spec)?;
        let masks = vcs.iter().map(|range| range.mask()).collect();
        let ordered = spec.vnets.iter().map(|vnet| vnet.ordered).collect();
        let is_torus = matches!(spec.topology, Shape::Torus { .. });
        let keeps_class = is_torus && spec.dateline == Dateline::Entry;
        Ok(Tables { endpoints, routers, hops, vcs, masks, ordered, keeps_class })
    }

    /// The next hop at this router.
    #[inline]
    pub fn hop(&self, order: Order, router: usize, dst: usize) -> Hop {
        self.hop_of(self.column(order, dst), router)
    }

    /// The column of the hops to an endpoint, for [`hop_of`](Tables::hop_of).
    #[inline]
    pub(super) fn column(&self, order: Order, dst: usize) -> u32 {
        ((order as usize * self.endpoints + dst) * self.routers) as u32
    }

    /// As [`hop`](Tables::hop), for packets of a column.
    #[inline]
    pub(super) fn hop_of(&self, column: u32, router: usize) -> Hop {
        self.hops[column as usize + router]
    }

    /// Whether a packet's hop depends on where it comes from: see [`resolve`](Tables::resolve).
    #[inline]
    pub(super) fn keeps_class(&self) -> bool {
        self.keeps_class
    }

    /// The hop of a packet that comes in at a port on a VC, given that of one that enters the dimension.
    /// It keeps its class in a dimension; where both ways are equally long, `back` takes the other.
    pub(super) fn resolve(
        &self,
        topology: &Topology,
        hop: Hop,
        (input, second): (usize, bool),
        back: bool,
    ) -> Hop {
        if !self.keeps_class || hop.ejects() {
            return hop;
        }
        let turned = hop.is_tie() && back;
        let port = if turned { topology.opposite(hop.port()) } else { hop.port() };
        let stays = topology.are_of_one_dimension(input, port);
        let upper = if stays { second } else { hop.class() == VcClass::Second as usize };
        Hop::new(port, if upper { VcClass::Second } else { VcClass::First }, false)
    }

    /// Whether a VC belongs to the upper class of its virtual network.
    #[inline]
    pub(super) fn is_second(&self, vnet: usize, vc: usize) -> bool {
        self.vcs[vnet * 2 * CLASSES + VcClass::Second as usize].mask() >> vc & 1 != 0
    }

    /// VCs that packets of this virtual network and order may use for this hop.
    pub fn range(&self, vnet: usize, order: Order, hop: Hop) -> VcRange {
        self.vcs[(vnet * 2 + order as usize) * CLASSES + hop.class()]
    }

    /// All VCs of a virtual network.
    pub fn whole(&self, vnet: usize) -> VcRange {
        self.vcs[vnet * 2 * CLASSES + VcClass::Whole as usize]
    }

    /// One bit per VC that a packet may get: any of its range, or the one of its flow.
    #[inline]
    pub(super) fn allowed(&self, vnet: usize, order: Order, hop: Hop, hash: u16) -> u32 {
        let i = (vnet * 2 + order as usize) * CLASSES + hop.class();
        select_unpredictable(self.ordered[vnet], self.vcs[i].of_flow(hash), self.masks[i])
    }

    /// As [`allowed`](Tables::allowed), for the link from the source.
    #[inline]
    pub(super) fn at_source(&self, vnet: usize, hash: u16) -> u32 {
        let whole = self.whole(vnet);
        if self.ordered[vnet] { whole.of_flow(hash) } else { whole.mask() }
    }
}

/// VCs by virtual network, order and class.
fn vc_ranges(spec: &Spec) -> Result<Vec<VcRange>, SpecError> {
    let ring = matches!(spec.topology, Shape::Torus { .. });
    let mut first = 0;
    let mut ranges = Vec::new();
    for (vnet, &super::spec::VnetSpec { vcs, .. }) in spec.vnets.iter().enumerate() {
        let both = spec.routing.orders().len() == 2;
        let (needed, why) = match (ring, both) {
            (false, false) => (1, "packets need a VC to travel on"),
            (true, _) => (2, "a torus divides them at the dateline of each ring"),
            (false, true) => (2, "packets of the orders XY and YX must not wait for each other"),
        };
        if vcs < needed {
            return Err(SpecError::TooFewVcs { vnet, vcs, needed, why });
        }
        let range = |from: usize, to: usize| VcRange {
            first: (first + from) as u8,
            count: (to - from) as u8,
        };
        let (low, high, all) = (range(0, vcs / 2), range(vcs / 2, vcs), range(0, vcs));
        let by_order = if both { [low, high] } else { [all, all] };
        for any in by_order {
            ranges.extend([low, high, any, all]);
        }
        first += vcs;
    }
    Ok(ranges)
}
