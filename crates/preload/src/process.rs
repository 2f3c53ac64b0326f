//! What this process borrows: nothing, until it has mapped more than the threshold.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicUsize, Ordering};

use rackmem_borrow::Result;
use rackmem_borrow::lease::{self, Borrowed};
use rackmem_borrow::paging::Pager;
use rackmem_borrow::program::{MIN_MAPPING_BYTES, SETTINGS_VARIABLE, Settings};

use crate::fork::ForkLock;
use crate::{fork, kernel, libraries, report, thread};

/// What a process has once it borrows. Lives until the process ends.
pub struct Borrowing {
    /// Pages.
    pub pager: Pager,
    /// Where they go.
    pub lease: Borrowed,
}

/// A process that uses less than the threshold may map so many times the threshold before it borrows.
const RESERVED_SHARE: usize = 4;

/// How far the process is.
static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);

/// The settings were not looked at.
const UNKNOWN: u8 = 0;
/// Somebody looks at them.
const BEGINNING: u8 = 1;
/// This process does not borrow: there are no settings, or nobody lends.
const NEVER: u8 = 2;
/// It may borrow.
const READY: u8 = 3;

static SETTINGS: AtomicPtr<Settings> = AtomicPtr::new(ptr::null_mut());
static BORROWING: AtomicPtr<Borrowing> = AtomicPtr::new(ptr::null_mut());

/// Bytes that were mapped, and not borrowed.
static PLAIN: AtomicUsize = AtomicUsize::new(0);

/// Bytes that should have been borrowed, but were not: the lease is used up.
static OVERFLOW: AtomicUsize = AtomicUsize::new(0);

/// Held while borrowing begins, and around forks.
pub static BEGIN: ForkLock = ForkLock::new();

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
            libraries::find();
            fork::register();
            report::register();
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

/// What was said of this process.
pub fn settings() -> Option<&'static Settings> {
    // SAFETY: null, or a value that is never freed nor changed.
    unsafe { SETTINGS.load(Ordering::Acquire).as_ref() }
}

/// What the process has borrowed so far.
pub fn borrowing() -> Option<&'static Borrowing> {
    // SAFETY: null, or a value that is never freed; only shared references to it are made.
    unsafe { BORROWING.load(Ordering::Acquire).as_ref() }
}

/// The pager, if there is one.
pub fn pager() -> Option<&'static Pager> {
    borrowing().map(|borrowing| &borrowing.pager)
}

/// Bytes that stayed local as the lease was used up.
pub fn overflow_bytes() -> usize {
    OVERFLOW.load(Ordering::Relaxed)
}

/// What did not fit into the lease is local.
pub fn count_overflow(length: usize) {
    OVERFLOW.fetch_add(length, Ordering::Relaxed);
}

/// Who is to map `length` bytes of the program's: the pager, or the kernel. May begin to borrow.
pub fn pager_for(length: usize) -> Option<&'static Pager> {
    if length < MIN_MAPPING_BYTES || !may_borrow() {
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

/// Whether a mapping is made before borrowing begins. What is mapped is not what is used: allocators reserve more than
/// the threshold in a process that will use next to none of it. So such a process borrows once its
/// memory is used, but maps no more than [`RESERVED_SHARE`] times the threshold unseen.
fn stays_plain(length: usize, threshold: usize) -> bool {
    let mapped = PLAIN.load(Ordering::Relaxed).saturating_add(length);
    let is_plain = mapped <= threshold
        || length <= threshold
            && mapped <= threshold.saturating_mul(RESERVED_SHARE)
            && kernel::used_bytes().is_some_and(|used| used < threshold);
    if is_plain {
        PLAIN.fetch_add(length, Ordering::Relaxed);
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
            pager()
        }
        Err(error) => {
            STATE.store(NEVER, Ordering::Release);
            kernel::complain(&[&error.to_string(), ": this process goes on with local memory"]);
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
