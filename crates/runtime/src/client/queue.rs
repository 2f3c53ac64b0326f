use std::ffi::{c_int, c_void};

use super::foreign::{Address, Foreign, check, check_told};
use super::{Context, QueuePair, ffi};
use crate::error::{Error, Result};

unsafe extern "C" {
    fn rackmem_inline_queue_size() -> usize;
    fn rackmem_inline_queue_bytes(slots: u32, words: u32) -> usize;
    fn rackmem_inline_queue_open(
        q: *mut c_void,
        ctx: *mut c_void,
        qp: *mut ffi::Qp,
        home: Address,
        slots: u32,
        words: u32,
    ) -> c_int;
    fn rackmem_inline_queue_put(q: *mut c_void, item: *const u64) -> c_int;
    fn rackmem_inline_queue_get(q: *mut c_void, item: *mut u64) -> c_int;
    fn rackmem_inline_queue_try_get(q: *mut c_void, item: *mut u64) -> c_int;
    fn rackmem_inline_queue_skip(q: *mut c_void);
    fn rackmem_inline_mr_queue_size() -> usize;
    fn rackmem_inline_mr_queue_bytes(slots: u32, words: u32) -> usize;
    fn rackmem_inline_mr_queue_response_bytes(words: u32) -> usize;
    fn rackmem_inline_mr_queue_open(
        q: *mut c_void,
        ctx: *mut c_void,
        qp: *mut ffi::Qp,
        home: Address,
        slots: u32,
        words: u32,
        response_offset: u64,
    ) -> c_int;
    fn rackmem_inline_mr_queue_put(q: *mut c_void, item: *const u64) -> c_int;
    fn rackmem_inline_mr_queue_get(q: *mut c_void, item: *mut u64) -> c_int;
    fn rackmem_inline_mr_queue_try_get(q: *mut c_void, item: *mut u64) -> c_int;
}

/// An item that is not as long as the queue's are.
fn check_words(words: u32, item: &[u64]) -> Result<()> {
    if item.len() == words as usize {
        return Ok(());
    }
    Err(Error::invalid(format!("an item of {} words; the queue's have {words}", item.len())))
}

/// `EAGAIN` is an answer, not an error.
fn unless_again(code: c_int) -> Result<bool> {
    if code == -libc::EAGAIN { Ok(false) } else { check(code).map(|()| true) }
}

/// A queue with one reader: the node that holds it (CINI §3.3).
pub struct Queue {
    end: Foreign,
    words: u32,
}

impl Queue {
    /// Bytes of the home's segment that a queue takes; 0 if there can be no such queue.
    pub fn area_bytes(slots: u32, words: u32) -> u64 {
        // SAFETY: a pure function.
        unsafe { rackmem_inline_queue_bytes(slots, words) as u64 }
    }

    /// Opens an end of the queue at `home`, of `slots` items of `words` words each: powers of two.
    ///
    /// # Errors
    /// The size makes no sense, or others have opened it with another; the area does not fit.
    pub fn open(
        context: &Context,
        qp: QueuePair,
        home: Address,
        slots: u32,
        words: u32,
    ) -> Result<Queue> {
        // SAFETY: a pure function.
        let mut end = Foreign::new(context, qp, unsafe { rackmem_inline_queue_size() });
        let (q, ctx, qp) = (end.as_ptr(), end.context_ptr(), end.qp.as_ffi());
        // SAFETY: all three live as long as the queue.
        check_told(unsafe { rackmem_inline_queue_open(q, ctx, qp, home, slots, words) })?;
        Ok(Queue { end, words })
    }

    /// Enqueues an item; `false` if the queue is full.
    ///
    /// # Errors
    /// The item has another length, or the home is lost.
    pub fn put(&mut self, item: &[u64]) -> Result<bool> {
        check_words(self.words, item)?;
        // SAFETY: the queue is open, and the item as long as its items.
        unless_again(unsafe { rackmem_inline_queue_put(self.end.as_ptr(), item.as_ptr()) })
    }

