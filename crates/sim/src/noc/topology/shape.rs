//! Names and sizes of topologies, as machine files and the command line write them.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::super::error::SpecError;
use super::edges::EdgeList;

/// A topology and its size: `mesh:8x8`, `torus:8x8x8`, `flatfly:8x8`, `crossbar:16`, `chip-mesh`,
/// `noc-out`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Form", into = "Form")]
pub enum Shape {
    /// `mesh:KxL`: a router and an endpoint at each of K columns and L rows.
    Mesh {
        /// K: routers in a row.
        columns: usize,
        /// L: routers in a column.
        rows: usize,
    },
    /// `chip-mesh:CxR`: C columns of tiles between a column of network interfaces and a column of
    /// memory controllers. Endpoints: tiles (row * C + column), then NIs, then MCs, by row.
    ChipMesh {
        /// C: columns of tiles, without the two at the edges.
        columns: usize,
        /// R: rows, each with an NI at one end and a memory controller at the other.
        rows: usize,
    },
    /// `torus:KxL` or `torus:KxLxM`.
    Torus {
        /// Routers per ring, by dimension; 1 for a dimension that is not there.
        size: [usize; 3],
        /// 2 or 3.
        dimensions: usize,
    },
    /// `flatfly:KxL`: a flattened butterfly; each router is linked to all of its row and column.
    /// `flatfly:K` is one row.
    FlatFly {
        /// K: routers in a row.
        columns: usize,
        /// L: routers in a column; 1 for `flatfly:K`.
        rows: usize,
    },
    /// `crossbar:N`: one router.
    Crossbar {
        /// N: endpoints, each at a port of its own.
        ports: usize,
    },
    /// `noc-out:CxR`: rows of cores above and below a row of LLC tiles. Endpoints: cores
    /// (row * C + column), then the LLC tiles, then as many memory controllers.
    NocOut {
        /// Columns, which is also the number of LLC tiles.
        columns: usize,
        /// Rows of cores, half of them above the LLC.
        rows: usize,
    },
    /// Routers, links and endpoints as a list says; it has no name, and files hold its lines.
    Edges(Arc<EdgeList>),
}

/// A topology in a file: its name and size, or the lines of a list of links.
#[derive(Serialize, Deserialize)]
#[serde(untagged, expecting = "a topology such as \"mesh:8x8\"")]
enum Form {
    Name(String),
    Edges { edges: Vec<String> },
}

const NAMES: [&str; 7] = ["mesh", "chip-mesh", "torus", "flatfly", "crossbar", "noc-out", "edges"];

impl Shape {
    /// Number of endpoints.
    pub fn endpoints(&self) -> usize {
        match *self {
            Shape::Edges(ref edges) => edges.endpoints(),
            Shape::Mesh { columns, rows } | Shape::FlatFly { columns, rows } => {
                columns.saturating_mul(rows)
            }
            Shape::ChipMesh { columns, rows } => (columns.saturating_add(2)).saturating_mul(rows),
            Shape::Torus { size: [k, l, m], .. } => k.saturating_mul(l).saturating_mul(m),
            Shape::Crossbar { ports } => ports,
            Shape::NocOut { columns, rows } => rows.saturating_add(2).saturating_mul(columns),
        }
    }

    /// Ports of the router that has most.
    pub fn ports(&self) -> usize {
        match *self {
            Shape::Edges(ref edges) => edges.ports(),
            Shape::Mesh { .. } | Shape::ChipMesh { .. } => 5,
            Shape::Torus { dimensions, .. } => 1 + 2 * dimensions,
            Shape::FlatFly { columns, rows } => columns + rows - 1,
            Shape::Crossbar { ports } => ports,
            Shape::NocOut { columns, .. } => (columns + 4).max(columns.div_ceil(2) + columns + 1),
        }
    }

    /// Whether both orders, XY and YX, are free of deadlock on it.
    pub fn is_mesh(&self) -> bool {
        matches!(self, Shape::Mesh { .. } | Shape::ChipMesh { .. })
    }

    /// Whether a router can have several endpoints.
    pub fn has_concentration(&self) -> bool {
        match self {
            Shape::Mesh { .. } | Shape::Torus { .. } | Shape::FlatFly { .. } => true,
            Shape::Edges(edges) => !edges.names_endpoints(),
            _ => false,
        }
    }

    /// Whether packets go along its dimensions one after the other.
    pub fn has_dimensions(&self) -> bool {
        !matches!(self, Shape::Crossbar { .. } | Shape::NocOut { .. } | Shape::Edges(_))
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Shape::Mesh { columns, rows } => write!(f, "mesh:{columns}x{rows}"),
            Shape::ChipMesh { columns, rows } => write!(f, "chip-mesh:{columns}x{rows}"),
            Shape::Torus { size: [k, l, _], dimensions: 2 } => write!(f, "torus:{k}x{l}"),
            Shape::Torus { size: [k, l, m], .. } => write!(f, "torus:{k}x{l}x{m}"),
            Shape::FlatFly { columns, rows: 1 } => write!(f, "flatfly:{columns}"),
            Shape::FlatFly { columns, rows } => write!(f, "flatfly:{columns}x{rows}"),
            Shape::Crossbar { ports } => write!(f, "crossbar:{ports}"),
            Shape::NocOut { columns, rows } => write!(f, "noc-out:{columns}x{rows}"),
            Shape::Edges(ref edges) => edges.fmt(f),
        }
    }
}

