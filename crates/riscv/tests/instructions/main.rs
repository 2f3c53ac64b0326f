//! Are instructions decoded right, and do they do what they should?

mod decode;
mod float;
mod integer;
mod objdump;
mod random_floats;
mod random_programs;
mod split;
#[path = "../support/mod.rs"]
mod support;
