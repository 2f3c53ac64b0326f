//! A bit for each page of a store, that threads set and take at the same time.

use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering;

use rackmem::shm::mapping::PAGE_BYTES;

use crate::sync::{AtomicU64, Lazy};

const BITS: u64 = u64::BITS as u64;

/// Pages of a store, by number.
#[derive(Debug)]
pub(super) struct Bitmap {
    words: Lazy<AtomicU64>,
    pages: u64,
}

/// The pages that a range of bytes touches.
pub(super) fn pages_of(offset: u64, length: u64) -> Range<u64> {
    let page = PAGE_BYTES as u64;
    if length == 0 { 0..0 } else { offset / page..(offset + length).div_ceil(page) }
}

impl Bitmap {
    /// No page of so many bytes.
    ///
    /// # Errors
    /// The kernel has no address space.
    pub fn new(size_bytes: u64) -> io::Result<Bitmap> {
        let pages = size_bytes.div_ceil(PAGE_BYTES as u64);
        Ok(Bitmap { words: Lazy::new(pages.div_ceil(BITS) as usize)?, pages })
    }

    /// Words that a range of pages touches, each with the bits of those pages.
    fn masks(pages: Range<u64>) -> impl Iterator<Item = (usize, u64)> {
        let mut page = pages.start;
        std::iter::from_fn(move || {
            if page >= pages.end {
                return None;
            }
            let (word, first) = (page / BITS, page % BITS);
            let count = (pages.end - page).min(BITS - first);
            page += count;
            let bits = if count == BITS { u64::MAX } else { ((1 << count) - 1) << first };
            Some((word as usize, bits))
        })
    }

    /// Adds pages.
    pub fn set(&self, pages: Range<u64>) {
        for (word, bits) in Bitmap::masks(pages) {
            // Most pages that are written were written before.
            if self.words[word].load(Ordering::Relaxed) & bits != bits {
                self.words[word].fetch_or(bits, Ordering::AcqRel);
            }
        }
    }

    /// Removes pages.
    pub fn clear(&self, pages: Range<u64>) {
        for (word, bits) in Bitmap::masks(pages) {
            self.words[word].fetch_and(!bits, Ordering::AcqRel);
        }
    }

    /// Removes all pages, and adds those of another.
    pub fn copy_from(&self, other: &Bitmap) {
        for (to, from) in self.words.iter().zip(other.words.iter()) {
            let bits = from.load(Ordering::Acquire);
            if to.load(Ordering::Relaxed) != bits {
                to.store(bits, Ordering::Release);
            }
        }
    }

    /// Adds the pages of another.
    pub fn merge(&self, other: &Bitmap) {
        for (to, from) in self.words.iter().zip(other.words.iter()) {
            let bits = from.load(Ordering::Acquire);
            if bits != 0 {
                to.fetch_or(bits, Ordering::AcqRel);
            }
        }
    }

    /// Whether there is no page.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| word.load(Ordering::Acquire) == 0)
    }

    /// The first run of pages from `start` on, at most so many.
    pub fn next_run(&self, start: u64, most: u64) -> Option<Range<u64>> {
        let first = self.next(start, |word| word)?;
        let end = self.next(first, |word| !word).unwrap_or(self.pages);
        Some(first..end.min(first + most))
    }

    /// The first page from `start` on whose bit is set in the words after `view`.
    fn next(&self, start: u64, view: impl Fn(u64) -> u64) -> Option<u64> {
        let mut page = start;
        while page < self.pages {
            let word = view(self.words[(page / BITS) as usize].load(Ordering::Acquire));
            let rest = word >> (page % BITS);
            if rest != 0 {
                return Some(page + u64::from(rest.trailing_zeros())).filter(|&at| at < self.pages);
            }
            page = (page / BITS + 1) * BITS;
        }
        None
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const PAGES: u64 = 200;

    proptest! {
        #[test]
        fn it_is_a_set(ranges in prop::collection::vec((0..PAGES, 0_u64..90, any::<bool>()), 0..20)) {
            let bitmap = Bitmap::new(PAGES * PAGE_BYTES as u64).unwrap();
            let mut set = BTreeSet::new();
            for (start, length, is_set) in ranges {
                let pages = start..(start + length).min(PAGES);
                match is_set {
                    true => {
                        bitmap.set(pages.clone());
                        set.extend(pages);
                    }
                    false => {
                        bitmap.clear(pages.clone());
                        set.retain(|page| !pages.contains(page));
                    }
                }
            }
            prop_assert_eq!(bitmap.is_empty(), set.is_empty());
            let (mut found, mut at) = (BTreeSet::new(), 0);
            while let Some(run) = bitmap.next_run(at, 7) {
                prop_assert!(!run.is_empty() && run.end - run.start <= 7);
                at = run.end;
                found.extend(run);
            }
            prop_assert_eq!(&found, &set);
            let other = Bitmap::new(PAGES * PAGE_BYTES as u64).unwrap();
            other.set(3..5);
            other.copy_from(&bitmap);
            prop_assert_eq!(other.next_run(0, PAGES), bitmap.next_run(0, PAGES));
        }
    }

    #[test]
    fn a_range_of_bytes_touches_whole_pages() {
        assert_eq!(pages_of(4095, 2), 0..2);
        assert_eq!(pages_of(4096, 4096), 1..2);
        assert_eq!(pages_of(4096, 0), 0..0);
    }
}
