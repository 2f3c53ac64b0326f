//! Promises of the link (TSM §4.2, data-link layer), tested from outside: every interleaving of
//! small systems with pinned counts, and long random runs over frames as bytes.

mod bytes;
mod model;
mod steps;
