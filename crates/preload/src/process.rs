//! The borrowing of this process: none, until it has mapped more than the threshold.

use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicUsize, Ordering};

use rackmem_lease::Result;
use rackmem_lease::{self as lease, Borrowed, descriptors};
use rackmem_paging::Pager;
use rackmem_paging::program::{MIN_MAPPING_BYTES, SETTINGS_VARIABLE, Settings};

use crate::lock::Lock;
use crate::{binary, fork, kernel, libraries, report, signals, stacks, thread};

/// Pager and lease of a process that borrows. Lives until the process ends.
pub struct Borrowing {
    /// Pages.
    pub pager: Pager,
    /// The lease whose memory the pager's store is.
    pub lease: Borrowed,
}

/// A process that uses less than the threshold may map so many times the threshold before it borrows.
const RESERVED_SHARE: usize = 4;

/// State of the process: one of the four below.
static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);

/// The settings were not looked at.
const UNKNOWN: u8 = 0;
/// Somebody looks at them.
const BEGINNING: u8 = 1;
/// This process does not borrow: there are no settings, or nobody lends.
const NEVER: u8 = 2;
/// It may borrow.
const READY: u8 = 3;

/// Reason why no lease could be made.
static FAILURE: OnceLock<String> = OnceLock::new();

static SETTINGS: AtomicPtr<Settings> = AtomicPtr::new(ptr::null_mut());
static BORROWING: AtomicPtr<Borrowing> = AtomicPtr::new(ptr::null_mut());

/// Reason why memory that a program maps stays local.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stays {
    /// It was mapped before the process borrowed.
    Early,
    /// The mapping is small.
    Small,
    /// It is a stack, code, read-only, locked, or of large pages.
    Special,
    /// The lease is used up.
    NoRoom,
    /// It is shared: other processes may have it, too.
    Shared,
}

/// All reasons, and the words for them in reports.
pub const REASONS: [(Stays, &str); 5] = [
    (Stays::Early, "before the lease"),
    (Stays::Small, "in mappings of less than 256 KiB"),
    (Stays::Special, "as stacks, code, read-only, locked or large pages"),
    (Stays::NoRoom, "beyond the lease"),
    (Stays::Shared, "in shared mappings"),
];

/// Bytes that were mapped and stay local, by reason.
static LOCAL: [AtomicUsize; REASONS.len()] = [const { AtomicUsize::new(0) }; REASONS.len()];

/// Bytes that were mapped as borrowed memory.
static BORROWED: AtomicUsize = AtomicUsize::new(0);

/// Held while borrowing begins, and around forks.
pub static BEGIN: Lock = Lock::new("a lease that another thread makes, or its fork");

/// Reads the settings, once.
pub fn begin() {
    if STATE.load(Ordering::Acquire) != UNKNOWN {
        return;
    }
    let _inside = thread::enter();
    if STATE.compare_exchange(UNKNOWN, BEGINNING, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        return;
    }
    let Some(text) = std::env::var_os(SETTINGS_VARIABLE) else {
        STATE.store(NEVER, Ordering::Release);
        return;
    };
    match Settings::from_variable(&text.to_string_lossy()) {
        Ok(settings) => {
            SETTINGS.store(Box::into_raw(Box::new(settings)), Ordering::Release);
            descriptors::hide();
            libraries::find();
            fork::register();
            report::register();
            binary::begin();
            if signals::may_be_inline() {
                stacks::begin();
            }
            STATE.store(READY, Ordering::Release);
        }
        Err(error) => {
            kernel::complain(&[&error.to_string(), ": this process does not borrow"]);
            STATE.store(NEVER, Ordering::Release);
        }
    }
}

/// Whether the process borrows, or may do so later.
pub fn may_borrow() -> bool {
    begin();
    STATE.load(Ordering::Acquire) == READY
}

/// Settings of this process, from the environment; `None` if there are none.
pub fn settings() -> Option<&'static Settings> {
    // SAFETY: null, or a value that is never freed nor changed.
    unsafe { SETTINGS.load(Ordering::Acquire).as_ref() }
}

