//! Stores and pagers for the tests.

use std::sync::Arc;

use rackmem_lease::Result;
use rackmem_lease::store::{HeapStore, Lane, Store};
use rackmem_paging::{Delivery, PAGE_BYTES, Pager, PagerOptions, Waiting};

/// A store that is reached by lanes only.
pub struct Unmapped(pub HeapStore);

impl Store for Unmapped {
    fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }

    fn lane(&self) -> Result<Box<dyn Lane>> {
        self.0.lane()
    }

    fn check(&self) -> Result<()> {
        self.0.check()
    }
}

/// A way to page.
#[derive(Clone, Copy, Debug)]
pub struct Mode {
    pub delivery: Delivery,
    pub waiting: Waiting,
    pub is_mapped: bool,
    pub prefetch_pages: usize,
}

/// Every way.
pub fn modes() -> Vec<Mode> {
    let spin = Waiting::Spin(std::time::Duration::from_micros(20));
    let mut modes = Vec::new();
    for is_mapped in [true, false] {
        for (delivery, waiting) in [
            (Delivery::Thread, Waiting::Sleep),
            (Delivery::Thread, spin),
            (Delivery::Inline, Waiting::Sleep),
        ] {
            for prefetch_pages in [0, 16] {
                modes.push(Mode { delivery, waiting, is_mapped, prefetch_pages });
            }
        }
    }
    modes
}

impl Mode {
    pub fn options(&self, cache_pages: usize) -> PagerOptions {
        PagerOptions {
            cache_bytes: cache_pages * PAGE_BYTES,
            prefetch_pages: self.prefetch_pages,
            delivery: self.delivery,
            waiting: self.waiting,
            handlers: 2,
            ..PagerOptions::default()
        }
    }

    /// A pager with a cache and a store of so many pages, and its store. `None`, with a message, if the kernel does not
    /// permit it.
    pub fn start(&self, cache_pages: usize, store_pages: usize) -> Option<(Pager, HeapStore)> {
        let heap = HeapStore::new((store_pages * PAGE_BYTES) as u64).unwrap();
        let store: Arc<dyn Store> =
            if self.is_mapped { Arc::new(heap.clone()) } else { Arc::new(Unmapped(heap.clone())) };
        match Pager::start(store, &self.options(cache_pages)) {
            Ok(pager) => Some((pager, heap)),
            Err(error) => {
                println!("skipped: {error}");
                assert!(
                    !may_page(),
                    "userfaultfd is permitted, but the pager did not start: {error}"
                );
                None
            }
        }
    }
}

/// Whether this process has a userfaultfd for the asking.
fn may_page() -> bool {
    // SAFETY: makes a descriptor, and closes it.
    unsafe {
        let fd = libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC | 1);
        if fd >= 0 {
            libc::close(fd as i32);
        }
        fd >= 0
    }
}

/// Whether no way to a userfaultfd that also gets faults of the kernel is permitted to this process.
pub fn gets_user_faults_only() -> bool {
    // SAFETY: makes a descriptor, and closes it.
    let is_by_call = unsafe {
        let fd = libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC);
        if fd >= 0 {
            libc::close(fd as i32);
        }
        fd >= 0
    };
    !is_by_call && std::fs::File::open("/dev/userfaultfd").is_err()
}

/// A generator of numbers that is the same in every run.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 16) as usize % limit
    }
}

/// The memory of a mapping.
pub fn memory<'m>(pager: &Pager, pages: usize) -> &'m mut [u8] {
    let base = pager.map(pages * PAGE_BYTES).unwrap();
    // SAFETY: just mapped; tests drop it before the pager.
    unsafe { std::slice::from_raw_parts_mut(base.as_ptr(), pages * PAGE_BYTES) }
}

/// The first byte of each page.
pub fn first_bytes(base: usize, pages: usize) -> impl Iterator<Item = u8> {
    // SAFETY: pages of the test, which other threads may write to.
    (0..pages).map(move |page| unsafe { ((base + page * PAGE_BYTES) as *const u8).read_volatile() })
}

/// Fills a page with bytes made from a number.
pub fn stamp(page: &mut [u8], number: u64) {
    for (index, word) in page.chunks_exact_mut(8).enumerate() {
        word.copy_from_slice(
            &(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ index as u64).to_le_bytes(),
        );
    }
}

/// Checks all bytes of a page that was stamped.
pub fn check(page: &[u8], number: u64, what: &str) {
    let mut expected = [0; PAGE_BYTES];
    stamp(&mut expected, number);
    assert!(
        page == expected,
        "{what}: begins with {:02x?}, expected {:02x?}",
        &page[..16],
        &expected[..16]
    );
}
