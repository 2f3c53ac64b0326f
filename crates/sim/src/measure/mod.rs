//! Statistics of a simulation's output: which part of it counts, and how far the mean of that part can be
//! trusted.
//!
//! | file | content |
//! |---|---|
//! | `series` | observations of equal length, bounded in number; what else was counted in the meantime |
//! | `warm_up` | the end of the initial transient, by MSER-5 |
//! | `batch_means` | the confidence interval of the mean of correlated observations |
//! | `student` | quantiles of Student's t distribution |
//! | `estimate` | these together: the steady state, and whether it is known well enough |
//! | `sampler` | a run that goes on until then |
//! | `histogram` | latencies, of chips, racks, networks and memories alike |

mod batch_means;
mod estimate;
mod histogram;
mod sampler;
mod series;
mod student;
#[cfg(test)]
mod tests;
mod warm_up;

pub use batch_means::{BATCHES, Interval, interval};
pub use estimate::{Estimate, estimate};
pub use histogram::{Histogram, Summary};
pub use sampler::{Sampler, Steady};
pub use series::{OBSERVATIONS, PER_SEGMENT, Segment, Series};
pub use student::two_sided_95;
pub use warm_up::{GROUP, WarmUp, mser5};
