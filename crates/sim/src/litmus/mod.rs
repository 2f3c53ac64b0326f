//! Litmus tests of the memory model: short threads, and the outcomes that RVWMO allows them.
//!
//! A test in the form of herd's `.litmus` files is parsed ([`parse()`]), the outcomes that the model allows
//! are enumerated ([`model`]), and the model's cores run it many times ([`run`]). A core is wrong if
//! an outcome comes that is not allowed. An outcome that is allowed and not sequentially consistent is
//! *relaxed*; a suite that sees none of these could not fail.
//!
//! | module | content |
//! |---|---|
//! | [mod@test] | a test: locations, threads, the final condition |
//! | [`parse`](mod@parse) | from text to a test |
//! | [`model`] | RVWMO by its axioms: all executions of a test, and which are allowed |
//! | [`generate`] | the built-in set: classic shapes times fences, dependencies, annotations |
//! | [`run`] | a test on cores, seed by seed |
//! | [`on_chip`] | a test on the cores of a chip, with its caches and its network |
//! | [`suite`] | many tests, and sums by shape |
//! | [`code`] | an assembler for short programs |
//! | [`memory`] | coherent memory in miniature, with delays as wild as a test wants |
//! | [`node`] | cores around that memory |
//!
//! # Decisions
//!
//! - All accesses of a test have one size, and each is of one location: no mixed-size executions.
//! - A backward branch is followed [`model::LOOPS`] times at most. Loops that retry until something
//!   happens have the same outcomes after one round as after many.
//! - A store conditional may fail without a reason. One that succeeds at another location than the one that
//!   was reserved is allowed, as a core may reserve more than was asked for.

pub mod code;
pub mod generate;
pub mod memory;
pub mod model;
pub mod node;
pub mod on_chip;
pub mod parse;
pub mod run;
pub mod suite;
pub mod test;

pub use parse::parse;
