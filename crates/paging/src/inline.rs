//! Delivery in the faulting thread: a missing page means SIGBUS, and its handler brings the page.
//!
//! Nothing here allocates or takes a lock that a thread could hold while it touches borrowed memory. A
//! SIGBUS that is none of ours goes to the action that was there before, or that was chained since. Pages are
//! brought on stacks of ours: the program's may be small.

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use super::changes;
use super::core::Core;
use super::cores;
use super::options::{FOLLOW_EVERY, PAGE_BYTES};
use super::stack::Stack;
use super::worker::{Outcome, Worker};
use rackmem_lease::error::{Error, Result};
use rackmem_lease::sync::wait::Lock;

/// Pagers with inline delivery that a process may have.
pub(crate) const MAX_INLINE: usize = 8;
/// Longest wait for a page in transit, or for a free frame, before another look.
const RETRY: Duration = Duration::from_micros(500);

/// Reason why a page could not be brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unresolved {
    /// It is not borrowed.
    NotOurs,
    /// No lender has the page any more.
    Lost,
}

/// Workers that threads share.
pub(crate) struct Pool {
    core: std::sync::Arc<Core>,
    workers: Vec<Place>,
    turn: AtomicUsize,
    /// Faults that were answered.
    faults: AtomicU32,
}

/// A worker, and the stack that it works on.
struct Place {
    lock: Lock,
    worker: UnsafeCell<Option<Worker>>,
    stack: Stack,
}

impl Place {
    fn new(core: &Core) -> Result<Place> {
        let stack = Stack::new()
            .map_err(|error| Error::io("cannot map a stack for the handler of faults", error))?;
        let worker = UnsafeCell::new(Some(Worker::new(core)?));
        Ok(Place { lock: Lock::default(), worker, stack })
    }
}

// SAFETY: only the holder of their lock reaches a worker and its stack.
unsafe impl Sync for Pool {}
// SAFETY: as above.
unsafe impl Send for Pool {}

impl Pool {
    /// `count` workers.
    ///
    /// # Errors
    /// No lane can be made.
    pub(crate) fn new(core: &std::sync::Arc<Core>, count: usize) -> Result<Pool> {
        let workers = (0..count).map(|_| Place::new(core)).collect::<Result<_>>()?;
        let core = std::sync::Arc::clone(core);
        Ok(Pool { core, workers, turn: AtomicUsize::new(0), faults: AtomicU32::new(0) })
    }

    fn with<T>(&self, work: impl FnOnce(&mut Worker) -> T) -> T {
        // The address of its stack tells threads apart; so each mostly finds a worker of its own.
        let here = 0u8;
        let start = (ptr::from_ref(&here) as usize >> 20) % self.workers.len();
        let rotated = |step: usize| &self.workers[(start + step) % self.workers.len()];
        let place = (0..self.workers.len())
            .map(rotated)
            .find(|place| place.lock.try_acquire())
            .unwrap_or_else(|| {
                let any = rotated(self.turn.fetch_add(1, Ordering::Relaxed));
                any.lock.acquire();
                any
            });
        // SAFETY: the lock is held.
        let result = unsafe {
            let worker = (*place.worker.get()).as_mut().expect("workers stay");
            place.stack.call(|| work(worker))
        };
        place.lock.release();
        result
    }

    /// Gives the child of a fork lanes of its own, while it has one thread.
    pub(crate) fn renew(&self) -> Result<()> {
        forget_others();
        for place in &self.workers {
            let fresh = Worker::new(&self.core)?;
            // SAFETY: there is no other thread, and no one had entered the gate.
            unsafe { *place.worker.get() = Some(fresh) };
            place.lock.reset();
        }
        Ok(())
    }

