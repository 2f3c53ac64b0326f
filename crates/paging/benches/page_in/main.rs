//! Page-in beside a bare userfaultfd handler, in the same run: `cargo bench -p rackmem-paging --bench page_in`.
//!
//! Each figure is the median of rounds in which both sides take turns. Only the ratio counts, as absolute times depend
//! on other work of the machine. `RACKMEM_BENCH_PAGES` sets the pages of a round.

mod bare;
mod network;

use std::sync::Arc;
use std::time::{Duration, Instant};

use rackmem_lease::store::{HeapStore, Store};
use rackmem_paging::{Delivery, PAGE_BYTES, Pager, PagerOptions, Waiting};

pub(crate) const ROUNDS: usize = 7;
pub(crate) const SPIN: Duration = Duration::from_micros(100);

/// Numbers below `pages`, in an order that is no stream.
pub fn shuffled(pages: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..pages).collect();
    let mut seed = 0x2545_f491_4f6c_dd1du64;
    for index in (1..pages).rev() {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        order.swap(index, seed as usize % (index + 1));
    }
    order
}

/// Median and 99th percentile in microseconds.
pub fn summary(mut times: Vec<Duration>) -> (f64, f64) {
    times.sort_unstable();
    let at =
        |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_nanos() as f64 / 1e3;
    (at(0.5), at(0.99))
}

/// Touches pages in an order, and takes the time of each.
pub(crate) fn touch_all(base: *mut u8, order: &[usize]) -> Vec<Duration> {
    order
        .iter()
        .map(|&page| {
            let begin = Instant::now();
            // SAFETY: callers pass memory that has these pages.
            unsafe { base.add(page * PAGE_BYTES).read_volatile() };
            begin.elapsed()
        })
        .collect()
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Binds the calling thread to a core.
pub fn bind(core: usize) {
    // SAFETY: a set of cores is plain data.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set);
    }
}

pub(crate) fn unbind() {
    // SAFETY: as above; the kernel leaves out the cores that there are not.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        (0..libc::CPU_SETSIZE as usize).for_each(|core| libc::CPU_SET(core, &mut set));
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set);
    }
}

pub(crate) fn options(
    pages: usize,
    delivery: Delivery,
    waiting: Waiting,
    prefetch_pages: usize,
) -> PagerOptions {
    let cache_bytes = pages * PAGE_BYTES;
    PagerOptions { cache_bytes, prefetch_pages, delivery, waiting, ..PagerOptions::default() }
}

/// A pager whose pages were all written and sent away.
pub(crate) fn away(
    store: Arc<dyn Store>,
    options: &PagerOptions,
    pages: usize,
) -> Option<(Pager, *mut u8)> {
    let pager = Pager::start(store, options).map_err(|error| println!("skipped: {error}")).ok()?;
    let base = pager.map(pages * PAGE_BYTES).ok()?.as_ptr();
    for page in 0..pages {
        // SAFETY: just mapped.
        unsafe { base.add(page * PAGE_BYTES).cast::<u64>().write(page as u64 + 1) };
    }
    pager.evict_all().ok()?;
    Some((pager, base))
}

fn random_page_in(pages: usize) {
    println!(
        "random 4 KiB page-in from a mapped store, {pages} pages, us (p50 / p99; ratio of medians)"
    );
    let order = shuffled(pages);
    let kinds = [
        ("handler thread, sleeping", Delivery::Thread, Waiting::Sleep, bare::Kind::Sleeping),
        ("handler thread, spinning", Delivery::Thread, Waiting::Spin(SPIN), bare::Kind::Spinning),
        ("in the faulting thread", Delivery::Inline, Waiting::Sleep, bare::Kind::Inline),
    ];
    for (name, delivery, waiting, kind) in kinds {
        let store = Arc::new(HeapStore::new((pages * PAGE_BYTES) as u64).expect("memory"));
        // Room for all and for what leaves ahead of need, so page-in is measured alone.
        let options = options(2 * pages, delivery, waiting, 0);
        let Some((pager, base)) = away(store.clone(), &options, pages) else { return };
        // Threads that were started before may use all cores.
        bind(0);
        let (mut ours, mut bares) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            ours.push(summary(touch_all(base, &order)));
            pager.evict_all().expect("the store is there");
            bares.push(summary(bare::page_in(kind, store.mapped().expect("mapped"), &order)));
        }
        let of = |runs: &[(f64, f64)], p99: bool| {
            median(runs.iter().map(|run| if p99 { run.1 } else { run.0 }).collect())
        };
        let (a, b) = (of(&ours, false), of(&bares, false));
        unbind();
        println!(
            "  {name}: rackmem {a:.2} / {:.2}, bare {b:.2} / {:.2}, ratio {:.2}",
            of(&ours, true),
            of(&bares, true),
            a / b
        );
    }
}

