//! What crosses between the halves of a network from one cycle to the next.
//!
//! There are two of them. Before a cycle the halves exchange theirs: what the routers have put into the one is for the
//! ends in this cycle, and the other way round.

use super::state::Route;
use super::wheel::List;
use crate::engine::Cycle;

/// What one half has for the other.
#[derive(Debug, Default)]
pub(super) struct Crossing {
    /// For the ends, in one cycle; empty after it.
    pub outward: Outward,
    /// For the routers; empty after their cycle.
    pub inward: Inward,
}

/// What reaches the ends in a cycle.
#[derive(Debug, Default)]
pub(super) struct Outward {
    /// The cycle for which it is.
    pub cycle: Cycle,
    /// VCs of sources that get a credit.
    pub credits: List<u32>,
    /// Packets whose tail reaches the endpoint, with the links between routers that they have crossed.
    pub tails: List<(u32, u8)>,
}

/// What the ends have done in a cycle.
#[derive(Debug, Default)]
pub(super) struct Inward {
    /// Input VCs that get a flit.
    pub flits: List<u32>,
    /// When they do.
    pub arrive_at: Cycle,
    /// Packets that have got an input VC.
    pub packets: Vec<Entering>,
    /// Delivery queues that a packet has been taken from, with their endpoints.
    pub taken: Vec<(u16, u32)>,
}

/// A packet that has got the input VC by which it enters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entering {
    pub vc: u32,
    pub packet: u32,
    pub route: Route,
}

impl Crossing {
    /// Nothing yet, of so many endpoints and inputs of routers.
    pub fn new(endpoints: usize, inputs: usize) -> Crossing {
        // A source sends a flit in a cycle.
        let flits = List::new(endpoints);
        let packets = Vec::with_capacity(endpoints);
        Crossing {
            outward: Outward { cycle: 0, credits: List::new(endpoints), tails: List::new(inputs) },
            inward: Inward { flits, arrive_at: 0, packets, taken: Vec::new() },
        }
    }
}

impl Outward {
    pub fn is_empty(&self) -> bool {
        self.credits.events().is_empty() && self.tails.events().is_empty()
    }
}

impl Inward {
    pub fn is_empty(&self) -> bool {
        self.flits.events().is_empty() && self.taken.is_empty()
    }
}
