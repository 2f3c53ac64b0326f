//! Promises of the coherence protocol: the paper's message sequences, and every interleaving of small
//! systems that run the very controllers of this crate.

mod checks;
mod figures;
mod model;
mod node;
mod packet;
mod system;
mod trace;
