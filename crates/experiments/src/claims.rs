//! The claims of a paper.

use serde::Deserialize;

/// Kind of a claim.
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
    /// A parameter of the machine.
    Parameter,
}

/// Relation of a measured value to the published one, or of the left side of an ordering to the right one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Relation {
    /// Equal within the tolerance of the claim's class.
    #[serde(rename = "=")]
    Equal,
    /// Equal within the wider tolerance of claims that the paper marks as approximate.
    #[serde(rename = "~")]
    About,
    /// The measured value, or the left side, is smaller.
    #[serde(rename = "<")]
    Less,
    /// The measured value, or the left side, is larger.
    #[serde(rename = ">")]
    More,
    /// The measured value, or the left side, is not larger.
    #[serde(rename = "<=")]
    AtMost,
    /// The measured value, or the left side, is not smaller.
    #[serde(rename = ">=")]
    AtLeast,
}

impl Relation {
    /// Sign of the relation in the files of `published/`.
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

/// One sentence or figure of a paper that can be true or false, as `published/` has it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Name.
    pub id: String,
    /// Section, figure or table of the paper.
    #[serde(rename = "where")]
    pub place: String,
    /// Kind of the claim.
    pub kind: Kind,
    /// Measured quantity.
    pub metric: String,
    /// On what.
    pub config: String,
    /// Published value; orderings and words have none.
    pub value: Option<f64>,
    /// Unit of the value; words may leave it out.
    #[serde(default)]
    pub unit: String,
    /// Relation that the measured value must have to it; words are or are not so.
    #[serde(default = "equal")]
    pub relation: Relation,
    /// The paper's words.
    pub quote: String,
    /// Remark of the reader of the paper about an oddity.
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
/// The file is not TOML, or a claim has a key too many or too few.
pub fn parse(published: &str) -> Result<Vec<Claim>, String> {
    let file: File =
        toml::from_str(published).map_err(|error| format!("claims of a paper: {error}"))?;
    Ok(file.claim)
}
