//! Traffic patterns: the destinations of each node's requests.

use crate::engine::Random;
use crate::machine::spec::{TrafficPattern, TrafficSpec};

/// The destinations of a node's requests.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Destinations {
    Fixed(u16),
    /// To any of all nodes but itself.
    Others {
        nodes: u16,
    },
    Among(Vec<u16>),
    /// A share to one node, the rest to any but itself.
    Hot {
        nodes: u16,
        /// Probability that a request goes to `node`, 0 to 1.
        share: f64,
        node: u16,
    },
}

impl Destinations {
    /// Those of a node on a torus of this size; `None` if the pattern gives it nobody but itself.
    pub fn new(spec: &TrafficSpec, size: [usize; 3], source: u16) -> Option<Destinations> {
        let nodes = size.iter().product::<usize>() as u16;
        let place = Place::of(source, size);
        let fixed = |node: u16| (node != source).then_some(Destinations::Fixed(node));
        match spec.pattern {
            TrafficPattern::Uniform => Some(Destinations::Others { nodes }),
            TrafficPattern::Neighbour => Some(Destinations::Among(place.neighbours())),
            TrafficPattern::HotSpot if spec.hot_node == source => {
                Some(Destinations::Others { nodes })
            }
            TrafficPattern::HotSpot => {
                Some(Destinations::Hot { nodes, share: spec.hot_share, node: spec.hot_node })
            }
            TrafficPattern::Transpose => fixed(place.rotated()),
            TrafficPattern::BitComplement => fixed(nodes - 1 - source),
            TrafficPattern::Tornado => fixed(place.shifted(|length| length.div_ceil(2) - 1)),
        }
    }

    #[inline]
    pub fn draw(&self, source: u16, random: &mut Random) -> u16 {
        match self {
            Destinations::Fixed(node) => *node,
            Destinations::Others { nodes } => other(source, *nodes, random),
            Destinations::Among(some) => some[random.below(some.len() as u64) as usize],
            Destinations::Hot { nodes, share, node } => {
                if random.unit() < *share {
                    *node
                } else {
                    other(source, *nodes, random)
                }
            }
        }
    }
}

/// Any node but this one.
#[inline]
fn other(source: u16, nodes: u16, random: &mut Random) -> u16 {
    let drawn = random.below(u64::from(nodes) - 1) as u16;
    if drawn < source { drawn } else { drawn + 1 }
}

struct Place {
    at: [usize; 3],
    size: [usize; 3],
}

impl Place {
    fn of(node: u16, size: [usize; 3]) -> Place {
        let node = usize::from(node);
        let at = [node % size[0], node / size[0] % size[1], node / size[0] / size[1]];
        Place { at, size }
    }

    fn number(&self, [x, y, z]: [usize; 3]) -> u16 {
        ((z * self.size[1] + y) * self.size[0] + x) as u16
    }

    fn neighbours(&self) -> Vec<u16> {
        let mut numbers = Vec::new();
        for (dimension, &length) in self.size.iter().enumerate().filter(|(_, length)| **length > 1)
        {
            for step in [1, length - 1] {
                let mut at = self.at;
                at[dimension] = (at[dimension] + step) % length;
                numbers.push(self.number(at));
            }
        }
        // On a ring of two, both ways lead to the same node.
        numbers.dedup();
        numbers
    }

    fn rotated(&self) -> u16 {
        let [x, y, z] = self.at;
        self.number(if self.size[2] == 1 { [y, x, 0] } else { [y, z, x] })
    }

    fn shifted(&self, by: impl Fn(usize) -> usize) -> u16 {
        let at = |d: usize| (self.at[d] + by(self.size[d])) % self.size[d];
        self.number([at(0), at(1), at(2)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: [usize; 3] = [4, 4, 4];

    fn of(pattern: TrafficPattern, source: u16) -> Option<Destinations> {
        Destinations::new(
            &TrafficSpec { pattern, hot_node: 5, ..TrafficSpec::default() },
            SIZE,
            source,
        )
    }

    #[test]
    fn patterns_are_what_their_names_say() {
        // Node 27 is at (3, 2, 1).
        let fixed = |node| Some(Destinations::Fixed(node));
        assert_eq!(of(TrafficPattern::Transpose, 27), fixed(2 + 4 + 3 * 16));
        assert_eq!(of(TrafficPattern::Transpose, 21), None);
        assert_eq!(of(TrafficPattern::BitComplement, 27), fixed(63 - 27));
        assert_eq!(of(TrafficPattern::Tornado, 27), fixed(3 * 4 + 2 * 16));
        let neighbours = Destinations::Among(vec![24, 26, 31, 23, 43, 11]);
        assert_eq!(of(TrafficPattern::Neighbour, 27), Some(neighbours));
    }

    #[test]
    fn nobody_sends_to_itself_and_the_hot_node_gets_its_share() {
        for (pattern, share) in
            [(TrafficPattern::Uniform, 1.0 / 63.0), (TrafficPattern::HotSpot, 0.2 + 0.8 / 63.0)]
        {
            let (to, mut random) = (of(pattern, 9).unwrap(), Random::new(1, 0));
            let drawn: Vec<u16> = (0..20_000).map(|_| to.draw(9, &mut random)).collect();
            let count = |node| drawn.iter().filter(|&&to| to == node).count() as f64 / 20_000.0;
            assert_eq!(count(9), 0.0);
            assert!((count(5) - share).abs() < 0.01, "{pattern:?}: {}", count(5));
            assert!(drawn.iter().all(|&to| to < 64));
        }
    }
}
