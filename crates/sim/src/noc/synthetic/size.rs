//! Lengths of packets.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::ExperimentError;
use crate::engine::Random;
use crate::section::text_form;

/// Lengths of packets with their shares: `5`, or `1:0.5,5:0.5`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PacketSize {
    /// Length in flits, and its weight as it was given.
    weights: Vec<(u8, f64)>,
    /// Length in flits, and the share of packets up to and including it.
    cumulative: Vec<(u8, f64)>,
}

impl PacketSize {
    /// All packets have this length, at least 1.
    pub fn fixed(flits: u8) -> PacketSize {
        let only = vec![(flits.max(1), 1.0)];
        PacketSize { weights: only.clone(), cumulative: only }
    }

    /// Mean length in flits.
    pub fn mean_flits(&self) -> f64 {
        let mut before = 0.0;
        let part = |&(flits, up_to): &(u8, f64)| {
            let share = up_to - before;
            before = up_to;
            f64::from(flits) * share
        };
        self.cumulative.iter().map(part).sum()
    }

    /// The length of the next packet.
    #[inline]
    pub fn draw(&self, random: &mut Random) -> u8 {
        if let [(flits, _)] = self.cumulative[..] {
            return flits;
        }
        let unit = random.unit();
        let found = self.cumulative.iter().find(|&&(_, up_to)| unit < up_to);
        found.or(self.cumulative.last()).map_or(1, |&(flits, _)| flits)
    }
}

impl FromStr for PacketSize {
    type Err = ExperimentError;

    fn from_str(text: &str) -> Result<PacketSize, ExperimentError> {
        let bad = || ExperimentError::BadPacketSize { text: text.to_owned() };
        let (mut weights, mut sizes) = (Vec::new(), Vec::new());
        let mut total = 0.0;
        for part in text.split(',') {
            let (flits, share) = part.split_once(':').unwrap_or((part, "1"));
            let flits: u8 = flits.trim().parse().map_err(|_| bad())?;
            let share: f64 = share.trim().parse().map_err(|_| bad())?;
            if flits == 0 || !share.is_finite() || share <= 0.0 {
                return Err(bad());
            }
            total += share;
            weights.push((flits, share));
            sizes.push((flits, total));
        }
        let scale = |(flits, up_to): (u8, f64)| (flits, up_to / total);
        Ok(PacketSize { weights, cumulative: sizes.into_iter().map(scale).collect() })
    }
}

impl fmt::Display for PacketSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [(flits, _)] = self.cumulative[..] {
            return write!(f, "{flits}");
        }
        let part = |(flits, weight): &(u8, f64)| format!("{flits}:{weight}");
        f.write_str(&self.weights.iter().map(part).collect::<Vec<_>>().join(","))
    }
}

text_form!(PacketSize, ExperimentError);
