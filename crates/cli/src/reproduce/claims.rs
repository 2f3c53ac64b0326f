//! What a paper says, claim by claim.

use serde::Deserialize;

use crate::failure::{Failure, Result};

/// The claims of "Manycore Network Interfaces for In-Memory Rack-Scale Computing".
const MANYCORE_NI: &str = include_str!("../../../../published/manycore-ni.toml");

/// What all its claims' names begin with.
pub const PREFIX: &str = "manycore-ni/";

/// What kind of claim it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A measured value.
    Value,
    /// A ratio of two measured values.
    Ratio,
    /// A limit.
    Bound,
    /// One side is larger, smaller or like the other.
    Ordering,
    /// How the machine is made.
    Parameter,
}

/// How a measured value relates to the published one, or the left side of an ordering to the right
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Relation {
    /// Equal.
    #[serde(rename = "=")]
    Equal,
    /// About.
    #[serde(rename = "~")]
    About,
    /// Less.
    #[serde(rename = "<")]
    Less,
    /// More.
    #[serde(rename = ">")]
    More,
    /// At most.
    #[serde(rename = "<=")]
    AtMost,
    /// At least.
    #[serde(rename = ">=")]
    AtLeast,
}

impl Relation {
    /// As the file writes it.
    pub fn sign(self) -> &'static str {
        match self {
            Relation::Equal => "=",
            Relation::About => "~",
            Relation::Less => "<",
            Relation::More => ">",
            Relation::AtMost => "<=",
            Relation::AtLeast => ">=",
        }
    }
}

/// A claim.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Name.
    pub id: String,
    /// Where the paper says it.
    #[serde(rename = "where")]
    pub place: String,
    /// What kind of claim it is.
    pub kind: Kind,
    /// What is measured.
    pub metric: String,
    /// On what.
    pub config: String,
    /// Published value; orderings and words have none.
    pub value: Option<f64>,
    /// Unit of the value.
    pub unit: String,
    /// How the measured value has to relate to it.
    pub relation: Relation,
    /// The paper's words.
    pub quote: String,
    /// What the reader of the paper found odd.
    pub note: Option<String>,
}

impl Claim {
    /// Its name without that of the paper.
    pub fn short_id(&self) -> &str {
        self.id.strip_prefix(PREFIX).unwrap_or(&self.id)
    }
}

#[derive(Deserialize)]
struct File {
    claim: Vec<Claim>,
}

/// All claims of the paper, in its order.
///
/// # Errors
/// The file that is part of this program is damaged.
pub fn manycore_ni() -> Result<Vec<Claim>> {
    let file: File = toml::from_str(MANYCORE_NI)
        .map_err(|error| Failure::new(format!("published/manycore-ni.toml: {error}")))?;
    Ok(file.claim)
}
