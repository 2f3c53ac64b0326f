use std::ffi::{c_int, c_void};

use super::foreign::{Address, Lent, check, check_told};
use super::{Context, QueuePair, ffi};
use crate::error::Result;

unsafe extern "C" {
    fn rackmem_inline_counter_open(ctx: *mut c_void, offset: u64, config: *const Config) -> c_int;
    fn rackmem_inline_counter_add(qp: *mut ffi::Qp, at: Address, amount: i64) -> c_int;
    fn rackmem_inline_flag_wait(
        ctx: *mut c_void,
        qp: *mut ffi::Qp,
        offset: u64,
        watch_nid: c_int,
        word: *mut u64,
    ) -> c_int;
}

/// `rackmem_notification`.
#[repr(C)]
struct Notification {
    kind: c_int,
    at: Address,
}

/// `rackmem_counter_config`.
#[repr(C)]
struct Config {
    value: i64,
    reset: i64,
    word: u64,
    notifications: *const Notification,
    count: c_int,
}

/// Destination of a counter's word when the counter becomes zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notify {
    /// Writes it to a word of a segment.
    Flag(Address),
    /// Adds it to another counter.
    Counter(Address),
    /// Enqueues it in a [`super::Queue`] of words.
    Queue(Address),
}

impl Notify {
    fn to_c(self) -> Notification {
        let (kind, at) = match self {
            Notify::Flag(at) => (1, at),
            Notify::Counter(at) => (2, at),
            Notify::Queue(at) => (3, at),
        };
        Notification { kind, at }
    }
}

/// A counter with notification (CINI §3.3): a line of a segment that fires when it becomes zero.
#[derive(Clone, Copy, Debug)]
pub struct Counter<'a> {
    /// Initial value.
    pub value: i64,
    /// Loaded whenever it becomes zero: below zero, or zero for none.
    pub reset: i64,
    /// Word that is sent when it becomes zero.
    pub word: u64,
    /// Destinations of the word: at most four.
    pub notify: &'a [Notify],
}

impl Counter<'_> {
    /// Makes the line at `offset` of this node's segment this counter. Nobody may add before.
    ///
    /// # Errors
    /// The offset, the reset value or a notification makes no sense.
    pub fn open(&self, context: &Context, offset: u64) -> Result<()> {
        let notifications: Vec<_> = self.notify.iter().map(|notify| notify.to_c()).collect();
        let config = Config {
            value: self.value,
            reset: self.reset,
            word: self.word,
            notifications: notifications.as_ptr(),
            count: c_int::try_from(notifications.len()).unwrap_or(c_int::MAX),
        };
        let mut lent = Lent::new(context);
        // SAFETY: the context and what the configuration points to live for the call.
        check_told(unsafe { rackmem_inline_counter_open(lent.as_ptr(), offset, &config) })
    }

    /// Adds to the counter at `at`; if that makes it zero, sends its notifications.
    ///
    /// # Errors
    /// It has been overshot; it, or the process to notify, is lost.
    pub fn add(qp: &mut QueuePair, at: Address, amount: i64) -> Result<()> {
        // SAFETY: the queue pair lives for the call.
        check(unsafe { rackmem_inline_counter_add(qp.as_ffi(), at, amount) })
    }

    /// Waits until the flag at `offset` of this node's segment is raised, clears it, and returns
    /// its word.
    ///
    /// # Errors
    /// Node `watch` (none: any node) is lost or has left.
    pub fn wait_flag(
        context: &Context,
        qp: &mut QueuePair,
        offset: u64,
        watch: Option<u16>,
    ) -> Result<u64> {
        let (mut lent, mut word) = (Lent::new(context), 0);
        let watch = watch.map_or(-1, c_int::from);
        // SAFETY: context, queue pair and word live for the call.
        check(unsafe {
            rackmem_inline_flag_wait(lent.as_ptr(), qp.as_ffi(), offset, watch, &mut word)
        })?;
        Ok(word)
    }
}
