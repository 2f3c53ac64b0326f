//! Whether several threads are worth their waiting for each other.

use std::time::Duration;

/// Epochs after which times are compared,
const EPOCHS: u32 = 64;
/// or the time, if that is over before.
const TIME: Duration = Duration::from_millis(10);

/// Stretches between two tries of the other way: the least,
const SHORT: u32 = 4;
/// and the most, when the other way was no better again and again.
const LONG: u32 = 256;

/// The other way has to be so much better.
const BETTER: f64 = 0.95;

/// Measures epochs, and chooses between all threads and the leader alone. Now and then it tries the other way for a
/// stretch, as the load of the host changes.
pub struct Pace {
    is_together: bool,
    /// The way is a try.
    tries: bool,
    /// Of this stretch.
    epochs: u32,
    time: Duration,
    /// Of an epoch of the last stretch that was no try, in ns.
    cost_ns: f64,
    /// Stretches until the next try.
    until_try: u32,
    patience: u32,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace {
            is_together: true,
            tries: false,
            epochs: 0,
            time: Duration::ZERO,
            cost_ns: 0.0,
            until_try: 1,
            patience: SHORT,
        }
    }
}

impl Pace {
    /// Whether the next epoch is for all threads.
    pub fn is_together(&self) -> bool {
        self.is_together
    }

    pub fn epoch(&mut self, time: Duration) {
        self.epochs += 1;
        self.time += time;
        if self.epochs < EPOCHS && self.time < TIME {
            return;
        }
        let cost_ns = self.time.as_nanos() as f64 / f64::from(self.epochs);
        (self.epochs, self.time) = (0, Duration::ZERO);
        if self.tries {
            self.judge(cost_ns);
            return;
        }
        self.cost_ns = cost_ns;
        self.until_try -= 1;
        if self.until_try == 0 {
            self.tries = true;
            self.is_together = !self.is_together;
        }
    }

    fn judge(&mut self, cost_ns: f64) {
        let is_better = cost_ns < BETTER * self.cost_ns;
        if is_better {
            self.patience = SHORT;
        } else {
            self.is_together = !self.is_together;
            self.patience = (2 * self.patience).min(LONG);
        }
        self.tries = false;
        self.until_try = self.patience;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share of the epochs that all threads work on, if an epoch takes so many microseconds.
    fn share_together(pace: &mut Pace, alone_us: u64, together_us: u64) -> f64 {
        let mut together = 0;
        for _ in 0..200_000 {
            let is_together = pace.is_together();
            together += u32::from(is_together);
            pace.epoch(Duration::from_micros(if is_together { together_us } else { alone_us }));
        }
        f64::from(together) / 200_000.0
    }

    #[test]
    fn the_faster_way_is_taken_whatever_was_before() {
        let mut pace = Pace::default();
        assert!(share_together(&mut pace, 50, 30) > 0.98);
        // Both cores are busy: an epoch together waits for a thread without a core.
        assert!(share_together(&mut pace, 50, 4_000) < 0.01);
        assert!(share_together(&mut pace, 50, 30) > 0.9);
    }

    #[test]
    fn tries_cost_little() {
        let mut pace = Pace::default();
        let mut time_us = 0;
        for _ in 0..200_000 {
            let us = if pace.is_together() { 4_000 } else { 50 };
            time_us += us;
            pace.epoch(Duration::from_micros(us));
        }
        assert!(time_us < 200_000 * 50 * 11 / 10, "{time_us} us");
    }
}
