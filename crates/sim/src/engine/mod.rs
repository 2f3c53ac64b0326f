//! Parts that the whole model shares: time, chance, and names for what travels.

mod agenda;
mod crew;
mod order;
mod pace;
mod random;
mod slab;
mod wheel;
mod worker;

pub(crate) use agenda::Agenda;
pub(crate) use crew::Crew;
pub(crate) use order::Turn;
pub(crate) use pace::Pace;
pub use random::Random;
pub(crate) use slab::Slab;
pub(crate) use wheel::Wheel;
pub(crate) use worker::Worker;

/// Simulated time, in cycles of the chip's clock.
pub type Cycle = u64;

/// Cycles and counts of a run are fewer, so that sums of some do not overflow.
pub(crate) const MOST: u64 = 1 << 56;
