//! Borrowed memory for unmodified programs: `rackmem borrow` loads this library into them.
//!
//! It puts itself in front of the C library's functions. Memory that a program maps, by itself or by
//! malloc, comes from a [`Pager`](rackmem_paging::Pager) once the process has more than a
//! threshold: pages that it does not need leave for a lender, and come back when they are touched.
//!
//! | module | what it puts itself in front of |
//! |---|---|
//! | `memory` | mmap and its kin: large private mappings are borrowed |
//! | `reserved` | memory that is reserved first and used later: then it is borrowed |
//! | `breaks` | brk and sbrk, likewise |
//! | `malloc` | malloc and its kin, with an allocator that is known; the program's own is left alone |
//! | `fork` | fork: a child reads its parent's memory |
//! | `signals` | sigaction and its kin: programs with a handler of SIGBUS of their own |
//! | `stacks` | alternate signal stacks of the library's: programs may run on stacks of borrowed memory |
//! | `local`, `standin` | local memory for system calls in place of memory that is away, if the kernel cannot wait |
//! | `transfer`, `messages` | read, write, send, receive and their kin |
//! | `files`, `waits` | tables of all other calls that are given memory |
//! | `streams` | streams of the C library, which makes system calls past us |
//! | `raw` | syscall, and io_uring |
//! | `exec` | execve and its kin, and the message about programs that cannot borrow |
//! | `threads` | pthread_create: whether a thread is the program's or the library's |
//!
//! Two rules keep it from waiting for itself. *The library lives in memory of its own*: `heap` is on
//! mappings that are never borrowed, and so is the C library's own memory (`libraries`). *Threads inside are known*: a
//! thread that is in the library, and each of the library's own threads, gets plain memory from all of these functions
//! (`thread`).
//!
//! # One mapping, followed through the code
//!
//! `rackmem borrow` becomes the program (exec), so exit status, signals and process number are the program's. `memory`
//! takes a call of mmap. `process` decides whether the process has grown beyond the threshold, by the memory that it
//! uses, since allocators reserve far more; if so it makes the lease and starts the pager, and the pager maps. `malloc`
//! is mimalloc, which maps likewise. If a program brings jemalloc or another allocator, calls go on to that one, and
//! its mappings arrive in `memory`.
//!
//! # Decisions
//!
//! - *The holder of the lease.* The process that pages, from its first mapping beyond the threshold on. The command
//!   only asks the ledger whether there is enough. If that has changed meanwhile, the process says so and goes on with
//!   local memory.
//! - *Budget.* Each program that is executed has its own. A child of fork shares the leases of its parent, and has a
//!   part of its free pages.
//! - *Memory that does not fit* is local, and counted in the report.
//! - *Functions that the library calls* are looked up when it is loaded: dlsym in a thread that answers faults could
//!   wait for a thread inside of dlopen, which waits for a page.
//! - *The C library's own memory.* The loader's list of libraries is needed by any thread that looks up a function; a
//!   new thread looks at the locale before it takes signals; buffers of stdio go to the kernel past every wrapper. The
//!   address from which malloc is called tells them.
//! - *fork.* A fork whose child could not be given its view of the memory fails with EAGAIN.
//! - *Faults in the kernel.* The pager's thread answers them. Without the right to that, or with `--mode inline`, a
//!   system call is given local memory in the place of borrowed memory (`local`, `standin`) and is made once. So
//!   messages, appending, O_DIRECT, signals and timeouts keep their meaning. Only requests that the kernel itself moves
//!   bit by bit are made in pieces of 256 KiB (`transfer`). Small calls are lines of tables (`files`, `waits`,
//!   `messages`). execve is repeated instead, because a child of vfork would never give local memory back.
//! - *SIGBUS, inline.* The program's handler is kept. It gets signals that are not the pager's, and faults on lost
//!   pages. Other signals wait while a page is brought, because their handlers may touch borrowed memory. SIGBUS is
//!   never blocked. Alternate stacks are not borrowed (`signals`) and may be small: pages are brought on stacks of the
//!   pager's. Threads without one have the library's (`stacks`).
//! - *Descriptors.* Programs close numbers that they have not opened. The library's have high numbers, and
//!   `descriptors` leaves them out. The program's limit on open files does not hold for them where it can be raised.
//!
//! # Limits
//!
//! Memory that getline and asprintf allocate stays local. `mlock` of borrowed memory fails with ENOMEM. A raw clone(2)
//! goes by unseen: such a child must not touch borrowed memory. `rackmem help borrow` names the system calls that
//! cannot be given local memory.

mod binary;
mod breaks;
mod descriptors;
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
mod stacks;
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
