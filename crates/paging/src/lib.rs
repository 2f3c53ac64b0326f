//! Borrowed memory as plain memory: pages of private anonymous memory that leave for a
//! [`Store`] when local memory is short, and come back when they are touched (TSM §2.2, DEOI §III).
//!
//! The kernel hands faults over by userfaultfd(2), which needs Linux 6.8, no module and, set up
//! once, no privilege.
//!
//! | module | what it is |
//! |---|---|
//! | `entry`, `table` | a page's state in a word, the steps that it may take, the table of all words |
//! | `frames`, `slots` | the budget of local memory, and which pages of the store are taken |
//! | `worker`, `run`, `streams` | answers a fault, with pages that come together, and predicts the next ones |
//! | `handler`, `inline` | faults are resolved by a thread of the pager, or by the faulting thread itself |
//! | `evictor`, `writeback` | sends pages away ahead of need |
//! | `space`, `ranges`, `changes`, `fork` | map, unmap, discard, protect, remap; children and their views |
//! | `uffd`, `pagemap`, `thread` | userfaultfd, written pages, threads |
//! | `cores`, `stack`, `measure` | cores of threads, stacks for handlers of SIGBUS, the fastest options on this host |
//! | [`region`], [`capi`] | borrowed memory for programs that know of it, in Rust and C (`rackmem/borrow.h`) |
//! | [`program`] | settings of the library that is loaded into programs |
//!
//! # One page-in, followed through the code
//!
//! The program touches a page that is away. With delivery by thread the kernel stops it and hands `handler` a message;
//! inline, `inline` runs in the program's own thread. Either calls `Worker::fault`: the page's word (`table`) says
//! *away, slot 7*. A free frame is taken (`frames`), and the word goes to *held* by compare-and-swap, so everybody else
//! waits for the page on its word. If the store is mapped, `UFFDIO_COPY` copies the page from there and the program
//! goes on. If not, the slot is asked for on the worker's lane, along with the other faults that are pending, and
//! `Worker::finish` delivers the answers. The streams predict the next pages: adjacent slots are asked for together.
//!
//! # One page-out, followed through the code
//!
//! Free frames fall below the low watermark, and the evictor wakes. Its hand goes round the frames. A page goes to
//! *leaving*, and `UFFDIO_MOVE` takes it, adjacent pages together, to its frame's place in the staging area: atomically
//! against writers, without a write-protect fault. There it is compared. Zeros leave no trace; a page that the store
//! already has is not written; the rest is written, adjacent slots in one request. Until the answer the page is
//! *staged*, from then on in *standby*, and from both a move takes it back. Standby is kept for a sixteenth of the
//! cache. The oldest pages go *away*, and their frames are free.
//!
//! Each page that is taken has to be announced to every core that runs the program. On a virtual machine that is two
//! interrupts a page, which cost more than the page-in. So with inline delivery and a mapped store the evictor stays on
//! the core that misses pages (`PagerOptions::evictor`): a touch that faults while a page leaves was measured at 9 us
//! there, and at 15 us with the evictor on another core. That does not help a handler thread, because the kernel moves
//! one of the two to another core when the handler wakes the program; nor TCP, where writing is more work than the
//! announcement.
//!
//! # What must stay true
//!
//! - A page in transit (*held*, *leaving*) belongs to one thread, and no transit waits for another one's. A fault
//!   handler waits for nothing but its own lane; faults that it cannot answer it keeps and tries again.
//! - Only the evictor writes slots, and on one lane, so a slot that was given back and taken again gets its bytes in
//!   order. A page goes *away* only after the store confirmed it, because reads use other lanes.
//! - A slot that a child of fork reads is neither written nor given away until a pipe says that the child has ended.
//! - Nothing in the path of a fault allocates, or takes a lock that a thread could hold while it faults.
//!
//! # Decisions
//!
//! - *Eviction under a running program.* By `UFFDIO_MOVE` (Linux 6.8); other ways lose writes or cost a fault each.
//!   Pages that may be both written and executed stay local; read-only pages are copied.
//! - *An error of `UFFDIO_MOVE` means nothing by itself.* Linux 6.18 sometimes moves pages and then fails with EEXIST.
//!   Where each page is says whether it moved (`uffd`).
//! - *Threads* are pthreads, because a thread of Rust's library takes a lock at its start that the child of a fork may
//!   find held.
//! - *Clean pages.* On a mapped store a comparison tells, which costs no more than the write. Otherwise `WP_ASYNC`
//!   notes first writes, and a copy that is taken before the scan and compared after the move closes the gap between
//!   them.
//! - *Which pages are in use.* No bit tells. A page gets a second chance if it was taken back from standby, or came
//!   back before the whole cache was replaced.
//! - *A first touch* gets zeros, for which no lender is asked. A page that is zero when it leaves occupies nothing
//!   there.
//! - *The store is full or lost, or the program forbids eviction.* Local memory grows beyond its limit (`overdrawn`),
//!   because killing the program would be worse.
//! - *A lender is lost.* Its pages mean SIGBUS (`UFFDIO_POISON`), and local pages stay. While a lender is away faults
//!   wait.
//! - *Larger pages.* None: a batch of adjacent pages is one request and one call of the kernel, at the price of a word
//!   for each page.
//! - *fork.* The child gets a userfaultfd, threads and lanes of its own, and half of the free slots to write to.

