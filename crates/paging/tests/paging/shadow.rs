//! Random reads and writes against a shadow copy.

use rackmem_paging::{MIN_CACHE_PAGES, PAGE_BYTES};

use crate::support::{Mode, Random, memory, modes};

/// Reads and writes of one thread to its own part of the memory, against a shadow of its own writes.
fn walk(memory: &mut [u8], seed: u64, steps: usize, what: Mode) {
    let mut random = Random(seed);
    let mut shadow = vec![0u8; memory.len()];
    for step in 0..steps {
        // Mostly anywhere, sometimes a run over pages.
        let length = if random.below(16) == 0 { 5 * PAGE_BYTES } else { 1 + random.below(64) };
        let start = random.below(memory.len() - length);
        let range = start..start + length;
        if random.below(2) == 0 {
            memory[range.clone()].fill(step as u8);
            shadow[range].fill(step as u8);
        } else {
            assert!(
                memory[range.clone()] == shadow[range.clone()],
                "{what:?}: step {step}, bytes {range:?}"
            );
        }
    }
    assert!(memory == shadow, "{what:?}: the end");
}

#[test]
fn one_thread_finds_what_it_wrote() {
    for mode in modes() {
        let Some((pager, _)) = mode.start(MIN_CACHE_PAGES, 256) else { return };
        walk(memory(&pager, 128), 7, 6000, mode);
        let statistics = pager.statistics();
        assert!(statistics.evicted > 100 && statistics.fetched > 100, "{mode:?}: {statistics:?}");
        assert_eq!((statistics.lost, statistics.overdrawn), (0, 0), "{mode:?}");
        assert!(statistics.resident_pages <= MIN_CACHE_PAGES as u64, "{mode:?}: {statistics:?}");
    }
}

#[test]
fn several_threads_find_what_each_wrote() {
    for mode in modes() {
        let Some((pager, _)) = mode.start(24, 512) else { return };
        let memory = memory(&pager, 256);
        // Parts that end amid pages: neighbours share these.
        let part = memory.len() / 4 - 8;
        std::thread::scope(|scope| {
            for (seed, part) in memory.chunks_mut(part).take(4).enumerate() {
                scope.spawn(move || walk(part, seed as u64 + 1, 3000, mode));
            }
        });
        assert_eq!(pager.statistics().lost, 0, "{mode:?}");
    }
}

#[test]
fn all_pages_dirty_and_a_full_cache_go_on() {
    for mode in modes() {
        let Some((pager, _)) = mode.start(MIN_CACHE_PAGES, 300) else { return };
        let memory = memory(&pager, 300);
        for round in 1..4u8 {
            for (number, page) in memory.chunks_exact_mut(PAGE_BYTES).enumerate() {
                assert_eq!(page[100], round - 1, "{mode:?}: page {number}");
                page.fill(round);
            }
        }
        pager.evict_all().unwrap();
        assert_eq!(pager.statistics().resident_pages, 0, "{mode:?}: {:?}", pager.statistics());
        assert!(memory.iter().all(|&byte| byte == 3), "{mode:?}");
    }
}

#[test]
fn clean_pages_are_not_written_again_and_zeros_never() {
    for mode in modes() {
        let Some((pager, _)) = mode.start(32, 256) else { return };
        let memory = memory(&pager, 128);
        for (index, page) in memory.chunks_exact_mut(PAGE_BYTES).enumerate() {
            page[7] = index as u8 / 64;
        }
        pager.evict_all().unwrap();
        let before = pager.statistics();
        assert_eq!(before.slots_in_use, 64, "{mode:?}: half of the pages are zero");
        assert!(before.zero >= 64, "{mode:?}");
        for _ in 0..3 {
            let sum: usize = memory.chunks_exact(PAGE_BYTES).map(|page| usize::from(page[7])).sum();
            assert_eq!(sum, 64);
            pager.evict_all().unwrap();
        }
        let after = pager.statistics();
        // A page that was needed again on its way out counts as written.
        let again = after.written - before.written;
        assert!(again <= after.rescued + after.prefetch_hits, "{mode:?}: {after:?}");
        assert!(after.clean >= 64, "{mode:?}: {after:?}");
    }
}
