//! Queue pairs with two sides (TSM, invariant h): every interleaving of the two ends of a connection over each
//! kind of carrier, with pinned counts.

mod carriers;
mod model;
