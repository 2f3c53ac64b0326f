//! Changes of the address space: unmap, discard, protect, remap, and memory that system calls use.

use std::sync::atomic::{AtomicBool, Ordering};

use rackmem_paging::{Delivery, PAGE_BYTES};

use crate::support::{Random, check, first_bytes, gets_user_faults_only, memory, modes, stamp};

#[test]
fn discarded_pages_are_zero_wherever_they_were() {
    for mode in modes() {
        let Some((pager, _)) = mode.start(32, 256) else { return };
        let memory = memory(&pager, 128);
        let base = memory.as_ptr() as usize;
        let mut shadow = [0u64; 128];
        let mut random = Random(3);
        for step in 1..2000 {
            let first = random.below(128);
            let page = |number: usize| number * PAGE_BYTES..(number + 1) * PAGE_BYTES;
            match random.below(8) {
                0 => {
                    let end = (first + 1 + random.below(24)).min(128);
                    pager.discard(base + first * PAGE_BYTES, (end - first) * PAGE_BYTES).unwrap();
                    shadow[first..end].fill(0);
                }
                1..4 => {
                    stamp(&mut memory[page(first)], step);
                    shadow[first] = step;
                }
                _ if shadow[first] == 0 => {
                    assert!(memory[page(first)].iter().all(|&byte| byte == 0), "{mode:?}")
                }
                _ => check(&memory[page(first)], shadow[first], &format!("{mode:?}")),
            }
        }
        pager.discard(base, memory.len()).unwrap();
        // The evictor may still have frames in its hands.
        pager.evict_all().unwrap();
        let statistics = pager.statistics();
        assert_eq!((statistics.resident_pages, statistics.slots_in_use), (0, 0), "{mode:?}");
    }
}

/// A page that is touched before its old bytes are dropped would keep them.
#[test]
fn pages_that_others_touch_while_they_are_discarded_are_zero() {
    const PAGES: usize = 96;
    for mode in modes() {
        let Some((pager, _)) = mode.start(32, 256) else { return };
        let base = memory(&pager, PAGES).as_ptr() as usize;
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        std::hint::black_box(first_bytes(base, PAGES).map(u64::from).sum::<u64>());
                    }
                });
            }
            for round in 0..100 {
                for page in 0..PAGES {
                    // SAFETY: the memory is ours.
                    unsafe { ((base + page * PAGE_BYTES) as *mut u8).write_volatile(1) };
                }
                pager.discard(base, PAGES * PAGE_BYTES).unwrap();
                let wrong = first_bytes(base, PAGES).position(|byte| byte != 0);
                is_over.fetch_or(wrong.is_some(), Ordering::Relaxed);
                assert_eq!(wrong, None, "{mode:?}: round {round}: page");
            }
            is_over.store(true, Ordering::Relaxed);
        });
    }
}

#[test]
fn memory_that_was_dropped_behind_the_pagers_back_is_zero() {
    for mode in modes() {
        let Some((pager, _)) = mode.start(32, 256) else { return };
        let memory = memory(&pager, 16);
        memory.fill(5);
        // SAFETY: the memory is ours.
        unsafe { libc::madvise(memory.as_mut_ptr().cast(), memory.len(), libc::MADV_DONTNEED) };
        assert!(memory.iter().all(|&byte| byte == 0), "{mode:?}");
        memory.fill(6);
        pager.evict_all().unwrap();
        assert!(memory.iter().all(|&byte| byte == 6), "{mode:?}");
    }
}

#[test]
fn parts_are_unmapped_and_their_places_used_again() {
    for mode in modes() {
        let Some((pager, _)) = mode.start(32, 128) else { return };
        let memory = memory(&pager, 96);
        let base = memory.as_ptr() as usize;
        memory.fill(1);
        pager.unmap(base + 32 * PAGE_BYTES, 32 * PAGE_BYTES).unwrap();
        assert!(pager.contains(base + 31 * PAGE_BYTES) && !pager.contains(base + 32 * PAGE_BYTES));
        assert!(!pager.overlaps(base + 32 * PAGE_BYTES, 32 * PAGE_BYTES));
        assert!(pager.overlaps(base + 63 * PAGE_BYTES + 5, PAGE_BYTES));
        let read_write = libc::PROT_READ | libc::PROT_WRITE;
        let again = pager
            .map_at(base + 32 * PAGE_BYTES, 32 * PAGE_BYTES, read_write, libc::MAP_FIXED)
            .unwrap();
        assert_eq!(again, base + 32 * PAGE_BYTES);
        let sums: Vec<usize> = memory
            .chunks_exact(32 * PAGE_BYTES)
            .map(|part| part.iter().map(|&byte| usize::from(byte)).sum())
            .collect();
        assert_eq!(sums, [32 * PAGE_BYTES, 0, 32 * PAGE_BYTES], "{mode:?}");
    }
}

#[test]
fn memory_that_moves_beside_moved_memory_keeps_its_bytes() {
    const HALF: usize = 64;
    for mode in modes() {
        let Some((pager, _)) = mode.start(32, 512) else { return };
        let from = memory(&pager, 2 * HALF);
        let to = memory(&pager, 2 * HALF);
        for (number, page) in from.chunks_exact_mut(PAGE_BYTES).enumerate() {
            stamp(page, number as u64);
        }
        for half in [0, HALF * PAGE_BYTES] {
            let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
            let (old, new) = (from.as_ptr() as usize + half, to.as_ptr() as usize + half);
            let length = HALF * PAGE_BYTES;
            assert_eq!(pager.remap(old, length, length, flags, new).unwrap(), new, "{mode:?}");
        }
        for (number, page) in to.chunks_exact(PAGE_BYTES).enumerate() {
            check(page, number as u64, &format!("{mode:?}, page {number}"));
        }
    }
}

