//! NOC-Out (Lotfi-Kamran, Grot, Falsafi, MICRO 2012), as the manycore NI paper uses it (section 6.3).
//!
//! A row of LLC tiles lies between two halves of cores. The cores of half a column are chained twice:
//! by a reduction tree, whose nodes are two-input multiplexers towards the LLC, and by a dispersion
//! tree, whose nodes are demultiplexers towards the cores. Both take one cycle per hop. The LLC tiles
//! form a one-dimensional flattened butterfly whose links cover two tiles per cycle.
//!
//! The papers do not say how the memory controllers are attached. Here half of them share a router at
//! each end of the LLC row, one tile beyond it, which is part of the butterfly.
//!
//! Routers: reduction nodes by core, dispersion nodes by core, LLC tiles by column, west and east
//! memory router. Cores do not reach each other but through the LLC, where a packet may turn back.

use super::super::spec::{Pipeline, Spec};
use super::{Attachment, Axis, Link, Port, Router, Topology};

/// Reduction node: input of its core.
const FROM_CORE: usize = 0;
/// Reduction node: output towards the LLC. Dispersion node: input from there.
const NEAR: usize = 1;
/// Reduction node: input from the core behind. Dispersion node: output to it.
const FAR: usize = 2;
/// Dispersion node: output to its core.
const TO_CORE: usize = 0;
/// LLC tile: its endpoint.
const LLC_LOCAL: usize = 0;
/// LLC tile: trees of the upper half; those of the lower half have the next port.
const LLC_TREES: usize = 1;
/// LLC tile: first port of the butterfly.
const LLC_BUTTERFLY: usize = 3;

#[derive(Clone, Copy)]
struct Plan {
    columns: usize,
    rows: usize,
}

impl Plan {
    fn cores(self) -> usize {
        self.columns * self.rows
    }
    fn reduction(self, core: usize) -> usize {
        core
    }
    fn dispersion(self, core: usize) -> usize {
        self.cores() + core
    }
    /// Router of a place in the butterfly: LLC tiles by column, then west and east memory.
    fn hub(self, place: usize) -> usize {
        2 * self.cores() + place
    }
    fn hubs(self) -> usize {
        self.columns + 2
    }
    /// Tile position of a place in the LLC row.
    fn position(self, place: usize) -> i64 {
        match place.checked_sub(self.columns) {
            None => place as i64,
            Some(0) => -1,
            Some(_) => self.columns as i64,
        }
    }
    fn is_upper(self, core: usize) -> bool {
        core / self.columns < self.rows / 2
    }
    /// The next core towards the LLC, or `None` if that is the LLC tile.
    fn nearer(self, core: usize) -> Option<usize> {
        let (row, half) = (core / self.columns, self.rows / 2);
        match self.is_upper(core) {
            true => (row + 1 < half).then(|| core + self.columns),
            false => (row > half).then(|| core - self.columns),
        }
    }
    /// Port of an LLC tile for the trees of the half with this core.
    fn tree_port(self, core: usize) -> usize {
        LLC_TREES + usize::from(!self.is_upper(core))
    }
    /// First butterfly port of a place: LLC tiles have trees before it, memory routers endpoints.
    fn butterfly_base(self, place: usize) -> usize {
        if place < self.columns { LLC_BUTTERFLY } else { self.columns.div_ceil(2) }
    }
    fn butterfly_port(self, from: usize, to: usize) -> usize {
        self.butterfly_base(from) + if to > from { to - 1 } else { to }
    }
    /// Place in the butterfly and local port of a memory controller: the first half is in the west.
    fn memory(self, controller: usize) -> (usize, usize) {
        let west = self.columns.div_ceil(2);
        match controller.checked_sub(west) {
            None => (self.columns, controller),
            Some(east) => (self.columns + 1, east),
        }
    }
}

