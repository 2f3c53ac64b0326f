//! What a paper says, claim by claim.

use serde::Deserialize;

use crate::failure::{Failure, Result};

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

fn equal() -> Relation {
    Relation::Equal
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
    /// Unit of the value; words may leave it out.
    #[serde(default)]
    pub unit: String,
    /// How the measured value has to relate to it; words are or are not so.
    #[serde(default = "equal")]
    pub relation: Relation,
    /// The paper's words.
    pub quote: String,
    /// What the reader of the paper found odd.
    pub note: Option<String>,
}

impl Claim {
    /// Its name without that of the paper.
    pub fn short_id(&self) -> &str {
        self.id.split_once('/').map_or(&self.id, |(_, rest)| rest)
    }
}

#[derive(Deserialize)]
struct File {
    claim: Vec<Claim>,
}

/// All claims of a paper, in its order.
///
/// # Errors
/// The file, which is part of this program, is damaged.
pub fn parse(published: &str) -> Result<Vec<Claim>> {
    let file: File = toml::from_str(published)
        .map_err(|error| Failure::new(format!("claims of a paper: {error}")))?;
    Ok(file.claim)
}
