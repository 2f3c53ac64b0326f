//! One contract, any progress and any wire: the same operations and errors inline, by daemon, and by packets, on one
//! host or over several, by TCP, by UCX, and by links with faults.

mod support;

use rackmem::Status;
use rackmem::client::Context;
use rackmem::protocol::Progress;
use support::{TestRack, Wire};

#[test]
fn child() {
    if let Some((role, args)) = support::role() {
        assert_eq!(role, "daemon");
        support::be_daemon(&args);
    }
}

/// Runs a test once per wire and way of progress, on a rack of two nodes with 1 MiB segments.
fn each_way(name: &str, test: impl Fn(&TestRack, &[Context])) {
    for wire in Wire::all() {
        let rack = TestRack::start_on(wire, &format!("{name}-{wire:?}"), 2);
        for (ctx_id, progress) in (0..).zip(Progress::ALL) {
            rack.rack.create_context(ctx_id, 0o600).unwrap();
            let contexts = rack.open_all(ctx_id, 1 << 20, progress);
            eprintln!("{name}: {wire:?}, {}", progress.name());
            test(&rack, &contexts);
        }
    }
}

#[test]
fn reads_and_writes_of_any_place_and_length() {
    each_way("any-length", |_, contexts| {
        let mut qp = contexts[0].queue_pair(16).unwrap();
        let sizes = [0, 1, 7, 8, 9, 63, 64, 65, 100, 1000, 4096, 70_000, 1 << 20];
        for (length, offset) in sizes.into_iter().flat_map(|n| [(n, 0), (n, 3), (n, 60), (n, 1021)])
        {
            if offset + length > 1 << 20 {
                continue;
            }
            let bytes: Vec<u8> = (0..length).map(|i| (i * 31 + offset) as u8).collect();
            let mut got = vec![0; length];
            qp.write(1, offset as u64, &bytes).unwrap();
            qp.read(1, offset as u64, &mut got).unwrap();
            assert_eq!(bytes, got, "{length} bytes at {offset}");
            contexts[1].read_own(offset as u64, &mut got).unwrap();
            assert_eq!(bytes, got);
        }
    });
}

#[test]
fn shared_buffers_work_like_any_other() {
    each_way("shared-buffers", |_, contexts| {
        let mut qp = contexts[0].queue_pair(128).unwrap();
        let mut buffer = contexts[0].buffer(65536).unwrap();
        buffer.fill(0x5a);
        qp.write(1, 64, &buffer).unwrap();
        let (first, second) = buffer.split_at_mut(32768);
        first.fill(0);
        qp.scope(|scope| {
            for (i, line) in first.chunks_mut(64).enumerate() {
                scope.read(1, 64 + i as u64 * 64, line);
            }
        })
        .unwrap();
        assert!(first.iter().chain(second.iter()).all(|byte| *byte == 0x5a));
    });
}

/// The daemon forgets a buffer before its addresses are free.
#[test]
fn what_comes_after_a_dropped_buffer_is_not_taken_for_it() {
    each_way("dropped-buffers", |_, contexts| {
        let mut qp = contexts[0].queue_pair(4).unwrap();
        for round in 1..=3u8 {
            let mut buffer = contexts[0].buffer(1 << 20).unwrap();
            let mut plain = vec![0; 1 << 20];
            qp.write(1, 0, &[round; 4096]).unwrap();
            for place in [&mut buffer[..4096], &mut plain[..4096]] {
                qp.read(1, 0, place).unwrap();
                assert!(place.iter().all(|byte| *byte == round));
            }
        }
    });
}

#[test]
fn buffers_and_queue_pairs_come_and_go_without_end() {
    // More than a member may have at a time, and more than the places that it may have.
    const ROUNDS: u32 = 1_500;
    let rack = TestRack::start("many-buffers", 2);
    rack.rack.create_context(0, 0o600).unwrap();
    let contexts = rack.open_all(0, 1 << 20, Progress::Daemon);
    for round in 1..=ROUNDS {
        let mut qp = contexts[0].queue_pair(2).unwrap();
        let mut buffer = contexts[0].buffer(4096 * (1 + round as usize % 3)).unwrap();
        buffer.fill(round as u8);
        qp.write(1, 0, &buffer).unwrap();
        buffer.fill(0);
        qp.read(1, 0, &mut buffer).unwrap();
        assert!(buffer.iter().all(|byte| *byte == round as u8), "round {round}");
    }
    let most: Vec<_> = (0..64).map(|_| contexts[0].buffer(1).unwrap()).collect();
    assert_eq!(contexts[0].buffer(1).unwrap_err().errno(), libc::ENOSPC);
    drop(most);
    contexts[0].buffer(1).unwrap();
}