    /// Brings a page, and waits until it is there. A handler of ours, in which signals are blocked, names the signals
    /// that were blocked `outside` of it.
    ///
    /// # Errors
    /// See [`Unresolved`].
    pub(crate) fn bring(
        &self,
        page: usize,
        is_write: bool,
        outside: Option<&libc::sigset_t>,
    ) -> std::result::Result<(), Unresolved> {
        let core = &*self.core;
        if self.faults.fetch_add(1, Ordering::Relaxed) % FOLLOW_EVERY == 0 {
            cores::own().into_iter().for_each(|number| core.call_evictor_to(number));
        }
        loop {
            let ticket = core.freed.ticket();
            let outcome = {
                let _blocked = outside.is_none().then(Mask::blocking);
                core.gate.enter();
                let outcome = self.with(|worker| {
                    let outcome = worker.fault(core, page, is_write);
                    while worker.outstanding() != 0 {
                        worker.finish(core);
                    }
                    outcome
                });
                core.gate.leave();
                outcome
            };
            match outcome {
                Outcome::Done => return Ok(()),
                Outcome::Asked => match core.table.cell(page).map(|cell| cell.load().state()) {
                    Some(super::entry::State::Lost) => return Err(Unresolved::Lost),
                    _ => return Ok(()),
                },
                Outcome::Transit(seen) => {
                    let _outside = outside.map(Mask::set);
                    if let Some(cell) = core.table.cell(page) {
                        cell.wait(seen, Some(RETRY));
                    }
                }
                Outcome::Full => {
                    let _outside = outside.map(Mask::set);
                    core.freed.wait(ticket, Some(RETRY));
                }
                Outcome::NotOurs => return Err(Unresolved::NotOurs),
                Outcome::Lost => return Err(Unresolved::Lost),
            }
        }
    }
}

/// The calling thread's signal mask from before, which it has again when this is dropped.
///
/// While a thread has a worker, all signals are blocked: a handler that touches borrowed memory, or forks, would wait
/// for the worker that its own thread has, or for the thread to leave the gate. Handlers of faults still run.
pub(crate) struct Mask(libc::sigset_t);

/// Signals of faults: a fault while its signal is blocked ends the process.
const FAULTS: [c_int; 5] = [libc::SIGBUS, libc::SIGSEGV, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP];

/// Size of the kernel's set of signals.
const KERNEL_SET_BYTES: usize = 8;

/// As sigprocmask(2), past libraries that interpose it.
fn set_mask(how: c_int, set: &libc::sigset_t) -> libc::sigset_t {
    // SAFETY: zero is a value of the type; both sets live through the call and are larger than the kernel's.
    unsafe {
        let mut old: libc::sigset_t = std::mem::zeroed();
        let (new, old_place) = (ptr::from_ref(set), &raw mut old);
        libc::syscall(libc::SYS_rt_sigprocmask, how, new, old_place, KERNEL_SET_BYTES);
        old
    }
}

/// All signals but those of faults.
fn all_but_faults() -> libc::sigset_t {
    // SAFETY: zero is a value of the type, and the set lives through the calls.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        FAULTS.iter().for_each(|&signal| _ = libc::sigdelset(&mut all, signal));
        all
    }
}

impl Mask {
    pub(crate) fn blocking() -> Mask {
        Mask(set_mask(libc::SIG_BLOCK, &all_but_faults()))
    }

    fn set(mask: &libc::sigset_t) -> Mask {
        Mask(set_mask(libc::SIG_SETMASK, mask))
    }
}

impl Drop for Mask {
    fn drop(&mut self) {
        set_mask(libc::SIG_SETMASK, &self.0);
    }
}

/// A place for a pool whose faults the handler answers.
struct Enrolled {
    pool: AtomicPtr<Pool>,
    /// Handlers that ask the pool whether a page is its own. The pool stays until they are done.
    visitors: AtomicUsize,
}

static POOLS: [Enrolled; MAX_INLINE] =
    [const { Enrolled { pool: AtomicPtr::new(ptr::null_mut()), visitors: AtomicUsize::new(0) } };
        MAX_INLINE];

impl Enrolled {
    /// The pool, if it answers the faults of a page: then it stays, as its memory is unmapped before it leaves.
    fn pool_of<'a>(&self, page: usize) -> Option<&'a Pool> {
        if self.pool.load(Ordering::Relaxed).is_null() {
            return None;
        }
        self.visitors.fetch_add(1, Ordering::SeqCst);
        // SAFETY: `leave` waits for visitors before the pool is dropped.
        let pool = unsafe { self.pool.load(Ordering::SeqCst).as_ref() };
        let pool = pool.filter(|pool| pool.core.table.is_managed(page));
        self.visitors.fetch_sub(1, Ordering::Release);
        pool
    }
}

