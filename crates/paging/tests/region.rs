//! Borrowed memory as a slice in Rust and as a pointer in C, of a lender that is really there.

#[path = "../../lease/tests/support/mod.rs"]
mod support;

use std::ffi::{CStr, CString, c_void};
use std::ops::Range;
use std::process::Command;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use rackmem_paging::capi::{
    BorrowOptions, rackmem_borrow, rackmem_borrow_discard, rackmem_borrow_evict,
    rackmem_borrow_read_statistics, rackmem_borrow_return,
};
use rackmem_paging::region::Region;
use rackmem_paging::{Delivery, PAGE_BYTES, PagerOptions, Statistics};

use rackmem_fabric::net::access::Access;
use rackmem_lease::Wanted;
use rackmem_lease::agent::{Agent, Config};
use support::{rack, start, wanted};

const PAGES: usize = 512;

fn options(delivery: Delivery) -> PagerOptions {
    PagerOptions { cache_bytes: 64 * PAGE_BYTES, delivery, ..PagerOptions::default() }
}

/// A lender on the network of this host.
fn lend(rack: &rackmem::rack::Rack, name: &str) -> Agent {
    let listen = Some("127.0.0.1:0".to_owned());
    let (name, access) = (Some(name.to_owned()), Access::insecure());
    start(Config { name, listen, access, ..Config::lender(rack.clone(), 16 << 20) })
}