/// Whether something holds in a child of `fork`, which ends there.
fn holds_in_a_child(holds: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child calls nothing that threads of its parent hold.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let held = std::panic::catch_unwind(std::panic::AssertUnwindSafe(holds));
        // SAFETY: ends the child, before anything of its parent's is dropped again.
        unsafe { libc::_exit(i32::from(!matches!(held, Ok(true)))) };
    }
    let mut status = -1;
    // SAFETY: the child is this process's own.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    status == 0
}

/// Drops what the parent has, in its child.
fn drop_copy<T>(parents: &T) {
    // SAFETY: the child ends before it is dropped again, and the parent has its own.
    drop(unsafe { std::ptr::read(parents) });
}

fn is_refused<T>(result: rackmem::Result<T>) -> bool {
    result.is_err_and(|error| error.errno() == libc::EPERM)
}

#[test]
fn a_child_of_fork_leaves_its_parents_context_alone() {
    each_way("forked", |_, contexts| {
        let mut qp = contexts[0].queue_pair(2).unwrap();
        let mut buffer = contexts[0].buffer(4096).unwrap();
        assert!(holds_in_a_child(|| {
            let refused = is_refused(contexts[0].buffer(1));
            drop_copy(&buffer);
            refused
        }));
        buffer.fill(7);
        qp.write(1, 0, &buffer).unwrap();
        contexts[0].buffer(1).unwrap();
    });
}

#[test]
fn a_queue_pair_that_a_child_of_fork_drops_goes_on_in_the_parent() {
    each_way("forked-pair", |_, contexts| {
        let mut qp = contexts[0].queue_pair(2).unwrap();
        let mut got = [0; 64];
        qp.write(1, 0, &[1; 64]).unwrap();
        assert!(holds_in_a_child(|| {
            drop_copy(&qp);
            is_refused(contexts[0].queue_pair(2))
        }));
        // Each answer is of this process's request: more slots than the queue has.
        for round in 2..10 {
            qp.write(1, 64, &[round; 64]).unwrap();
            qp.read(1, 64, &mut got).unwrap();
            assert_eq!(got, [round; 64]);
            assert_eq!(qp.fetch_add(1, 128, 1), Ok(u64::from(round) - 2));
        }
        drop(qp);
        contexts[0].queue_pair(2).unwrap().read(1, 0, &mut got).unwrap();
        assert_eq!(got, [1; 64]);
    });
}

#[test]
fn a_context_that_a_child_of_fork_drops_goes_on_in_the_parent() {
    each_way("forked-context", |_, contexts| {
        let mut qp = contexts[0].queue_pair(2).unwrap();
        let mut buffer = contexts[0].buffer(4096).unwrap();
        let mut got = [0; 64];
        qp.write(1, 0, &[1; 64]).unwrap();
        assert!(holds_in_a_child(|| {
            // The last that holds the membership closes it.
            drop_copy(&buffer);
            drop_copy(&qp);
            contexts.iter().for_each(drop_copy);
            true
        }));
        buffer.fill(7);
        qp.write(1, 64, &buffer).unwrap();
        qp.read(1, 64, &mut got).unwrap();
        assert_eq!(got, [7; 64]);
        // Its membership, and the other node's, are what they were.
        contexts[0].buffer(1).unwrap();
        contexts[1].queue_pair(2).unwrap().write(0, 0, &[9; 64]).unwrap();
        contexts[0].read_own(0, &mut got).unwrap();
        assert_eq!(got, [9; 64]);
        contexts[0].queue_pair(2).unwrap().read(1, 0, &mut got).unwrap();
        assert_eq!(got, [1; 64]);
    });
}

