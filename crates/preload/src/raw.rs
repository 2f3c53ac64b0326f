//! syscall, by which programs make system calls past the functions of the C library, and io_uring.
//!
//! Calls that have a function in this library are made by it, so that memory which a program maps in this way is
//! borrowed, too. Others are made as they are, and repeated if they fail with EFAULT for a page that is away.

use std::ffi::{c_int, c_long, c_uint, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

use rackmem_paging::PAGE_BYTES;

use crate::local::{Pointer, helping};
use crate::{descriptors, fork, kernel, memory, messages, process, thread, transfer, waits};

/// Attempts of a call whose pages leave again before it is made.
const MAX_ATTEMPTS: u32 = 100;

/// Says once that a program goes without io_uring, whose requests the kernel makes by itself; refuses it.
fn refuse_io_uring() -> bool {
    static IS_SAID: AtomicBool = AtomicBool::new(false);
    if thread::is_inside() || !process::needs_help() {
        return false;
    }
    if !IS_SAID.swap(true, Ordering::Relaxed) {
        kernel::complain(&[
            "io_uring cannot reach borrowed memory here: the program is told that the kernel lacks it \
             (ENOSYS); see `rackmem help borrow`",
        ]);
    }
    true
}

/// As syscall(2).
///
/// # Safety
/// As for the system call.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn syscall(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    let arguments = [a, b, c, d, e, f];
    if thread::is_inside() {
        // SAFETY: the caller's promise.
        return kernel::returned(unsafe { kernel::raw(number as usize, arguments) }) as c_long;
    }
    // SAFETY: the caller's promise. The arguments are those of the system call.
    unsafe {
        match routed(number, arguments) {
            Some(result) => result as c_long,
            None => kernel::returned(repeated(number, arguments)) as c_long,
        }
    }
}

/// Makes a call by the function of this library that there is for it.
///
/// # Safety
/// As for the system call.
unsafe fn routed(number: c_long, arguments: [usize; 6]) -> Option<isize> {
    let [a, b, c, d, e, f] = arguments;
    let (fd, at, to) = (a as c_int, a as Pointer, b as Pointer);
    // SAFETY: by the condition.
    unsafe {
        Some(match number {
            libc::SYS_mmap => {
                memory::mmap(at, b, c as c_int, d as c_int, e as c_int, f as i64) as isize
            }
            libc::SYS_munmap => memory::munmap(at, b) as isize,
            libc::SYS_mremap => memory::mremap(at, b, c, d as c_int, e as Pointer) as isize,
            libc::SYS_mprotect => memory::mprotect(at, b, c as c_int) as isize,
            libc::SYS_madvise => memory::madvise(at, b, c as c_int) as isize,
            libc::SYS_close => descriptors::close(fd) as isize,
            libc::SYS_close_range => {
                descriptors::close_range(a as c_uint, b as c_uint, c as c_int) as isize
            }
            #[cfg(target_arch = "x86_64")]
            libc::SYS_dup2 => descriptors::dup2(fd, b as c_int) as isize,
            libc::SYS_dup3 => descriptors::dup3(fd, b as c_int, c as c_int) as isize,
            libc::SYS_io_uring_setup | libc::SYS_io_uring_enter | libc::SYS_io_uring_register
                if refuse_io_uring() =>
            {
                thread::set_errno(libc::ENOSYS);
                -1
            }
            #[cfg(target_arch = "x86_64")]
            libc::SYS_fork => fork::fork() as isize,
            libc::SYS_read => transfer::read(fd, to, c),
            libc::SYS_write => transfer::write(fd, to, c),
            libc::SYS_pread64 => transfer::pread64(fd, to, c, d as i64),
            libc::SYS_pwrite64 => transfer::pwrite64(fd, to, c, d as i64),
            libc::SYS_readv => transfer::readv(fd, to.cast(), c as c_int),
            libc::SYS_writev => transfer::writev(fd, to.cast(), c as c_int),
            libc::SYS_preadv => transfer::preadv64(fd, to.cast(), c as c_int, d as i64),
            libc::SYS_pwritev => transfer::pwritev64(fd, to.cast(), c as c_int, d as i64),
            libc::SYS_getrandom => transfer::getrandom(at, b, c as c_uint),
            libc::SYS_recvfrom => {
                messages::recvfrom(fd, to, c, d as c_int, e as Pointer, f as *mut u32)
            }
            libc::SYS_sendto => messages::sendto(fd, to, c, d as c_int, e as Pointer, f as u32),
            libc::SYS_recvmsg => messages::recvmsg(fd, to.cast(), c as c_int),
            libc::SYS_sendmsg => messages::sendmsg(fd, to.cast(), c as c_int),
            libc::SYS_process_vm_readv => {
                messages::process_vm_readv(fd, to.cast(), c, d as *const _, e, f)
            }
            libc::SYS_process_vm_writev => {
                messages::process_vm_writev(fd, to.cast(), c, d as *const _, e, f)
            }
            libc::SYS_ppoll => waits::ppoll(at, b as u64, c as Pointer, d as Pointer) as isize,
            _ => return None,
        })
    }
}

/// Makes a call as it is; again, if it failed and something that it may point to was away.
///
/// # Safety
/// As for the system call.
unsafe fn repeated(number: c_long, arguments: [usize; 6]) -> isize {
    // SAFETY: by the condition.
    let call = || unsafe { kernel::raw(number as usize, arguments) };
    let mut result = call();
    let Some(pager) = helping() else { return result };
    let mut attempts = 0;
    while result == -(libc::EFAULT as isize) && attempts < MAX_ATTEMPTS {
        if !arguments.iter().any(|&argument| pager.contains(argument)) {
            break;
        }
        let inside = thread::enter();
        for &argument in arguments.iter().filter(|&&argument| pager.contains(argument)) {
            let _ = pager.ensure_present(argument, PAGE_BYTES, false);
        }
        drop(inside);
        attempts += 1;
        result = call();
    }
    result
}

/// Defines liburing's functions that make a ring, which do so past the C library.
macro_rules! rings {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {$(
        #[doc = concat!("As ", stringify!($name), " of liburing.")]
        ///
        /// # Safety
        /// As for that function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($argument: $type),*) -> c_int {
            if refuse_io_uring() {
                return -libc::ENOSYS;
            }
            crate::next::next!($name($($argument => $type),*) -> c_int)
        }
    )*};
}

rings! {
    io_uring_queue_init(entries: c_uint, ring: *mut c_void, flags: c_uint);
    io_uring_queue_init_params(entries: c_uint, ring: *mut c_void, parameters: *mut c_void);
    io_uring_queue_init_mem(entries: c_uint, ring: *mut c_void, parameters: *mut c_void,
        memory: *mut c_void, size: usize);
    io_uring_setup(entries: c_uint, parameters: *mut c_void);
}
