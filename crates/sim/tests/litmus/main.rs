//! Litmus tests: the parser, the model of RVWMO, and cores beside it.

mod files;
mod on_chip;
mod parser;
mod suite;
