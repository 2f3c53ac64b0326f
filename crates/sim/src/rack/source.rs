//! The source of a node's requests, in place of cores.

use std::collections::VecDeque;

use super::pattern::Destinations;
use crate::engine::{Cycle, Random};
use crate::machine::Machine;
use crate::machine::spec::TrafficLoop;

/// The requests of a node that have been posted and that the RGP has not taken.
#[derive(Clone, Debug)]
pub(super) struct Source {
    node: u16,
    destinations: Destinations,
    random: Random,
    posted: Posted,
}

#[derive(Clone, Debug)]
enum Posted {
    /// Those that wait; there are never more than the loop has.
    Closed(VecDeque<Cycle>),
    /// Cycle of the next one, which may be past: as nothing depends on those behind it, they are drawn as
    /// they are taken, and a backlog of any length takes no memory.
    Open { next: Cycle, gap: Gap },
    /// Nothing, for ever.
    Nothing,
}

/// A geometric distribution of the cycles between two requests.
#[derive(Clone, Copy, Debug)]
struct Gap {
    /// 1 / ln(1 - probability of a request in a cycle), or 0 if there is one in every cycle.
    scale: f64,
}

impl Gap {
    fn draw(self, random: &mut Random) -> Cycle {
        1 + ((1.0 - random.unit()).ln() * self.scale) as Cycle
    }
}

impl Source {
    /// The source of a node with these destinations.
    pub fn new(machine: &Machine, node: u16, destinations: Destinations) -> Source {
        let traffic = &machine.traffic;
        let mut random = Random::new(machine.seed, u64::from(node));
        let posted = match traffic.r#loop {
            TrafficLoop::Closed => {
                let outstanding = traffic.outstanding as usize;
                Posted::Closed(VecDeque::from(vec![0; outstanding]))
            }
            TrafficLoop::Open => {
                let bytes_per_cycle = traffic.offered_gbps / machine.clock_ghz;
                let probability = bytes_per_cycle / f64::from(machine.workload.transfer_bytes);
                let scale = if probability < 1.0 { 1.0 / (-probability).ln_1p() } else { 0.0 };
                let gap = Gap { scale };
                Posted::Open { next: gap.draw(&mut random) - 1, gap }
            }
        };
        Source { node, destinations, random, posted }
    }

    /// The cycle in which the request was posted, or will be, that the RGP takes next.
    #[inline]
    pub fn next(&self) -> Option<Cycle> {
        match &self.posted {
            Posted::Closed(posted) => posted.front().copied(),
            Posted::Open { next, .. } => Some(*next),
            Posted::Nothing => None,
        }
    }

    /// Takes it; its destination.
    #[inline]
    pub fn take(&mut self) -> u16 {
        match &mut self.posted {
            Posted::Closed(posted) => {
                posted.pop_front();
            }
            Posted::Open { next, gap } => *next += gap.draw(&mut self.random),
            Posted::Nothing => {}
        }
        self.destinations.draw(self.node, &mut self.random)
    }

    /// Posts nothing any more, and drops requests that the RGP has not taken.
    pub fn stop(&mut self) {
        self.posted = Posted::Nothing;
    }

    #[inline]
    pub fn completed(&mut self, now: Cycle) {
        if let Posted::Closed(posted) = &mut self.posted {
            posted.push_back(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(settings: impl Fn(&mut Machine)) -> Source {
        let mut machine = Machine::default();
        settings(&mut machine);
        Source::new(&machine, 3, Destinations::Fixed(7))
    }

    #[test]
    fn a_closed_loop_posts_as_requests_complete() {
        let mut source = source(|machine| machine.traffic.outstanding = 2);
        assert_eq!((source.next(), source.take()), (Some(0), 7));
        source.take();
        assert_eq!(source.next(), None);
        source.completed(90);
        assert_eq!(source.next(), Some(90));
    }

    #[test]
    fn an_open_loop_posts_at_its_rate() {
        let mut source = source(|machine| {
            machine.traffic.r#loop = TrafficLoop::Open;
            machine.traffic.offered_gbps = 4.0;
            machine.workload.transfer_bytes = 64;
        });
        // 2 bytes a cycle: a request of 64 bytes every 32 cycles.
        (0..20_000).for_each(|_| assert_eq!(source.take(), 7));
        let mean = source.next().unwrap() as f64 / 20_000.0;
        assert!((mean - 32.0).abs() < 1.0, "{mean}");
    }
}
