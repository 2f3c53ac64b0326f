//! The tables of borrowed resources.

mod amt;
mod imt;
