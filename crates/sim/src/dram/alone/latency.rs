use serde::Serialize;

use super::Tick;

/// From here on, only the sum and the largest are exact.
const EXACT: usize = 1 << 20;

/// Latencies of requests of a kind, in clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    /// Requests.
    pub count: u64,
    /// Mean in clocks of the channel.
    pub mean: f64,
    /// Half of the requests take no longer.
    pub median: Tick,
    /// 95 of 100 requests take no longer.
    pub p95: Tick,
    /// 99 of 100 requests take no longer.
    pub p99: Tick,
    /// The largest.
    pub max: Tick,
}

/// The number of requests of each latency.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    counts: Vec<u64>,
    total: u64,
    pub sum: u64,
    max: Tick,
}

impl Tally {
    #[inline]
    pub fn add(&mut self, latency: Tick) {
        let place = (latency as usize).min(EXACT);
        if place >= self.counts.len() {
            self.counts.resize((place + 1).next_power_of_two(), 0);
        }
        self.counts[place] += 1;
        self.total += 1;
        self.sum += latency;
        self.max = self.max.max(latency);
    }

    pub fn latency(&self) -> Latency {
        let at = |percent| self.percentile(percent);
        Latency {
            count: self.total,
            mean: self.sum as f64 / self.total.max(1) as f64,
            median: at(50),
            p95: at(95),
            p99: at(99),
            max: self.max,
        }
    }

    /// The smallest latency that so many of 100 do not exceed.
    fn percentile(&self, percent: u64) -> Tick {
        let rank = (self.total * percent).div_ceil(100);
        let mut seen = 0;
        for (latency, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank.max(1) && latency < EXACT {
                return latency as Tick;
            }
        }
        self.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_sorted_values() {
        let mut tally = Tally::default();
        assert_eq!(tally.latency(), Latency::default());
        (1..=200).rev().for_each(|latency| tally.add(latency));
        let expected =
            Latency { count: 200, mean: 100.5, median: 100, p95: 190, p99: 198, max: 200 };
        assert_eq!(tally.latency(), expected);
        tally.add(1 << 40);
        assert_eq!(tally.latency().max, 1 << 40);
        assert_eq!(tally.latency().p99, 199);
    }
}
