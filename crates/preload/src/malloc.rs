//! malloc and its kin.
//!
//! The C library's own allocator gets its memory past mmap as others see it, so it could not be given
//! borrowed memory: where a program would use it, it uses mimalloc, which maps as programs do. A program
//! that brings an allocator (jemalloc, tcmalloc, ...) keeps it, as that maps so, too.
//!
//! Memory that the C library and the dynamic loader allocate for themselves is not borrowed: buffers of stdio, which
//! they give to the kernel by themselves, locales, which a thread looks at before it takes signals, and the list of
//! libraries, which any thread may need to find a function.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicU8, Ordering};

use libc::size_t;
use libmimalloc_sys as mi;

use crate::next::{look_up, next};
use crate::{heap, libraries, process, thread};

/// The heap that serves the calling thread.
enum Source {
    /// The library's own heap: the thread is inside of the library.
    Own,
    /// mimalloc's.
    Ours,
    /// That of the allocator which the program brings, or of the C library if nothing is borrowed.
    Program,
}

static SOURCE: AtomicU8 = AtomicU8::new(UNDECIDED);
const UNDECIDED: u8 = 0;
const OURS: u8 = 1;
const PROGRAM: u8 = 2;

/// Least growth of the heap, in KiB; mapped memory counts against the lease.
const ARENA_KIB: i64 = 32 << 10;

/// Number of mimalloc's option `arena_reserve`, which its bindings do not name.
const MI_OPTION_ARENA_RESERVE: c_int = 23;

fn source(caller: usize) -> Source {
    if thread::is_inside() || (libraries::is_of_system(caller) && heap::has_room()) {
        return Source::Own;
    }
    match SOURCE.load(Ordering::Relaxed) {
        OURS => Source::Ours,
        PROGRAM => Source::Program,
        _ => decide(caller),
    }
}

#[cold]
fn decide(caller: usize) -> Source {
    let decision = if process::may_borrow() && !brings_allocator() { OURS } else { PROGRAM };
    if decision == OURS {
        // SAFETY: sets a number.
        unsafe { mi::mi_option_set(MI_OPTION_ARENA_RESERVE, ARENA_KIB) };
    }
    SOURCE.store(decision, Ordering::Relaxed);
    source(caller)
}

/// Whether the next malloc is not the C library's.
fn brings_allocator() -> bool {
    let next = look_up(libc::RTLD_NEXT, c"malloc");
    let c_library = look_up(libc::RTLD_NEXT, c"__libc_malloc");
    !c_library.is_null() && next != c_library
}

fn or_no_memory(memory: *mut c_void) -> *mut c_void {
    if memory.is_null() {
        thread::set_errno(libc::ENOMEM);
    }
    memory
}

/// A caller outside of the C library.
const ANYONE: usize = 0;

/// Defines a function as another one that gets its caller's address as one argument more.
macro_rules! with_caller {
    ($(#[$doc:meta])* $name:ident => $with:ident, $register:literal, $arm_register:literal,
     ($($argument:ident: $type:ty),*)) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// As for the function of that name.
        #[cfg(target_arch = "x86_64")]
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> *mut c_void {
            std::arch::naked_asm!(
                concat!("mov ", $register, ", [rsp]"),
                "jmp {function}",
                function = sym $with
            )
        }

        $(#[$doc])*
        ///
        /// # Safety
        /// As for the function of that name.
        #[cfg(target_arch = "aarch64")]
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> *mut c_void {
            std::arch::naked_asm!(
                concat!("mov ", $arm_register, ", x30"),
                "b {function}",
                function = sym $with
            )
        }
    };
}

with_caller!(/** As malloc(3). */ malloc => malloc_for, "rsi", "x1", (size: size_t));
with_caller!(/** As calloc(3). */ calloc => calloc_for, "rdx", "x2", (count: size_t, size: size_t));
with_caller!(/** As realloc(3). */ realloc => realloc_for, "rdx", "x2",
    (memory: *mut c_void, size: size_t));

extern "C" fn malloc_for(size: size_t, caller: usize) -> *mut c_void {
    match source(caller) {
        // SAFETY: any size will do.
        Source::Ours => or_no_memory(unsafe { mi::mi_malloc(size) }),
        Source::Own => or_no_memory(heap::allocate(size).cast()),
        Source::Program => next!(malloc(size => size_t) -> *mut c_void),
    }
}

extern "C" fn calloc_for(count: size_t, size: size_t, caller: usize) -> *mut c_void {
    match source(caller) {
        // SAFETY: any sizes will do.
        Source::Ours => or_no_memory(unsafe { mi::mi_calloc(count, size) }),
        Source::Own => {
            let bytes = count.checked_mul(size);
            or_no_memory(bytes.map_or(ptr::null_mut(), |bytes| heap::allocate_zeroed(bytes).cast()))
        }
        Source::Program => next!(calloc(count => size_t, size => size_t) -> *mut c_void),
    }
}

/// As free(3).
///
/// # Safety
/// As for free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(memory: *mut c_void) {
    if memory.is_null() {
        return;
    }
    if heap::contains(memory.cast()) {
        // SAFETY: the caller's promise, and the memory is the heap's.
        return unsafe { heap::free(memory.cast()) };
    }
    match SOURCE.load(Ordering::Relaxed) {
        // SAFETY: the caller's promise; what is not of the heap is mimalloc's.
        OURS => unsafe { mi::mi_free(memory) },
        _ => next!(free(memory => *mut c_void) -> ()),
    }
}