#[test]
fn moved_and_grown_memory_keeps_its_bytes() {
    for mode in modes() {
        let Some((pager, _)) = mode.start(32, 512) else { return };
        let pages = 96;
        let fill = |memory: &mut [u8]| {
            for (number, page) in memory.chunks_exact_mut(PAGE_BYTES).enumerate() {
                stamp(page, number as u64);
            }
        };
        fill(memory(&pager, pages));
        let memory = memory(&pager, pages);
        fill(memory);
        // Somebody is behind it, so it cannot grow where it is.
        let base = memory.as_ptr() as usize;
        let moved = pager
            .remap(base, pages * PAGE_BYTES, 128 * PAGE_BYTES, libc::MREMAP_MAYMOVE, 0)
            .unwrap();
        // SAFETY: `remap` said that the memory is there.
        let memory = unsafe { std::slice::from_raw_parts_mut(moved as *mut u8, 128 * PAGE_BYTES) };
        for (number, page) in memory.chunks_exact_mut(PAGE_BYTES).enumerate() {
            match number < pages {
                true => check(page, number as u64, &format!("{mode:?}, page {number}")),
                false => assert!(page.iter().all(|&byte| byte == 0), "{mode:?}"),
            }
            stamp(page, number as u64 + 1);
        }
        let smaller = pager.remap(moved, 128 * PAGE_BYTES, 64 * PAGE_BYTES, 0, 0).unwrap();
        assert_eq!(smaller, moved);
        assert!(!pager.contains(moved + 64 * PAGE_BYTES));
        for (number, page) in memory[..64 * PAGE_BYTES].chunks_exact(PAGE_BYTES).enumerate() {
            check(page, number as u64 + 1, &format!("{mode:?}, page {number} at the end"));
        }
    }
}

#[test]
fn protected_memory_leaves_and_comes_back() {
    for mode in modes() {
        let Some((pager, _)) = mode.start(32, 256) else { return };
        let memory = memory(&pager, 128);
        let base = memory.as_ptr() as usize;
        memory.fill(9);
        pager.protect(base, 64 * PAGE_BYTES, libc::PROT_READ).unwrap();
        for _ in 0..3 {
            let wrong = memory.iter().position(|&byte| byte != 9);
            let seen = wrong.map(|at| (at / PAGE_BYTES, at % PAGE_BYTES, memory[at]));
            assert_eq!(seen, None, "{mode:?}: page, byte, value; {:?}", pager.statistics());
        }
        pager.protect(base, 64 * PAGE_BYTES, libc::PROT_READ | libc::PROT_WRITE).unwrap();
        memory.fill(10);
        assert!(memory.iter().all(|&byte| byte == 10), "{mode:?}");
    }
}

#[test]
fn system_calls_use_pages_that_are_away() {
    for mode in modes() {
        let Some((pager, _)) = mode.start(32, 256) else { return };
        let memory = memory(&pager, 64);
        memory.fill(3);
        pager.evict_all().unwrap();
        let from = memory.as_mut_ptr();
        let is_limited = mode.delivery == Delivery::Inline || gets_user_faults_only();
        assert_eq!(pager.is_user_mode_only(), is_limited, "{mode:?}");
        // A pipe looks at the bytes.
        let (_reader, writer) = std::io::pipe().unwrap();
        for attempt in 0..1000 {
            let length =
                pager.ensure_present(from as usize + 10, 64 * PAGE_BYTES - 10, false).unwrap();
            assert!(length >= PAGE_BYTES, "{mode:?}");
            // SAFETY: the memory is there, and the descriptor open.
            let written = unsafe {
                use std::os::fd::AsRawFd;
                libc::write(writer.as_raw_fd(), from.add(10).cast(), 2 * PAGE_BYTES)
            };
            if written > 0 {
                break;
            }
            assert_eq!(
                std::io::Error::last_os_error().raw_os_error(),
                Some(libc::EFAULT),
                "{mode:?}"
            );
            assert!(attempt < 999, "{mode:?}: pages never stayed for a call");
        }
    }
}

#[test]
fn a_terabyte_costs_what_is_touched_of_it() {
    for mode in modes().into_iter().take(1) {
        let heap = rackmem_lease::store::HeapStore::new(1 << 24).unwrap();
        let options = rackmem_paging::PagerOptions { overcommit: true, ..mode.options(64) };
        let Ok(pager) = rackmem_paging::Pager::start(std::sync::Arc::new(heap), &options) else {
            return;
        };
        let tera = 1usize << 40;
        let base = pager.map(tera).unwrap();
        for index in 0..1000 {
            // SAFETY: inside of what was mapped.
            unsafe {
                base.add(index * (tera / 1000) / 8 * 8).cast::<u64>().write(index as u64 + 1)
            };
        }
        for index in 0..1000 {
            // SAFETY: as above.
            assert_eq!(
                // SAFETY: an aligned word of the mapping.
                unsafe { base.add(index * (tera / 1000) / 8 * 8).cast::<u64>().read() },
                index as u64 + 1
            );
        }
        pager.unmap(base.as_ptr() as usize, tera).unwrap();
        assert_eq!(pager.statistics().slots_in_use, 0);
    }
}
