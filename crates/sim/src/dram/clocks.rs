use super::Tick;
use crate::engine::Cycle;

/// The chip's clock and a channel's, both from time 0 on: so many ticks are exactly so many cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clocks {
    ticks: u64,
    cycles: u64,
}

impl Clocks {
    /// The clocks of a chip, taken to the kHz, and of a channel with periods of `tck_ps`.
    pub fn new(clock_ghz: f64, tck_ps: u64) -> Clocks {
        const PS_PER_MS: u64 = 1_000_000_000;
        let khz = (clock_ghz * 1e6).round().max(1.0) as u64;
        let (ticks, cycles) = (PS_PER_MS, khz * tck_ps);
        let common = gcd(ticks, cycles);
        Clocks { ticks: ticks / common, cycles: cycles / common }
    }

    /// The first tick that is not before a cycle: requests of the chip wait for it.
    #[inline]
    pub fn tick_from(&self, cycle: Cycle) -> Tick {
        scale(cycle, self.ticks, self.cycles, self.cycles - 1)
    }

    /// The last tick that is not after a cycle.
    #[inline]
    pub fn tick_by(&self, cycle: Cycle) -> Tick {
        scale(cycle, self.ticks, self.cycles, 0)
    }

    /// The first cycle that is not before a tick.
    #[inline]
    pub fn cycle_from(&self, tick: Tick) -> Cycle {
        scale(tick, self.cycles, self.ticks, self.ticks - 1)
    }
}

/// `(value * by + plus) / of`, whatever the product is.
#[inline]
fn scale(value: u64, by: u64, of: u64, plus: u64) -> u64 {
    match value.checked_mul(by).and_then(|product| product.checked_add(plus)) {
        Some(product) => product / of,
        None => ((u128::from(value) * u128::from(by) + u128::from(plus)) / u128::from(of)) as u64,
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn five_cycles_at_2_ghz_are_two_ticks_of_ddr3_1600() {
        let clocks = Clocks::new(2.0, 1250);
        assert_eq!(clocks, Clocks { ticks: 2, cycles: 5 });
        let ticks: Vec<Tick> = (0..7).map(|cycle| clocks.tick_from(cycle)).collect();
        assert_eq!(ticks, [0, 1, 1, 2, 2, 2, 3]);
        let ticks: Vec<Tick> = (0..7).map(|cycle| clocks.tick_by(cycle)).collect();
        assert_eq!(ticks, [0, 0, 0, 1, 1, 2, 2]);
        let cycles: Vec<Cycle> = (0..5).map(|tick| clocks.cycle_from(tick)).collect();
        assert_eq!(cycles, [0, 3, 5, 8, 10]);
        // A year of simulated time is no further off than its first second.
        let late = 2_000_000_000 * 31_536_000;
        assert_eq!(clocks.tick_from(late), late / 5 * 2);
    }

    proptest! {
        #[test]
        fn no_tick_is_missed(khz in 1_u64..10_000_000, tck_ps in 500_u64..4000, tick in 0_u64..1 << 50) {
            let clocks = Clocks::new(khz as f64 / 1e6, tck_ps);
            let cycle = clocks.cycle_from(tick);
            // A part that wakes then has seen the tick, and a cycle before that has not.
            prop_assert!(clocks.tick_by(cycle) >= tick);
            prop_assert!(cycle == 0 || clocks.tick_by(cycle - 1) < tick);
            prop_assert!(clocks.tick_from(cycle) >= clocks.tick_by(cycle));
        }
    }
}
