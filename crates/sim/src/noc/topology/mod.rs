//! Topologies: routers with ports, links between them, endpoints attached to them.

mod edges;
mod flat;
mod grid;
mod noc_out;
mod shape;
mod ways;

pub use edges::EdgeList;
pub use shape::Shape;

use super::error::SpecError;
use super::routing::{Order, VcClass};
use super::spec::{Dateline, Pipeline, Spec};

/// Most endpoints that a network can have.
pub const MAX_ENDPOINTS: usize = 4096;
/// Most ports that a router can have.
pub const MAX_PORTS: usize = 64;
/// Deepest buffer in flits, and longest delay in cycles.
pub(super) const MAX_BYTE: usize = 200;

/// Direction of a link on the floor plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// To or from an endpoint.
    Local,
    /// Along a row.
    X,
    /// Along a column.
    Y,
    /// Neither.
    Other,
}

impl Axis {
    /// Whether a packet that comes along this axis and leaves along that one turns, in a mesh.
    #[inline]
    pub(super) fn turns_into(self, other: Axis) -> bool {
        (self == Axis::X) & (other == Axis::Y) | (self == Axis::Y) & (other == Axis::X)
    }
}

/// A router and its place on the floor plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Router {
    /// Column on the floor plan.
    pub x: i16,
    /// Row on the floor plan.
    pub y: i16,
    /// Stages that a flit passes in the router.
    pub pipeline: Pipeline,
    /// It lies in an edge column of the chip, where turning packets make a hot spot.
    pub edge: bool,
}

/// A port of a router: an input and an output; either may be unused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Port {
    /// Number of the router.
    pub router: usize,
    /// Number of the port at this router.
    pub port: usize,
}

/// A link from an output to an input; credits return with the same latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Router output that flits leave by.
    pub from: Port,
    /// Router input that they arrive at.
    pub to: Port,
    /// Cycles on the link, at least 1.
    pub latency_cycles: u64,
    /// Direction on the floor plan.
    pub axis: Axis,
}

/// The routers that an endpoint is attached to; in NOC-Out, it sends and receives at different ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// Router input that it sends into.
    pub inject: Port,
    /// Router output that it receives from.
    pub eject: Port,
}

/// The graph of a network.
#[derive(Clone, Debug)]
pub struct Topology {
    /// Name and size that it was built from.
    pub shape: Shape,
    /// Routers, in the order of the numbers that ports name.
    pub routers: Vec<Router>,
    /// Ports for endpoints that a router of a mesh, torus or flattened butterfly has; they come first.
    pub locals: usize,
    /// How a torus divides its VCs.
    pub dateline: Dateline,
    /// Ports of the router that has most.
    pub ports: usize,
    /// The links between routers.
    pub links: Vec<Link>,
    /// The endpoints, in the order of their numbers.
    pub endpoints: Vec<Attachment>,
    /// On a list of links, by router of the destination and router: the output port. Else empty.
    pub next_ports: Vec<u8>,
}

impl Topology {
    /// The graph that this description asks for.
    ///
    /// # Errors
    /// It is too large for the simulator's tables.
    pub fn new(spec: &Spec) -> Result<Topology, SpecError> {
        check_limits(spec)?;
        let topology = match &spec.topology {
            Shape::Mesh { .. } | Shape::ChipMesh { .. } | Shape::Torus { .. } => grid::build(spec),
            Shape::FlatFly { .. } | Shape::Crossbar { .. } => flat::build(spec),
            Shape::NocOut { columns, rows } => noc_out::build(spec, *columns, *rows),
            Shape::Edges(edges) => edges::build(spec, edges),
        };
        Ok(topology)
    }

    /// Output port and VC class for a packet that enters the dimension at `router` on its way to endpoint
    /// `dst`, and whether the opposite port leads there in as many hops and is drawn as often.
    pub fn next_hop(&self, order: Order, router: usize, dst: usize) -> (usize, VcClass, bool) {
        let eject = self.endpoints[dst].eject;
        if eject.router == router {
            return (eject.port, VcClass::Whole, false);
        }
        let (port, class) = match self.shape {
            Shape::Mesh { .. } | Shape::ChipMesh { .. } => {
                (self.mesh_port(order, router, eject.router), VcClass::Any)
            }
            Shape::Torus { size, dimensions } => {
                return grid::torus_hop(self, &size[..dimensions], router, eject.router);
            }
            Shape::FlatFly { columns, .. } => {
                (flat::next_port(self.locals, columns, router, eject.router), VcClass::Any)
            }
            Shape::Crossbar { .. } => unreachable!("a crossbar has one router"),
            Shape::NocOut { columns, rows } => {
                (noc_out::next_port(columns, rows, router, dst), VcClass::Any)
            }
            Shape::Edges(_) => {
                let at = eject.router * self.routers.len() + router;
                (self.next_ports[at].into(), VcClass::Any)
            }
        };
        (port, class, false)
    }

    /// The port in the other direction of a torus's dimension.
    pub(super) fn opposite(&self, port: usize) -> usize {
        grid::opposite(self.locals, port)
    }

    /// Whether a packet that comes in at one port and leaves by the other stays in its dimension.
    pub(super) fn are_of_one_dimension(&self, a: usize, b: usize) -> bool {
        grid::are_of_one_dimension(self.locals, a, b)
    }

    fn mesh_port(&self, order: Order, from: usize, to: usize) -> usize {
        let (from, to) = (self.routers[from], self.routers[to]);
        grid::mesh_port(self.locals, order, (from.x, from.y), (to.x, to.y))
    }

    /// Links on the way from one endpoint to another, not counting those to and from endpoints.
    pub fn hops(&self, order: Order, src: usize, dst: usize) -> Vec<Link> {
        let mut router = self.endpoints[src].inject.router;
        let mut way = Vec::new();
        while router != self.endpoints[dst].eject.router {
            let (port, ..) = self.next_hop(order, router, dst);
            let Some(link) = self.links.iter().find(|link| link.from == Port { router, port })
            else {
                unreachable!("router {router} has no link at port {port}");
            };
            way.push(*link);
            router = link.to.router;
        }
        way
    }
}

/// An endpoint that sends and receives at this port.
fn attach(port: Port) -> Attachment {
    Attachment { inject: port, eject: port }
}

/// As many endpoints at each router, at its first ports.
fn attach_to_all(routers: usize, each: usize) -> Vec<Attachment> {
    (0..routers * each).map(|i| attach(Port { router: i / each, port: i % each })).collect()
}

fn check_limits(spec: &Spec) -> Result<(), SpecError> {
    let too_large = |what, given, limit| Err(SpecError::TooLarge { what, given, limit });
    let (shape, endpoints) = (&spec.topology, spec.endpoints());
    if spec.concentration == 0 {
        return Err(SpecError::Zero { field: "concentration" });
    }
    if spec.concentration > 1 && !shape.has_concentration() {
        return Err(SpecError::NoConcentration { topology: shape.to_string() });
    }
    if endpoints > MAX_ENDPOINTS {
        return too_large("endpoints", endpoints, MAX_ENDPOINTS);
    }
    let ports = shape.ports() + spec.concentration - 1;
    if ports > MAX_PORTS {
        return too_large("ports at a router", ports, MAX_PORTS);
    }
    Ok(())
}
