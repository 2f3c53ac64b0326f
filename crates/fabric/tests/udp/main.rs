//! The link over wires that lose, delay, reorder, double and damage, and over peers that die.

#[path = "../../../../tests/seeds.rs"]
mod seeds;
mod simulated;
mod udp;
