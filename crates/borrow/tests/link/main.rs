//! The link over wires that lose, delay, reorder, double and damage, and over peers that die.

mod simulated;
mod udp;
