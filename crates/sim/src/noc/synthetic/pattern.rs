//! Traffic patterns: the destinations of each endpoint's packets.

use std::fmt;
use std::str::FromStr;

use super::super::error::nearest;
use super::super::topology::Shape;
use super::ExperimentError;
use crate::engine::Random;

/// The rule that gives a packet its destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Every endpoint, oneself included, with the same probability.
    Uniform,
    /// The endpoint at the place mirrored at the diagonal.
    Transpose,
    /// The endpoint whose number has all bits inverted.
    BitComplement,
    /// A fifth of the packets to the endpoint in the middle of the numbers, the others uniform.
    HotSpot,
    /// Almost half way round in each dimension.
    Tornado,
    /// The next endpoint in each dimension.
    Neighbour,
}

const NAMES: [&str; 6] =
    ["uniform", "transpose", "bit-complement", "hot-spot", "tornado", "neighbour"];
const ALL: [Pattern; 6] = [
    Pattern::Uniform,
    Pattern::Transpose,
    Pattern::BitComplement,
    Pattern::HotSpot,
    Pattern::Tornado,
    Pattern::Neighbour,
];
/// Share of packets to the hot spot.
const HOT_SHARE: f64 = 0.2;

impl Pattern {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        NAMES[self as usize]
    }

    /// Destinations by source for a topology; empty if they are drawn.
    pub(super) fn table(self, shape: Shape) -> Result<Vec<u16>, ExperimentError> {
        let size = dimensions(shape);
        let endpoints = shape.endpoints();
        let fits = match self {
            Pattern::Transpose => size[0] == size[1] && size[2] == 1,
            Pattern::BitComplement => endpoints.is_power_of_two(),
            _ => true,
        };
        if !fits {
            let needs = match self {
                Pattern::Transpose => "as many rows as columns",
                _ => "a power of two of endpoints",
            };
            let topology = shape.to_string();
            return Err(ExperimentError::PatternNeeds { pattern: self, topology, needs });
        }
        let fixed = !matches!(self, Pattern::Uniform | Pattern::HotSpot);
        let sources = if fixed { 0..endpoints } else { 0..0 };
        Ok(sources.map(|src| self.fixed_destination(src, size, endpoints) as u16).collect())
    }

    fn fixed_destination(self, src: usize, size: [usize; 3], endpoints: usize) -> usize {
        let place = [src % size[0], src / size[0] % size[1], src / size[0] / size[1]];
        let shifted = |by: &dyn Fn(usize) -> usize| {
            let at = |d: usize| (place[d] + by(size[d])) % size[d];
            (at(2) * size[1] + at(1)) * size[0] + at(0)
        };
        match self {
            Pattern::Transpose => place[0] * size[0] + place[1],
            Pattern::BitComplement => endpoints - 1 - src,
            Pattern::Tornado => shifted(&|length| length.div_ceil(2) - 1),
            Pattern::Neighbour => shifted(&|length| 1 % length),
            Pattern::Uniform | Pattern::HotSpot => unreachable!("drawn for each packet"),
        }
    }

    /// A random destination.
    #[inline]
    pub(super) fn draw(self, src: u16, endpoints: u16, no_self: bool, random: &mut Random) -> u16 {
        if self == Pattern::HotSpot && random.unit() < HOT_SHARE {
            return endpoints / 2;
        }
        if !no_self || endpoints == 1 {
            return random.below(endpoints.into()) as u16;
        }
        let other = random.below(u64::from(endpoints) - 1) as u16;
        if other < src { other } else { other + 1 }
    }
}

/// Endpoints per dimension; one long row where there is no other order.
fn dimensions(shape: Shape) -> [usize; 3] {
    match shape {
        Shape::Mesh { columns, rows } | Shape::FlatFly { columns, rows } => [columns, rows, 1],
        Shape::Torus { size, .. } => size,
        Shape::ChipMesh { .. } | Shape::Crossbar { .. } | Shape::NocOut { .. } => {
            [shape.endpoints(), 1, 1]
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Pattern {
    type Err = ExperimentError;

    fn from_str(text: &str) -> Result<Pattern, ExperimentError> {
        ALL.into_iter().find(|pattern| pattern.name() == text).ok_or_else(|| {
            ExperimentError::UnknownPattern {
                name: text.to_owned(),
                nearest: nearest(text, &NAMES),
            }
        })
    }
}
