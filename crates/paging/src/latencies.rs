//! Durations: counts by size, from which quantiles are read.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Parts into which each power of two is cut: a quantile is off by an eighth at most.
const PARTS: usize = 8;

/// Durations by size, in nanoseconds.
pub(crate) struct Latencies([AtomicU64; 64 * PARTS]);

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

/// The place at which a duration is counted.
fn place(ns: u64) -> usize {
    if ns < PARTS as u64 {
        return ns as usize;
    }
    let shift = ns.ilog2() - PARTS.ilog2();
    (shift as usize) * PARTS + (ns >> shift) as usize
}

/// The longest duration that is counted at a place.
fn longest(place: usize) -> u64 {
    if place < 2 * PARTS {
        return place as u64;
    }
    let shift = place / PARTS - 1;
    (((place % PARTS + PARTS) as u64 + 1) << shift) - 1
}

impl Latencies {
    /// One more.
    pub(crate) fn record(&self, took: Duration) {
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX >> 1);
        self.0[place(ns)].fetch_add(1, Ordering::Relaxed);
    }

    /// The time in nanoseconds that `share` of all did not exceed; 0 if there were none.
    pub(crate) fn quantile(&self, share: f64) -> u64 {
        let counts = self.0.each_ref().map(|count| count.load(Ordering::Relaxed));
        let all: u64 = counts.iter().sum();
        let wanted = ((all as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        for (place, count) in counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return longest(place);
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_duration_has_a_place_and_loses_little() {
        let mut before = 0;
        for ns in (0..2000).chain([1 << 20, (1 << 40) + 12345, u64::MAX >> 1]) {
            let here = place(ns);
            assert!(here >= before, "{ns}");
            before = here;
            assert!(longest(here) >= ns && longest(here) <= ns + ns / 8, "{ns}: {}", longest(here));
        }
    }

    #[test]
    fn quantiles_are_those_of_what_was_counted() {
        let latencies = Latencies::default();
        assert_eq!(latencies.quantile(0.5), 0);
        for us in 1..=100 {
            latencies.record(Duration::from_micros(us));
        }
        for (share, us) in [(0.5, 50), (0.99, 99), (1.0, 100)] {
            let ns = latencies.quantile(share);
            assert!((us * 1000..=us * 1125).contains(&ns), "{share}: {ns}");
        }
    }
}
