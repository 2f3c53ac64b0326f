//! System calls as they are, past the functions that the library puts in front of them.

use std::sync::atomic::AtomicU32;

use rackmem_borrow::paging::PAGE_BYTES;

/// What mmap returns when it fails.
pub const MAP_FAILED: usize = usize::MAX;

/// A system call with the C library's conventions: -1 and `errno`.
macro_rules! call {
    ($number:ident $(, $argument:expr)* $(,)?) => {{
        // SAFETY: the caller of the function around this answers for the arguments, as for those of the function of
        // the C library that has this name.
        unsafe { libc::syscall(libc::$number $(, $argument)*) }
    }};
}

/// As mmap.
///
/// # Safety
/// As for mmap.
pub unsafe fn mmap(
    at: usize,
    length: usize,
    protection: i32,
    flags: i32,
    fd: i32,
    offset: i64,
) -> usize {
    call!(SYS_mmap, at, length, protection, flags, fd, offset) as usize
}

/// As munmap.
///
/// # Safety
/// As for munmap.
pub unsafe fn munmap(address: usize, length: usize) -> i32 {
    call!(SYS_munmap, address, length) as i32
}

/// As mremap.
///
/// # Safety
/// As for mremap.
pub unsafe fn mremap(address: usize, old: usize, new: usize, flags: i32, to: usize) -> usize {
    call!(SYS_mremap, address, old, new, flags, to) as usize
}

/// As madvise.
///
/// # Safety
/// As for madvise.
pub unsafe fn madvise(address: usize, length: usize, advice: i32) -> i32 {
    call!(SYS_madvise, address, length, advice) as i32
}

/// As mprotect.
///
/// # Safety
/// As for mprotect.
pub unsafe fn mprotect(address: usize, length: usize, protection: i32) -> i32 {
    call!(SYS_mprotect, address, length, protection) as i32
}

/// New private memory, which takes no part in the accounting of overcommitted memory until it is used.
pub fn map(length: usize, protection: i32) -> Option<usize> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: new memory at an address of the kernel's choice touches no other.
    let base = unsafe { mmap(0, length, protection, flags, -1, 0) };
    (base != MAP_FAILED).then_some(base)
}

/// Makes memory readable and writable that was mapped by [`map`].
pub fn allow(address: usize, length: usize) -> bool {
    // SAFETY: no reference to memory is hurt when more may be done with it.
    unsafe { mprotect(address, length, libc::PROT_READ | libc::PROT_WRITE) == 0 }
}

/// Bytes of memory that the process uses and that are no file's. Does not allocate.
pub fn used_bytes() -> Option<usize> {
    let mut text = [0_u8; 256];
    let fd = call!(SYS_openat, libc::AT_FDCWD, c"/proc/self/statm".as_ptr(), libc::O_RDONLY) as i32;
    if fd < 0 {
        return None;
    }
    let length = call!(SYS_read, fd, text.as_mut_ptr(), text.len());
    call!(SYS_close, fd);
    let text = std::str::from_utf8(text.get(..usize::try_from(length).ok()?)?).ok()?;
    let mut pages = text.split_ascii_whitespace().skip(1).map(str::parse::<usize>);
    let (resident, of_files) = (pages.next()?.ok()?, pages.next()?.ok()?);
    Some(resident.saturating_sub(of_files) * PAGE_BYTES)
}

/// Sleeps while `word` is `expected`; may wake early.
pub fn futex_wait(word: &AtomicU32, expected: u32) {
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    call!(SYS_futex, word.as_ptr(), operation, expected, std::ptr::null::<libc::timespec>());
}

/// Wakes one that sleeps on `word`.
pub fn futex_wake(word: &AtomicU32) {
    call!(SYS_futex, word.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1);
}

/// Writes a line to stderr, without allocating.
pub fn complain(parts: &[&str]) {
    let mut line = [0_u8; 1024];
    let mut used = 0;
    for part in ["rackmem: "].iter().chain(parts).chain(&["\n"]) {
        let length = part.len().min(line.len() - used);
        line[used..used + length].copy_from_slice(&part.as_bytes()[..length]);
        used += length;
    }
    say(&line[..used]);
}

/// Writes text to stderr.
pub fn say(text: impl AsRef<[u8]>) {
    let text = text.as_ref();
    call!(SYS_write, 2, text.as_ptr(), text.len());
}