pub mod capi;
mod changes;
mod core;
mod cores;
mod entry;
mod evictor;
mod fork;
mod frames;
mod handler;
mod inline;
mod latencies;
mod measure;
mod options;
mod pagemap;
pub mod program;
mod ranges;
pub mod region;
mod run;
mod slots;
mod space;
mod stack;
mod statistics;
mod streams;
mod table;
mod thread;
mod uffd;
#[cfg(test)]
mod walk;
mod worker;
mod writeback;

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use self::core::{Core, Replaced};
use self::entry::State;
use self::evictor::{Evictor, Orders};
use self::handler::Command;
use self::inline::{Pool, Unresolved};
use self::table::Table;
use self::thread::{Thread, spawn};
use self::uffd::{OpenError, Uffd, feature};
use self::worker::Worker;
use rackmem_lease::error::{Error, Result};
use rackmem_lease::store::Store;

pub use options::{
    Delivery, MAX_BATCH_PAGES, MAX_CACHE_PAGES, MAX_GROWTH, MAX_HANDLERS, MAX_PREFETCH_PAGES,
    MIN_CACHE_PAGES, PAGE_BYTES, PagerOptions, Placement, Waiting,
};
pub use region::Region;
pub use statistics::Statistics;
pub use thread::is_pager_thread;

/// Keeps borrowed memory: a local cache of pages in front of a store.
///
/// Addresses and lengths are multiples of [`PAGE_BYTES`] where a function does not say otherwise. All
/// functions may be called by any thread; none of them by a signal handler, except
/// [`Pager::contains`] and [`Pager::ensure_present`].
///
/// A pager's threads block all signals. They do not allocate once they run, and code of theirs that might
/// is told apart by [`is_pager_thread`]: an allocator that gives out borrowed memory must not give it
/// to them, nor to a thread inside of a function of the pager.
///
/// Dropping the pager unmaps everything that it mapped.
pub struct Pager {
    core: Arc<Core>,
    orders: Arc<Orders>,
    command: Arc<Command>,
    /// For faults that threads answer themselves. Boxed, as the handler of SIGBUS knows its address.
    pool: Option<Box<Pool>>,
    threads: Replaced<Vec<Thread>>,
    ticket: fork::Ticket,
}

impl std::fmt::Debug for Pager {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pager").field("options", self.options()).finish_non_exhaustive()
    }
}

