//! NICs lent between network namespaces: R borrows from D, whose NIC leads to E.
//!
//! If namespaces cannot be made (no root, no iproute2), these tests say so and pass.

#[path = "../common/mod.rs"]
mod common;
mod rack;

mod crashes;
mod hostile;
mod packets;
mod priority;
mod registers;
mod settings;
