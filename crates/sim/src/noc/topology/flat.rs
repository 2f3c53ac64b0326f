//! Networks in which rows and columns are fully connected: flattened butterflies and crossbars.

use super::super::spec::Spec;
use super::{Axis, Link, Port, Router, Shape, Topology, attach, attach_to_all};

/// Builds a flattened butterfly or a crossbar.
pub(super) fn build(spec: &Spec) -> Topology {
    match spec.topology {
        Shape::FlatFly { columns, rows } => butterfly(spec, columns, rows),
        Shape::Crossbar { ports } => crossbar(spec, ports),
        _ => unreachable!("neither butterfly nor crossbar"),
    }
}

/// Port of router `from` towards `to` in the same row or column: first come those of the endpoints,
/// then the others of the row by column, then those of the column by row.
fn port_towards(locals: usize, columns: usize, from: usize, to: usize) -> usize {
    let others_before = |here: usize, there: usize| if there > here { there - 1 } else { there };
    if from / columns == to / columns {
        locals + others_before(from % columns, to % columns)
    } else {
        locals + columns - 1 + others_before(from / columns, to / columns)
    }
}

/// Output port: along the row first.
pub(super) fn next_port(locals: usize, columns: usize, from: usize, to: usize) -> usize {
    let (row, column) = (from / columns, to % columns);
    let corner = row * columns + column;
    port_towards(locals, columns, from, if corner == from { to } else { corner })
}

fn butterfly(spec: &Spec, columns: usize, rows: usize) -> Topology {
    let (count, locals) = (columns * rows, spec.concentration);
    let mut links = Vec::new();
    for from in 0..count {
        for to in 0..count {
            let (same_row, same_column) =
                (from / columns == to / columns, from % columns == to % columns);
            if same_row != same_column {
                links.push(Link {
                    from: Port { router: from, port: port_towards(locals, columns, from, to) },
                    to: Port { router: to, port: port_towards(locals, columns, to, from) },
                    latency_cycles: spec.link_latency_cycles,
                    axis: if same_row { Axis::X } else { Axis::Y },
                });
            }
        }
    }
    let router = |i| Router {
        x: (i % columns) as i16,
        y: (i / columns) as i16,
        pipeline: spec.router,
        edge: false,
    };
    Topology {
        shape: spec.topology.clone(),
        routers: (0..count).map(router).collect(),
        locals,
        dateline: spec.dateline,
        ports: spec.topology.ports() + locals - 1,
        links,
        endpoints: attach_to_all(count, locals),
        next_ports: Vec::new(),
    }
}

fn crossbar(spec: &Spec, ports: usize) -> Topology {
    Topology {
        shape: spec.topology.clone(),
        routers: vec![Router { x: 0, y: 0, pipeline: spec.router, edge: false }],
        locals: ports,
        dateline: spec.dateline,
        ports,
        links: Vec::new(),
        endpoints: (0..ports).map(|port| attach(Port { router: 0, port })).collect(),
        next_ports: Vec::new(),
    }
}
