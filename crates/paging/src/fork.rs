//! Children of fork: each sees the memory as it was when it began.
//!
//! A child has a copy of everything that is local, tables included, as of any private memory. It does not have a
//! userfaultfd, threads, lanes, and the right to write to the parent's slots. It gets the first three anew, and a share
//! of the free slots to write to. The slots that were in use stay as they are until the child has ended (`slots.rs`),
//! which a pipe tells: its end closes with the last process that has it, or when the child executes another program.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use super::ranges::Child;
use super::slots::Frozen;
use super::table::Table;
use super::{Pager, open_uffd};
use rackmem_lease::descriptors::{beyond_limit, own};
use rackmem_lease::error::{Error, Result};
use rackmem_lease::sync::wait::Lock;

/// The child of a fork may write to one in so many free slots.
const CHILD_SHARE: usize = 2;

/// State between both halves of a fork.
#[derive(Debug, Default)]
pub(super) struct Ticket(std::sync::Mutex<Option<Pending>>, Lock);

#[derive(Debug)]
struct Pending {
    frozen: Frozen,
    for_parent: OwnedFd,
    for_child: OwnedFd,
}

fn pipe() -> Result<(OwnedFd, OwnedFd)> {
    let made = beyond_limit(|| {
        let mut ends = [0; 2];
        // SAFETY: the call fills in two descriptors, which are new.
        unsafe {
            match libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) {
                0 => Ok(ends.map(|end| OwnedFd::from_raw_fd(end))),
                _ => Err(io::Error::last_os_error()),
            }
        }
    });
    let cannot = |error| Error::io("cannot make the pipe by which a child's end is noticed", error);
    let [reader, writer] = made.map_err(cannot)?.map(own);
    Ok((reader, writer))
}

impl Ticket {
    fn put(&self, pending: Option<Pending>) -> Option<Pending> {
        let mut place = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        std::mem::replace(&mut *place, pending)
    }
}

impl Pager {
    /// Call this right before fork(2), in the thread that forks. Faults and evictions come to rest, until one of the
    /// two functions below is called. Until then the thread must not touch borrowed memory, nor may handlers of
    /// `pthread_atfork`. Not for vfork, posix_spawn, or a clone(2) that shares memory: their children use the parent's
    /// pager as it is.
    ///
    /// # Errors
    /// The child could not be given its view: there are no file descriptors left. Nothing rests then, and
    /// the fork must not be made.
    pub fn before_fork(&self) -> Result<()> {
        let (for_parent, for_child) = pipe()?;
        self.ticket.1.acquire();
        self.core.space.lock.acquire();
        self.rest_faults();
        self.orders.rest(&self.core);
        self.core.store.before_fork();
        let frozen = self.core.slots.freeze(CHILD_SHARE);
        self.ticket.put(Some(Pending { frozen, for_parent, for_child }));
        Ok(())
    }

    /// Call this right after fork(2) in the parent, also if it failed. The pages that the child sees are kept until it,
    /// and every child of its own, has ended or has executed another program.
    pub fn after_fork_in_parent(&self) {
        let Some(Pending { frozen, for_parent, for_child }) = self.ticket.put(None) else { return };
        drop(for_child);
        let child = Child { pipe: for_parent, frozen };
        // SAFETY: this thread took the lock in `before_fork`.
        unsafe { self.core.space.with_held(|inner| inner.children.push(child)) };
        self.core.space.lock.release();
        self.core.store.after_fork_in_parent();
        self.orders.go(&self.core);
        self.go_on_with_faults();
        self.ticket.1.release();
    }

    /// Lets everything that answers faults finish what it does, and keeps it from beginning anew.
    fn rest_faults(&self) {
        if self.handlers() != 0 {
            self.command.rest(&self.core, self.handlers(), false);
        }
        self.core.gate.close();
    }

    fn go_on_with_faults(&self) {
        self.core.gate.open();
        if self.handlers() != 0 {
            self.command.go();
        }
    }

    /// Waits until all that was begun by earlier faults is done, as bringing pages ahead of need.
    pub(super) fn finish_faults(&self) {
        self.ticket.1.acquire();
        self.rest_faults();
        self.go_on_with_faults();
        self.ticket.1.release();
    }

    /// Call this right after fork(2) in the child, before it touches borrowed memory: gives it a userfaultfd, threads
    /// and lanes of its own. Its writes stay its own.
    ///
    /// # Errors
    /// As [`Pager::start`]. The child must then not touch borrowed memory: it had better exit.
    pub fn after_fork_in_child(&self) -> Result<()> {
        let core = &self.core;
        let Some(Pending { frozen, for_parent, for_child }) = self.ticket.put(None) else {
            return Ok(());
        };
        drop(for_parent);
        // Open until this process ends.
        std::mem::forget(for_child);
        core.slots.become_child(&frozen);
        // SAFETY: the child has one thread, which took the lock in `before_fork`. Pipes of other children are
        // closed: they are the parent's business.
        unsafe {
            core.space.with_held(|inner| {
                inner.children.clear();
                inner.inherited = Some(frozen);
            });
        }
        core.space.lock.release();
        core.store.after_fork_in_child();
        core.gate.reset();
        self.command.reset();
        self.orders.reset();
        core.evictor.forget_waiters();
        core.freed.forget_waiters();
        self.register_all()?;
        if let Some(pool) = &self.pool {
            pool.renew()?;
        }
        self.begin()?;
        self.ticket.1.release();
        Ok(())
    }

    /// A userfaultfd of this process for everything that is borrowed.
    fn register_all(&self) -> Result<()> {
        let core = &self.core;
        let uffd = open_uffd(core.is_inline)?;
        // SAFETY: the child has one thread.
        drop(unsafe { core.uffd.replace(uffd) });
        core.register_own()?;
        let mut result = Ok(());
        core.table.managed_runs(Table::everything(), |run| {
            if result.is_ok() {
                result = core.uffd.register(run.start, run.len());
            }
        });
        result.map_err(|error| Error::io("cannot register borrowed memory of a child", error))
    }
}
