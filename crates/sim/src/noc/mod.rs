//! Network on chip: a cycle-level wormhole network with virtual channels.
//!
//! Routers are input-queued: each input port has a private buffer per virtual channel (VC), flow is
//! controlled by credits, a link carries one flit per cycle, and the switch has no speed-up. VCs and
//! the switch are allocated by separable round-robin arbiters: see [`Allocator`]. A head flit passes
//! the stages of [`Pipeline`]; body flits follow one per cycle.
//!
//! A [`Topology`] is a graph of routers, links and endpoints, with a table of next ports per
//! [`Routing`] order, so a new topology is a function that builds a graph. Virtual networks have
//! disjoint sets of VCs; inside one, the VCs are divided between the orders XY and YX where both
//! occur, and between the two sides of a ring's dateline. [`deadlock`] checks that this is enough.
//!
//! [`Network`] is what a chip uses: [`send`](Network::send), [`tick`](Network::tick),
//! [`take`](Network::take). Nothing in a tick allocates (queues keep their capacity) or hashes, and nobody waits for
//! a lock; routers without work are not visited. Every link and every credit takes at least a cycle,
//! so the order in which routers are visited does not matter, nor whether a second thread does it.
//!
//! The router follows what Dally and Towles describe (Principles and Practices of Interconnection
//! Networks, chapters 16 to 20). Left out: adaptive routing, shared buffers, bypassing, more than
//! 32 VCs or 64 ports.

mod bench;
pub mod deadlock;
mod error;
mod network;
mod routing;
mod spec;
pub mod synthetic;
mod topology;

pub use bench::{BenchRow, bench};
pub use error::SpecError;
pub use network::{Delivered, LinkLoad, Network, Stats, Stuck, VnetStats};
pub use routing::{Hop, Order, Routing, Tables, VcClass, VcRange};
pub use spec::{Allocator, Class, Dateline, Packet, Pipeline, Sources, Spec, VnetSpec};
pub use topology::{Attachment, Axis, EdgeList, Link, Port, Router, Shape, Topology};
