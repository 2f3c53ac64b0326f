//! The cache-integrated network interface (CINI §3): a private cache of which lines can be turned, one
//! by one and at run time, into scratchpad memory and into lines that respond to accesses, as pure
//! state machines. `chip::integrated` gives them time and a network.
//!
//! | file | content |
//! |---|---|
//! | [`region`] | regions of addresses |
//! | [`table`] | addresses that a process gives to them: the address region table |
//! | [`mod@line`] | states of a line, and the content of its tag bits |
//! | `spec` | the section of a machine file |
//! | `command` | command buffers: a transfer starts when its description is complete |
//! | `queue` | pointers of single- and multiple-reader queues |
//! | `ni` | one cache's interface: its lines, accesses to them, and packets that leave |
//! | `combine` | remote stores to one line leave together |
//! | [`dram`] | memory without caches, and its DMA engine |
//! | `port` | the cache's accesses, which core and interface share |
//! | `packet`, `transfer` | packets, and transfers of several |
//! | `misuse` | errors of programs |
//!
//! Every access to a line, local or remote, is one atomic step: it reads and updates the tag, may
//! choose another line (queues), and may add to the job list. Jobs leave as packets, one at a time and
//! in turn, so that a short transfer is not held up by a long one.
//!
//! # One lock, followed through the code (`rackmem sim exec cache-integrated`)
//!
//! The program loads the first word of a line in another core's scratchpad. `chip/cpu.rs` sees from the address that
//! this is no memory, so the load waits until it is the oldest instruction (`cpu/head.rs`) and becomes a read packet
//! (`chip/integrated.rs`, `ni`). There the line is a queue with multiple readers: in one step the read takes the
//! token from the queue's body, or is put into it. The release is a store to the same word. It leaves the core's store
//! buffer, crosses the chip, and meets the oldest read, whose answer is a job: a packet that ends the load that has
//! waited longest.
//!
//! # Decisions
//!
//! - *Sets* keep one way for the cache. A line that is taken from the cache goes through its write-back buffer.
//! - *Packets to the own scratchpad* cross the network as all do. A core's load of its own queue is an access to its
//!   cache, and only the answer is a packet.
//! - *Misuse* ends the program with core, function, line and reason (`misuse`): such a program would be undefined on
//!   hardware.
//! - *DMA to memory* goes to a range that caches do not keep (`scratchpad.dram_bytes`). Copies to cacheable memory are
//!   refused, as on the prototype.

use crate::block::BLOCK_BYTES;

mod combine;
mod command;
pub mod dram;
pub mod line;
mod misuse;
mod ni;
mod packet;
mod port;
mod queue;
pub mod region;
mod spec;
pub mod table;
mod transfer;

pub use line::State;
pub use misuse::Misuse;
pub use ni::{Ni, NiSpec, NiState, Stored};
pub use packet::{Class, Packet};
pub use port::Port;
pub use region::{Regions, Target};
pub use spec::ScratchpadSpec;

/// Bytes of a cache line, of which each has state bits of its own.
pub const LINE_BYTES: u32 = BLOCK_BYTES as u32;

/// Bytes of a word: arguments of commands, values of counters, and items of queues are words.
pub const WORD_BYTES: u32 = 8;

/// The longest RDMA-copy (CINI §5.4: "up to 64 KB").
pub const MAX_COPY_BYTES: u32 = 64 << 10;

/// The longest message: a line less opcode, destination and acknowledgement.
pub const MAX_MESSAGE_BYTES: u32 = 5 * WORD_BYTES;

/// Addresses that a counter notifies (CINI §3.3: "four on our prototype").
pub const NOTIFICATIONS: usize = 4;
