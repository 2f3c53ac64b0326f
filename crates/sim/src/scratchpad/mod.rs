//! The cache-integrated network interface (CINI §3): a private cache of which lines can be turned, one
//! by one and at run time, into scratchpad memory and into lines that respond to accesses, as pure
//! state machines. `chip::integrated` gives them time and a network.
//!
//! | file | what |
//! |---|---|
//! | [`region`] | which address is what: the address region table |
//! | [`mod@line`] | what a line is, and what its tag bits then hold |
//! | [`command`] | command buffers: a transfer starts when its description is complete |
//! | [`queue`] | pointers of single- and multiple-reader queues |
//! | [`ni`] | one cache's interface: its lines, what happens to them, what leaves |
//! | [`combine`] | remote stores to one line leave together |
//! | [`dram`] | memory without caches, and its DMA engine |
//! | [`packet`], [`transfer`] | what travels |
//! | [`misuse`] | what no program may do |
//!
//! Every access to a line, local or remote, is one atomic step: it reads and updates the tag, may
//! choose another line (queues), and may add to the job list. Jobs leave as packets, one at a time and
//! in turn, so that a short transfer is not held up by a long one.

pub mod combine;
pub mod command;
pub mod dram;
pub mod line;
pub mod misuse;
pub mod ni;
pub mod packet;
pub mod queue;
pub mod region;
pub mod transfer;

pub use line::State;
pub use misuse::Misuse;
pub use ni::{Ni, NiSpec, Stored};
pub use packet::{Class, Packet};
pub use region::{Regions, Target};

/// The words of a line.
pub type Words = [u64; 8];

/// Bytes of a line.
pub const LINE_BYTES: u32 = 64;

/// Bytes of a word: arguments of commands, values of counters, and items of queues are words.
pub const WORD_BYTES: u32 = 8;

/// The longest RDMA-copy (CINI §5.4: "up to 64 KB").
pub const MAX_COPY_BYTES: u32 = 64 << 10;

/// The longest message: what a line has besides opcode, destination and acknowledgement.
pub const MAX_MESSAGE_BYTES: u32 = 5 * WORD_BYTES;

/// Addresses that a counter notifies (CINI §3.3: "four on our prototype").
pub const NOTIFICATIONS: usize = 4;
