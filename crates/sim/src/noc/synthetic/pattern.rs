//! Traffic patterns: the destinations of each endpoint's packets.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::super::error::SpecError;
use super::super::spec::Spec;
use super::super::topology::Shape;
use super::ExperimentError;
use super::matrix::Matrix;

/// The rule that gives a packet its destination.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Form", into = "Form")]
pub enum Pattern {
    /// Every endpoint, oneself included, with the same probability.
    Uniform,
    /// The endpoint at the place mirrored at the diagonal.
    Transpose,
    /// The endpoint whose number has all bits inverted.
    BitComplement,
    /// A share of the packets to one of the hot spots, the others uniform.
    HotSpot(HotSpots),
    /// Almost half way round in each dimension.
    Tornado,
    /// The next endpoint in each dimension.
    Neighbour,
    /// As a matrix says, which also divides the load between the sources.
    Matrix(Matrix),
}

/// Endpoints that get more than others.
#[derive(Clone, Debug, PartialEq)]
pub struct HotSpots {
    /// Share of all packets that goes to them.
    pub share: f64,
    /// Their numbers; without any, it is the endpoint in the middle of the numbers.
    pub endpoints: Vec<u16>,
}

/// A pattern in a file: its name, or its matrix.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Form {
    Name(String),
    Matrix { matrix: Matrix },
}

const NAMES: [&str; 6] =
    ["uniform", "transpose", "bit-complement", "hot-spot", "tornado", "neighbour"];
/// Share of packets to hot spots if none is given.
const HOT_SHARE: f64 = 0.2;

impl Pattern {
    /// Destinations by source for a network; empty if they are drawn.
    pub(super) fn table(&self, spec: &Spec) -> Result<Vec<u16>, ExperimentError> {
        let (shape, each) = (&spec.topology, spec.concentration);
        let (size, endpoints) = (dimensions(shape), spec.endpoints());
        let needs = |needs| {
            let topology = shape.to_string();
            Err(ExperimentError::PatternNeeds { pattern: self.to_string(), topology, needs })
        };
        match self {
            Pattern::Transpose if size[0] != size[1] || size[2] != 1 => {
                return needs("as many rows as columns");
            }
            Pattern::BitComplement if !endpoints.is_power_of_two() => {
                return needs("a power of two of endpoints");
            }
            Pattern::BitComplement => {
                return Ok((0..endpoints as u16).rev().collect());
            }
            Pattern::Uniform | Pattern::HotSpot(_) | Pattern::Matrix(_) => return Ok(Vec::new()),
            _ => {}
        }
        // Routers have their places; the endpoint at the other router has the same number there.
        let to = |src: usize| self.fixed_destination(src / each, size) * each + src % each;
        Ok((0..endpoints).map(|src| to(src) as u16).collect())
    }

    fn fixed_destination(&self, src: usize, size: [usize; 3]) -> usize {
        let place = [src % size[0], src / size[0] % size[1], src / size[0] / size[1]];
        let shifted = |by: &dyn Fn(usize) -> usize| {
            let at = |d: usize| (place[d] + by(size[d])) % size[d];
            (at(2) * size[1] + at(1)) * size[0] + at(0)
        };
        match self {
            Pattern::Transpose => place[0] * size[0] + place[1],
            Pattern::Tornado => shifted(&|length| length.div_ceil(2) - 1),
            Pattern::Neighbour => shifted(&|length| 1 % length),
            _ => unreachable!("not a place for each place"),
        }
    }
}

/// Endpoints per dimension; one long row where there is no other order.
fn dimensions(shape: &Shape) -> [usize; 3] {
    match *shape {
        Shape::Mesh { columns, rows } | Shape::FlatFly { columns, rows } => [columns, rows, 1],
        Shape::Torus { size, .. } => size,
        Shape::ChipMesh { .. }
        | Shape::Crossbar { .. }
        | Shape::NocOut { .. }
        | Shape::Edges(_) => [shape.endpoints(), 1, 1],
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pattern::Uniform => f.write_str("uniform"),
            Pattern::Transpose => f.write_str("transpose"),
            Pattern::BitComplement => f.write_str("bit-complement"),
            Pattern::HotSpot(HotSpots { share, endpoints }) => {
                write!(f, "hot-spot:{share}")?;
                let numbers: Vec<String> = endpoints.iter().map(u16::to_string).collect();
                if numbers.is_empty() { Ok(()) } else { write!(f, ":{}", numbers.join(",")) }
            }
            Pattern::Tornado => f.write_str("tornado"),
            Pattern::Neighbour => f.write_str("neighbour"),
            Pattern::Matrix(_) => f.write_str("matrix"),
        }
    }
}

impl FromStr for Pattern {
    type Err = ExperimentError;

    fn from_str(text: &str) -> Result<Pattern, ExperimentError> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        match name {
            "hot-spot" => hot_spots(text, rest).map(Pattern::HotSpot),
            "uniform" if rest.is_empty() => Ok(Pattern::Uniform),
            "transpose" if rest.is_empty() => Ok(Pattern::Transpose),
            "bit-complement" if rest.is_empty() => Ok(Pattern::BitComplement),
            "tornado" if rest.is_empty() => Ok(Pattern::Tornado),
            "neighbour" if rest.is_empty() => Ok(Pattern::Neighbour),
            _ => Err(SpecError::Unknown {
                what: "traffic pattern",
                name: text.to_owned(),
                known: &NAMES,
            }
            .into()),
        }
    }
}

/// Reads `SHARE:ENDPOINT,...`, of which both may be missing.
fn hot_spots(text: &str, rest: &str) -> Result<HotSpots, ExperimentError> {
    let bad = || ExperimentError::BadHotSpots { text: text.to_owned() };
    let (share, numbers) = rest.split_once(':').unwrap_or((rest, ""));
    let share = if share.is_empty() { HOT_SHARE } else { share.parse().map_err(|_| bad())? };
    let numbers = numbers.split(',').filter(|number| !number.is_empty());
    let endpoints = numbers.map(str::parse).collect::<Result<_, _>>().map_err(|_| bad())?;
    if !(0.0..=1.0).contains(&share) {
        return Err(bad());
    }
    Ok(HotSpots { share, endpoints })
}

impl TryFrom<Form> for Pattern {
    type Error = ExperimentError;

    fn try_from(form: Form) -> Result<Pattern, ExperimentError> {
        match form {
            Form::Name(name) => name.parse(),
            Form::Matrix { matrix } => Ok(Pattern::Matrix(matrix)),
        }
    }
}

impl From<Pattern> for Form {
    fn from(pattern: Pattern) -> Form {
        match pattern {
            Pattern::Matrix(matrix) => Form::Matrix { matrix },
            other => Form::Name(other.to_string()),
        }
    }
}
