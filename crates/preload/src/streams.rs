//! Streams of the C library, where system calls on borrowed memory need help ([`crate::local`]): the C library hands
//! large requests, and buffers that it is given, on to the kernel by itself. So requests are made by way of local
//! memory, and a stream keeps the buffer that the C library allocates for it.

use std::ffi::{c_char, c_int, c_void};

use libc::{FILE, size_t};

use crate::local::{Pointer, Room, helping};
use crate::next::next;
use crate::process;

/// Requests below this go through the stream's own buffer.
const MIN_BYTES: usize = 512;

/// Size of the memory that is in between.
const BETWEEN_BYTES: usize = 64 << 10;

/// Makes the calling thread the only one that uses a stream, for requests in several pieces.
struct Locked(*mut FILE);

unsafe extern "C" {
    fn flockfile(file: *mut FILE);
    fn funlockfile(file: *mut FILE);
}

impl Locked {
    /// # Safety
    /// The stream is open, and stays so.
    unsafe fn new(file: *mut FILE) -> Locked {
        // SAFETY: by the condition.
        unsafe { flockfile(file) };
        Locked(file)
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // SAFETY: locked by `new`.
        unsafe { funlockfile(self.0) };
    }
}

/// Memory in between for a request of `bytes`, if it needs some.
fn between(memory: *const c_void, bytes: Option<usize>) -> Option<(usize, Room)> {
    let bytes = bytes.filter(|&bytes| bytes >= MIN_BYTES)?;
    helping().filter(|pager| pager.overlaps(memory as usize, bytes))?;
    Some((bytes, Room::new(BETWEEN_BYTES)?))
}

/// Defines functions like fread: `call` moves one byte `length` times between `memory` and the stream.
macro_rules! reads {
    ($($name:ident($($limit:ident)?);)*) => {$(
        #[doc = concat!("As ", stringify!($name), " of the C library.")]
        ///
        /// # Safety
        /// As for that function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            into: Pointer, $($limit: size_t,)? size: size_t, count: size_t, file: *mut FILE,
        ) -> size_t {
            let Some((wanted, room)) = between(into, size.checked_mul(count)) else {
                return next!($name(into => Pointer, $($limit => size_t,)? size => size_t,
                    count => size_t, file => *mut FILE) -> size_t);
            };
            // SAFETY: the caller's promise.
            let _locked = unsafe { Locked::new(file) };
            $(if wanted > $limit {
                return next!($name(into => Pointer, $limit => size_t, size => size_t,
                    count => size_t, file => *mut FILE) -> size_t);
            })?
            let (mut done, one) = (0, 1);
            while done < wanted {
                let length = (wanted - done).min(BETWEEN_BYTES);
                let memory = room.base() as Pointer;
                let got = next!(fread(memory => Pointer, one => size_t, length => size_t,
                    file => *mut FILE) -> size_t);
                // SAFETY: so much was read, and there is room for it by the caller's promise.
                unsafe {
                    std::ptr::copy_nonoverlapping(memory.cast::<u8>(), into.cast::<u8>().add(done), got);
                }
                done += got;
                if got < length {
                    break;
                }
            }
            done / size
        }
    )*};
}

reads! {
    fread();
    fread_unlocked();
    __fread_chk(limit);
    __fread_unlocked_chk(limit);
}

/// Writes `wanted` bytes by way of a room; returns the number of those that were written.
fn write_by(room: &Room, from: *const u8, wanted: usize, file: *mut FILE) -> usize {
    // SAFETY: the caller of the function around this promises that the stream is open.
    let _locked = unsafe { Locked::new(file) };
    let (mut done, one) = (0, 1);
    while done < wanted {
        let length = (wanted - done).min(BETWEEN_BYTES);
        let memory = room.base() as *mut u8;
        // SAFETY: so much is there by the promise of the caller of the function around this, and the room is larger.
        unsafe { std::ptr::copy_nonoverlapping(from.add(done), memory, length) };
        let put = next!(fwrite(memory => *mut u8, one => size_t, length => size_t,
            file => *mut FILE) -> size_t);
        done += put;
        if put < length {
            break;
        }
    }
    done
}

/// Defines fwrite and fwrite_unlocked.
macro_rules! writes {
    ($($name:ident;)*) => {$(
        #[doc = concat!("As ", stringify!($name), " of the C library.")]
        ///
        /// # Safety
        /// As for that function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            from: Pointer, size: size_t, count: size_t, file: *mut FILE,
        ) -> size_t {
            match between(from, size.checked_mul(count)) {
                Some((wanted, room)) => write_by(&room, from.cast(), wanted, file) / size,
                None => next!($name(from => Pointer, size => size_t, count => size_t,
                    file => *mut FILE) -> size_t),
            }
        }
    )*};
}

writes! {
    fwrite;
    fwrite_unlocked;
}

