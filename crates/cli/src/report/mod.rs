//! `rackmem report`: one page about runs of the model, side by side.
//!
//! [`runs`] reads reports and finds how their machines differ, [`limits`] names what limited a run, [`page`]
//! writes the page: tables are made here, charts by `charts.js` with d3 and Observable Plot, which are embedded.

pub mod limits;
pub mod page;
pub mod runs;
