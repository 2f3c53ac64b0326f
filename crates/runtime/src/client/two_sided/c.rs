//! The functions of `include/rackmem/two_sided.h`.

use std::ffi::{c_int, c_void};
use std::time::Duration;

use super::area::AREA_BYTES;
use super::{
    Address, Completion, Descriptor, Kind, MessageStatus, attach, connection, detach, ffi,
};
use crate::capi::{CContext, code, context, report};
use crate::error::{Error, Result};

/// `rmc_completion`.
#[allow(missing_docs, reason = "see `rackmem/two_sided.h`")]
#[repr(C)]
pub struct CCompletion {
    pub id: u64,
    pub length: u64,
    pub status: c_int,
    pub is_receive: c_int,
}

impl CCompletion {
    fn new(Completion { kind, id, length_bytes, status }: Completion) -> CCompletion {
        CCompletion {
            id,
            length: length_bytes,
            status: match status {
                MessageStatus::Done => 0,
                MessageStatus::TooLong => -libc::EMSGSIZE,
                MessageStatus::Closed => -libc::EPIPE,
                MessageStatus::Lost => -libc::EHOSTDOWN,
            },
            is_receive: (kind == Kind::Receive).into(),
        }
    }
}

fn not_connected() -> c_int {
    -libc::ENOTCONN
}

/// Negative: for ever.
fn timeout(timeout_ms: c_int) -> Duration {
    u64::try_from(timeout_ms).map_or(Duration::MAX, Duration::from_millis)
}

fn post(result: Result<bool>) -> c_int {
    match result {
        Ok(true) => 0,
        Ok(false) => -libc::EAGAIN,
        Err(error) => report(&error),
    }
}

/// See `rackmem/two_sided.h`.
#[unsafe(no_mangle)]
pub extern "C" fn rackmem_connection_bytes() -> usize {
    AREA_BYTES as usize
}

/// See `rackmem/two_sided.h`.
///
/// # Safety
/// `ctx` is open, and `qp` a queue pair of it, used by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackmem_qp_connect(
    ctx: *mut CContext,
    qp: *mut ffi::Qp,
    offset: u64,
    peer: Address,
    timeout_ms: c_int,
) -> c_int {
    let connect = || {
        // SAFETY: the caller's contract.
        let context = unsafe { context(ctx) }?;
        if qp.is_null() {
            return Err(Error::invalid("the queue pair is NULL"));
        }
        // SAFETY: the caller's contract.
        unsafe { attach(qp, context.context(), offset, peer, timeout(timeout_ms)) }
    };
    code(connect())
}

/// See `rackmem/two_sided.h`.
///
/// # Safety
/// `qp` is a queue pair, used by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackmem_qp_disconnect(qp: *mut ffi::Qp) {
    if !qp.is_null() {
        // SAFETY: the caller's contract.
        unsafe { detach(qp) };
    }
}

/// See `rackmem/two_sided.h`.
///
/// # Safety
/// `qp` is a queue pair, used by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmc_post_send(
    qp: *mut ffi::Qp,
    offset: u64,
    length: usize,
    id: u64,
) -> c_int {
    let message = Descriptor { offset, size_bytes: length as u64, id };
    // SAFETY: the caller's contract.
    unsafe { connection(qp) }.map_or_else(not_connected, |c| post(c.post_send(message)))
}

/// See `rackmem/two_sided.h`.
///
/// # Safety
/// `qp` is a queue pair, used by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmc_post_recv(
    qp: *mut ffi::Qp,
    offset: u64,
    size_bytes: usize,
    id: u64,
) -> c_int {
    let buffer = Descriptor { offset, size_bytes: size_bytes as u64, id };
    // SAFETY: the caller's contract.
    unsafe { connection(qp) }.map_or_else(not_connected, |c| post(c.post_receive(buffer)))
}

/// See `rackmem/two_sided.h`.
///
/// # Safety
/// `qp` is a queue pair, used by this thread alone; `message` is valid for `length` bytes of reads.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmc_send(
    qp: *mut ffi::Qp,
    message: *const c_void,
    length: usize,
    timeout_ms: c_int,
) -> c_int {
    let message: &[u8] = match length {
        // The pointer may be NULL.
        0 => &[],
        // SAFETY: the caller's contract.
        _ => unsafe { std::slice::from_raw_parts(message.cast(), length) },
    };
    // SAFETY: the caller's contract.
    let Some(connection) = (unsafe { connection(qp) }) else { return not_connected() };
    code(connection.send(message, timeout(timeout_ms)))
}

/// See `rackmem/two_sided.h`.
///
/// # Safety
/// `qp` is a queue pair, used by this thread alone; `out` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmc_poll_completion(qp: *mut ffi::Qp, out: *mut CCompletion) -> c_int {
    // SAFETY: the caller's contract.
    let Some(connection) = (unsafe { connection(qp) }) else { return not_connected() };
    match connection.poll() {
        Some(completion) => {
            // SAFETY: the caller's contract.
            unsafe { out.write(CCompletion::new(completion)) };
            0
        }
        None => -libc::EAGAIN,
    }
}

/// See `rackmem/two_sided.h`.
///
/// # Safety
/// As [`rmc_poll_completion`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmc_wait_completion(
    qp: *mut ffi::Qp,
    out: *mut CCompletion,
    timeout_ms: c_int,
) -> c_int {
    // SAFETY: the caller's contract.
    let Some(connection) = (unsafe { connection(qp) }) else { return not_connected() };
    match connection.wait(timeout(timeout_ms)) {
        Some(completion) => {
            // SAFETY: the caller's contract.
            unsafe { out.write(CCompletion::new(completion)) };
            0
        }
        None => -libc::ETIMEDOUT,
    }
}
