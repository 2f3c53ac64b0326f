//! RV64GC programs: decoding, executing, loading, and the kernel that they call. The crate has no
//! timing; its driver decides how long each step takes.
//!
//! ```text
//!              decode            execute / issue, complete
//!   words ───────────────▶ Inst ───────────────────────────▶ Hart ◀──▶ Port
//!                           │                                 │     (memory, counters)
//!                           ▼                                 ▼ ecall
//!                    class, registers,                     Kernel ◀──▶ Host
//!                    size, jump hint                          │     (time, files, harts)
//!                                                             ▼
//!   ELF file ────▶ elf, stack ─────────────────────────▶ UserMemory
//! ```
//!
//! - [`decode()`] makes an [`Inst`] of 16 bytes, once per instruction of the program. It also
//!   answers the questions of timing models: [`Inst::class`], [`Inst::sources`], [`Inst::dest`],
//!   [`Inst::access_size`], [`Inst::jump_hint`].
//! - [`code`] keeps decoded instructions, page by page.
//! - [`exec::execute`] defines the effects of instructions, once, for any [`Port`] behind the [`Hart`].
//! - [`exec::split`] cuts instructions in two, so that a driver with simulated time decides when an
//!   access completes and which value a load gets.
//! - [`float`] is IEEE 754 with every rounding mode and exact flags.
//! - [`elf`] and [`stack`] put a static program into memory, an [`AddressSpace`](space::AddressSpace)
//!   or whatever the driver has.
//! - [`kernel`] carries out system calls. It has neither clock nor threads: harts that sleep are
//!   put to sleep by the driver.
//! - [`functional`] is the simplest driver: it runs a program to its end, fast.
//!
//! Privileged modes, processes, datagram sockets and the vector extension are not implemented.

#![forbid(unsafe_code)]

pub mod code;
pub mod csr;
mod decode;
mod disasm;
pub mod elf;
pub mod encode;
pub mod exec;
pub mod float;
pub mod fnv;
pub mod functional;
mod hart;
pub mod host;
mod inst;
pub mod kernel;
mod lines;
pub mod names;
mod op;
mod port;
pub mod space;
pub mod stack;
mod stop;
mod symbols;

pub use decode::{decode, expand, length};
pub use disasm::{disassemble, f_name, x_name};
pub use hart::{Hart, abi};
pub use inst::{Inst, JumpHint, Mark, Reg};
pub use kernel::network;
pub use op::{Class, Format, Op};
pub use port::{AmoOp, Port};
pub use stop::Stop;
pub use symbols::Symbols;
