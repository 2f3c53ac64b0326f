//! `rackmem report`: one page about runs of the model, side by side.
//!
//! [`runs`] reads reports and finds how their machines differ, [`limits`] names what limited a run, [`page`]
//! writes the page, and `sweep` what becomes of a quantity when settings change.

pub mod limits;
pub mod page;
pub mod runs;
mod sweep;
