//! Borrowed memory for unmodified programs: `rackmem borrow` loads this library into them.
//!
//! It puts itself in front of the C library's functions. Memory that a program maps, by itself or by
//! malloc, comes from a [`Pager`](rackmem_borrow::paging::Pager) once the process has more than a
//! threshold: pages that it does not need leave for a lender, and come back when they are touched.
//!
//! | module | what it puts itself in front of |
//! |---|---|
//! | `memory` | mmap and its kin: large private mappings are borrowed |
//! | `malloc` | malloc and its kin, with an allocator that is known; the program's own is left alone |
//! | `fork` | fork: a child reads what its parent had |
//! | `signals` | sigaction and its kin: programs with a handler of SIGBUS of their own |
//! | `calls` | read, write and their kin, where the kernel cannot wait for pages that are away |
//! | `streams` | fread and fwrite, likewise |
//! | `exec` | execve and its kin, likewise |
//! | `threads` | pthread_create: whose a thread is |
//!
//! Two rules keep it from waiting for itself. *The library lives in memory of its own*: `heap` is on
//! mappings that are never borrowed, and so is what the C library keeps for itself (`libraries`). *Who is
//! inside is told*: a thread that is in the library, and each of the library's own threads, gets plain
//! memory from all of these functions (`thread`).

mod calls;
mod exec;
mod fork;
mod heap;
mod kernel;
mod libraries;
mod malloc;
mod memory;
mod next;
mod process;
mod report;
mod signals;
mod streams;
mod thread;
mod threads;

/// Runs when the library was loaded, unless an earlier constructor has allocated already.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = {
    extern "C" fn at_load() {
        process::begin();
    }
    at_load
};