/// A quarter is local: the cost of page-in beside eviction.
fn under_pressure(pages: usize) {
    println!("random touches, a quarter local, us (mean, p50, p99)");
    let order = shuffled(pages);
    for (name, delivery) in
        [("handler thread", Delivery::Thread), ("in the faulting thread", Delivery::Inline)]
    {
        for is_write in [false, true] {
            let store = Arc::new(HeapStore::new((pages * PAGE_BYTES) as u64).expect("memory"));
            let options = options(pages / 4, delivery, Waiting::Sleep, 0);
            let Some((pager, base)) = away(store, &options, pages) else { return };
            let mut times = Vec::new();
            for _ in 0..2 {
                for &page in &order {
                    let begin = Instant::now();
                    // SAFETY: mapped by `away`.
                    unsafe {
                        let word = base.add(page * PAGE_BYTES).cast::<u64>();
                        let value = word.read_volatile();
                        assert_eq!(value, page as u64 + 1, "what was written");
                        if is_write {
                            word.write_volatile(value);
                        }
                    }
                    times.push(begin.elapsed());
                }
            }
            let mean = times.iter().sum::<Duration>().as_nanos() as f64 / times.len() as f64 / 1e3;
            let (p50, p99) = summary(times);
            let what = if is_write { "writes" } else { "reads" };
            println!(
                "  {name}, {what}: {mean:.2}, {p50:.2}, {p99:.2}; {} waits",
                pager.statistics().full_waits
            );
        }
    }
}

fn sequential(pages: usize) {
    println!("sequential reads, a quarter local, GB/s without and with prefetch (degree 32)");
    for (name, delivery) in
        [("handler thread", Delivery::Thread), ("in the faulting thread", Delivery::Inline)]
    {
        let mut speeds = [Vec::new(), Vec::new()];
        for _ in 0..3 {
            for (with, speeds) in speeds.iter_mut().enumerate() {
                let store = Arc::new(HeapStore::new((pages * PAGE_BYTES) as u64).expect("memory"));
                let options = options(pages / 4, delivery, Waiting::Sleep, 32 * with);
                let Some((_pager, base)) = away(store, &options, pages) else { return };
                let begin = Instant::now();
                let mut sum = 0u64;
                for word in 0..pages * PAGE_BYTES / 64 {
                    // SAFETY: mapped by `away`; a word of each cache line.
                    sum = sum
                        .wrapping_add(unsafe { base.add(word * 64).cast::<u64>().read_volatile() });
                }
                assert_eq!(sum, (pages as u64 * (pages as u64 + 1)) / 2, "what was written");
                speeds.push((pages * PAGE_BYTES) as f64 / begin.elapsed().as_secs_f64() / 1e9);
            }
        }
        let [without, with] = speeds.map(median);
        println!("  {name}: {without:.2}, {with:.2}, ratio {:.1}", with / without);
    }
}

fn main() {
    let pages = std::env::var("RACKMEM_BENCH_PAGES")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(4096);
    // Cargo adds `--bench`; another argument is a part of the names of those that are to run.
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let parts: [(&str, &dyn Fn()); 5] = [
        ("page-in", &|| random_page_in(pages)),
        ("page-in-tcp", &|| network::random_page_in(pages.min(2048))),
        ("pressure", &|| under_pressure(pages)),
        ("sequential", &|| sequential(4 * pages)),
        ("sequential-tcp", &|| network::sequential(4 * pages)),
    ];
    for (name, measure) in parts {
        if wanted.as_ref().is_none_or(|wanted| name.contains(wanted.as_str())) {
            measure();
        }
    }
}