pub(super) fn build(spec: &Spec, columns: usize, rows: usize) -> Topology {
    let plan = Plan { columns, rows };
    Topology {
        shape: spec.topology.clone(),
        routers: routers(spec, plan),
        locals: 1,
        dateline: spec.dateline,
        ports: spec.topology.ports(),
        links: (0..plan.cores())
            .flat_map(|core| trees(spec, plan, core))
            .chain(butterfly(spec, plan))
            .collect(),
        endpoints: endpoints(plan),
        next_ports: Vec::new(),
    }
}

fn routers(spec: &Spec, plan: Plan) -> Vec<Router> {
    // The LLC row lies between the two halves, so the lower half is one row further down.
    let y = |core| core / plan.columns + usize::from(!plan.is_upper(core));
    let node = |core| Router {
        x: (core % plan.columns) as i16,
        y: y(core) as i16,
        pipeline: Pipeline::One,
        edge: false,
    };
    let hub = |place| Router {
        x: plan.position(place) as i16,
        y: (plan.rows / 2) as i16,
        pipeline: spec.router,
        edge: false,
    };
    let nodes = (0..2 * plan.cores()).map(|i| node(i % plan.cores()));
    nodes.chain((0..plan.hubs()).map(hub)).collect()
}

fn trees(spec: &Spec, plan: Plan, core: usize) -> [Link; 2] {
    let (inwards, outwards) = match plan.nearer(core) {
        Some(next) => (
            Port { router: plan.reduction(next), port: FAR },
            Port { router: plan.dispersion(next), port: FAR },
        ),
        None => {
            let llc = Port { router: plan.hub(core % plan.columns), port: plan.tree_port(core) };
            (llc, llc)
        }
    };
    let latency_cycles = spec.tree_hop_cycles;
    let link = |from, to| Link { from, to, latency_cycles, axis: Axis::Y };
    [
        link(Port { router: plan.reduction(core), port: NEAR }, inwards),
        link(outwards, Port { router: plan.dispersion(core), port: NEAR }),
    ]
}

fn butterfly(spec: &Spec, plan: Plan) -> impl Iterator<Item = Link> {
    let speed = spec.tiles_per_cycle;
    let pairs = move |a| (0..plan.hubs()).filter(move |&b| b != a).map(move |b| (a, b));
    (0..plan.hubs()).flat_map(pairs).map(move |(a, b)| Link {
        from: Port { router: plan.hub(a), port: plan.butterfly_port(a, b) },
        to: Port { router: plan.hub(b), port: plan.butterfly_port(b, a) },
        latency_cycles: plan.position(a).abs_diff(plan.position(b)).div_ceil(speed),
        axis: Axis::X,
    })
}

fn endpoints(plan: Plan) -> Vec<Attachment> {
    let core = |core| Attachment {
        inject: Port { router: plan.reduction(core), port: FROM_CORE },
        eject: Port { router: plan.dispersion(core), port: TO_CORE },
    };
    let both = |port| Attachment { inject: port, eject: port };
    let llc = |column| both(Port { router: plan.hub(column), port: LLC_LOCAL });
    let memory = |controller| {
        let (place, port) = plan.memory(controller);
        both(Port { router: plan.hub(place), port })
    };
    let columns = 0..plan.columns;
    (0..plan.cores()).map(core).chain(columns.clone().map(llc)).chain(columns.map(memory)).collect()
}

/// Output port at `router` towards endpoint `dst`, which is not attached there.
pub(super) fn next_port(columns: usize, rows: usize, router: usize, dst: usize) -> usize {
    let plan = Plan { columns, rows };
    let cores = plan.cores();
    if router < cores {
        return NEAR;
    }
    if router < 2 * cores {
        // Whatever is in a dispersion tree and not at its core is for a core behind.
        return FAR;
    }
    let here = router - 2 * cores;
    let there = match dst.checked_sub(cores) {
        None => dst % columns,
        Some(llc) if llc < columns => llc,
        Some(memory) => plan.memory(memory - columns).0,
    };
    if here == there { plan.tree_port(dst) } else { plan.butterfly_port(here, there) }
}
