//! Pagers and what else of the process they meet: pagers that end, handlers of signals, and mappings that are replaced.
//! The tests have the process for themselves, one after the other: places for inline pagers are few, and signals are
//! everybody's.

#[allow(dead_code, reason = "the other tests use the rest")]
#[path = "paging/support.rs"]
mod support;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rackmem_paging::{Delivery, PAGE_BYTES, Pager};
use support::{first_bytes, memory, modes};

static ALONE: Mutex<()> = Mutex::new(());

fn fill(base: usize, pages: usize) {
    for page in 0..pages {
        // SAFETY: pages of the test.
        unsafe { ((base + page * PAGE_BYTES) as *mut u8).write_volatile(0x55) };
    }
}

/// The handler of a fault asks all pagers of the process whether the page is theirs.
#[test]
fn pagers_end_while_pages_of_others_are_missed() {
    const PAGES: usize = 64;
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mode = modes().into_iter().find(|mode| mode.delivery == Delivery::Inline).unwrap();
    // The handler asks it first, and those that take its place.
    let mut first = mode.start(32, 64);
    let Some((pager, _)) = mode.start(32, 256) else { return };
    let base = memory(&pager, PAGES).as_ptr() as usize;
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    pager.discard(base, PAGES * PAGE_BYTES).unwrap();
                    assert!(first_bytes(base, PAGES).all(|byte| byte == 0));
                }
            });
        }
        for _ in 0..1000 {
            drop(first.take());
            first = mode.start(32, 64);
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

const CHANGED: usize = 512;

/// Where the handler reads, and how often it has.
static READ_AT: AtomicUsize = AtomicUsize::new(0);
static READS: AtomicUsize = AtomicUsize::new(0);

extern "C" fn read_one(_: libc::c_int) {
    let number = READS.fetch_add(1, Ordering::Relaxed);
    let page = READ_AT.load(Ordering::Relaxed) + number * 37 % CHANGED * PAGE_BYTES;
    // SAFETY: a page of the test.
    std::hint::black_box(unsafe { (page as *const u8).read_volatile() });
}

/// Maps pages anew where they are.
fn map_again(pager: &Pager, base: usize, pages: usize) {
    let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_FIXED);
    assert_eq!(pager.map_at(base, pages * PAGE_BYTES, access, flags).unwrap(), base);
}

/// A handler that touches a page which its own thread changes would wait for ever.
#[test]
fn handlers_of_signals_touch_pages_that_their_thread_changes() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: the handler only reads memory and counts.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = read_one as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()), 0);
    }
    for mode in modes() {
        let Some((pager, _)) = mode.start(1024, 2048) else { return };
        let base = memory(&pager, CHANGED).as_ptr() as usize;
        READ_AT.store(base, Ordering::Relaxed);
        // SAFETY: takes nothing.
        let discarding = unsafe { libc::pthread_self() };
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    // SAFETY: the thread waits for this one.
                    assert_eq!(unsafe { libc::pthread_kill(discarding, libc::SIGUSR1) }, 0);
                    std::thread::sleep(Duration::from_micros(100));
                }
            });
            let begin = READS.load(Ordering::Relaxed);
            while READS.load(Ordering::Relaxed) < begin + 300 {
                fill(base, CHANGED);
                pager.discard(base, CHANGED * PAGE_BYTES).unwrap();
                let wrong = first_bytes(base, CHANGED).position(|byte| byte != 0);
                is_over.fetch_or(wrong.is_some(), Ordering::Relaxed);
                assert_eq!(wrong, None, "{mode:?}: page");
                map_again(&pager, base, CHANGED);
            }
            is_over.store(true, Ordering::Relaxed);
        });
    }
}

/// Pages that another thread touches while their range is being borrowed are there before the pager knows of them.
#[test]
fn pages_that_are_touched_while_they_are_mapped_anew_are_discarded() {
    const PAGES: usize = 128;
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for mode in modes() {
        let Some((pager, _)) = mode.start(256, 1024) else { return };
        let base = memory(&pager, PAGES).as_ptr() as usize;
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::black_box(first_bytes(base, PAGES).map(u64::from).sum::<u64>());
                }
            });
            for round in 0..300 {
                map_again(&pager, base, PAGES);
                fill(base, PAGES);
                pager.discard(base, PAGES * PAGE_BYTES).unwrap();
                let wrong = first_bytes(base, PAGES).position(|byte| byte != 0);
                is_over.fetch_or(wrong.is_some(), Ordering::Relaxed);
                assert_eq!(wrong, None, "{mode:?}: round {round}: page");
            }
            is_over.store(true, Ordering::Relaxed);
        });
    }
}