/// An error that says what is missing and how to get it.
fn explain(error: OpenError) -> Error {
    match error {
        OpenError::NotPermitted(error) => Error::io(
            "userfaultfd is not permitted to this process: give it access to /dev/userfaultfd (a \
             group and mode 0660), or the capability CAP_SYS_PTRACE, or set \
             vm.unprivileged_userfaultfd to 1",
            error,
        ),
        OpenError::TooOld(missing) => {
            let names = [
                (feature::MOVE, "UFFDIO_MOVE (Linux 6.8)"),
                (feature::POISON, "UFFDIO_POISON (Linux 6.6)"),
                (feature::THREAD_ID, "thread ids (Linux 4.14)"),
                (feature::SIGBUS, "SIGBUS (Linux 4.14)"),
            ];
            let names: Vec<&str> =
                names.iter().filter(|(bit, _)| missing & bit != 0).map(|(_, name)| *name).collect();
            Error::refused(format!("this kernel's userfaultfd lacks {}", names.join(", ")))
        }
    }
}

fn open_uffd(is_inline: bool) -> Result<Uffd> {
    Uffd::open(feature::WP_ASYNC | feature::WP_UNPOPULATED, is_inline).map_err(explain)
}

impl Pager {
    /// Starts the pager's threads. Pages that leave go to `store`, all of which is the pager's.
    ///
    /// # Errors
    /// The options are out of range; userfaultfd is not permitted or too old: the message says what is
    /// missing and how to get it; the store is lost, or no lane to it can be made.
    pub fn start(store: Arc<dyn Store>, options: &PagerOptions) -> Result<Pager> {
        options.check()?;
        store.check()?;
        let options = measure::choose(options);
        let is_inline = options.delivery == Delivery::Inline;
        let uffd = open_uffd(is_inline)?;
        let (needs_pool, lanes) = (uffd.is_user_mode_only, options.handlers);
        let core = Arc::new(Core::new(store, options, is_inline, uffd)?);
        let pool = if needs_pool { Some(Box::new(Pool::new(&core, lanes)?)) } else { None };
        let pager = Pager {
            orders: Arc::default(),
            command: Arc::default(),
            pool,
            threads: Replaced::new(Vec::new()),
            ticket: fork::Ticket::default(),
            core,
        };
        pager.begin()?;
        if is_inline && !pager.pool_address().is_some_and(inline::enrol) {
            let limit = inline::MAX_INLINE;
            return Err(Error::refused(format!(
                "at most {limit} pagers of a process deliver inline"
            )));
        }
        Ok(pager)
    }

    fn pool_address(&self) -> Option<*mut Pool> {
        self.pool.as_deref().map(|pool| std::ptr::from_ref(pool).cast_mut())
    }

    /// Starts the threads of this process.
    fn begin(&self) -> Result<()> {
        let evictor = Evictor::new(&self.core, &self.orders)?;
        let mut threads = vec![spawn(c"rackmem-evict", || evictor.run())?];
        for _ in 0..self.handlers() {
            let (core, command) = (Arc::clone(&self.core), Arc::clone(&self.command));
            let worker = Worker::new(&core)?;
            threads.push(spawn(c"rackmem-fault", || handler::run(core, worker, command))?);
        }
        // SAFETY: called by `start`, before anybody else has the pager, and in the child of a fork.
        // Threads that were there before are the parent's, and not joined.
        drop(unsafe { self.threads.replace(threads) });
        Ok(())
    }

    /// Handler threads.
    fn handlers(&self) -> usize {
        if self.core.is_inline { 0 } else { self.options().handlers }
    }

    /// The options, with each `Auto` replaced by the measured choice.
    pub fn options(&self) -> &PagerOptions {
        &self.core.options
    }

    /// Whether system calls on pages that are away fail with EFAULT: delivery is inline, or the process
    /// may handle only faults of user mode. A caller of such calls calls [`Pager::ensure_present`] first.
    pub fn is_user_mode_only(&self) -> bool {
        self.core.uffd.is_user_mode_only
    }

    /// As [`Pager::is_user_mode_only`], of a pager that would be started now.
    pub fn would_be_user_mode_only(delivery: Delivery) -> bool {
        delivery != Delivery::Thread || open_uffd(false).is_ok_and(|uffd| uffd.is_user_mode_only)
    }

    /// New zeroed memory, readable and writable.
    ///
    /// # Errors
    /// The kernel has no address space, or the store is smaller than everything that is mapped.
    pub fn map(&self, length: usize) -> Result<NonNull<u8>> {
        let address = self.map_at(0, length, libc::PROT_READ | libc::PROT_WRITE, 0)?;
        Ok(NonNull::new(address as *mut u8).expect("mmap never returns null"))
    }

