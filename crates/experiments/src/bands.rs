//! Bands: what a claim's quantity is over the ranges of the parameters that the paper leaves open.
//!
//! A study of sensitivity makes the file of a paper, `experiments/bands/<paper>.toml`; a reproduction shows the bands
//! beside what it measures.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::outcome::{Judged, Outcome};
use crate::variation::Variation;
use crate::verdict::Verdict;

/// Range of a claim's quantity: of a value, or of an ordering left over right.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Band {
    /// Least of all variations, in the unit of the quantity.
    pub least: f64,
    /// Most of all variations, in the unit of the quantity.
    pub most: f64,
    /// The parameter and its value that move it the most.
    pub by: String,
    /// Parameters and their values with which the verdict is another one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<String>,
}

/// The bands of a paper.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bands {
    /// Amount of work that they come from: `quick` or `full`.
    #[serde(default)]
    pub effort: String,
    /// What was tried, as `path = value`.
    #[serde(default)]
    pub tried: Vec<String>,
    /// By name of the claim, without that of the paper.
    #[serde(default)]
    pub claims: BTreeMap<String, Band>,
}

impl Bands {
    /// Reads a file.
    ///
    /// # Errors
    /// It is not TOML, or has a key too many or too few.
    pub fn parse(text: &str) -> Result<Bands, String> {
        toml::from_str(text).map_err(|error| error.message().trim().replace('\n', ", "))
    }

    /// The bands of all claims that count or were fitted, from the outcome as the machines are and with each variation.
    pub fn of(base: &Outcome, varied: &[(&Variation, Outcome)]) -> Bands {
        let mut claims = BTreeMap::new();
        let judged = base.claims.iter().enumerate();
        for (at, judged) in judged.filter(|(_, judged)| judged.counted || judged.fitted.is_some()) {
            let others = varied.iter().map(|(variation, other)| (*variation, &other.claims[at]));
            if let (Some((_, id)), Some(band)) = (judged.id.split_once('/'), band(judged, others)) {
                claims.insert(id.to_owned(), band);
            }
        }
        Bands {
            effort: base.effort.to_owned(),
            tried: varied.iter().map(|(variation, _)| variation.name()).collect(),
            claims,
        }
    }
}

fn band<'a>(
    judged: &Judged,
    others: impl Iterator<Item = (&'a Variation, &'a Judged)>,
) -> Option<Band> {
    let value = judged.quantity()?;
    let mut band = Band { least: value, most: value, ..Band::default() };
    let mut farthest = 0.0;
    for (variation, other) in others {
        let turns = |verdict| verdict == Verdict::Missed || verdict == Verdict::Holds;
        if other.verdict != judged.verdict && turns(other.verdict) {
            band.turns.push(variation.name());
        }
        let Some(other) = other.quantity() else { continue };
        (band.least, band.most) = (band.least.min(other), band.most.max(other));
        if (other - value).abs() > farthest {
            farthest = (other - value).abs();
            band.by = variation.name();
        }
    }
    Some(band)
}
