//! What all parts of the model share: time and chance.

pub mod random;

pub use random::Random;

/// Simulated time, in cycles of the chip's clock.
pub type Cycle = u64;