struct Chained {
    lock: Lock,
    action: UnsafeCell<MaybeUninit<libc::sigaction>>,
    is_installed: UnsafeCell<bool>,
}
// SAFETY: only the holder of the lock reaches the cells.
unsafe impl Sync for Chained {}
// SAFETY: as above.
unsafe impl Send for Chained {}

/// There before the handler is.
static CHAINED: LazyLock<Chained> = LazyLock::new(|| Chained {
    lock: Lock::default(),
    action: UnsafeCell::new(MaybeUninit::zeroed()),
    is_installed: UnsafeCell::new(false),
});

/// Enters a pool whose faults the handler answers, and installs the handler with the first. Returns false if
/// there are too many.
pub(crate) fn enrol(pool: *mut Pool) -> bool {
    let is_free = |place: &&Enrolled| {
        let place = &place.pool;
        place.compare_exchange(ptr::null_mut(), pool, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    };
    POOLS.iter().find(is_free).is_some() && {
        let _held = CHAINED.lock.hold();
        // SAFETY: the lock is held; the action is initialised before it is installed, and the call
        // fills in the one before.
        unsafe {
            if !*CHAINED.is_installed.get() {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = on_sigbus as *const () as usize;
                // The kernel blocks them on the way, as `Mask` would by two calls.
                action.sa_mask = all_but_faults();
                // Not deferred: what is chained may itself touch borrowed memory.
                action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
                libc::sigaction(libc::SIGBUS, &action, (*CHAINED.action.get()).as_mut_ptr());
                *CHAINED.is_installed.get() = true;
            }
        }
        true
    }
}

/// Takes a pool out, and waits for handlers that look at it. Its memory must be unmapped already.
pub(crate) fn leave(pool: *mut Pool) {
    for Enrolled { pool: place, visitors } in &POOLS {
        let taken =
            place.compare_exchange(pool, ptr::null_mut(), Ordering::SeqCst, Ordering::Relaxed);
        while taken.is_ok() && visitors.load(Ordering::SeqCst) != 0 {
            std::thread::yield_now();
        }
    }
}

/// Forgets the handlers and replacements of other threads in the child of a fork, while it has one thread.
fn forget_others() {
    changes::forget();
    POOLS.iter().for_each(|place| place.visitors.store(0, Ordering::Relaxed));
}

/// See [`super::Pager::chain_sigbus`].
///
/// # Safety
/// Both are null or point to a `struct sigaction`.
pub(crate) unsafe fn chain(action: *const libc::sigaction, old: *mut libc::sigaction) {
    let _held = CHAINED.lock.hold();
    // SAFETY: the lock is held; by the condition the pointers are good.
    unsafe {
        let kept = (*CHAINED.action.get()).as_mut_ptr();
        if !old.is_null() {
            ptr::copy(kept, old, 1);
        }
        if !action.is_null() {
            ptr::copy(action, kept, 1);
        }
    }
}

/// Whether the processor was about to write; if that is not known, yes.
fn is_write(context: *mut c_void) -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: the kernel gives handlers of SA_SIGINFO a context of the interrupted thread.
        let context = unsafe { &*context.cast::<libc::ucontext_t>() };
        // Bit 1 of a page fault's error code.
        context.uc_mcontext.gregs[libc::REG_ERR as usize] & 2 != 0
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = context;
        true
    }
}

/// The signals that the interrupted code had blocked.
fn mask_outside<'a>(context: *mut c_void) -> &'a libc::sigset_t {
    // SAFETY: the kernel gives handlers of SA_SIGINFO a context, which lives until they return.
    unsafe { &(*context.cast::<libc::ucontext_t>()).uc_sigmask }
}