/// Whether system calls on borrowed memory need help, now or once there is some. Known from the start, because a
/// process uses afterwards what it has set up before it borrows, such as an io_uring.
pub fn needs_help() -> bool {
    const UNKNOWN: u8 = 0;
    static ANSWER: AtomicU8 = AtomicU8::new(UNKNOWN);
    if !may_borrow() {
        return false;
    }
    if let Some(pager) = pager() {
        return pager.is_user_mode_only();
    }
    let known = ANSWER.load(Ordering::Relaxed);
    if known != UNKNOWN {
        return known == 1;
    }
    let _inside = thread::enter();
    let answer = settings()
        .is_some_and(|settings| Pager::would_be_user_mode_only(settings.pager_options().delivery));
    ANSWER.store(if answer { 1 } else { 2 }, Ordering::Relaxed);
    answer
}

/// Pager and lease of this process; `None` until it borrows.
pub fn borrowing() -> Option<&'static Borrowing> {
    // SAFETY: null, or a value that is never freed; only shared references to it are made.
    unsafe { BORROWING.load(Ordering::Acquire).as_ref() }
}

/// The pager, if there is one.
pub fn pager() -> Option<&'static Pager> {
    borrowing().map(|borrowing| &borrowing.pager)
}

/// Reason why this process, which was to borrow, could not.
pub fn failure() -> Option<&'static str> {
    FAILURE.get().map(String::as_str)
}

/// Memory stays local.
pub fn count(why: Stays, length: usize) {
    LOCAL[why as usize].fetch_add(length, Ordering::Relaxed);
}

/// Bytes that stayed local for this reason since the process began.
pub fn local_bytes(why: Stays) -> usize {
    LOCAL[why as usize].load(Ordering::Relaxed)
}

/// Memory is borrowed.
pub fn count_borrowed(length: usize) {
    BORROWED.fetch_add(length, Ordering::Relaxed);
}

/// Bytes that were mapped as borrowed memory since the process began.
pub fn borrowed_bytes() -> usize {
    BORROWED.load(Ordering::Relaxed)
}

/// The pager, if it is to map `length` bytes of the program's, a part of a mapping of `whole`; `None`: the kernel maps
/// them. May begin to borrow.
pub fn pager_for(length: usize, whole: usize) -> Option<&'static Pager> {
    if !may_borrow() {
        return None;
    }
    if whole < MIN_MAPPING_BYTES {
        count(Stays::Small, length);
        return None;
    }
    if let Some(pager) = pager() {
        return Some(pager);
    }
    if stays_plain(length, settings()?.threshold_bytes) {
        return None;
    }
    start()
}

/// Whether a mapping is made before borrowing begins. Mapped memory need not be used: allocators reserve more than the
/// threshold in a process that will use next to none of it. So such a process borrows once its memory is used, but maps
/// no more than [`RESERVED_SHARE`] times the threshold unseen.
fn stays_plain(length: usize, threshold: usize) -> bool {
    let mapped = local_bytes(Stays::Early).saturating_add(length);
    let is_plain = mapped <= threshold
        || length <= threshold
            && mapped <= threshold.saturating_mul(RESERVED_SHARE)
            && kernel::used_bytes().is_some_and(|used| used < threshold);
    if is_plain {
        count(Stays::Early, length);
    }
    is_plain
}

/// Leases memory and starts the pager. If that fails the process goes on with local memory, having said so.
fn start() -> Option<&'static Pager> {
    let _inside = thread::enter();
    let _held = BEGIN.hold();
    if borrowing().is_some() || STATE.load(Ordering::Acquire) != READY {
        return pager();
    }
    match settings().map(borrow)? {
        Ok(borrowing) => {
            BORROWING.store(Box::into_raw(Box::new(borrowing)), Ordering::Release);
            report::announce();
            pager()
        }
        Err(error) => {
            STATE.store(NEVER, Ordering::Release);
            let why = error.to_string() + &error.hint();
            kernel::complain(&[&why, ": this process goes on with local memory"]);
            let _ = FAILURE.set(why);
            None
        }
    }
}

fn borrow(settings: &Settings) -> Result<Borrowing> {
    let mut wanted = settings.wanted()?;
    wanted.tell = std::sync::Arc::new(|text| kernel::complain(&[text]));
    let lease = lease::borrow(&wanted)?;
    let pager = Pager::start(lease.store(), &settings.pager_options())?;
    Ok(Borrowing { pager, lease })
}
