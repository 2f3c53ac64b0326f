//! Machine files: what a machine is made of ([`spec`]).

pub mod spec;

pub use spec::Machine;
