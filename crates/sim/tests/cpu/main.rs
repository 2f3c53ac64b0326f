//! Executing cores: their results, alone and together, and their times.

#[path = "../../../riscv/tests/support/asm.rs"]
#[allow(dead_code)]
mod asm;
mod counters;
#[path = "../../../riscv/tests/support/generate.rs"]
mod generate;
mod lives;
mod polling;
mod programs;
#[path = "../../../riscv/tests/support/rng.rs"]
#[allow(dead_code)]
mod rng;
#[path = "../../../../tests/seeds.rs"]
mod seeds;
mod system;
mod timing;
mod waits;