    /// New zeroed memory as by `mmap(address, length, protection, flags | MAP_PRIVATE | MAP_ANONYMOUS)`:
    /// `address` is a hint, or with `MAP_FIXED` or `MAP_FIXED_NOREPLACE` in `flags` the place; with
    /// `MAP_FIXED` a mapping there is replaced, be it borrowed or not. Other flags are handed to the kernel.
    ///
    /// # Errors
    /// As the system call; [`Error::errno`] has the number.
    pub fn map_at(
        &self,
        address: usize,
        length: usize,
        protection: i32,
        flags: i32,
    ) -> Result<usize> {
        self.core.space.map(&self.core, address, length, protection, flags)
    }

    /// As munmap, for any range: it may cross the borders of mappings, holes and memory that is not borrowed.
    ///
    /// # Errors
    /// As the system call.
    pub fn unmap(&self, address: usize, length: usize) -> Result<()> {
        self.core.space.unmap(&self.core, address, length)
    }

    /// Calls `map`, which maps something else in the place of a range: then the range is not borrowed any more. It may
    /// cross borders as for [`Pager::unmap`]. Threads that touch it meanwhile see the old mapping or the new one.
    ///
    /// # Errors
    /// The one of `map`, and the range stays borrowed; `EINVAL`, without a call of `map`: it does not begin at a page.
    pub fn replace<R>(
        &self,
        address: usize,
        length: usize,
        map: impl FnOnce() -> Result<R>,
    ) -> Result<R> {
        self.core.space.replace(&self.core, address, length, map)
    }

    /// As `madvise(MADV_DONTNEED)`: the pages are zero from now on, and occupy nothing. All of the range
    /// must be borrowed.
    ///
    /// # Errors
    /// As the system call.
    pub fn discard(&self, address: usize, length: usize) -> Result<()> {
        self.core.space.discard(&self.core, address, length)
    }

    /// As mprotect. All of the range must be borrowed.
    ///
    /// # Errors
    /// As the system call.
    pub fn protect(&self, address: usize, length: usize, protection: i32) -> Result<()> {
        self.core.space.protect(address, length, protection)
    }

    /// As mremap with the flags `MREMAP_MAYMOVE` and `MREMAP_FIXED` (then to `new_address`): returns the address of the
    /// memory afterwards. The old range must be borrowed.
    ///
    /// # Errors
    /// As the system call; `EINVAL` for `MREMAP_DONTUNMAP`.
    pub fn remap(
        &self,
        address: usize,
        old_length: usize,
        new_length: usize,
        flags: i32,
        new_address: usize,
    ) -> Result<usize> {
        self.core.space.remap(&self.core, address, old_length, new_length, flags, new_address)
    }

    /// Whether the page of an address (any) is borrowed.
    pub fn contains(&self, address: usize) -> bool {
        self.core.table.is_managed(address)
    }

    /// Calls `found` for each run of borrowed pages of a range of whole pages, in order.
    pub fn borrowed_runs(&self, range: Range<usize>, found: impl FnMut(Range<usize>)) {
        self.core.table.managed_runs(range, found);
    }

    /// Whether any page of a range (any address and length) is borrowed.
    pub fn overlaps(&self, address: usize, length: usize) -> bool {
        let last = address.saturating_add(length.saturating_sub(1)) & !(PAGE_BYTES - 1);
        let first = address & !(PAGE_BYTES - 1);
        length != 0 && self.core.table.count_managed(first..last.saturating_add(PAGE_BYTES)) != 0
    }

