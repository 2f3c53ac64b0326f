//! Meshes and tori: a router per place, linked to its neighbours.

use super::super::routing::{Order, VcClass};
use super::super::spec::{Dateline, Spec};
use super::{Attachment, Axis, Link, Port, Router, Shape, Topology, attach, attach_to_all};

/// Port towards larger coordinates of this dimension; the ports of the endpoints come first.
const fn up(locals: usize, dimension: usize) -> usize {
    locals + 2 * dimension
}
/// Port back.
const fn down(locals: usize, dimension: usize) -> usize {
    up(locals, dimension) + 1
}

/// The port in the other direction of the same dimension.
pub(super) const fn opposite(locals: usize, port: usize) -> usize {
    ((port - locals) ^ 1) + locals
}

/// Whether these are ports of one dimension.
pub(super) const fn are_of_one_dimension(locals: usize, a: usize, b: usize) -> bool {
    a >= locals && b >= locals && (a - locals) / 2 == (b - locals) / 2
}

/// Builds a mesh, a chip's mesh or a torus.
pub(super) fn build(spec: &Spec) -> Topology {
    let (size, ring) = match spec.topology {
        Shape::Torus { size, .. } => (size, true),
        Shape::ChipMesh { columns, rows } => ([columns + 2, rows, 1], false),
        Shape::Mesh { columns, rows } => ([columns, rows, 1], false),
        _ => unreachable!("not a grid"),
    };
    let count = size.iter().product();
    let links = (0..count).flat_map(|router| links_of(router, size, ring, spec));
    Topology {
        shape: spec.topology.clone(),
        routers: (0..count).map(|router| router_at(router, size, spec)).collect(),
        locals: spec.concentration,
        dateline: spec.dateline,
        ports: spec.topology.ports() + spec.concentration - 1,
        links: links.collect(),
        endpoints: endpoints(spec, count),
        next_ports: Vec::new(),
    }
}

fn router_at(router: usize, size: [usize; 3], spec: &Spec) -> Router {
    let [x, y, z] = place(router, size);
    let edge = matches!(spec.topology, Shape::ChipMesh { .. }) && (x == 0 || x == size[0] - 1);
    // The planes of a three-dimensional torus lie side by side on the floor plan.
    let x = x + z * size[0];
    Router { x: x as i16, y: y as i16, pipeline: spec.router, edge }
}

fn place(router: usize, size: [usize; 3]) -> [usize; 3] {
    [router % size[0], router / size[0] % size[1], router / size[0] / size[1]]
}

fn links_of(router: usize, size: [usize; 3], ring: bool, spec: &Spec) -> Vec<Link> {
    let here = place(router, size);
    let mut links = Vec::new();
    let mut stride = 1;
    for (dimension, axis) in [(0, Axis::X), (1, Axis::Y), (2, Axis::Other)] {
        let (position, length) = (here[dimension], size[dimension]);
        let origin = router - position * stride;
        let next = origin + (position + 1) % length * stride;
        if position + 1 < length || (ring && length > 1) {
            let locals = spec.concentration;
            let (a, b) = (up(locals, dimension), down(locals, dimension));
            let forth = (Port { router, port: a }, Port { router: next, port: b });
            for (from, to) in [forth, (forth.1, forth.0)] {
                links.push(Link { from, to, latency_cycles: spec.link_latency_cycles, axis });
            }
        }
        stride *= length;
    }
    links
}

fn endpoints(spec: &Spec, count: usize) -> Vec<Attachment> {
    let Shape::ChipMesh { columns, rows } = spec.topology else {
        return attach_to_all(count, spec.concentration);
    };
    let at = |router| attach(Port { router, port: 0 });
    let width = columns + 2;
    let tiles = (0..rows * columns).map(|tile| tile / columns * width + 1 + tile % columns);
    let interfaces = (0..rows).map(|row| row * width);
    let memories = (0..rows).map(|row| row * width + width - 1);
    tiles.chain(interfaces).chain(memories).map(at).collect()
}

/// Output port of a mesh in this order.
pub(super) fn mesh_port(locals: usize, order: Order, from: (i16, i16), to: (i16, i16)) -> usize {
    let along_x = from.0 != to.0 && (order == Order::Xy || from.1 == to.1);
    let (dimension, forward) = if along_x { (0, to.0 > from.0) } else { (1, to.1 > from.1) };
    if forward { up(locals, dimension) } else { down(locals, dimension) }
}

/// The next hop on a torus: dimensions in order, the shorter way round.
///
/// The dateline is the link between the last place and the first. With [`Dateline::Crossing`], packets
/// that still have to cross it use the first class of VCs, all others the second, so neither class
/// closes the ring. With [`Dateline::Entry`], the class is that of a packet that enters the dimension
/// here: no shortest way is longer than half of the ring, so those of a direction that wrap do not close
/// it, nor do those that do not.
pub(super) fn torus_hop(
    topology: &Topology,
    size: &[usize],
    from: usize,
    to: usize,
) -> (usize, VcClass, bool) {
    let (mut from, mut to) = (from, to);
    for (dimension, &length) in size.iter().enumerate() {
        let (here, there) = (from % length, to % length);
        if here != there {
            let ahead = (there + length - here) % length;
            let (shorter, tie) = (2 * ahead < length, 2 * ahead == length);
            let (forward, second) = match topology.dateline {
                // At equal distance, even places go up and odd places down, to load both ways alike.
                Dateline::Crossing => {
                    let forward = shorter || (tie && here % 2 == 0);
                    (forward, if forward { here < there } else { here > there })
                }
                Dateline::Entry => (shorter || tie, here > there),
            };
            let class = if second { VcClass::Second } else { VcClass::First };
            let port = if forward { up } else { down }(topology.locals, dimension);
            return (port, class, tie && topology.dateline == Dateline::Entry);
        }
        (from, to) = (from / length, to / length);
    }
    unreachable!("a packet at its destination needs no hop")
}