extern "C" fn on_sigbus(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: errno is the thread's own; the interrupted code must find it as it was.
    let errno = unsafe { *libc::__errno_location() };
    // SAFETY: the kernel gives handlers of SA_SIGINFO an address for SIGBUS.
    let (address, is_fault) =
        unsafe { ((*info).si_addr() as usize, (*info).si_code == libc::BUS_ADRERR) };
    let page = address & !(PAGE_BYTES - 1);
    // SAFETY: takes nothing.
    let may_try_again = || is_fault && changes::may_have_met(page, unsafe { libc::gettid() });
    if !resolve(page, context) && !may_try_again() {
        pass_on(signal, info, context);
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// Brings the page if it is one of ours.
fn resolve(page: usize, context: *mut c_void) -> bool {
    let Some(pool) = POOLS.iter().find_map(|place| place.pool_of(page)) else { return false };
    let core = &*pool.core;
    // SAFETY: takes nothing.
    if unsafe { libc::gettid() } == core.evictor_tid.load(Ordering::Relaxed) {
        // As in a handler thread.
        return core.uffd.zero(page).is_ok();
    }
    pool.bring(page, is_write(context), Some(mask_outside(context))).is_ok()
}

/// Does what would have been done about the signal without us.
fn pass_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let action = {
        let _held = CHAINED.lock.hold();
        // SAFETY: the lock is held, and the action was initialised before the handler was installed.
        unsafe {
            let kept = (*CHAINED.action.get()).assume_init_mut();
            let action = *kept;
            if action.sa_flags & libc::SA_RESETHAND != 0 {
                kept.sa_sigaction = libc::SIG_DFL;
                kept.sa_flags &= !(libc::SA_RESETHAND | libc::SA_SIGINFO);
            }
            action
        }
    };
    // SAFETY: the kernel gives handlers of SA_SIGINFO what it says of the signal.
    let is_sent = unsafe { (*info).si_code <= 0 };
    match action.sa_sigaction {
        // A fault cannot be ignored: the kernel takes that for the default.
        libc::SIG_IGN if is_sent => {}
        libc::SIG_DFL | libc::SIG_IGN => end_by(signal, info),
        handler => {
            let mut others = action.sa_mask;
            // SAFETY: the sets are the action's and the kernel's. SIGBUS stays unblocked, as the handler may touch
            // borrowed memory.
            unsafe {
                libc::sigdelset(&mut others, signal);
                *(&raw mut others).cast::<u64>() |=
                    *ptr::from_ref(mask_outside(context)).cast::<u64>();
            }
            // The return from our own handler sets the mask of the interrupted code again.
            set_mask(libc::SIG_SETMASK, &others);
            // SAFETY: the program promised that the handler has one of these types, by SA_SIGINFO.
            unsafe {
                if action.sa_flags & libc::SA_SIGINFO != 0 {
                    let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
                        std::mem::transmute(handler);
                    handler(signal, info, context);
                } else {
                    let handler: extern "C" fn(c_int) = std::mem::transmute(handler);
                    handler(signal);
                }
            }
        }
    }
}

/// Ends the process by the signal, with the kernel's `siginfo`. These are system calls: a library that chains actions
/// to ours may interpose the functions of the C library, which would then change the chain only.
fn end_by(signal: c_int, info: *mut libc::siginfo_t) {
    /// `struct sigaction` of the kernel for a default action.
    #[repr(C)]
    struct Default {
        handler: usize,
        rest: [usize; 3],
    }
    let action = Default { handler: libc::SIG_DFL, rest: [0; 3] };
    // SAFETY: the structure is at least as large as the kernel's; the signal goes to the calling thread, which does not
    // block it, and is delivered before the second call returns. Processes may send themselves any `siginfo_t`.
    unsafe {
        let none = ptr::null_mut::<Default>();
        libc::syscall(libc::SYS_rt_sigaction, signal, &raw const action, none, KERNEL_SET_BYTES);
        let (process, thread) = (libc::getpid(), libc::gettid());
        libc::syscall(libc::SYS_rt_tgsigqueueinfo, process, thread, signal, info);
        libc::syscall(libc::SYS_tgkill, process, thread, signal);
    }
}
