//! What a process says of its borrowed memory when it exits.

use rackmem_borrow::lease::LeaseState;
use rackmem_borrow::paging::{PAGE_BYTES, Statistics};
use rackmem_borrow::program::Report;
use serde::Serialize;

use crate::process::{self, Borrowing};
use crate::{kernel, thread};

/// The report as JSON.
#[derive(Serialize)]
struct Whole<'a> {
    pid: u32,
    program: &'a str,
    #[serde(flatten)]
    pages: Statistics,
    hit_rate: f64,
    dirty_ratio: f64,
    overflow_bytes: usize,
    leases: &'a [LeaseState],
}

/// Has the report made at the end, if one is wanted.
pub fn register() {
    if process::settings().is_some_and(|settings| settings.report != Report::None) {
        // SAFETY: the function is one of this library, which is never unloaded. Without memory for it there is no
        // report.
        let _ = unsafe { libc::atexit(at_exit) };
    }
}

extern "C" fn at_exit() {
    let _inside = thread::enter();
    let (Some(settings), Some(borrowing)) = (process::settings(), process::borrowing()) else {
        return;
    };
    let text = match settings.report {
        Report::None => return,
        Report::Text => text(borrowing),
        Report::Json => json(borrowing),
    };
    kernel::say(&text);
}

/// Bytes that found no room in the lease, or in the local cache beside it.
fn overflow_bytes(borrowing: &Borrowing, pages: &Statistics) -> usize {
    let cache_pages = borrowing.pager.options().cache_pages() as u64;
    let grown = pages.resident_pages.saturating_sub(cache_pages) as usize * PAGE_BYTES;
    process::overflow_bytes() + grown
}

fn share(part: u64, of: u64) -> f64 {
    if of == 0 { 0.0 } else { part as f64 / of as f64 }
}

/// Of the pages that were needed and are not new, how many were there: those that a fault had to wait for
/// are the others. Touches of pages that are there go by unseen, so this is a lower bound of what is usually
/// called so.
fn hit_rate(pages: &Statistics) -> f64 {
    let brought = pages.prefetched + pages.rescued;
    share(brought, brought + pages.fetched)
}

/// Of the pages that left, how many had to be written.
fn dirty_ratio(pages: &Statistics) -> f64 {
    share(pages.written, pages.evicted)
}

fn leases(borrowing: &Borrowing) -> Vec<LeaseState> {
    borrowing.lease.state().copies.into_iter().flat_map(|copy| copy.leases).collect()
}

/// As the ledger names it: what the process is called, not the file that it was executed from.
fn name() -> String {
    std::fs::read_to_string("/proc/self/comm").unwrap_or_default().trim_end().to_owned()
}

fn json(borrowing: &Borrowing) -> String {
    let pages = borrowing.pager.statistics();
    let whole = Whole {
        pid: std::process::id(),
        program: &name(),
        pages,
        hit_rate: hit_rate(&pages),
        dirty_ratio: dirty_ratio(&pages),
        overflow_bytes: overflow_bytes(borrowing, &pages),
        leases: &leases(borrowing),
    };
    serde_json::to_string(&whole).expect("numbers and names are JSON") + "\n"
}

fn mebibytes(pages: u64) -> f64 {
    (pages * PAGE_BYTES as u64) as f64 / f64::from(1 << 20)
}

fn text(borrowing: &Borrowing) -> String {
    let pages = borrowing.pager.statistics();
    let mut text = format!(
        "rackmem: {} ({}): {} faults: {} new pages, {} fetched (p50 {:.1} us, p99 {:.1} us), {} rescued\n\
         rackmem: {} prefetched; without waiting {:.1} %; {} left, {} written ({:.1} %), {} lost\n\
         rackmem: local now {:.1} MiB, at lenders {:.1} MiB, beside the lease {:.1} MiB\n",
        name(),
        std::process::id(),
        pages.faults,
        pages.first_touches,
        pages.fetched,
        pages.page_in_p50_ns as f64 / 1e3,
        pages.page_in_p99_ns as f64 / 1e3,
        pages.rescued,
        pages.prefetched,
        100.0 * hit_rate(&pages),
        pages.evicted,
        pages.written,
        100.0 * dirty_ratio(&pages),
        pages.lost,
        mebibytes(pages.resident_pages),
        mebibytes(pages.slots_in_use),
        overflow_bytes(borrowing, &pages) as f64 / f64::from(1 << 20),
    );
    for lease in leases(borrowing) {
        let state = match (lease.is_lost, lease.is_mapped) {
            (true, _) => "lost",
            (false, true) => "mapped",
            (false, false) => "over the network",
        };
        text += &format!(
            "rackmem: {:.1} MiB of {} on {}, {state}\n",
            lease.size_bytes as f64 / f64::from(1 << 20),
            lease.lender.name,
            lease.lender.host,
        );
    }
    text
}
