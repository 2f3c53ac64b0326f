//! Layouts that software, remote memory controller and wire share: queue entries, packets, opcodes
//! and status codes (soNUMA §4.1, §6).
//!
//! Everything here is plain data in integer words. The C face of the same layouts is
//! `include/rackmem.h`; a test compares the two.
#![no_std]

mod op;
mod packet;
mod queue;
mod status;

pub use op::Op;
pub use packet::{
    HEADER_BYTES, Header, MAX_UNIT_BYTES, PACKET_BYTES, Packet, ParseError, Reply, Request,
};
pub use queue::{CQ_ENTRY_BYTES, CqEntry, WQ_ENTRY_BYTES, WqEntry, phase_of};
pub use status::Status;

/// Size of a line, the unit of transfer and of atomicity (soNUMA §4.1).
pub const LINE_BYTES: usize = 64;

/// Largest number of entries of a work queue; `MAX_WQ_SIZE` in C (Manycore NI §5: 128 entries).
pub const MAX_WQ_SIZE: usize = 128;

/// Node identifiers are 12 bits wide.
pub const MAX_NODES: usize = 1 << 12;

/// Longest transfer of one work queue entry: 16 MiB - 1, in bytes.
pub const MAX_LENGTH: u32 = (1 << 24) - 1;

/// Segment offsets are 40 bits wide: 1 TiB per node and context.
pub const MAX_OFFSET: u64 = (1 << 40) - 1;

/// Local buffer addresses are 48 bits wide.
pub const MAX_ADDRESS: u64 = (1 << 48) - 1;

/// Transfer identifiers are 24 bits wide.
pub const MAX_TID: u32 = (1 << 24) - 1;

/// Size of the operand of an atomic operation, in bytes.
pub const ATOMIC_BYTES: u32 = 8;
