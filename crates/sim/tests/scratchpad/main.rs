//! Cache-integrated network interfaces without time: what accesses and packets come to, in any order
//! in which the network may deliver them (CINI §3; the invariants a to e of its specification).

mod chaos;
mod commands;
mod counters;
mod exhaustive;
mod lines;
mod queues;
mod regions;
mod system;
