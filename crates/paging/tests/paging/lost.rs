//! A lender that is lost: local pages stay, pages that were away mean SIGBUS, and nobody hangs.

use std::sync::Arc;

use rackmem_lease::store::HeapStore;
use rackmem_paging::{PAGE_BYTES, Pager, PagerOptions};

use crate::support::{check, memory, modes, stamp};

/// Exit status of a child that may not page.
const SKIPPED: i32 = 77;

/// Reads a byte in a child process; returns the signal that ended it, or 0. `None`: it may not page.
fn signal_of_touch(touch: impl FnOnce()) -> Option<i32> {
    // SAFETY: the child only touches memory and exits.
    unsafe {
        let child = libc::fork();
        assert!(child >= 0);
        if child == 0 {
            // One that hangs is ended by it.
            libc::alarm(60);
            touch();
            libc::_exit(0);
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &mut status, 0), child);
        match libc::WIFSIGNALED(status) {
            true => Some(libc::WTERMSIG(status)),
            false => (libc::WEXITSTATUS(status) != SKIPPED).then_some(0),
        }
    }
}

#[test]
fn pages_that_are_away_mean_sigbus_and_others_stay() {
    for mode in modes() {
        // In a process of its own, which the signal may end: before any thread is there.
        let signal = signal_of_touch(|| {
            let Some((pager, store)) = mode.start(32, 256) else {
                // SAFETY: ends the child.
                unsafe { libc::_exit(SKIPPED) }
            };
            let memory = memory(&pager, 128);
            for (number, page) in memory.chunks_exact_mut(PAGE_BYTES).enumerate() {
                stamp(page, number as u64);
            }
            // The last ones are local.
            for number in 120..128 {
                check(&memory[number * PAGE_BYTES..][..PAGE_BYTES], number as u64, "before");
            }
            store.lose();
            for number in 120..128 {
                check(&memory[number * PAGE_BYTES..][..PAGE_BYTES], number as u64, "after");
                memory[number * PAGE_BYTES] = 1;
            }
            std::hint::black_box(memory[0]);
        });
        let Some(signal) = signal else { return };
        assert_eq!(signal, libc::SIGBUS, "{mode:?}");
    }
}

#[test]
fn programs_go_on_in_local_memory_when_nothing_can_leave() {
    for mode in modes() {
        let Some((pager, store)) = mode.start(32, 256) else { return };
        let memory = memory(&pager, 200);
        store.lose();
        for (number, page) in memory.chunks_exact_mut(PAGE_BYTES).enumerate() {
            stamp(page, number as u64);
        }
        for (number, page) in memory.chunks_exact(PAGE_BYTES).enumerate() {
            check(page, number as u64, &format!("{mode:?}, page {number}"));
        }
        let statistics = pager.statistics();
        assert!(statistics.overdrawn >= 168 && statistics.lost == 0, "{mode:?}: {statistics:?}");
    }
}

#[test]
fn local_memory_grows_by_what_finds_no_room() {
    for mode in modes() {
        let options = PagerOptions { growth: 3, ..mode.options(32) };
        let store = Arc::new(HeapStore::new(64 * PAGE_BYTES as u64).unwrap());
        let Ok(pager) = Pager::start(store.clone(), &options) else { return };
        let memory = memory(&pager, 3 * 96);
        assert!(pager.map(PAGE_BYTES).is_err(), "no more than was permitted");
        for (number, page) in memory.chunks_exact_mut(PAGE_BYTES).enumerate() {
            stamp(page, number as u64);
            if number == 200 {
                // Pages that are at the lender by then must not be touched any more.
                store.lose();
            }
        }
        let late = memory.chunks_exact(PAGE_BYTES).enumerate().skip(201);
        late.for_each(|(number, page)| check(page, number as u64, &format!("{mode:?}")));
        assert_eq!(pager.statistics().lost, 0, "{mode:?}");
    }
}

#[test]
fn a_store_that_is_full_lets_local_memory_grow() {
    for mode in modes() {
        let Some((pager, _)) = mode.start(32, 64) else { return };
        let memory = memory(&pager, 96);
        for round in 0..3 {
            for (number, page) in memory.chunks_exact_mut(PAGE_BYTES).enumerate() {
                if round != 0 {
                    check(page, number as u64 + round - 1, &format!("{mode:?}"));
                }
                stamp(page, number as u64 + round);
            }
        }
        assert!(pager.map(PAGE_BYTES).is_err(), "no more than the store and the cache hold");
    }
}
