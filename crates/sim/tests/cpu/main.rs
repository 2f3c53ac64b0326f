//! Executing cores: their results, the order in which memory sees them, and their times.

#[path = "../../../riscv/tests/support/asm.rs"]
#[allow(dead_code)]
mod asm;
mod code;
#[path = "../../../riscv/tests/support/generate.rs"]
mod generate;
mod litmus;
mod memory;
mod node;
mod polling;
mod programs;
#[path = "../../../riscv/tests/support/rng.rs"]
#[allow(dead_code)]
mod rng;
#[path = "../../../../tests/seeds.rs"]
mod seeds;
mod timing;
mod waits;
