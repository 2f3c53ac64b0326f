//! Misuse of a cache-integrated network interface by a program.

use super::{MAX_COPY_BYTES, MAX_MESSAGE_BYTES};

/// A forbidden act of a program; it ends the program. Addresses are virtual.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Misuse {
    /// An access to a line of a cache that is not scratchpad.
    NotScratchpad(u64),
    /// A transfer names an address that is in no scratchpad and not in uncached memory.
    NoRegion(u64),
    /// A word of a command was written twice before the command started.
    DoubleWrite(u64),
    /// A command's word was written in part.
    PartOfWord(u64),
    /// An opcode that there is not.
    Opcode(u64, u8),
    /// A message that does not fit into its line, or a copy of nothing or of too much.
    Size(u64, u32),
    /// A queue has no room for what arrives.
    Overflow(u64),
    /// An item that is larger than the queue's items, or not written from the descriptor's first byte.
    Item(u64),
    /// A new head that is not between head and tail.
    Head(u64, u64),
    /// A state that there is not.
    State(u64, u8),
    /// A queue's body is not a power of two of bytes, at least a line, that begins at a multiple of its
    /// size behind the descriptor, of plain lines.
    Body(u64, u32),
    /// Items of queues are of 1, 2, 4 or 8 words; a multiple-reader queue's of 4 at most.
    ItemWords(u64, u8),
    /// A line is converted that is in use: a command under way, items or requests in a queue.
    InUse(u64),
    /// A set would have no line left for the cache.
    LastWay(u64),
    /// A core converts a line of another core's cache.
    Foreign(u64),
}

impl std::fmt::Display for Misuse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Misuse::NotScratchpad(at) => {
                write!(f, "the line at {at:#x} is not scratchpad; allocate it before it is used")
            }
            Misuse::NoRegion(at) => write!(
                f,
                "a transfer names {at:#x}, which is in no scratchpad and not in uncached memory"
            ),
            Misuse::DoubleWrite(at) => write!(
                f,
                "the word at {at:#x} of a command was written twice; write each word once"
            ),
            Misuse::PartOfWord(at) => write!(
                f,
                "a word of the command at {at:#x} was written in part; store all 8 bytes at once"
            ),
            Misuse::Opcode(at, opcode) => {
                write!(
                    f,
                    "the command at {at:#x} has the opcode {opcode}; 1 is a message, 2 a copy"
                )
            }
            Misuse::Size(at, bytes) => write!(
                f,
                "the command at {at:#x} is for {bytes} bytes; a message has at most \
                 {MAX_MESSAGE_BYTES}, a copy 1 to {MAX_COPY_BYTES}"
            ),
            Misuse::Overflow(at) => {
                write!(f, "the queue at {at:#x} is full; make it larger or return credits")
            }
            Misuse::Item(at) => write!(
                f,
                "what arrives at the queue at {at:#x} is no item: write at most an item, from the \
                 descriptor's first byte on"
            ),
            Misuse::Head(at, head) => write!(
                f,
                "the queue at {at:#x} cannot have the head {head}: it is not between head and tail"
            ),
            Misuse::State(at, state) => {
                write!(f, "the line at {at:#x} cannot become {state}: states are 0 to 5")
            }
            Misuse::Body(at, bytes) => write!(
                f,
                "the queue at {at:#x} cannot have a body of {bytes} bytes: a power of two, at least a \
                 line, of plain lines, that begins at a multiple of its size"
            ),
            Misuse::ItemWords(at, words) => write!(
                f,
                "the queue at {at:#x} cannot have items of {words} words: 1, 2, 4 or 8, with \
                 multiple readers at most 4"
            ),
            Misuse::InUse(at) => write!(
                f,
                "the line at {at:#x} is in use: by a command under way, or by a queue that is not empty \
                 or whose body it is"
            ),
            Misuse::LastWay(at) => {
                write!(f, "the line at {at:#x} is the last one of its set that can be a cache line")
            }
            Misuse::Foreign(at) => {
                write!(f, "the line at {at:#x} is another core's: only its own core converts it")
            }
        }
    }
}

impl std::error::Error for Misuse {}
