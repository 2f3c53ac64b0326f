//! Time: picoseconds, because the clocks of a node and of its links have no common period.

pub type Ps = u64;

/// A time of a machine file in picoseconds.
pub fn ps(ns: f64) -> Ps {
    (ns * 1000.0).round() as Ps
}

/// A clock whose first edge is at time 0.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    period_ps: f64,
}

impl Clock {
    pub fn of_mhz(mhz: f64) -> Clock {
        Clock { period_ps: 1e6 / mhz }
    }

    /// The first edge at or after a time.
    #[inline]
    pub fn edge(&self, at: Ps) -> Ps {
        self.at(self.count(at))
    }

    /// Number of the first edge at or after a time.
    #[inline]
    pub fn count(&self, at: Ps) -> u64 {
        // A rounded edge must not be taken for a time just after the edge.
        ((at as f64 - 0.5) / self.period_ps).ceil().max(0.0) as u64
    }

    /// Time of an edge, by its number.
    #[inline]
    pub fn at(&self, edge: u64) -> Ps {
        (edge as f64 * self.period_ps).round() as Ps
    }

    #[inline]
    pub fn cycles(&self, count: u32) -> Ps {
        (f64::from(count) * self.period_ps).round() as Ps
    }
}