impl FromStr for Shape {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Shape, SpecError> {
        let (name, size) = match text.split_once(':') {
            Some((name, size)) => (name, Some(size)),
            None => (text, None),
        };
        let read = |expected| numbers(text, size, expected);
        let shape = match name {
            "mesh" => two(text, &read("mesh:8x8")?, "mesh:8x8")
                .map(|(columns, rows)| Shape::Mesh { columns, rows }),
            "chip-mesh" if size.is_none() => Ok(Shape::ChipMesh { columns: 8, rows: 8 }),
            "chip-mesh" => two(text, &read("chip-mesh:8x8")?, "chip-mesh:8x8")
                .map(|(columns, rows)| Shape::ChipMesh { columns, rows }),
            "torus" => torus(text, &read("torus:8x8 or torus:8x8x8")?),
            "flatfly" => match *read("flatfly:8 or flatfly:8x8")? {
                [columns] => Ok(Shape::FlatFly { columns, rows: 1 }),
                [columns, rows] => Ok(Shape::FlatFly { columns, rows }),
                _ => Err(bad(text, "flatfly:8 or flatfly:8x8")),
            },
            "crossbar" => match *read("crossbar:16")? {
                [ports] => Ok(Shape::Crossbar { ports }),
                _ => Err(bad(text, "crossbar:16")),
            },
            "noc-out" if size.is_none() => Ok(Shape::NocOut { columns: 8, rows: 8 }),
            "noc-out" => noc_out(text, &read("noc-out:8x8")?),
            "edges" => Err(SpecError::EdgesAreAFile),
            _ => Err(SpecError::Unknown { what: "topology", name: name.to_owned(), known: &NAMES }),
        }?;
        Ok(shape)
    }
}

fn bad(text: &str, expected: &'static str) -> SpecError {
    SpecError::BadSize { text: text.to_owned(), expected }
}

fn numbers(
    text: &str,
    size: Option<&str>,
    expected: &'static str,
) -> Result<Vec<usize>, SpecError> {
    let size = size.ok_or_else(|| bad(text, expected))?;
    let parsed: Result<Vec<usize>, _> = size.split('x').map(str::parse).collect();
    let numbers = parsed.map_err(|_| bad(text, expected))?;
    if numbers.contains(&0) {
        return Err(SpecError::TooSmall { text: text.to_owned(), least: least(text) });
    }
    Ok(numbers)
}

fn least(text: &str) -> &'static str {
    match text.split(':').next() {
        Some("torus") => "torus:2x2",
        Some("noc-out") => "noc-out:2x2",
        Some("crossbar") => "crossbar:1",
        Some("flatfly") => "flatfly:1",
        Some("chip-mesh") => "chip-mesh:1x1",
        _ => "mesh:1x1",
    }
}

fn two(text: &str, numbers: &[usize], expected: &'static str) -> Result<(usize, usize), SpecError> {
    match *numbers {
        [columns, rows] => Ok((columns, rows)),
        _ => Err(bad(text, expected)),
    }
}

fn torus(text: &str, numbers: &[usize]) -> Result<Shape, SpecError> {
    if numbers.contains(&1) {
        return Err(SpecError::TooSmall { text: text.to_owned(), least: "torus:2x2" });
    }
    match *numbers {
        [k, l] => Ok(Shape::Torus { size: [k, l, 1], dimensions: 2 }),
        [k, l, m] => Ok(Shape::Torus { size: [k, l, m], dimensions: 3 }),
        _ => Err(bad(text, "torus:8x8 or torus:8x8x8")),
    }
}

fn noc_out(text: &str, numbers: &[usize]) -> Result<Shape, SpecError> {
    let (columns, rows) = two(text, numbers, "noc-out:8x8")?;
    if columns < 2 || rows < 2 {
        return Err(SpecError::TooSmall { text: text.to_owned(), least: "noc-out:2x2" });
    }
    if rows % 2 != 0 {
        return Err(bad(text, "noc-out:8x8 with an even number of rows"));
    }
    Ok(Shape::NocOut { columns, rows })
}

impl TryFrom<Form> for Shape {
    type Error = SpecError;

    fn try_from(form: Form) -> Result<Shape, SpecError> {
        match form {
            Form::Name(name) => name.parse(),
            Form::Edges { edges } => {
                let list = EdgeList::parse(edges.join("\n").as_bytes(), "edges")?;
                Ok(Shape::Edges(Arc::new(list)))
            }
        }
    }
}

impl From<Shape> for Form {
    fn from(shape: Shape) -> Form {
        match shape {
            Shape::Edges(edges) => Form::Edges { edges: edges.lines() },
            other => Form::Name(other.to_string()),
        }
    }
}