    /// Brings the borrowed pages of a range (any address and length; other pages are skipped), for a system call that
    /// is about to use them. Returns the number of bytes, counted from `address`, up to which they are present: fewer
    /// than `length` if the range is larger than a quarter of the local cache, so a large call is made in pieces. A
    /// page may leave again before the call is made: a caller that gets EFAULT for a range that [`Pager::overlaps`]
    /// borrowed memory asks again and repeats the call.
    ///
    /// # Errors
    /// [`Error::Lost`]: the first page is gone for good; the call is to be answered with EFAULT.
    pub fn ensure_present(&self, address: usize, length: usize, for_write: bool) -> Result<usize> {
        let Some(pool) = &self.pool else { return Ok(length) };
        let core = &self.core;
        let most = core.frames.budget() / 4;
        let end = address.saturating_add(length);
        let (mut page, mut brought) = (address & !(PAGE_BYTES - 1), 0);
        while page < end {
            let state = core.table.cell(page).map(|cell| cell.load().state());
            if core.table.is_managed(page) && state != Some(State::Present) {
                if brought == most {
                    break;
                }
                match pool.bring(page, for_write, None) {
                    Ok(()) => brought += 1,
                    Err(Unresolved::NotOurs) => {}
                    Err(Unresolved::Lost) if page <= address => {
                        core.store.check()?;
                        return Err(Error::refused("the page is lost".to_owned()));
                    }
                    Err(Unresolved::Lost) => break,
                }
            }
            page += PAGE_BYTES;
        }
        Ok(page.min(end).saturating_sub(address))
    }

    /// End of the first part of a range (of any addresses) whose pages are alike, and whether they are borrowed and may
    /// be read (or, `for_write`, written): a system call on such a part may fail for a page that is away.
    pub fn part(&self, range: Range<usize>, for_write: bool) -> (usize, bool) {
        let access = if for_write { libc::PROT_WRITE } else { libc::PROT_READ };
        let is_helped =
            |page| self.core.table.is_managed(page) && self.core.space.may_permit(page, access);
        let mut page = range.start & !(PAGE_BYTES - 1);
        let first = is_helped(page);
        while page < range.end && is_helped(page) == first {
            page += PAGE_BYTES;
        }
        (page.min(range.end), first)
    }

    /// Sends every page away, so that local memory is empty and the store has everything. For tests,
    /// benchmarks, and programs that know that they will rest.
    ///
    /// # Errors
    /// [`Error::Lost`].
    pub fn evict_all(&self) -> Result<()> {
        self.finish_faults();
        self.orders.flush(&self.core);
        self.core.store.check()
    }

    /// Counters so far, and the present place of pages.
    pub fn statistics(&self) -> Statistics {
        let core = &self.core;
        Statistics {
            resident_pages: core.frames.in_use() as u64,
            slots_in_use: (core.slots.count() - core.slots.free()) as u64,
            page_in_p50_ns: core.page_ins.quantile(0.5),
            page_in_p99_ns: core.page_ins.quantile(0.99),
            ..core.counters.read()
        }
    }

    /// For programs that set a handler of SIGBUS while delivery is inline: keeps `action` (null: only asks) for a
    /// SIGBUS that is none of the pager's, and puts the action that was kept before into `old` (unless null). A library
    /// that interposes sigaction calls this for SIGBUS and does not make the system call. Returns false if delivery is
    /// not inline: then the call is to be made.
    ///
    /// # Safety
    /// Both are null or point to a `struct sigaction`.
    pub unsafe fn chain_sigbus(
        &self,
        action: *const libc::sigaction,
        old: *mut libc::sigaction,
    ) -> bool {
        if self.core.is_inline {
            // SAFETY: by the condition of this function.
            unsafe { inline::chain(action, old) };
        }
        self.core.is_inline
    }
}

impl Drop for Pager {
    fn drop(&mut self) {
        let mut runs = Vec::new();
        self.core.table.managed_runs(Table::everything(), |run| runs.push(run));
        for run in runs {
            let _ = self.core.space.unmap(&self.core, run.start, run.len());
        }
        self.pool_address().into_iter().for_each(inline::leave);
        if self.threads.len() > 1 {
            self.command.rest(&self.core, self.threads.len() - 1, true);
        }
        self.orders.is_to_stop.store(true, Ordering::Release);
        self.core.evictor.signal();
        // SAFETY: the pager is being dropped, so no one else has it.
        let threads = unsafe { self.threads.replace(Vec::new()) };
        threads.into_iter().for_each(Thread::join);
    }
}
