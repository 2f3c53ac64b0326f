//! Buffers that combine stores which go through the caches (TSM §2.1.2): each holds bytes of one line,
//! until the root complex has taken them.

use rackmem_abi::LINE_BYTES;

use crate::block::Block;

/// All bytes of a line.
const ALL: u64 = u64::MAX;

#[derive(Clone, Copy, Debug)]
struct Buffer {
    line: u64,
    bytes: [u8; LINE_BYTES],
    /// Bytes that have been stored and not been sent: a bit each.
    stored: u64,
    /// A part of it is on its way, and its owner waits for an answer.
    is_sent: bool,
    /// Nothing more joins it.
    is_closed: bool,
    since: u64,
}

/// The buffers of a core.
#[derive(Clone, Debug)]
pub struct Combining {
    buffers: Vec<Buffer>,
    capacity: usize,
    stores: u64,
}

impl Combining {
    /// So many buffers.
    pub fn new(capacity: usize) -> Combining {
        Combining { buffers: Vec::with_capacity(capacity), capacity, stores: 0 }
    }

    /// A store to bytes of one line; `false` if all buffers are taken by others, or the line's own is
    /// on its way: it has to be waited for.
    pub fn store(&mut self, line: u64, offset: usize, bytes: &[u8]) -> bool {
        self.stores += 1;
        let at = match self.buffers.iter().position(|buffer| buffer.line == line) {
            Some(at) if self.buffers[at].is_closed => return false,
            Some(at) => at,
            None if self.buffers.len() >= self.capacity => {
                self.close_oldest();
                return false;
            }
            None => {
                let since = self.stores;
                let bytes = [0; LINE_BYTES];
                let (stored, is_sent, is_closed) = (0, false, false);
                self.buffers.push(Buffer { line, bytes, stored, is_sent, is_closed, since });
                self.buffers.len() - 1
            }
        };
        let buffer = &mut self.buffers[at];
        buffer.bytes[offset..offset + bytes.len()].copy_from_slice(bytes);
        for byte in offset..offset + bytes.len() {
            buffer.stored |= 1 << byte;
        }
        buffer.is_closed = buffer.stored == ALL;
        true
    }

    /// The next thing to send: neighbouring bytes of a buffer that nothing joins any more.
    pub fn send(&mut self) -> Option<(u64, Block)> {
        let ready = |buffer: &&mut Buffer| buffer.is_closed && !buffer.is_sent;
        let buffer = self.buffers.iter_mut().filter(ready).min_by_key(|buffer| buffer.since)?;
        let (first, length) = run_of(buffer.stored)?;
        buffer.stored &= !bits(first, length);
        buffer.is_sent = true;
        let block = match length {
            LINE_BYTES => Block::from_bytes(&buffer.bytes),
            _ => Block::write(first, &buffer.bytes[first..first + length]),
        };
        Some((buffer.line, block))
    }

    /// The bytes sent of a line have been taken. Returns whether its buffer is free.
    pub fn taken(&mut self, line: u64) -> bool {
        let at = self.buffers.iter().position(|buffer| buffer.line == line && buffer.is_sent);
        let at = at.expect("only what was sent is taken");
        self.buffers[at].is_sent = false;
        let is_free = self.buffers[at].stored == 0;
        if is_free {
            self.buffers.swap_remove(at);
        }
        is_free
    }

    /// No store joins the present buffers any more: a fence.
    pub fn close_all(&mut self) {
        self.buffers.iter_mut().for_each(|buffer| buffer.is_closed = true);
    }

    /// The same for one line, which is about to be read; whether there is anything of it.
    pub fn close(&mut self, line: u64) -> bool {
        let found = self.buffers.iter_mut().find(|buffer| buffer.line == line);
        found.map(|buffer| buffer.is_closed = true).is_some()
    }

    /// Bytes that have been stored and not been sent: neighbouring ones together, as changes of their
    /// lines.
    pub fn pending(&self) -> impl Iterator<Item = (u64, Block)> + '_ {
        self.buffers.iter().flat_map(|buffer| {
            let mut left = buffer.stored;
            std::iter::from_fn(move || {
                let (first, length) = run_of(left)?;
                left &= !bits(first, length);
                Some((buffer.line, Block::write(first, &buffer.bytes[first..first + length])))
            })
        })
    }

    /// Whether all has been taken.
    pub fn is_empty(&self) -> bool {
        self.buffers.is_empty()
    }

    /// Makes room, unless that is under way.
    fn close_oldest(&mut self) {
        if self.buffers.iter().any(|buffer| buffer.is_closed) {
            return;
        }
        if let Some(oldest) = self.buffers.iter_mut().min_by_key(|buffer| buffer.since) {
            oldest.is_closed = true;
        }
    }
}

/// The first neighbouring bytes of a mask: position and number.
fn run_of(mask: u64) -> Option<(usize, usize)> {
    let first = mask.trailing_zeros() as usize;
    let length = (first < LINE_BYTES).then(|| (!(mask >> first)).trailing_zeros() as usize)?;
    Some((first, length.min(LINE_BYTES - first)))
}

/// So many bits from one on.
fn bits(first: usize, length: usize) -> u64 {
    if length == LINE_BYTES { ALL } else { ((1 << length) - 1) << first }
}