/// A region; `None`, with a message, if the kernel does not permit it.
fn borrow(wanted: &Wanted, options: &PagerOptions) -> Option<Region> {
    match Region::borrow(wanted, options) {
        Ok(region) => Some(region),
        Err(error) if [libc::EPERM, libc::ENOSYS].contains(&error.errno()) => {
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Writes and checks every page of a region twice.
fn work(region: &mut [u8], what: &str) {
    for round in 1..3u8 {
        for (number, page) in region.chunks_exact_mut(PAGE_BYTES).enumerate() {
            page.fill(round ^ number as u8);
        }
        for (number, page) in region.chunks_exact(PAGE_BYTES).enumerate() {
            assert!(page.iter().all(|&byte| byte == round ^ number as u8), "{what}: page {number}");
        }
    }
}

#[test]
fn a_region_is_memory_whatever_way_leads_to_the_lender() {
    let rack = rack();
    let _lender = lend(&rack, "ann");
    for delivery in [Delivery::Thread, Delivery::Inline] {
        for only_network in [false, true] {
            let mut wanted = wanted(&rack, PAGES as u64);
            wanted.only_network = only_network;
            let Some(mut region) = borrow(&wanted, &options(delivery)) else { return };
            let what = format!("{delivery:?}, only network: {only_network}");
            work(&mut region, &what);
            let statistics = region.statistics();
            assert!(
                statistics.written >= PAGES as u64 && statistics.lost == 0,
                "{what}: {statistics:?}"
            );
        }
    }
}

#[test]
fn with_two_copies_a_lender_may_die() {
    let rack = rack();
    let ann = lend(&rack, "ann");
    let bob = lend(&rack, "bob");
    let mut wanted = wanted(&rack, PAGES as u64);
    wanted.copies = 2;
    wanted.only_network = true;
    let Some(mut region) = borrow(&wanted, &options(Delivery::Thread)) else { return };
    work(&mut region, "both there");
    drop(ann);
    for (number, page) in region.chunks_exact(PAGE_BYTES).enumerate() {
        assert!(page.iter().all(|&byte| byte == 2 ^ number as u8), "page {number}");
    }
    work(&mut region, "one there");
    drop(bob);
}

/// Text of the last error of the C interface.
fn last_error() -> String {
    // SAFETY: the text ends with a zero, and is copied before the next call.
    unsafe { CStr::from_ptr(rackmem::capi::rackmem_last_error()).to_string_lossy().into_owned() }
}

/// Held while C borrows. Tests use addresses of memory that was returned, and pages beside memory: these must not be
/// another test's.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Memory that C has borrowed.
struct FromC(*mut u8);

// SAFETY: memory that all threads may use; these tests use it by volatile accesses.
unsafe impl Sync for FromC {}

impl FromC {
    /// `None`, with a message, if the kernel does not permit it.
    fn borrow(rack: &rackmem::rack::Rack, delivery: i32) -> Option<FromC> {
        let name = CString::new(rack.name()).unwrap();
        let (rack, cache_bytes) = (name.as_ptr(), 64 * PAGE_BYTES);
        let (copies, prefetch_pages, patience_seconds) = (0, -1, 10);
        let options =
            BorrowOptions { rack, cache_bytes, copies, prefetch_pages, delivery, patience_seconds };
        let mut address = ptr::null_mut();
        // SAFETY: arguments as the header says.
        match unsafe { rackmem_borrow(PAGES * PAGE_BYTES, &options, &mut address) } {
            0 => Some(FromC(address.cast())),
            error if error == -libc::EPERM => {
                println!("skipped: userfaultfd is not permitted");
                None
            }
            error => panic!("{error}: {}", last_error()),
        }
    }

    /// Writes to each page of a range.
    fn fill(&self, pages: Range<usize>, byte: u8) {
        // SAFETY: pages of the memory.
        pages.for_each(|page| unsafe { self.0.add(page * PAGE_BYTES + 7).write_volatile(byte) });
    }

    fn has(&self, mut pages: Range<usize>, byte: u8) -> bool {
        // SAFETY: as above.
        pages.all(|page| unsafe { self.0.add(page * PAGE_BYTES + 7).read_volatile() == byte })
    }

    /// Discards bytes from an offset, both of which may be wrong.
    fn discard_bytes(&self, offset: usize, size: usize) -> i32 {
        // SAFETY: nobody has a reference to the memory.
        unsafe { rackmem_borrow_discard(self.0.wrapping_add(offset).cast(), size) }
    }

    fn discard(&self, pages: Range<usize>) {
        assert_eq!(self.discard_bytes(pages.start * PAGE_BYTES, pages.len() * PAGE_BYTES), 0);
    }

    fn evict(&self) {
        assert_eq!(rackmem_borrow_evict(self.0.cast()), 0);
    }

    /// Pages that are local, and pages that the lender has.
    fn pages(&self) -> (u64, u64) {
        let mut statistics = Statistics::default();
        // SAFETY: the place can be written.
        let read = unsafe { rackmem_borrow_read_statistics(self.0.cast(), &mut statistics) };
        assert_eq!(read, 0);
        (statistics.resident_pages, statistics.slots_in_use)
    }
}

impl Drop for FromC {
    fn drop(&mut self) {
        rackmem_borrow_return(self.0.cast());
    }
}

#[test]
fn c_borrows_and_gives_back() {
    let _alone = alone();
    let rack = rack();
    let _lender = lend(&rack, "ann");
    let name = CString::new(rack.name()).unwrap();
    let options = BorrowOptions {
        rack: name.as_ptr(),
        cache_bytes: 64 * PAGE_BYTES,
        copies: 0,
        prefetch_pages: -1,
        delivery: 0,
        patience_seconds: 10,
    };
    let size = PAGES * PAGE_BYTES;
    let mut address: *mut c_void = std::ptr::null_mut();
    // SAFETY: arguments as the header says; the slice ends before the memory is given back.
    unsafe {
        if rackmem_borrow(size, &options, &mut address) == -libc::EPERM {
            return println!("skipped: userfaultfd is not permitted");
        }
        assert!(!address.is_null());
        work(std::slice::from_raw_parts_mut(address.cast(), size), "C");
        let mut statistics = Statistics::default();
        assert_eq!(rackmem_borrow_evict(address), 0);
        assert_eq!(rackmem_borrow_read_statistics(address, &mut statistics), 0);
        assert_eq!((statistics.prefetched, statistics.resident_pages), (0, 0), "{statistics:?}");
        assert_eq!(rackmem_borrow_return(address.wrapping_add(1)), -libc::EINVAL);
        assert!(last_error().contains("not an address"), "{}", last_error());
        assert_eq!(rackmem_borrow_return(address), 0);
        assert_eq!(rackmem_borrow_return(address), -libc::EINVAL);
        assert_eq!(rackmem_borrow_return(std::ptr::null_mut()), 0);
        assert!(rackmem_borrow(1 << 50, &options, &mut address) < 0, "nobody lends so much");
    }
}

#[test]
fn c_discards_pages_that_are_away_and_pages_that_are_here() {
    let _alone = alone();
    let rack = rack();
    let _lender = lend(&rack, "ann");
    for delivery in [0, 1] {
        let Some(memory) = FromC::borrow(&rack, delivery) else { return };
        memory.fill(0..PAGES, 1);
        memory.evict();
        assert_eq!(memory.pages(), (0, PAGES as u64));
        memory.discard(0..128);
        assert_eq!(memory.pages(), (0, PAGES as u64 - 128), "the lender has their slots again");
        assert!(memory.has(0..128, 0) && memory.has(128..PAGES, 1));
        memory.fill(300..310, 2);
        memory.discard(301..309);
        assert!(memory.has(301..309, 0) && memory.has(300..301, 2) && memory.has(309..310, 2));
        memory.fill(301..309, 3);
        memory.evict();
        assert!(memory.has(301..309, 3) && memory.has(310..PAGES, 1));
        memory.discard(0..PAGES);
        assert!(memory.has(0..PAGES, 0));
        memory.evict();
        assert_eq!(memory.pages(), (0, 0));
    }
}

/// One thread evicts, two read and two discard pages of their own, all the time.
#[test]
fn c_discards_pages_that_leave_and_pages_that_are_read_at_that_moment() {
    let _alone = alone();
    const SHARE: usize = 96;
    let rack = rack();
    let _lender = lend(&rack, "ann");
    for delivery in [0, 1] {
        let Some(memory) = FromC::borrow(&rack, delivery) else { return };
        memory.fill(2 * SHARE..PAGES, 9);
        let are_right = AtomicBool::new(true);
        let is_over = AtomicBool::new(false);
        let discard = |first: usize| {
            for round in 1..=100 {
                let (whole, inner) = (first..first + SHARE, first + 8..first + SHARE - 8);
                memory.fill(whole.clone(), round);
                memory.discard(inner.clone());
                let is_right = memory.has(inner.clone(), 0)
                    && memory.has(whole.start..inner.start, round)
                    && memory.has(inner.end..whole.end, round);
                are_right.fetch_and(is_right, Ordering::Relaxed);
            }
        };
        let while_others_discard = |work: &dyn Fn()| {
            while !is_over.load(Ordering::Relaxed) {
                work();
            }
        };
        thread::scope(|scope| {
            scope.spawn(|| while_others_discard(&|| memory.evict()));
            for _ in 0..2 {
                scope.spawn(|| while_others_discard(&|| _ = memory.has(0..2 * SHARE, 0)));
            }
            let both = [0, SHARE].map(|first| scope.spawn(move || discard(first)));
            let ends = both.map(thread::ScopedJoinHandle::join);
            is_over.store(true, Ordering::Relaxed);
            ends.into_iter().for_each(|end| end.unwrap());
        });
        assert!(are_right.into_inner(), "delivery {delivery}");
        assert!(memory.has(2 * SHARE..PAGES, 9));
    }
}

#[test]
fn c_learns_what_is_wrong_with_pages_to_discard() {
    let _alone = alone();
    let rack = rack();
    let _lender = lend(&rack, "ann");
    let Some(memory) = FromC::borrow(&rack, 0) else { return };
    memory.fill(0..PAGES, 1);
    let all = PAGES * PAGE_BYTES;
    let before = 0usize.wrapping_sub(PAGE_BYTES);
    for (offset, size, what) in [
        (8, PAGE_BYTES, "not whole pages"),
        (0, 100, "not whole pages"),
        (0, usize::MAX, "not whole pages"),
        (0, all + PAGE_BYTES, "not within"),
        (all - PAGE_BYTES, 2 * PAGE_BYTES, "not within"),
        (PAGE_BYTES, 0usize.wrapping_sub(PAGE_BYTES), "not within"),
        (all, PAGE_BYTES, "is not in memory of rackmem_borrow"),
        (before, PAGE_BYTES, "is not in memory of rackmem_borrow"),
        (0usize.wrapping_sub(memory.0 as usize), PAGE_BYTES, "0x0 is not in memory"),
    ] {
        assert_eq!(memory.discard_bytes(offset, size), -libc::EINVAL, "{offset:#x} {size:#x}");
        assert!(last_error().contains(what), "{offset:#x} {size:#x}: {}", last_error());
    }
    assert_eq!(memory.discard_bytes(PAGE_BYTES, 0), 0);
    assert!(memory.has(0..PAGES, 1), "nothing was discarded");
    let address = memory.0.cast();
    drop(memory);
    // SAFETY: the call refuses memory that was returned.
    assert_eq!(unsafe { rackmem_borrow_discard(address, PAGE_BYTES) }, -libc::EINVAL);
}

#[test]
fn a_slice_is_discarded_to_its_last_page() {
    let rack = rack();
    let _lender = lend(&rack, "ann");
    let mut wanted = wanted(&rack, 64);
    wanted.size_bytes = 63 * PAGE_BYTES as u64 + 100;
    let Some(mut region) = borrow(&wanted, &options(Delivery::Thread)) else { return };
    region.fill(1);
    region.pager().evict_all().unwrap();
    region.discard(62 * PAGE_BYTES, 2 * PAGE_BYTES).unwrap();
    assert!(region[62 * PAGE_BYTES..].iter().all(|&byte| byte == 0));
    assert!(region[..62 * PAGE_BYTES].iter().all(|&byte| byte == 1));
    let error = region.discard(62 * PAGE_BYTES, PAGE_BYTES + 100).unwrap_err();
    assert_eq!(error.errno(), libc::EINVAL);
}

#[test]
fn the_header_has_the_layouts_of_rust() {
    let include = concat!(env!("CARGO_MANIFEST_DIR"), "/../../include");
    let source = format!(
        "#include <rackmem/borrow.h>\n_Static_assert(sizeof(rackmem_borrow_options) == {}, \"\");\n\
         _Static_assert(sizeof(rackmem_borrow_statistics) == {}, \"\");\n\
         _Static_assert(offsetof(rackmem_borrow_options, patience_seconds) == {}, \"\");\n\
         _Static_assert(offsetof(rackmem_borrow_statistics, resident_pages) == {}, \"\");\n",
        size_of::<BorrowOptions>(),
        size_of::<Statistics>(),
        std::mem::offset_of!(BorrowOptions, patience_seconds),
        std::mem::offset_of!(Statistics, resident_pages),
    );
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("layout.c");
    std::fs::write(&file, source).unwrap();
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let arguments =
        ["-std=c11", "-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only", "-I", include];
    match Command::new(&compiler).args(arguments).arg(&file).status() {
        Ok(status) => assert!(status.success()),
        Err(error) => println!("skipped: no C compiler {compiler}: {error}"),
    }
}
