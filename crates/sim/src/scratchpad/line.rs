//! The states of a line of the cache (CINI §3.1, Fig. 2): its state bits, and the content of its tag bits,
//! as a scratchpad line needs no tag to be found.

use super::queue::Queue;

/// State bits of a line, as software names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum State {
    /// It belongs to the cache.
    Cache = 0,
    /// Scratchpad memory: loads and stores, and nothing more happens.
    Plain = 1,
    /// Command buffer: it starts a transfer when complete (CINI §3.3).
    Command = 2,
    /// Counter: stores add to its value, and at zero it notifies (CINI §3.3).
    Counter = 3,
    /// Descriptor of a single-reader queue.
    SingleReader = 4,
    /// Descriptor of a multiple-reader queue.
    MultipleReader = 5,
}

impl State {
    /// The state of this number.
    pub const fn of(number: u8) -> Option<State> {
        Some(match number {
            0 => State::Cache,
            1 => State::Plain,
            2 => State::Command,
            3 => State::Counter,
            4 => State::SingleReader,
            5 => State::MultipleReader,
            _ => return None,
        })
    }
}

/// The content of a multiple-reader queue: never both at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Holds {
    /// Data that nobody has asked for yet.
    Data,
    /// Requests for data that has not come yet.
    Requests,
}

/// Bit of a state word: the line has a job in the job list. An operating system that saves the line waits until it has
/// none.
pub const UNDER_WAY: u64 = 1 << 63;

/// State and tag bits of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Line {
    /// See [`State::Cache`].
    #[default]
    Cache,
    /// See [`State::Plain`].
    Plain,
    /// See [`State::Command`].
    Command {
        /// Words that have been stored: a bit each.
        valid: u8,
        /// It is complete, and in the job list.
        is_pending: bool,
    },
    /// See [`State::Counter`].
    Counter {
        /// Value that it has come to.
        value: u64,
        /// Number of times that it has come to zero and nobody was notified yet.
        episodes: u32,
    },
    /// See [`State::SingleReader`].
    SingleReader(Queue),
    /// See [`State::MultipleReader`].
    MultipleReader(Queue, Holds),
}

impl Line {
    /// Its state bits.
    pub const fn state(&self) -> State {
        match self {
            Line::Cache => State::Cache,
            Line::Plain => State::Plain,
            Line::Command { .. } => State::Command,
            Line::Counter { .. } => State::Counter,
            Line::SingleReader(_) => State::SingleReader,
            Line::MultipleReader(..) => State::MultipleReader,
        }
    }

    /// Whether it is scratchpad memory and nothing else.
    pub fn is_plain(&self) -> bool {
        *self == Line::Plain
    }

    /// Bytes behind it that belong to it.
    pub const fn body_bytes(&self) -> u32 {
        match self {
            Line::SingleReader(queue) | Line::MultipleReader(queue, _) => queue.body_bytes,
            _ => 0,
        }
    }

    /// Whether it has a job in the job list: a command that is not all sent, or notifications.
    pub fn is_under_way(&self) -> bool {
        match self {
            Line::Command { is_pending, .. } => *is_pending,
            Line::Counter { episodes, .. } => *episodes > 0,
            _ => false,
        }
    }

    /// State, and for a queue its shape, as a word that makes the same line again; [`UNDER_WAY`] is beside it.
    pub fn state_word(&self) -> u64 {
        let shape = match self {
            Line::SingleReader(queue) | Line::MultipleReader(queue, _) => {
                u64::from(queue.item_words) << 8 | u64::from(queue.body_bytes) << 16
            }
            _ => 0,
        };
        let under_way = if self.is_under_way() { UNDER_WAY } else { 0 };
        self.state() as u64 | shape | under_way
    }

    /// Tag bits as a word.
    pub fn tag_word(&self) -> u64 {
        match self {
            Line::Cache | Line::Plain => 0,
            Line::Command { valid, .. } => u64::from(*valid),
            Line::Counter { value, .. } => *value,
            Line::SingleReader(queue) => queue.tag_bits(),
            Line::MultipleReader(queue, holds) => {
                queue.tag_bits() | u64::from(*holds == Holds::Requests) << 63
            }
        }
    }

    /// Puts tag bits back that were saved.
    pub fn restore(&mut self, word: u64) {
        let restore = |queue: &mut Queue| {
            queue.head = word as u32;
            queue.tail = (word >> 32) as u32 & 0x7fff_ffff;
        };
        match self {
            Line::Cache | Line::Plain => {}
            Line::Command { valid, .. } => *valid = word as u8,
            Line::Counter { value, .. } => *value = word,
            Line::SingleReader(queue) => restore(queue),
            Line::MultipleReader(queue, holds) => {
                restore(queue);
                *holds = if word >> 63 == 1 { Holds::Requests } else { Holds::Data };
            }
        }
    }

    /// Whether something would be lost if it became something else.
    pub fn is_in_use(&self) -> bool {
        match self {
            Line::Cache | Line::Plain => false,
            Line::Command { valid, .. } => self.is_under_way() || *valid != 0,
            Line::Counter { .. } => self.is_under_way(),
            Line::SingleReader(queue) | Line::MultipleReader(queue, _) => !queue.is_empty(),
        }
    }
}
