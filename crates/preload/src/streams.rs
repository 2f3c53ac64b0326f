//! fread and fwrite, where the kernel does not wait for pages that are away ([`crate::calls`]): the C
//! library hands large requests on to the kernel by itself, so these are made by way of memory that is
//! not borrowed.

use std::ffi::c_void;

use libc::{FILE, size_t};

use crate::calls::helping;
use crate::next::next;
use crate::{heap, thread};

/// Requests below this go through the stream's own buffer.
const MIN_BYTES: usize = 512;

/// Size of the memory that is in between.
const BETWEEN_BYTES: usize = 64 << 10;

/// Memory in between; given back when dropped.
struct Between(*mut u8);

impl Between {
    fn new() -> Option<Between> {
        let memory = heap::allocate(BETWEEN_BYTES);
        (!memory.is_null()).then_some(Between(memory))
    }
}

impl Drop for Between {
    fn drop(&mut self) {
        let _inside = thread::enter();
        // SAFETY: made by `new`, and not used any more.
        unsafe { heap::free(self.0) };
    }
}

/// Bytes of a request, if it is to be made by way of other memory.
fn bytes(size: size_t, count: size_t) -> Option<usize> {
    helping()?;
    size.checked_mul(count).filter(|&bytes| bytes >= MIN_BYTES)
}

/// Items of `size` bytes that `done` bytes are.
fn items(done: usize, size: size_t) -> size_t {
    done / size
}

/// As fread(3).
///
/// # Safety
/// As for fread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fread(
    into: *mut c_void,
    size: size_t,
    count: size_t,
    file: *mut FILE,
) -> size_t {
    let wanted = bytes(size, count).and_then(|bytes| Some((bytes, Between::new()?)));
    let Some((wanted, between)) = wanted else {
        return next!(fread(
            into => *mut c_void, size => size_t, count => size_t, file => *mut FILE) -> size_t);
    };
    let (mut done, one) = (0, 1);
    while done < wanted {
        let length = (wanted - done).min(BETWEEN_BYTES);
        let memory = between.0.cast::<c_void>();
        let got = next!(fread(
            memory => *mut c_void, one => size_t, length => size_t, file => *mut FILE) -> size_t);
        // SAFETY: so much was read, and there is room for it by the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(between.0, into.cast::<u8>().add(done), got) };
        done += got;
        if got < length {
            break;
        }
    }
    items(done, size)
}

/// As fwrite(3).
///
/// # Safety
/// As for fwrite.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fwrite(
    from: *const c_void,
    size: size_t,
    count: size_t,
    file: *mut FILE,
) -> size_t {
    let wanted = bytes(size, count).and_then(|bytes| Some((bytes, Between::new()?)));
    let Some((wanted, between)) = wanted else {
        return next!(fwrite(
            from => *const c_void, size => size_t, count => size_t, file => *mut FILE) -> size_t);
    };
    let (mut done, one) = (0, 1);
    while done < wanted {
        let length = (wanted - done).min(BETWEEN_BYTES);
        // SAFETY: so much is there by the caller's promise, and the memory in between is larger.
        unsafe { std::ptr::copy_nonoverlapping(from.cast::<u8>().add(done), between.0, length) };
        let memory = between.0.cast::<c_void>();
        let put = next!(fwrite(
            memory => *const c_void, one => size_t, length => size_t, file => *mut FILE) -> size_t);
        done += put;
        if put < length {
            break;
        }
    }
    items(done, size)
}
