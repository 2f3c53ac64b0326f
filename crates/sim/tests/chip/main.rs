//! Promises of a whole chip: data, queues, message sequences, times.

mod bench;
mod determinism;
mod figures;
mod links;
mod load;
mod machines;
mod operations;
mod oracle;
mod physics;
mod rack;
mod random;
mod remote;
mod rest;
#[path = "../../../../tests/seeds.rs"]
mod seeds;
mod software;
mod stuck;
mod workloads;
