//! `rackmem report`: a page about runs of the model, side by side.
//!
//! | module | content |
//! |---|---|
//! | [`read`] | files and folders of runs |
//! | [`runs`] | a run, its settings, and in which of them runs differ |
//! | [`limits`] | what limited a run |
//! | `quantities` | the numbers that runs are compared by |
//! | [`page`] | the page about a few runs |
//! | `many` | the page about a sweep |
//! | `axes`, `sweep` | a quantity over the settings |

mod axes;
pub mod limits;
mod many;
pub mod page;
mod quantities;
pub mod read;
pub mod runs;
mod sweep;
