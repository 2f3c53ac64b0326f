//! Pointers of queues in scratchpad memory (CINI §3.3): the descriptor's tag has head and tail, and the
//! items are in the lines behind it.

use super::{LINE_BYTES, WORD_BYTES};

/// Words of an entry of a multiple-reader queue, be it data or a request: destination,
/// acknowledgement and size.
pub const SHARED_ENTRY_WORDS: u8 = 4;

/// Head and tail of a queue, counted without end: an item's place is its number modulo the capacity,
/// which hardware has as low bits of the line's index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Queue {
    /// Number of the oldest item.
    pub head: u32,
    /// Number of the next item.
    pub tail: u32,
    /// Words of an item as software sees it.
    pub item_words: u8,
    /// Words from one item to the next.
    entry_words: u8,
    pub body_bytes: u32,
}

impl Queue {
    /// An empty queue; `None` if items or body cannot be so.
    pub fn new(item_words: u8, entry_words: u8, body_bytes: u32) -> Queue {
        Queue { head: 0, tail: 0, item_words, entry_words, body_bytes }
    }

    pub const fn capacity(&self) -> u32 {
        self.body_bytes / self.entry_bytes()
    }

    const fn entry_bytes(&self) -> u32 {
        self.entry_words as u32 * WORD_BYTES
    }

    pub const fn len(&self) -> u32 {
        self.tail.wrapping_sub(self.head)
    }

    pub const fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    pub const fn is_full(&self) -> bool {
        self.len() >= self.capacity()
    }

    /// A place for a new item at the tail, from the beginning of the body; `None` if it is full.
    pub fn enqueue(&mut self) -> Option<u32> {
        if self.is_full() {
            return None;
        }
        let place = self.place(self.tail);
        self.tail = self.tail.wrapping_add(1);
        Some(place)
    }

    /// The place of the oldest item, which goes; `None` if there is none.
    pub fn dequeue(&mut self) -> Option<u32> {
        if self.is_empty() {
            return None;
        }
        let place = self.place(self.head);
        self.head = self.head.wrapping_add(1);
        Some(place)
    }

    /// Takes items away up to a new head; whether that is possible.
    pub fn release(&mut self, head: u32) -> bool {
        let is_between = head.wrapping_sub(self.head) <= self.len();
        if is_between {
            self.head = head;
        }
        is_between
    }

    /// Bytes from the beginning of the body to an item.
    fn place(&self, number: u32) -> u32 {
        number % self.capacity() * self.entry_bytes()
    }

    /// Head and tail in a word of tag bits.
    pub fn tag_bits(&self) -> u64 {
        u64::from(self.head) | u64::from(self.tail) << 32
    }

    /// Whether a body of this size can begin in that line of a scratchpad.
    pub fn can_have(body_bytes: u32, first_line: u32) -> bool {
        body_bytes.is_power_of_two()
            && body_bytes >= LINE_BYTES
            && first_line.is_multiple_of(body_bytes / LINE_BYTES)
    }
}
