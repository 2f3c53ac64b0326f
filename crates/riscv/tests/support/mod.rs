//! Tools that the tests share: generated programs, and QEMU to compare with.
#![allow(dead_code)] // Each test uses a part.

pub mod asm;
pub mod generate;
pub mod qemu;
pub mod rng;
pub mod timed;
