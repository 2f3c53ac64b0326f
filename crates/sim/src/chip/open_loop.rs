//! Times of reads that do not wait for others: an open loop.

use crate::engine::{Cycle, Random};
use crate::machine::Machine;
use crate::machine::spec;

/// The times of a core's reads. As nothing depends on those behind the next one, they are drawn as they are
/// taken: a backlog of any length takes no memory.
#[derive(Clone, Debug)]
pub struct Arrivals {
    /// Time of the next read, which may be past.
    next: f64,
    mean_gap: f64,
    process: spec::Arrivals,
    random: Random,
}

impl Arrivals {
    /// Those of a core, if the machine has a rate.
    pub fn of(number: u16, nid: u16, machine: &Machine) -> Option<Arrivals> {
        let workload = &machine.workload;
        if workload.rate == 0.0 {
            return None;
        }
        // Another stream than that of the reads' places.
        let stream = 1 << 63 | u64::from(nid) << 32 | u64::from(number);
        let mut random = Random::new(machine.seed, stream);
        let mean_gap = machine.clock_ghz * 1e3 / workload.rate;
        let next = match workload.arrivals {
            spec::Arrivals::Poisson => gap(mean_gap, &mut random),
            spec::Arrivals::Fixed => mean_gap * random.unit(),
        };
        Some(Arrivals { next, mean_gap, process: workload.arrivals, random })
    }

    /// The cycle of the next read.
    pub fn next(&self) -> Cycle {
        self.next.ceil() as Cycle
    }

    /// Takes it; its cycle.
    pub fn take(&mut self) -> Cycle {
        let at = self.next();
        self.next += match self.process {
            spec::Arrivals::Poisson => gap(self.mean_gap, &mut self.random),
            spec::Arrivals::Fixed => self.mean_gap,
        };
        at
    }
}

/// The time between two events of a Poisson process.
fn gap(mean: f64, random: &mut Random) -> f64 {
    -mean * (1.0 - random.unit()).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrivals(process: spec::Arrivals, core: u16) -> Vec<f64> {
        let mut machine = Machine::default();
        // A read every 80 cycles.
        (machine.workload.rate, machine.workload.arrivals) = (25.0, process);
        let mut arrivals = Arrivals::of(core, 0, &machine).unwrap();
        (0..20_000).map(|_| arrivals.take() as f64).collect()
    }

    #[test]
    fn reads_come_at_their_rate_by_chance_or_at_equal_distances() {
        for (process, spread) in [(spec::Arrivals::Poisson, 80.0), (spec::Arrivals::Fixed, 0.0)] {
            let times = arrivals(process, 3);
            let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
            let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
            let square = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>();
            let deviation = (square / gaps.len() as f64).sqrt();
            assert!((mean - 80.0).abs() < 2.0, "{process:?}: {mean}");
            assert!((deviation - spread).abs() < 3.0, "{process:?}: {deviation}");
            assert_ne!(times[0], arrivals(process, 4)[0], "cores are independent");
        }
        assert!(Arrivals::of(0, 0, &Machine::default()).is_none());
    }
}
