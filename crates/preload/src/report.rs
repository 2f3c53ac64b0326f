//! Report of a process on its borrowed memory, made when it exits.

use rackmem_lease::LeaseState;
use rackmem_paging::program::{Report, Settings};
use rackmem_paging::{PAGE_BYTES, Statistics};
use serde::Serialize;

use crate::process::{self, Borrowing, REASONS, Stays};
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
    /// Bytes that were mapped as borrowed memory, and others by the reason why they stayed local.
    borrowed_bytes: usize,
    local_bytes: std::collections::BTreeMap<&'static str, usize>,
    leases: &'a [LeaseState],
}

/// Registers the report to be made when the process exits.
pub fn register() {
    if process::settings().is_some_and(|settings| settings.report != Report::None) {
        kernel::keep_stderr();
    }
    // SAFETY: the function is one of this library, which is never unloaded. Without memory for it there is no report.
    let _ = unsafe { libc::atexit(at_exit) };
}

/// Says, as a process begins to borrow, what it has to do without, unless the command has said so.
pub fn announce() {
    let Some(pager) = process::pager().filter(|pager| pager.is_user_mode_only()) else { return };
    if process::settings().is_some_and(|settings| settings.is_cautioned) {
        return;
    }
    let name = format!("{} ({})", name(), std::process::id());
    kernel::complain(&[&name, " ", &Settings::caution(pager.options().delivery)]);
}

extern "C" fn at_exit() {
    let _inside = thread::enter();
    let Some(settings) = process::settings() else { return };
    let text = match (settings.report, process::borrowing()) {
        (Report::None, Some(_)) if is_mostly_local() => mapped(),
        (Report::None, _) | (Report::Json, None) => return,
        (Report::Text, Some(borrowing)) => text(borrowing),
        (Report::Json, Some(borrowing)) => json(borrowing),
        (Report::Text, None) => nothing(settings),
    };
    kernel::say(&text);
}

/// Whether a process that leased memory has little use of it: less than a quarter of the private memory that it mapped
/// is borrowed. Shared mappings may be files, which need no lender.
fn is_mostly_local() -> bool {
    let private = REASONS.iter().filter(|&&(why, _)| why != Stays::Shared);
    let local: usize = private.map(|&(why, _)| process::local_bytes(why)).sum();
    process::borrowed_bytes() < local / 3
}

fn all_local_bytes() -> usize {
    REASONS.iter().map(|&(why, _)| process::local_bytes(why)).sum()
}

fn mib(bytes: usize) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Text on the part of the mapped memory that is borrowed, with the reasons why the rest is not.
fn mapped() -> String {
    let mut text = format!(
        "rackmem: {} ({}): of the memory that was mapped {:.1} MiB were borrowed and {:.1} MiB stayed local",
        name(),
        std::process::id(),
        mib(process::borrowed_bytes()),
        mib(all_local_bytes()),
    );
    text += &reasons();
    text + "\n"
}

/// The parts of the mapped memory that stayed local, each with its reason.
fn reasons() -> String {
    let part = |(why, words)| match process::local_bytes(why) {
        0 => String::new(),
        bytes => format!(", {:.1} MiB {words}", mib(bytes)),
    };
    REASONS.into_iter().map(part).collect()
}

/// Text on a process that has leased nothing.
fn nothing(settings: &Settings) -> String {
    let used = kernel::used_bytes().unwrap_or(0);
    let begins = match process::failure() {
        Some(why) => format!("no lease could be made: {why}"),
        None => format!(
            "only private memory is borrowed, from the first large mapping on that a process makes beyond --threshold \
             {:.1} MiB",
            mib(settings.threshold_bytes)
        ),
    };
    format!(
        "rackmem: {} ({}): nothing was borrowed: it used {:.1} MiB and mapped {:.1} MiB through the C library{}; \
         {begins}\n",
        name(),
        std::process::id(),
        mib(used),
        mib(all_local_bytes()),
        reasons(),
    )
}

/// Bytes that found no room in the lease, or in the local cache beside it.
fn overflow_bytes(borrowing: &Borrowing, pages: &Statistics) -> usize {
    let cache_pages = borrowing.pager.options().cache_pages() as u64;
    let grown = pages.resident_pages.saturating_sub(cache_pages) as usize * PAGE_BYTES;
    process::local_bytes(Stays::NoRoom) + grown
}

fn share(part: u64, of: u64) -> f64 {
    if of == 0 { 0.0 } else { part as f64 / of as f64 }
}

/// Share of the needed pages, new ones apart, that were there; for the others a fault had to wait. Touches of pages
/// that are there go by unseen, so this is a lower bound of the usual hit rate.
fn hit_rate(pages: &Statistics) -> f64 {
    let brought = pages.prefetched + pages.rescued;
    share(brought, brought + pages.fetched)
}

/// Share of the pages that left which had to be written.
fn dirty_ratio(pages: &Statistics) -> f64 {
    share(pages.written, pages.evicted)
}

fn leases(borrowing: &Borrowing) -> Vec<LeaseState> {
    borrowing.lease.state().copies.into_iter().flat_map(|copy| copy.leases).collect()
}

/// The process's name, as in the ledger, and not that of the file that it was executed from.
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
        borrowed_bytes: process::borrowed_bytes(),
        local_bytes: REASONS.map(|(why, words)| (words, process::local_bytes(why))).into(),
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
    text += &mapped();
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
