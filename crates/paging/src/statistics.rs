//! Counters of a pager: its faults, and pages that came and left.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters as the pager's threads keep them.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: AtomicU64,)*
        }

        /// Counters of a pager so far, and the present place of pages.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
        #[repr(C)]
        pub struct Statistics {
            $($(#[$doc])* pub $name: u64,)*
            /// Pages in local memory, those included that are about to leave.
            pub resident_pages: u64,
            /// Pages that occupy memory of the lender.
            pub slots_in_use: u64,
            /// Median time in nanoseconds from a fault to the delivery of its page by the lender.
            pub page_in_p50_ns: u64,
            /// The time that 99 of 100 of them did not exceed.
            pub page_in_p99_ns: u64,
        }

        impl Counters {
            pub(crate) fn read(&self) -> Statistics {
                Statistics {
                    $($name: self.$name.load(Ordering::Relaxed),)*
                    ..Statistics::default()
                }
            }
        }
    };
}

counters! {
    /// Faults that were answered.
    faults,
    /// Pages that were touched for the first time: zeros, for which the lender is not asked.
    first_touches,
    /// Pages that were read from the lender because of a fault.
    fetched,
    /// Pages that were read from the lender ahead of need.
    prefetched,
    /// Prefetched pages that were seen to be used (one of each batch is watched).
    prefetch_hits,
    /// Pages that were needed again on their way out, and came back without being read.
    rescued,
    /// Pages that left local memory.
    evicted,
    /// Pages that were written to the lender.
    written,
    /// Pages that left without being written, as the lender had them already.
    clean,
    /// Pages that left without being written, as they were zero.
    zero,
    /// Faults that waited because the local cache was full.
    full_waits,
    /// Pages by which local memory grew beyond its limit, as nothing could leave.
    overdrawn,
    /// Pages that could not be brought back: their users get SIGBUS.
    lost,
}

/// One more.
pub(crate) fn count(counter: &AtomicU64) {
    count_all(counter, 1);
}

/// `n` more.
pub(crate) fn count_all(counter: &AtomicU64, n: usize) {
    counter.fetch_add(n as u64, Ordering::Relaxed);
}
