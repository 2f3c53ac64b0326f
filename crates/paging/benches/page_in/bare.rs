//! The least that page-in can be: a userfaultfd and a copy, with no table, no limit, and nothing that leaves.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use rackmem_paging::PAGE_BYTES;

use super::touch_all;

/// The thread that resolves faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A waiting thread, on the core of the faulting thread.
    Sleeping,
    /// A spinning thread, on another core.
    Spinning,
    /// The faulting thread, in its handler of SIGBUS.
    Inline,
}

#[repr(C)]
struct Api {
    words: [u64; 3],
}
#[repr(C)]
struct Register {
    words: [u64; 4],
}
#[repr(C)]
struct Copy {
    words: [u64; 5],
}

const API: libc::Ioctl = 0xc018_aa3f;
const REGISTER: libc::Ioctl = 0xc020_aa00;
const COPY: libc::Ioctl = 0xc028_aa03;
const SIGBUS_FEATURE: u64 = 1 << 7;

static FD: AtomicUsize = AtomicUsize::new(0);
static BASE: AtomicUsize = AtomicUsize::new(0);
static FROM: AtomicUsize = AtomicUsize::new(0);

/// A connection to a donor, plus one; 0: pages come from memory.
static DONOR_PLUS_ONE: AtomicUsize = AtomicUsize::new(0);
static BYTES: [AtomicU64; PAGE_BYTES / 8] = [const { AtomicU64::new(0) }; PAGE_BYTES / 8];

/// Sets the nonblocking connection to fetch pages over: a page answers each 8 bytes. `None`: pages come from memory.
pub fn fetch_from(donor: Option<c_int>) {
    DONOR_PLUS_ONE.store(donor.map_or(0, |fd| fd as usize + 1), Ordering::Relaxed);
}

/// Asks the donor for a page, and spins for it. Returns its address.
fn fetch(donor: c_int, offset: usize) -> usize {
    let request = (offset as u64).to_le_bytes();
    let into = BYTES.as_ptr() as usize;
    // SAFETY: a request of 8 bytes, and room for a page; one thread at a time faults here.
    unsafe {
        libc::write(donor, request.as_ptr().cast(), 8);
        let mut have = 0;
        while have < PAGE_BYTES {
            let got = libc::read(donor, (into + have) as *mut c_void, PAGE_BYTES - have);
            have += got.max(0) as usize;
        }
    }
    into
}

fn copy(page: usize) {
    let donor = DONOR_PLUS_ONE.load(Ordering::Relaxed);
    let offset = page - BASE.load(Ordering::Relaxed);
    let from = if donor != 0 {
        fetch(donor as c_int - 1, offset)
    } else {
        FROM.load(Ordering::Relaxed) + offset
    };
    let mut copy = Copy { words: [page as u64, from as u64, PAGE_BYTES as u64, 0, 0] };
    // SAFETY: the request's own structure.
    unsafe { libc::ioctl(FD.load(Ordering::Relaxed) as c_int, COPY, &mut copy) };
}

extern "C" fn on_sigbus(_: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: SIGBUS has an address.
    copy(unsafe { (*info).si_addr() } as usize & !(PAGE_BYTES - 1));
}

fn answer(kind: Kind, last: usize) {
    let mut message = [0u64; 4];
    let mut left = last;
    while left != 0 {
        // SAFETY: the buffer of one message.
        let length = unsafe {
            libc::read(FD.load(Ordering::Relaxed) as c_int, message.as_mut_ptr().cast(), 32)
        };
        if length == 32 {
            copy(message[2] as usize & !(PAGE_BYTES - 1));
            left -= 1;
        } else if kind == Kind::Spinning {
            std::hint::spin_loop();
        }
    }
}

/// Touches pages that come from `from`, and takes the time of each.
pub fn page_in(kind: Kind, from: *mut u8, order: &[usize]) -> Vec<Duration> {
    let length = order.len() * PAGE_BYTES;
    let is_inline = kind == Kind::Inline;
    // SAFETY: plain system calls on memory of this function.
    unsafe {
        let flags = libc::O_CLOEXEC | if kind == Kind::Spinning { libc::O_NONBLOCK } else { 0 };
        let fd = libc::syscall(libc::SYS_userfaultfd, flags) as c_int;
        let mut api = Api { words: [0xaa, if is_inline { SIGBUS_FEATURE } else { 0 }, 0] };
        assert_eq!(libc::ioctl(fd, API, &mut api), 0);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let base = libc::mmap(std::ptr::null_mut(), length, protection, flags, -1, 0);
        let mut register = Register { words: [base as u64, length as u64, 1, 0] };
        assert_eq!(libc::ioctl(fd, REGISTER, &mut register), 0);
        FD.store(fd as usize, Ordering::Relaxed);
        BASE.store(base as usize, Ordering::Relaxed);
        FROM.store(from as usize, Ordering::Relaxed);
        let before: Cell<libc::sigaction> = Cell::new(std::mem::zeroed());
        if is_inline {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_sigbus as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            libc::sigaction(libc::SIGBUS, &action, before.as_ptr());
        }
        let pages = order.len();
        let handler = (!is_inline).then(|| {
            std::thread::spawn(move || {
                super::bind(usize::from(kind == Kind::Spinning));
                answer(kind, pages);
            })
        });
        let times = touch_all(base.cast(), order);
        handler.into_iter().for_each(|handler| handler.join().expect("the handler ends"));
        if is_inline {
            libc::sigaction(libc::SIGBUS, before.as_ptr(), std::ptr::null_mut());
        }
        libc::munmap(base, length);
        libc::close(fd);
        times
    }
}
