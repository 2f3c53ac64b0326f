//! What watches a rack: `/metrics` of daemons, lenders and monitors.

mod client;
#[path = "../common/mod.rs"]
mod common;
mod hostile;
mod lenders;
mod names;
mod operations;
mod rack;
mod text;
