//! Borrowed memory as a slice in Rust and as a pointer in C, of a lender that is really there.

#[path = "../../lease/tests/support/mod.rs"]
mod support;

use std::ffi::{CStr, CString, c_void};
use std::process::Command;

use rackmem_paging::capi::{
    BorrowOptions, rackmem_borrow, rackmem_borrow_evict, rackmem_borrow_read_statistics,
    rackmem_borrow_return,
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

#[test]
fn c_borrows_and_gives_back() {
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
        let text = CStr::from_ptr(rackmem::capi::rackmem_last_error()).to_string_lossy();
        assert!(text.contains("not an address"), "{text}");
        assert_eq!(rackmem_borrow_return(address), 0);
        assert_eq!(rackmem_borrow_return(address), -libc::EINVAL);
        assert_eq!(rackmem_borrow_return(std::ptr::null_mut()), 0);
        assert!(rackmem_borrow(1 << 50, &options, &mut address) < 0, "nobody lends so much");
    }
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
