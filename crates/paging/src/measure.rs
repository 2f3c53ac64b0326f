//! Fastest options on this machine, measured by a small pager of each kind.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Delivery, PAGE_BYTES, Pager, PagerOptions, Placement, Waiting};
use rackmem_lease::store::HeapStore;

/// Faults of one measurement.
const FAULTS: usize = 256;
/// Time that a spinning handler of the measurement spins.
const SPIN: Duration = Duration::from_micros(50);

/// Replaces `Auto` by the fastest option.
pub(super) fn choose(options: &PagerOptions) -> PagerOptions {
    let mut options = choose_delivery(options);
    if options.evictor == Placement::Auto && options.delivery == Delivery::Inline {
        let time = |evictor| under_pressure(&PagerOptions { evictor, ..options.clone() });
        let (beside, anywhere) = (time(Placement::Beside), time(Placement::Anywhere));
        let is_beside = beside.unwrap_or(Duration::MAX) <= anywhere.unwrap_or(Duration::MAX);
        options.evictor = if is_beside { Placement::Beside } else { Placement::Anywhere };
    }
    options
}

fn choose_delivery(options: &PagerOptions) -> PagerOptions {
    let mut options = options.clone();
    if options.delivery != Delivery::Auto
        && (options.delivery == Delivery::Inline || options.waiting != Waiting::Auto)
    {
        return options;
    }
    let sleeping = median(Delivery::Thread, Waiting::Sleep);
    let waits = match options.waiting {
        Waiting::Auto => vec![
            (Waiting::Sleep, sleeping),
            (Waiting::Spin(SPIN), median(Delivery::Thread, Waiting::Spin(SPIN))),
        ],
        chosen => vec![(chosen, median(Delivery::Thread, chosen))],
    };
    let (waiting, by_thread) = waits
        .into_iter()
        .min_by_key(|(_, time)| time.unwrap_or(Duration::MAX))
        .expect("at least one");
    options.waiting = waiting;
    if options.delivery == Delivery::Auto {
        let inline = median(Delivery::Inline, Waiting::Sleep).unwrap_or(Duration::MAX);
        let is_faster = inline < by_thread.unwrap_or(Duration::MAX);
        options.delivery = if is_faster { Delivery::Inline } else { Delivery::Thread };
    }
    options
}

/// Median time of a page's first touch. `None`: it cannot be had here.
fn median(delivery: Delivery, waiting: Waiting) -> Option<Duration> {
    let cache_bytes = 4 * FAULTS * PAGE_BYTES;
    let options = PagerOptions { cache_bytes, delivery, waiting, ..PagerOptions::default() };
    let mut times = touch(&options)?;
    times.sort_unstable();
    times.get(FAULTS / 2).copied()
}

/// Time of all touches while as many pages leave. `None`: it cannot be had here.
fn under_pressure(options: &PagerOptions) -> Option<Duration> {
    let cache_bytes = FAULTS / 2 * PAGE_BYTES;
    let options = PagerOptions { cache_bytes, ..options.clone() };
    touch(&options).map(|times| times.iter().sum())
}

/// Times of first touches of pages, after as many that are not timed.
fn touch(options: &PagerOptions) -> Option<Vec<Duration>> {
    let pages = 2 * FAULTS;
    let store = Arc::new(HeapStore::new((pages * PAGE_BYTES) as u64).ok()?);
    let options = PagerOptions { prefetch_pages: 0, ..options.clone() };
    let pager = Pager::start(store, &options).ok()?;
    let base = pager.map(pages * PAGE_BYTES).ok()?;
    let times = (0..pages).map(|page| {
        let begin = Instant::now();
        // SAFETY: a page that was just mapped.
        unsafe { base.add(page * PAGE_BYTES).write_volatile(1) };
        begin.elapsed()
    });
    Some(times.skip(FAULTS).collect())
}
