//! What the coherence protocol promises: the paper's message sequences, and every interleaving of
//! small systems that run the very controllers of this crate.

mod figures;
mod model;
mod system;
mod trace;
