//! Borrowed memory for unmodified programs: `rackmem borrow` loads this library into them.
//!
//! It puts itself in front of the C library's functions. Memory that a program maps, by itself or by
//! malloc, comes from a [`Pager`](rackmem_borrow::paging::Pager) once the process has more than a
//! threshold: pages that it does not need leave for a lender, and come back when they are touched.
//!
//! | module | what it puts itself in front of |
//! |---|---|
//! | `memory` | mmap and its kin: large private mappings are borrowed |
//! | `reserved` | memory that is reserved first and used later: then it is borrowed |
//! | `breaks` | brk and sbrk, likewise |
//! | `malloc` | malloc and its kin, with an allocator that is known; the program's own is left alone |
//! | `fork` | fork: a child reads what its parent had |
//! | `signals` | sigaction and its kin: programs with a handler of SIGBUS of their own |
//! | `local`, `standin` | what system calls are given in the place of memory that is away, where the kernel cannot wait |
//! | `transfer`, `messages` | read, write, send, receive and their kin |
//! | `files`, `waits` | tables of all other calls that are given memory |
//! | `streams` | streams of the C library, which makes system calls past us |
//! | `raw` | syscall, and io_uring |
//! | `exec` | execve and its kin, and what is said of programs that cannot borrow |
//! | `threads` | pthread_create: whose a thread is |
//!
//! Two rules keep it from waiting for itself. *The library lives in memory of its own*: `heap` is on
//! mappings that are never borrowed, and so is what the C library keeps for itself (`libraries`). *Who is
//! inside is told*: a thread that is in the library, and each of the library's own threads, gets plain
//! memory from all of these functions (`thread`).

mod binary;
mod breaks;
mod exec;
mod files;
mod fork;
mod heap;
mod kernel;
mod libraries;
mod local;
mod lock;
mod malloc;
mod memory;
mod messages;
mod next;
mod process;
mod raw;
mod report;
mod reserved;
mod signals;
mod standin;
mod streams;
mod thread;
mod threads;
mod transfer;
mod waits;

/// Runs when the library was loaded, unless an earlier constructor has allocated already.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = {
    extern "C" fn at_load() {
        process::begin();
    }
    at_load
};
