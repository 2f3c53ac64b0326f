//! Children of fork see the memory as it was at the fork, whatever the parent does then.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use rackmem_paging::{PAGE_BYTES, Pager};

use crate::support::{Mode, check, memory, modes, stamp};

const PAGES: usize = 128;

/// Forks; the child runs `work` and exits with 0 if it does not panic. Returns the child.
fn fork(pager: &Pager, work: impl FnOnce() + std::panic::UnwindSafe) -> libc::pid_t {
    pager.before_fork().unwrap();
    // SAFETY: the child runs on as the manual of fork allows with glibc, and exits without unwinding into the test.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        // SAFETY: a child that hangs is ended by it.
        unsafe { libc::alarm(60) };
        let result = pager.after_fork_in_child();
        let is_fine = result.is_ok() && std::panic::catch_unwind(work).is_ok();
        // SAFETY: ends the child.
        unsafe { libc::_exit(i32::from(!is_fine)) };
    }
    pager.after_fork_in_parent();
    child
}

fn join(child: libc::pid_t, what: &str) {
    let mut status = 0;
    // SAFETY: waits for a child of this process.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0, "{what}: the child's status");
}

fn stamp_all(memory: &mut [u8], round: u64) {
    for (number, page) in memory.chunks_exact_mut(PAGE_BYTES).enumerate() {
        stamp(page, number as u64 + round * 1000);
    }
}

fn check_all(memory: &[u8], round: u64, what: &str) {
    for (number, page) in memory.chunks_exact(PAGE_BYTES).enumerate() {
        check(page, number as u64 + round * 1000, &format!("{what}, page {number}"));
    }
}

fn modes_for_fork() -> Vec<Mode> {
    modes().into_iter().filter(|mode| mode.prefetch_pages != 0 || mode.is_mapped).collect()
}

#[test]
fn a_child_sees_what_was_there_while_the_parent_rewrites_all() {
    for mode in modes_for_fork() {
        let Some((pager, _)) = mode.start(PAGES / 4, 3 * PAGES) else { return };
        let memory = memory(&pager, PAGES);
        stamp_all(memory, 1);
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        let base = memory.as_ptr() as usize;
        let child = fork(&pager, move || {
            // SAFETY: the child's copy of the memory.
            let memory =
                unsafe { std::slice::from_raw_parts_mut(base as *mut u8, PAGES * PAGE_BYTES) };
            theirs.read_exact(&mut [0]).unwrap();
            check_all(memory, 1, "the child");
            // Its own writes, more than fit into local memory, stay its own.
            stamp_all(memory, 7);
            check_all(memory, 7, "the child, of its own");
        });
        stamp_all(memory, 2);
        check_all(memory, 2, "the parent");
        ours.write_all(&[1]).unwrap();
        join(child, &format!("{mode:?}"));
        check_all(memory, 2, "the parent, afterwards");
        // Slots that were kept for the child are free again.
        for round in 3..6 {
            stamp_all(memory, round);
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        check_all(memory, 5, "the parent, at the end");
        let statistics = pager.statistics();
        assert_eq!((statistics.lost, statistics.overdrawn), (0, 0), "{mode:?}: {statistics:?}");
    }
}

#[test]
fn children_of_children_and_several_at_a_time() {
    for mode in modes_for_fork().into_iter().step_by(2) {
        let Some((pager, _)) = mode.start(PAGES / 4, 8 * PAGES) else { return };
        let memory = memory(&pager, PAGES);
        let base = memory.as_ptr() as usize;
        let mut children = Vec::new();
        for round in 1..4 {
            stamp_all(memory, round);
            let pager = std::panic::AssertUnwindSafe(&pager);
            children.push(fork(&pager, move || {
                // SAFETY: as above.
                let memory =
                    unsafe { std::slice::from_raw_parts_mut(base as *mut u8, PAGES * PAGE_BYTES) };
                check_all(memory, round, "the child");
                stamp_all(memory, 10 * round);
                let grandchild = fork(&pager, || check_all(memory, 10 * round, "the grandchild"));
                stamp_all(memory, 11 * round);
                join(grandchild, "the grandchild");
                check_all(memory, 11 * round, "the child, of its own");
            }));
        }
        stamp_all(memory, 9);
        for child in children {
            join(child, &format!("{mode:?}"));
        }
        check_all(memory, 9, "the parent");
    }
}

#[test]
fn a_child_goes_on_in_local_memory_when_the_lender_is_lost() {
    for mode in modes_for_fork() {
        let Some((pager, store)) = mode.start(PAGES / 4, 3 * PAGES) else { return };
        let memory = memory(&pager, PAGES);
        let base = memory.as_ptr() as usize;
        store.lose();
        stamp_all(memory, 1);
        let child = fork(&pager, move || {
            // SAFETY: the child's copy of the memory.
            let memory =
                unsafe { std::slice::from_raw_parts_mut(base as *mut u8, PAGES * PAGE_BYTES) };
            check_all(memory, 1, "the child");
            stamp_all(memory, 2);
            check_all(memory, 2, "the child, of its own");
        });
        join(child, &format!("{mode:?}"));
        check_all(memory, 1, "the parent");
    }
}

#[test]
fn other_threads_go_on_over_a_fork() {
    for mode in modes_for_fork().into_iter().step_by(3) {
        let Some((pager, _)) = mode.start(PAGES / 4, 4 * PAGES) else { return };
        let memory = memory(&pager, PAGES);
        let (busy, still) = memory.split_at_mut(PAGES / 2 * PAGE_BYTES);
        stamp_all(still, 1);
        let is_over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut round = 0;
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    round += 1;
                    stamp_all(busy, round);
                    check_all(busy, round, "the other thread");
                }
            });
            for _ in 0..5 {
                let still = &*still;
                let child = fork(&pager, || check_all(still, 1, "the child"));
                join(child, &format!("{mode:?}"));
            }
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    }
}