/// Writes a string, if that needs help; returns whether all of it was written.
///
/// # Safety
/// It is a string.
unsafe fn put(text: *const c_char, file: *mut FILE) -> Option<bool> {
    helping().filter(|pager| pager.overlaps(text as usize, MIN_BYTES))?;
    // SAFETY: by the condition.
    let length = unsafe { libc::strlen(text) };
    let (wanted, room) = between(text.cast(), Some(length))?;
    Some(write_by(&room, text.cast(), wanted, file) == wanted)
}

fn status(is_done: bool) -> c_int {
    if is_done { 1 } else { libc::EOF }
}

/// As fputs(3).
///
/// # Safety
/// As for fputs.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fputs(text: *const c_char, file: *mut FILE) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { put(text, file) } {
        Some(is_done) => status(is_done),
        None => next!(fputs(text => *const c_char, file => *mut FILE) -> c_int),
    }
}

/// As fputs_unlocked(3).
///
/// # Safety
/// As for fputs_unlocked.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fputs_unlocked(text: *const c_char, file: *mut FILE) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { put(text, file) } {
        Some(is_done) => status(is_done),
        None => next!(fputs_unlocked(text => *const c_char, file => *mut FILE) -> c_int),
    }
}

unsafe extern "C" {
    static stdout: *mut FILE;
}

/// As puts(3).
///
/// # Safety
/// As for puts.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn puts(text: *const c_char) -> c_int {
    // SAFETY: the C library sets it before any program runs.
    let file = unsafe { stdout };
    // SAFETY: the caller's promise; the stream is open.
    let (_locked, is_put) = unsafe { (Locked::new(file), put(text, file)) };
    match is_put {
        // SAFETY: the stream is open.
        Some(is_done) => status(is_done && unsafe { libc::fputc(b'\n'.into(), file) } != libc::EOF),
        None => next!(puts(text => *const c_char) -> c_int),
    }
}

/// The buffer that a stream is to have: none of the program's if it may be borrowed.
fn buffer(given: Pointer) -> Pointer {
    if process::needs_help() { std::ptr::null_mut() } else { given }
}

/// As setvbuf(3).
///
/// # Safety
/// As for setvbuf.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn setvbuf(
    file: *mut FILE,
    given: Pointer,
    mode: c_int,
    size: size_t,
) -> c_int {
    let given = buffer(given);
    next!(setvbuf(file => *mut FILE, given => Pointer, mode => c_int, size => size_t) -> c_int)
}

/// As setbuffer(3).
///
/// # Safety
/// As for setbuffer.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn setbuffer(file: *mut FILE, given: Pointer, size: size_t) {
    let mode = if given.is_null() { libc::_IONBF } else { libc::_IOFBF };
    // SAFETY: the caller's promise.
    unsafe { setvbuf(file, given, mode, size) };
}

/// As setbuf(3).
///
/// # Safety
/// As for setbuf.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn setbuf(file: *mut FILE, given: Pointer) {
    // SAFETY: the caller's promise.
    unsafe { setbuffer(file, given, libc::BUFSIZ as usize) };
}

/// Whether formatted output is to be made by way of local memory: for `c/varargs.c`.
#[unsafe(no_mangle)]
pub extern "C" fn rackmem_preload_is_helping() -> c_int {
    helping().is_some().into()
}

/// Defines functions with a variable number of arguments, which are passed on as they are to one in `c/varargs.c`.
macro_rules! varargs {
    ($($name:ident => $in_c:ident;)*) => {
        unsafe extern "C" { $(fn $in_c();)* }
        $(
            #[doc = concat!("As ", stringify!($name), " of the C library.")]
            ///
            /// # Safety
            /// As for that function.
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            pub unsafe extern "C-unwind" fn $name() {
                #[cfg(target_arch = "x86_64")]
                std::arch::naked_asm!("jmp {function}", function = sym $in_c);
                #[cfg(target_arch = "aarch64")]
                std::arch::naked_asm!("b {function}", function = sym $in_c);
            }
        )*
    };
}

varargs! {
    printf => rackmem_preload_printf;
    fprintf => rackmem_preload_fprintf;
    vprintf => rackmem_preload_vprintf;
    vfprintf => rackmem_preload_vfprintf;
    dprintf => rackmem_preload_dprintf;
    vdprintf => rackmem_preload_vdprintf;
    __printf_chk => rackmem_preload_printf_chk;
    __fprintf_chk => rackmem_preload_fprintf_chk;
    __vprintf_chk => rackmem_preload_vprintf_chk;
    __vfprintf_chk => rackmem_preload_vfprintf_chk;
    __dprintf_chk => rackmem_preload_dprintf_chk;
    __vdprintf_chk => rackmem_preload_vdprintf_chk;
    execl => rackmem_preload_execl;
    execlp => rackmem_preload_execlp;
    execle => rackmem_preload_execle;
}
