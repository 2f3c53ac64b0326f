//! Statistics of a simulation's output: which part of it counts, and how far the mean of that part can be
//! trusted.
//!
//! | file | content |
//! |---|---|
//! | `spec` | the section of a machine file |
//! | `series` | observations of equal length, bounded in number; what else was counted in the meantime |
//! | `reads` | reads that completed in an observation, and their mean latency |
//! | `warm_up` | the end of the initial transient, by MSER-5 |
//! | `batch_means` | the confidence interval of the mean of correlated observations |
//! | `student` | quantiles of Student's t distribution |
//! | `sampler` | these together: a run that goes on until its steady state is known well enough |
//! | `histogram` | latencies, of chips, racks, networks and memories alike |

mod batch_means;
mod histogram;
mod reads;
mod sampler;
mod series;
mod spec;
mod student;
#[cfg(test)]
mod tests;
mod warm_up;

pub use batch_means::interval;
pub use histogram::{Histogram, Summary};
pub use reads::Reads;
pub use sampler::{Progress, Sampler, Window};
pub use series::{Segment, Series};
pub use spec::{RunSpec, Steadiness};
pub(crate) use student::two_sided_95;
