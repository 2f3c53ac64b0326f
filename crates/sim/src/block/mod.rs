//! Blocks of memory: the cache lines of all chips, and the units of the coherence protocol.
//!
//! | file | content |
//! |---|---|
//! | `words` | the bytes of a block, as little-endian words; sets of them |
//! | `content` | what messages carry: the content of a block, or a change of a part of it |
//! | `tags` | set-associative arrays of blocks |

mod content;
mod tags;
mod words;

pub use content::Block;
pub(crate) use tags::Tags;
pub use words::{Mask, Words, bytes_of, mask, merge, words_at};

/// The number of a block: its physical address divided by [`BLOCK_BYTES`].
pub type Line = u64;

/// Size of a block.
pub const BLOCK_BYTES: u64 = rackmem_abi::LINE_BYTES as u64;
