//! The model's parts beside other simulators: their curves are read from files, and the same is simulated.
//!
//! A folder of references has `noc/<case>.cfg` and `.csv`, written by BookSim2, and `dram/dramsim3.csv`. Such files are
//! not part of the product; who has them says where they are.

pub mod dram;
pub mod noc;
