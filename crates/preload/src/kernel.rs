//! System calls as they are, past the functions that the library puts in front of them.

use std::ffi::CStr;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::time::Duration;

use rackmem_paging::PAGE_BYTES;

use crate::thread;

/// Value that mmap returns when it fails.
pub const MAP_FAILED: usize = usize::MAX;

/// A system call as the kernel has it: a negative result is the number of an error.
///
/// # Safety
/// As for the system call.
#[inline(always)]
pub unsafe fn raw(number: usize, arguments: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = arguments;
    let result: isize;
    // SAFETY: the registers are those of the kernel's calling convention; the caller answers for the call.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
        );
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") a as isize => result,
            in("x1") b, in("x2") c, in("x3") d, in("x4") e, in("x5") f,
        );
    }
    result
}

/// A result of the kernel as the C library returns it: -1 and `errno`.
pub fn returned(result: isize) -> isize {
    if (-4095..0).contains(&result) {
        thread::set_errno(-result as i32);
        return -1;
    }
    result
}

/// A system call with the C library's conventions.
macro_rules! call {
    ($number:ident $(, $argument:expr)* $(,)?) => {{
        let mut arguments = [0_usize; 6];
        for (place, argument) in arguments.iter_mut().zip([$($argument as usize),*]) {
            *place = argument;
        }
        // SAFETY: the caller of the function around this answers for the arguments, as for those of the function of
        // the C library that has this name.
        returned(unsafe { raw(libc::$number as usize, arguments) })
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

/// Sleeps while `word` is `expected`, at most for `limit`; may wake early. Returns whether the time is over.
pub fn futex_wait(word: &AtomicU32, expected: u32, limit: Duration) -> bool {
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    let limit = libc::timespec { tv_sec: limit.as_secs() as i64, tv_nsec: 0 };
    let errno = thread::errno();
    let status = call!(SYS_futex, word.as_ptr(), operation, expected, &raw const limit);
    let is_over = status == -1 && thread::errno() == libc::ETIMEDOUT;
    thread::set_errno(errno);
    is_over
}

/// Wakes one that sleeps on `word`.
pub fn futex_wake(word: &AtomicU32) {
    call!(SYS_futex, word.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1);
}

/// Whether all pages of a range are mapped, with whatever protection.
pub fn is_mapped(address: usize, length: usize) -> bool {
    const MOST: usize = 64 << 12;
    let mut residency = [0_u8; MOST / PAGE_BYTES];
    let first = address & !(PAGE_BYTES - 1);
    let bytes = address.saturating_add(length).saturating_sub(first);
    (0..bytes).step_by(MOST).all(|at| {
        let bytes = (bytes - at).min(MOST);
        call!(SYS_mincore, first + at, bytes, residency.as_mut_ptr()) == 0
    })
}

/// Number of the calling process.
pub fn process_id() -> i32 {
    call!(SYS_getpid) as i32
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

/// Copy of stderr, for reports after the program has closed it; -1: none.
static OTHER_STDERR: AtomicI32 = AtomicI32::new(-1);

/// Keeps stderr for reports at the end: many programs close it at their exit, to notice errors.
pub fn keep_stderr() {
    /// Programs count on the lowest numbers.
    const LOWEST: i32 = 64;
    let kept = call!(SYS_fcntl, 2, libc::F_DUPFD_CLOEXEC, LOWEST) as i32;
    OTHER_STDERR.store(kept, Ordering::Relaxed);
}

/// Writes text to stderr.
pub fn say(text: impl AsRef<[u8]>) {
    let text = text.as_ref();
    if call!(SYS_write, 2, text.as_ptr(), text.len()) == -1 {
        call!(SYS_write, OTHER_STDERR.load(Ordering::Relaxed), text.as_ptr(), text.len());
    }
}

/// Kind of an open file, a value of `S_IFMT`; 0 if it is none.
pub fn file_type(fd: i32) -> libc::mode_t {
    file_mode(fd) & libc::S_IFMT
}

/// Kind and permissions of an open file; 0 if it is none.
pub fn file_mode(fd: i32) -> libc::mode_t {
    stat(fd).map_or(0, |file| file.st_mode)
}

/// State of an open file.
pub fn stat(fd: i32) -> Option<libc::stat> {
    // SAFETY: zero is a value of the type.
    let mut file: libc::stat = unsafe { std::mem::zeroed() };
    (call!(SYS_fstat, fd, &raw mut file) == 0).then_some(file)
}

/// Flags of an open file.
pub fn file_flags(fd: i32) -> i32 {
    call!(SYS_fcntl, fd, libc::F_GETFL) as i32
}

/// Kind of a socket, such as `SOCK_STREAM`; 0 if it is none.
pub fn socket_type(fd: i32) -> i32 {
    let (mut kind, mut length) = (0_i32, size_of::<i32>() as libc::socklen_t);
    let (level, option) = (libc::SOL_SOCKET, libc::SO_TYPE);
    call!(SYS_getsockopt, fd, level, option, &raw mut kind, &raw mut length);
    kind
}

/// Opens a file that is only read.
pub fn open(path: &CStr) -> Option<i32> {
    let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK;
    let errno = thread::errno();
    let fd = call!(SYS_openat, libc::AT_FDCWD, path.as_ptr(), flags) as i32;
    thread::set_errno(errno);
    (fd >= 0).then_some(fd)
}

/// Reads at an offset; returns whether something was there.
pub fn read_at(fd: i32, into: &mut [u8], at: u64) -> bool {
    call!(SYS_pread64, fd, into.as_mut_ptr(), into.len(), at) > 0
}

/// Closes a file.
pub fn close(fd: i32) {
    call!(SYS_close, fd);
}
