//! The tables of borrowed resources: random steps against plain references.

mod amt;
mod imt;
