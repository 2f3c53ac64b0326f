//! The block device: its own client, hostile ones, other people's tools, and a lender that dies.

mod client;
mod data;
mod fuzz;
mod hostile;
mod loss;
mod rig;
mod tools;
