//! The queue pair as C sees it: `struct rackmem_qp` and `rackmem_engine` of `include/rackmem/abi.h`.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, AtomicU64};

use rackmem_abi::MAX_WQ_SIZE;

/// An operation: queue pair, code, node, offset, address of the local buffer, length.
pub type Operation = unsafe extern "C" fn(*mut Qp, u32, u32, u64, u64, u64) -> u32;

/// Returned for an operation whose completion will be on the CQ: `RACKMEM_POSTED`.
pub const POSTED: u32 = 255;

/// Memory below this address is never a buffer, so that null pointers get an error, not a signal:
/// `RACKMEM_LOWEST_ADDRESS`.
pub const LOWEST_ADDRESS: u64 = 4096;

/// Functions that make operations progress when no hardware does.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Engine {
    /// Performs an operation for the calling thread, which leaves the queues alone; returns its status.
    pub execute: Option<Operation>,
    /// Completes posted entries in the calling thread, without waiting.
    pub progress: Option<unsafe extern "C" fn(*mut Qp)>,
    /// Wakes a sleeping controller.
    pub wake: Option<unsafe extern "C" fn(*mut Qp)>,
    /// Blocks until a completion may have come, or the controller is gone.
    pub sleep: Option<unsafe extern "C" fn(*mut Qp)>,
    /// Starts the operation of the next slot; returns its status, or [`POSTED`].
    pub start: Option<Operation>,
    /// Not 0: `start` returns [`POSTED`] for every operation; 0: for none.
    pub posts: u32,
}

/// A node's segment, if it is mapped into this process: `rackmem_window`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// First byte of the mapping.
    pub segment: *mut u8,
    /// Bytes of the data; 0 if it is not mapped.
    pub readable_bytes: u64,
    /// 0 without the right to write.
    pub writable_bytes: u64,
}

impl Window {
    /// No segment is mapped.
    pub const NONE: Window =
        Window { segment: std::ptr::null_mut(), readable_bytes: 0, writable_bytes: 0 };
}

/// One end of a queue pair.
#[repr(C)]
#[derive(Debug)]
pub struct Qp {
    /// Work queue entries.
    pub wq: *mut [u64; 2],
    /// Completion queue entries.
    pub cq: *mut u32,
    /// Two words per slot, usable as local buffer.
    pub operands: *mut u64,
    /// Not zero: the controller waits to be woken.
    pub rmc_asleep: *const AtomicU32,
    /// Functions by which it progresses.
    pub engine: *const Engine,
    /// The engine's own.
    pub engine_state: *mut c_void,
    /// Second argument of callbacks.
    pub callback_arg: *mut c_void,
    /// Entries; a power of two.
    pub size: u32,
    /// Entries ever posted.
    pub posted: u32,
    /// Completions ever consumed.
    pub reaped: u32,
    /// Completed slots whose callback has not run.
    pub done: u32,
    /// Since the last `rmc_drain_cq`.
    pub first_error: i32,
    /// Polls before sleeping.
    pub spin_limit: u32,
    /// State of each slot.
    pub slot_state: [u8; MAX_WQ_SIZE],
    /// Status of the operation that completed last in each slot.
    pub slot_status: [u8; MAX_WQ_SIZE],
    /// By node; read by C only.
    pub windows: *const Window,
    /// State of the own segment.
    pub own_state: *const AtomicU32,
    /// Operations and bytes done by the calling thread.
    pub counters: *const AtomicU64,
    /// Wakes the sleepers of a mapped segment.
    pub rouse: unsafe extern "C" fn(*mut Qp, u32),
    /// 0: all operations go through the engine or the WQ.
    pub window_count: u32,
    /// Owner of the line locks that this process holds.
    pub owner: u32,
    /// The connection by which it sends and receives, or null.
    pub connection: *mut c_void,
}

const _: () = {
    assert!(std::mem::offset_of!(Qp, slot_state) == 80);
    assert!(size_of::<Qp>() == 80 + 2 * MAX_WQ_SIZE + 48);
    assert!(size_of::<Engine>() == 6 * size_of::<usize>());
};
