//! Bands: what a claim's quantity is over the ranges of the parameters that the paper leaves open.
//!
//! A study of sensitivity makes the file of a paper, `experiments/bands/<paper>.toml`; a reproduction shows the bands
//! beside what it measures.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Effort;
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

    /// The band of a claim, if it comes from as much work.
    pub fn of_claim(&self, effort: Effort, id: &str) -> Option<Band> {
        self.claims.get(id).filter(|_| self.effort == effort.name()).cloned()
    }

    /// As a file, a line for each claim, with four significant digits.
    pub fn to_toml(&self) -> String {
        let lines = |all: &[String]| -> String {
            all.iter().map(|one| format!("    {one:?},\n")).collect()
        };
        let mut text =
            format!("effort = {:?}\ntried = [\n{}]\n\n[claims]\n", self.effort, lines(&self.tried));
        for (id, Band { least, most, by, turns }) in &self.claims {
            let (least, most) = (four_digits(*least), four_digits(*most));
            text += &format!("{id:?} = {{ least = {least:?}, most = {most:?}, by = {by:?}");
            if !turns.is_empty() {
                text += &format!(", turns = {turns:?}");
            }
            text += " }\n";
        }
        text
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
        // A run that failed says nothing.
        let Some(value_then) = other.quantity() else { continue };
        let turns = |verdict| verdict == Verdict::Missed || verdict == Verdict::Holds;
        if other.verdict != judged.verdict && turns(other.verdict) {
            band.turns.push(variation.name());
        }
        (band.least, band.most) = (band.least.min(value_then), band.most.max(value_then));
        if (value_then - value).abs() > farthest {
            farthest = (value_then - value).abs();
            band.by = variation.name();
        }
    }
    Some(band)
}

fn four_digits(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let band = |turns: &[&str]| Band {
            least: 0.0123456,
            most: 6.02e23,
            by: "noc.vcs = 4".to_owned(),
            turns: turns.iter().map(|&one| one.to_owned()).collect(),
        };
        let claims = [("fig7/peak", band(&[])), ("fig7/order", band(&["seed = 2", "noc.vcs = 4"]))];
        let bands = Bands {
            effort: "quick".to_owned(),
            tried: vec!["noc.vcs = 4".to_owned(), "ni.completion = acknowledged".to_owned()],
            claims: claims.into_iter().map(|(id, band)| (id.to_owned(), band)).collect(),
        };
        let read = Bands::parse(&bands.to_toml()).unwrap();
        assert_eq!((&read.effort, &read.tried), (&bands.effort, &bands.tried));
        assert_eq!(read.claims["fig7/order"].turns, bands.claims["fig7/order"].turns);
        assert_eq!(read.claims["fig7/peak"], Band { least: 0.01235, ..band(&[]) });
        assert!(Bands::parse("efort = 1").unwrap_err().contains("unknown field"));
    }
}