    /// Takes the next item, and waits for it. For the home only.
    ///
    /// # Errors
    /// A node is lost with an item that it had begun ([`Queue::skip`] goes on), or all are.
    pub fn get(&mut self, item: &mut [u64]) -> Result<()> {
        check_words(self.words, item)?;
        // SAFETY: the queue is open, and the item as long as its items.
        check(unsafe { rackmem_inline_queue_get(self.end.as_ptr(), item.as_mut_ptr()) })
    }

    /// Takes the next item, if there is one. For the home only.
    ///
    /// # Errors
    /// The queue is another node's.
    pub fn try_get(&mut self, item: &mut [u64]) -> Result<bool> {
        check_words(self.words, item)?;
        // SAFETY: the queue is open, and the item as long as its items.
        unless_again(unsafe { rackmem_inline_queue_try_get(self.end.as_ptr(), item.as_mut_ptr()) })
    }

    /// Gives up the item whose producer was lost.
    pub fn skip(&mut self) {
        // SAFETY: the queue is open.
        unsafe { rackmem_inline_queue_skip(self.end.as_ptr()) }
    }
}

/// A queue with any readers, which holds items or requests (CINI §3.3).
pub struct MrQueue {
    end: Foreign,
    words: u32,
}

impl MrQueue {
    /// Bytes of the home's segment that a queue takes; 0 if there can be no such queue.
    pub fn area_bytes(slots: u32, words: u32) -> u64 {
        // SAFETY: a pure function.
        unsafe { rackmem_inline_mr_queue_bytes(slots, words) as u64 }
    }

    /// Bytes of the caller's own segment that receive answers.
    pub fn response_bytes(words: u32) -> u64 {
        // SAFETY: a pure function.
        unsafe { rackmem_inline_mr_queue_response_bytes(words) as u64 }
    }

    /// Opens an end of the queue at `home`, of `slots` items of `words` words each: powers of two.
    /// Answers come to `response_offset` of the own segment.
    ///
    /// # Errors
    /// As [`Queue::open`].
    pub fn open(
        context: &Context,
        qp: QueuePair,
        home: Address,
        slots: u32,
        words: u32,
        response_offset: u64,
    ) -> Result<MrQueue> {
        // SAFETY: a pure function.
        let mut end = Foreign::new(context, qp, unsafe { rackmem_inline_mr_queue_size() });
        let (q, ctx, qp) = (end.as_ptr(), end.context_ptr(), end.qp.as_ffi());
        // SAFETY: all three live as long as the queue.
        check_told(unsafe {
            rackmem_inline_mr_queue_open(q, ctx, qp, home, slots, words, response_offset)
        })?;
        Ok(MrQueue { end, words })
    }

    /// Enqueues an item, or gives it to a waiter; `false` if the queue is full.
    ///
    /// # Errors
    /// The item has another length, or the home is lost.
    pub fn put(&mut self, item: &[u64]) -> Result<bool> {
        check_words(self.words, item)?;
        // SAFETY: the queue is open, and the item as long as its items.
        unless_again(unsafe { rackmem_inline_mr_queue_put(self.end.as_ptr(), item.as_ptr()) })
    }

    /// Takes the next item, and waits for it in turn; `false` if the queue is full of waiters.
    ///
    /// # Errors
    /// The home is lost, or all others are.
    pub fn get(&mut self, item: &mut [u64]) -> Result<bool> {
        check_words(self.words, item)?;
        // SAFETY: the queue is open, and the item as long as its items.
        unless_again(unsafe { rackmem_inline_mr_queue_get(self.end.as_ptr(), item.as_mut_ptr()) })
    }

    /// Takes the next item, if there is one.
    ///
    /// # Errors
    /// The home is lost.
    pub fn try_get(&mut self, item: &mut [u64]) -> Result<bool> {
        check_words(self.words, item)?;
        // SAFETY: the queue is open, and the item as long as its items.
        unless_again(unsafe {
            rackmem_inline_mr_queue_try_get(self.end.as_ptr(), item.as_mut_ptr())
        })
    }
}