/// # Safety
/// As for realloc.
unsafe extern "C" fn realloc_for(memory: *mut c_void, size: size_t, caller: usize) -> *mut c_void {
    if memory.is_null() {
        return malloc_for(size, caller);
    }
    if size == 0 {
        // SAFETY: the caller's promise.
        unsafe { free(memory) };
        return ptr::null_mut();
    }
    let is_own = heap::contains(memory.cast());
    match source(caller) {
        // SAFETY: the caller's promise, and the memory is of the heap.
        Source::Own if is_own => {
            // SAFETY: as above.
            or_no_memory(unsafe { heap::reallocate(memory.cast(), size).cast() })
        }
        // SAFETY: the caller's promise, and the memory is mimalloc's.
        Source::Ours if !is_own => or_no_memory(unsafe { mi::mi_realloc(memory, size) }),
        Source::Program if !is_own => {
            next!(realloc(memory => *mut c_void, size => size_t) -> *mut c_void)
        }
        // SAFETY: the caller's promise.
        _ => unsafe { move_to(malloc_for(size, caller), memory, size) },
    }
}

/// Memory changes between the library's heap and the program's.
///
/// # Safety
/// `new` is null or has `size` bytes; `old` is memory of malloc's, and not used any more if `new` is not null.
unsafe fn move_to(new: *mut c_void, old: *mut c_void, size: usize) -> *mut c_void {
    if !new.is_null() {
        // SAFETY: both have as many bytes, and they are different allocations.
        unsafe {
            let length = malloc_usable_size(old).min(size);
            ptr::copy_nonoverlapping(old.cast::<u8>(), new.cast::<u8>(), length);
            free(old);
        }
    }
    new
}

/// As reallocarray(3).
///
/// # Safety
/// As for reallocarray.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reallocarray(
    memory: *mut c_void,
    count: size_t,
    size: size_t,
) -> *mut c_void {
    match count.checked_mul(size) {
        // SAFETY: the caller's promise.
        Some(bytes) => unsafe { realloc_for(memory, bytes, ANYONE) },
        None => or_no_memory(ptr::null_mut()),
    }
}

fn aligned(alignment: usize, size: usize) -> *mut c_void {
    match source(ANYONE) {
        // SAFETY: mimalloc refuses what is no power of two.
        Source::Ours => or_no_memory(unsafe { mi::mi_malloc_aligned(size, alignment) }),
        Source::Own if alignment.is_power_of_two() => {
            or_no_memory(heap::allocate_aligned(size, alignment).cast())
        }
        Source::Own => ptr::null_mut(),
        Source::Program => {
            next!(memalign(alignment => size_t, size => size_t) -> *mut c_void)
        }
    }
}

/// As memalign(3).
#[unsafe(no_mangle)]
pub extern "C" fn memalign(alignment: size_t, size: size_t) -> *mut c_void {
    aligned(alignment.max(1).next_power_of_two(), size)
}

/// As aligned_alloc(3).
#[unsafe(no_mangle)]
pub extern "C" fn aligned_alloc(alignment: size_t, size: size_t) -> *mut c_void {
    if !alignment.is_power_of_two() {
        thread::set_errno(libc::EINVAL);
        return ptr::null_mut();
    }
    aligned(alignment, size)
}

/// As posix_memalign(3).
///
/// # Safety
/// As for posix_memalign.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(
    result: *mut *mut c_void,
    alignment: size_t,
    size: size_t,
) -> c_int {
    if !alignment.is_power_of_two() || alignment % size_of::<*mut c_void>() != 0 {
        return libc::EINVAL;
    }
    let before = thread::errno();
    let memory = aligned(alignment, size);
    thread::set_errno(before);
    if memory.is_null() {
        return libc::ENOMEM;
    }
    // SAFETY: the caller's promise.
    unsafe { result.write(memory) };
    0
}

/// As valloc(3).
#[unsafe(no_mangle)]
pub extern "C" fn valloc(size: size_t) -> *mut c_void {
    aligned(4096, size)
}

/// As pvalloc(3).
#[unsafe(no_mangle)]
pub extern "C" fn pvalloc(size: size_t) -> *mut c_void {
    match size.max(1).checked_next_multiple_of(4096) {
        Some(size) => aligned(4096, size),
        None => or_no_memory(ptr::null_mut()),
    }
}

/// As malloc_usable_size(3).
///
/// # Safety
/// As for malloc_usable_size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_usable_size(memory: *mut c_void) -> size_t {
    if memory.is_null() {
        return 0;
    }
    if heap::contains(memory.cast()) {
        // SAFETY: the caller's promise, and the memory is of the heap.
        return unsafe { heap::usable_size(memory.cast()) };
    }
    match SOURCE.load(Ordering::Relaxed) {
        // SAFETY: the caller's promise; what is not of the heap is mimalloc's.
        OURS => unsafe { mi::mi_usable_size(memory) },
        _ => next!(malloc_usable_size(memory => *mut c_void) -> size_t),
    }
}

/// As strdup(3): the copy is the program's, and may be borrowed.
///
/// # Safety
/// As for strdup.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strdup(text: *const c_char) -> *mut c_char {
    // SAFETY: the caller's promise.
    unsafe { strndup(text, libc::strlen(text)) }
}

/// As strndup(3).
///
/// # Safety
/// As for strndup.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strndup(text: *const c_char, most: size_t) -> *mut c_char {
    // SAFETY: the caller's promise; the copy has room for the text and its end.
    unsafe {
        let length = libc::strnlen(text, most);
        let copy = malloc_for(length + 1, ANYONE).cast::<c_char>();
        if !copy.is_null() {
            ptr::copy_nonoverlapping(text, copy, length);
            copy.add(length).write(0);
        }
        copy
    }
}