#[test]
fn atomics_agree_with_the_owners_own() {
    each_way("atomics", |_, contexts| {
        const EACH: u64 = 5_000;
        std::thread::scope(|threads| {
            for context in contexts {
                threads.spawn(|| {
                    let mut qp = context.queue_pair(8).unwrap();
                    for _ in 0..EACH {
                        qp.fetch_add(1, 64, 1).unwrap();
                    }
                });
            }
            let word = contexts[1].word(64).unwrap();
            for _ in 0..EACH {
                word.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
        });
        let mut qp = contexts[0].queue_pair(8).unwrap();
        assert_eq!(qp.fetch_add(1, 64, 0), Ok(3 * EACH));
        assert_eq!(qp.compare_swap(1, 64, 1, 7), Ok(3 * EACH));
        assert_eq!(qp.compare_swap(1, 64, 3 * EACH, 7), Ok(3 * EACH));
        assert_eq!(qp.fetch_add(1, 64, 0), Ok(7));
    });
}

#[test]
fn every_wrong_operation_gets_its_error_and_touches_nothing() {
    each_way("errors", |_, contexts| {
        let mut qp = contexts[0].queue_pair(8).unwrap();
        let end = 1u64 << 20;
        let mut byte = [9];
        assert_eq!(qp.read(1, end, &mut byte), Err(Status::OutOfSegment));
        assert_eq!(qp.write(1, end - 1, &[1, 2]), Err(Status::OutOfSegment));
        assert_eq!(qp.read(1, 1 << 45, &mut byte), Err(Status::OutOfSegment));
        assert_eq!(qp.read(1, rackmem_abi::MAX_OFFSET, &mut byte), Err(Status::OutOfSegment));
        assert_eq!(qp.read(2, 0, &mut byte), Err(Status::NoNode));
        assert_eq!(qp.read(u16::MAX, 0, &mut byte), Err(Status::NoNode));
        assert_eq!(qp.fetch_add(1, 4, 1), Err(Status::MisalignedAtomic));
        assert_eq!(qp.fetch_add(1, end, 1), Err(Status::OutOfSegment));
        assert_eq!(byte, [9]);
        assert_eq!(qp.read(1, end, &mut []), Ok(()), "no bytes lie anywhere up to the end");
        // SAFETY: never dereferenced here; the operation must fail.
        let nowhere = unsafe { std::slice::from_raw_parts_mut(8 as *mut u8, 64) };
        assert_eq!(qp.read(1, 0, nowhere), Err(Status::BadLocalBuffer));
        // The queue pair still works.
        assert_eq!(qp.write(1, end - 1, &[1]), Ok(()));
        let mut last = [0; 1];
        contexts[1].read_own(end - 1, &mut last).unwrap();
        assert_eq!(last, [1]);
    });
}

/// Pages of which the last cannot be used: a buffer that ends there is no local buffer.
struct Pages {
    base: *mut u8,
    good: usize,
}

impl Pages {
    const PAGE: usize = 4096;

    /// `last` is what the page behind the `good` ones allows.
    fn new(good_pages: usize, last: libc::c_int) -> Pages {
        let good = good_pages * Self::PAGE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let all = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping, whose last page gets other rights; nobody else uses it.
        unsafe {
            let base = libc::mmap(std::ptr::null_mut(), good + Self::PAGE, all, flags, -1, 0);
            assert_ne!(base, libc::MAP_FAILED);
            base.write_bytes(7, good + Self::PAGE);
            assert_eq!(libc::mprotect(base.add(good), Self::PAGE, last), 0);
            Pages { base: base.cast(), good }
        }
    }

    /// The good pages and half of the last one. It is only handed to operations.
    fn buffer(&mut self) -> &mut [u8] {
        // SAFETY: mapped as long as `self`; what is not accessible is not accessed from here.
        unsafe { std::slice::from_raw_parts_mut(self.base, self.good + Self::PAGE / 2) }
    }

    fn are_untouched(&self) -> bool {
        // SAFETY: the good pages can be read.
        let good = unsafe { std::slice::from_raw_parts(self.base, self.good) };
        good.iter().all(|byte| *byte == 7)
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: exactly what `new` has mapped.
        unsafe { libc::munmap(self.base.cast(), self.good + Self::PAGE) };
    }
}

/// A wrong request changes nothing, however many packets it would take.
#[test]
fn a_refused_request_changes_nothing_at_all() {
    const END: u64 = 1 << 20;
    each_way("refused", |_, contexts| {
        let progress = contexts[0].progress();
        let mut qp = contexts[0].queue_pair(8).unwrap();
        let mut shared = contexts[0].buffer(256 * 1024).unwrap();
        let mut plain = vec![7; 256 * 1024];
        // More than one entry takes.
        let mut long = vec![7; (1 << 24) + 4096];
        for nid in [0, 1] {
            let target = &contexts[usize::from(nid)];
            let fill = || target.write_own(0, &vec![5; END as usize]).unwrap();
            let is_untouched = || {
                let mut all = vec![0; END as usize];
                target.read_own(0, &mut all).unwrap();
                all.iter().all(|byte| *byte == 5)
            };
            fill();
            for offset in [END - 1, END - 64, END - 60, END - 4096, END - 57_344, END - 200_000] {
                for buffer in [&mut shared[..], &mut plain[..], &mut long[..]] {
                    let what = format!("{progress:?}, node {nid}, {} at {offset}", buffer.len());
                    buffer.fill(7);
                    assert_eq!(qp.write(nid, offset, buffer), Err(Status::OutOfSegment), "{what}");
                    assert!(is_untouched(), "a write, {what}");
                    assert_eq!(qp.read(nid, offset, buffer), Err(Status::OutOfSegment), "{what}");
                    assert!(buffer.iter().all(|byte| *byte == 7), "a read, {what}");
                }
            }
            for (offset, status) in
                [(END - 4, Status::MisalignedAtomic), (END, Status::OutOfSegment)]
            {
                assert_eq!(qp.fetch_add(nid, offset, 1), Err(status));
                assert_eq!(qp.compare_swap(nid, offset, 0x0505_0505_0505_0505, 1), Err(status));
                assert!(is_untouched(), "an atomic, {progress:?}");
            }
            // In the calling thread, such a buffer is a signal.
            if progress == Progress::Inline {
                continue;
            }
            let mut closed = Pages::new(40, libc::PROT_NONE);
            assert_eq!(qp.write(nid, 64, closed.buffer()), Err(Status::BadLocalBuffer));
            assert!(is_untouched(), "a write from a bad buffer, {progress:?}, node {nid}");
            for last in [libc::PROT_NONE, libc::PROT_READ] {
                let mut pages = Pages::new(40, last);
                assert_eq!(qp.read(nid, 64, pages.buffer()), Err(Status::BadLocalBuffer));
                assert!(pages.are_untouched(), "a read to a bad buffer, {progress:?}, node {nid}");
            }
        }
        // The queue pair still works.
        qp.write(1, END - 1, &[1]).unwrap();
    });
}

#[test]
fn a_full_queue_waits_and_loses_nothing() {
    each_way("full-queue", |_, contexts| {
        let mut qp = contexts[0].queue_pair(2).unwrap();
        let mut got = vec![0u64; 1000];
        for i in 0..1000 {
            contexts[1].write_own(i * 8, &i.to_ne_bytes()).unwrap();
        }
        let mut bytes = vec![[0u8; 8]; 1000];
        qp.scope(|scope| {
            for (i, eight) in bytes.iter_mut().enumerate() {
                scope.read(1, i as u64 * 8, eight);
            }
        })
        .unwrap();
        for (word, eight) in got.iter_mut().zip(&bytes) {
            *word = u64::from_ne_bytes(*eight);
        }
        assert_eq!(got, (0..1000).collect::<Vec<u64>>());
    });
}

#[test]
fn notifications_wake_a_sleeper() {
    each_way("notify", |_, contexts| {
        let seen = contexts[1].notifications();
        std::thread::scope(|threads| {
            let sleeper = threads.spawn(|| {
                contexts[1].wait_notify(seen, Some(std::time::Instant::now() + support::BOUND))
            });
            std::thread::sleep(std::time::Duration::from_millis(20));
            contexts[0].queue_pair(2).unwrap().notify(1).unwrap();
            assert_eq!(sleeper.join().unwrap().unwrap(), seen + 1);
        });
    });
}

#[test]
fn a_reader_may_not_write() {
    let rack = TestRack::start("read-only", 2);
    rack.rack.create_context(5, 0o600).unwrap();
    for progress in Progress::ALL {
        let options = rack.options(1, 5).segment_bytes(4096).progress(progress);
        let owner = Context::open(&options).unwrap();
        let reader = Context::open(&rack.options(0, 5).read_only(true).progress(progress)).unwrap();
        reader.wait_joined(1, Some(std::time::Instant::now() + support::BOUND)).unwrap();
        owner.write_own(0, &[7; 8]).unwrap();
        let mut qp = reader.queue_pair(4).unwrap();
        let mut got = [0; 8];
        assert_eq!(qp.read(1, 0, &mut got), Ok(()));
        assert_eq!(got, [7; 8]);
        assert_eq!(qp.write(1, 0, &[1]), Err(Status::NoPermission));
        assert_eq!(qp.fetch_add(1, 0, 1), Err(Status::NoPermission));
        assert_eq!(qp.notify(1), Err(Status::NoPermission));
        owner.read_own(0, &mut got).unwrap();
        assert_eq!(got, [7; 8]);
    }
}

#[test]
fn a_reader_at_the_owners_own_node_may_not_write_either() {
    let rack = TestRack::start("read-only-beside", 1);
    rack.rack.create_context(5, 0o600).unwrap();
    let owner = Context::open(&rack.options(0, 5).segment_bytes(4096)).unwrap();
    let reader = Context::open(&rack.options(0, 5).read_only(true)).unwrap();
    owner.write_own(0, &[7; 8]).unwrap();
    let mut got = [0; 8];
    reader.read_own(0, &mut got).unwrap();
    assert_eq!(got, [7; 8]);
    assert_eq!(reader.write_own(0, &[1]), Err(Status::NoPermission));
    let mapped = std::fs::read_to_string("/proc/self/maps").unwrap();
    let page = reader.segment_data() as usize;
    let line = mapped.lines().find(|line| {
        let (from, rest) = line.split_once('-').unwrap();
        let (to, _) = rest.split_once(' ').unwrap();
        let range = [from, to].map(|text| usize::from_str_radix(text, 16).unwrap());
        (range[0]..range[1]).contains(&page)
    });
    assert!(line.is_some_and(|line| line.contains(" r--s ")), "{line:?}");
    // It sleeps all the same, and is woken by nothing but the clock.
    let deadline = std::time::Instant::now() + std::time::Duration::from_millis(20);
    let error = reader.sleep_until(&mut || false, None, Some(deadline)).unwrap_err();
    assert_eq!(error.errno(), 110, "{error}");
}

#[test]
fn several_contexts_do_not_see_each_other() {
    let rack = TestRack::start("contexts", 2);
    for progress in Progress::ALL {
        let [a, b] = [0, 1].map(|ctx| {
            let ctx_id = ctx + 2 * progress as u16;
            rack.rack.create_context(ctx_id, 0o600).unwrap();
            rack.open_all(ctx_id, 4096, progress)
        });
        let (mut to_a, mut to_b) = (a[0].queue_pair(2).unwrap(), b[0].queue_pair(2).unwrap());
        to_a.write(1, 0, b"in a").unwrap();
        to_b.write(1, 0, b"in b").unwrap();
        let mut got = [0; 4];
        to_a.read(1, 0, &mut got).unwrap();
        assert_eq!(&got, b"in a");
    }
}

#[test]
fn who_was_quick_has_joined_but_not_in_a_context_made_again() {
    let rack = TestRack::start("quick", 2);
    rack.rack.create_context(0, 0o600).unwrap();
    drop(Context::open(&rack.options(1, 0).segment_bytes(4096)).unwrap());
    let context = Context::open(&rack.options(0, 0)).unwrap();
    context.wait_joined(1, Some(std::time::Instant::now() + support::BOUND)).unwrap();
    let mut qp = context.queue_pair(2).unwrap();
    assert_eq!(qp.read(1, 0, &mut [0]), Err(Status::NoContext));

    rack.rack.remove_context(0).unwrap();
    rack.rack.create_context(0, 0o600).unwrap();
    let again = Context::open(&rack.options(0, 0).segment_bytes(64)).unwrap();
    let error = again.wait_joined(1, Some(std::time::Instant::now())).unwrap_err();
    assert_eq!(error.errno(), 110, "{error}");
    // Those of the old context are out: their segment made room for the new one's.
    assert_eq!(qp.read(0, 0, &mut []), Err(Status::NodeLost));
    again.queue_pair(2).unwrap().write(0, 0, &[1; 64]).unwrap();
}
