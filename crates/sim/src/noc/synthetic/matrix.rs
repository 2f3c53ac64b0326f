//! Traffic matrices: how much every source sends to every destination.

use serde::{Deserialize, Serialize};

use super::ExperimentError;

/// First line of a list.
const HEADER: &str = "src,dst,weight";

/// Weights by source and destination; only their relation counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Matrix {
    /// Source, destination and weight, which is more than 0.
    entries: Vec<(u16, u16, f64)>,
}

impl Matrix {
    /// Reads a matrix for a network of so many endpoints. It has a row of weights for each source, or it is
    /// a list with a source, a destination and a weight in each line. The first line says which: it is a list if
    /// that is `src,dst,weight`, or has three numbers and the network another number of endpoints. Numbers are
    /// separated by commas or blanks; what follows `#` is a comment.
    ///
    /// # Errors
    /// The first line that is not as it must be, or there is no traffic.
    pub fn parse(text: &str, file: &str, endpoints: usize) -> Result<Matrix, ExperimentError> {
        let content = |line: &str| {
            let line = line.split('#').next().unwrap_or("");
            let fields = line.split([',', ' ', '\t', '\r']).filter(|field| !field.is_empty());
            fields.map(str::to_owned).collect::<Vec<_>>()
        };
        let mut lines: Vec<(usize, Vec<String>)> = text
            .lines()
            .map(content)
            .enumerate()
            .filter(|(_, fields)| !fields.is_empty())
            .collect();
        let first = lines.first().map_or(&[][..], |(_, fields)| fields);
        let has_header = first.join(",").eq_ignore_ascii_case(HEADER);
        let is_list = has_header || endpoints != 3 && first.len() == 3;
        if has_header {
            lines.remove(0);
        }
        let bad = |line: usize, expected: String| ExperimentError::BadMatrix {
            file: file.to_owned(),
            line,
            expected,
        };
        let mut entries = Vec::new();
        for (row, (line, fields)) in lines.iter().enumerate() {
            let bad = |expected| bad(line + 1, expected);
            if is_list {
                let entry = list_entry(fields, endpoints);
                entries.push(entry.ok_or_else(|| {
                    let last = endpoints.saturating_sub(1);
                    bad(format!(
                        "a source and a destination from 0 to {last}, and a weight from 0 on"
                    ))
                })?);
                continue;
            }
            let weights: Option<Vec<f64>> = fields.iter().map(|field| weight(field)).collect();
            let weights = weights.filter(|row| row.len() == endpoints).ok_or_else(|| {
                bad(format!("{endpoints} weights from 0 on, one for each destination"))
            })?;
            if row >= endpoints {
                return Err(bad(format!("no more than {endpoints} rows, one for each source")));
            }
            let entry = |(dst, weight)| (row as u16, dst as u16, weight);
            entries.extend(weights.into_iter().enumerate().map(entry));
        }
        let end = text.lines().count();
        if !is_list && lines.len() < endpoints {
            return Err(bad(end, format!("{endpoints} rows, one for each source")));
        }
        entries.retain(|&(_, _, weight)| weight > 0.0);
        if entries.is_empty() {
            return Err(bad(end, "a weight that is more than 0".to_owned()));
        }
        entries.sort_by_key(|&(src, dst, _)| (src, dst));
        Ok(Matrix { entries })
    }

    /// A power of two by which weights become such that sums of them are numbers, and precise: only their relation
    /// counts.
    fn scale(&self, endpoints: usize) -> f64 {
        let weights = || self.entries.iter().map(|&(_, _, weight)| weight);
        let most = weights().sum::<f64>() * endpoints as f64;
        match weights().fold(0.0, f64::max) {
            _ if most.is_infinite() => 2_f64.powi(-64),
            largest if largest < 2_f64.powi(-900) => 2_f64.powi(900),
            _ => 1.0,
        }
    }

    /// The destinations to draw from, for a network of so many endpoints.
    pub(super) fn draws(&self, endpoints: usize) -> Result<Draws, ExperimentError> {
        let known = |&(src, dst, weight): &(u16, u16, f64)| {
            usize::from(src.max(dst)) < endpoints && weight > 0.0 && weight.is_finite()
        };
        if self.entries.is_empty() || !self.entries.iter().all(known) {
            return Err(ExperimentError::MatrixNeeds { endpoints });
        }
        // A file of `--json` may have them in any order.
        let mut entries = self.entries.clone();
        let scale = self.scale(endpoints);
        entries.sort_by_key(|&(src, dst, _)| (src, dst));
        let mut sums = vec![0.0; endpoints];
        let mut cumulative = Vec::with_capacity(entries.len());
        let mut starts = vec![0; endpoints + 1];
        for (src, dst, weight) in entries {
            let src = usize::from(src);
            sums[src] += weight * scale;
            cumulative.push((dst, sums[src]));
            starts[src + 1] = cumulative.len();
        }
        // Sources that send nothing end where the one before ends.
        for src in 0..endpoints {
            starts[src + 1] = starts[src + 1].max(starts[src]);
        }
        Ok(Draws { starts, cumulative, sums })
    }
}

fn weight(field: &str) -> Option<f64> {
    field.parse().ok().filter(|weight: &f64| weight.is_finite() && *weight >= 0.0)
}

fn list_entry(fields: &[String], endpoints: usize) -> Option<(u16, u16, f64)> {
    let [src, dst, share] = fields else { return None };
    let endpoint =
        |field: &String| field.parse().ok().filter(|&number: &u16| usize::from(number) < endpoints);
    Some((endpoint(src)?, endpoint(dst)?, weight(share)?))
}

/// A matrix, ready to draw destinations from.
#[derive(Clone, Debug)]
pub(super) struct Draws {
    /// By source: where its destinations begin.
    starts: Vec<usize>,
    /// Destination, and the sum of the source's weights up to and including it.
    cumulative: Vec<(u16, f64)>,
    /// By source: the sum of its weights.
    sums: Vec<f64>,
}

impl Draws {
    /// Weight of the source that sends most, over the mean of all.
    pub fn peak(&self) -> f64 {
        self.largest() * self.sums.len() as f64 / self.sums.iter().sum::<f64>()
    }

    /// By source: what it sends, over what the one sends that sends most.
    pub fn shares(&self) -> Vec<f64> {
        self.sums.iter().map(|sum| sum / self.largest()).collect()
    }

    fn largest(&self) -> f64 {
        self.sums.iter().copied().fold(0.0, f64::max)
    }

    /// The destination of a source that sends, for a number from 0 to 1.
    #[inline]
    pub fn destination(&self, src: usize, unit: f64) -> u16 {
        let row = &self.cumulative[self.starts[src]..self.starts[src + 1]];
        let at = row.partition_point(|&(_, up_to)| up_to <= unit * self.sums[src]);
        row[at.min(row.len() - 1)].0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_lists_say_the_same() {
        let rows = Matrix::parse("0 1 # first\n\n2, 0.5\n", "m", 2).unwrap();
        let list = Matrix::parse("1,0,2\n1,1,0.5\n0,1,1\n0,0,0\n", "m", 2).unwrap();
        assert_eq!(rows, list);
        let headed = Matrix::parse("src,dst,weight\n0 2 1\n", "m", 3).unwrap();
        assert_eq!(headed.entries, [(0, 2, 1.0)]);
        assert_eq!(Matrix::parse("0 2 1\n0 0 0\n0 0 0", "m", 3).unwrap().entries.len(), 2);
    }

    #[test]
    fn a_bad_line_is_named() {
        for (text, line, expected) in [
            ("0 1\n2\n", 2, "2 weights"),
            ("0 1\n2 x\n", 2, "2 weights"),
            ("0 1\n1 -1\n", 2, "2 weights"),
            ("0 1\n", 1, "2 rows"),
            ("0 1\n1 0\n1 0\n", 3, "no more than 2 rows"),
            ("# list\n0,1,1\n0,2,1\n", 3, "from 0 to 1"),
            ("0,1,1\n0,1\n", 2, "from 0 to 1"),
            ("0,1,inf\n", 1, "a weight"),
            ("0 0\n0 0\n", 2, "more than 0"),
            ("", 0, "2 rows"),
        ] {
            let error = Matrix::parse(text, "m.txt", 2).unwrap_err().to_string();
            assert!(
                error.contains(&format!("m.txt:{line}")) && error.contains(expected),
                "{error}"
            );
        }
    }

    /// A row with too few weights is one of a matrix all the same, and so is a line of a list with too many numbers.
    #[test]
    fn the_first_line_says_whether_it_is_a_list() {
        for (text, line, expected) in [
            ("0 1 1 1\n1 0 1\n1 1 0 1\n1 1 1 0\n", 2, "4 weights"),
            ("0 1 1 1\n1 0 1 1\n1 1 0 1\n1 1 1\n", 4, "4 weights"),
            ("0,1,1\n0,1,1,1\n", 2, "a source and a destination"),
        ] {
            let error = Matrix::parse(text, "m", 4).unwrap_err().to_string();
            assert!(error.contains(&format!("m:{line}: expected {expected}")), "{error}");
        }
        let headed = Matrix::parse("SRC, DST, weight\n0 2 1\n", "m", 4).unwrap();
        assert_eq!(headed.entries, [(0, 2, 1.0)]);
    }

    /// The order of the entries of a file does not matter.
    #[test]
    fn entries_may_come_in_any_order() {
        let ordered = Matrix { entries: vec![(0, 1, 1.0), (0, 2, 3.0), (2, 0, 2.0), (2, 3, 1.0)] };
        let mut reversed = ordered.clone();
        reversed.entries.reverse();
        let [ordered, reversed] = [ordered, reversed].map(|matrix| matrix.draws(4).unwrap());
        for (src, unit) in [(0, 0.1), (0, 0.24), (0, 0.26), (0, 0.9), (2, 0.1), (2, 0.9)] {
            let drawn = [&ordered, &reversed].map(|draws| draws.destination(src, unit));
            assert_eq!(drawn[0], drawn[1], "{src} {unit}");
        }
    }

    #[test]
    fn weights_may_be_of_any_size() {
        for unit in ["e-320", "e307", "e300", ""] {
            let text =
                format!("0,1,1{unit}\n0,2,3{unit}\n2,0,2{unit}\n3,1,2{unit}\n3,2,15{unit}\n");
            let draws = Matrix::parse(&text, "m", 4).unwrap().draws(4).unwrap();
            assert!((draws.peak() - 4.0 * 17.0 / 23.0).abs() < 1e-3, "{unit}: {}", draws.peak());
            let shares = draws.shares();
            assert!((shares[0] - 4.0 / 17.0).abs() < 1e-3 && shares[3] == 1.0, "{shares:?}");
            let drawn = [0.0, 0.249, 0.251, 0.999].map(|share| draws.destination(0, share));
            assert_eq!(drawn, [1, 1, 2, 2], "{unit}");
        }
    }

    #[test]
    fn destinations_are_drawn_by_weight() {
        let matrix = Matrix::parse("0,1,1\n0,2,3\n2,0,2\n", "m", 4).unwrap();
        let draws = matrix.draws(4).unwrap();
        assert_eq!(draws.shares(), [1.0, 0.0, 0.5, 0.0]);
        assert!((draws.peak() - 4.0 * 4.0 / 6.0).abs() < 1e-12);
        let drawn: Vec<u16> =
            [0.0, 0.249, 0.25, 0.999].map(|unit| draws.destination(0, unit)).to_vec();
        assert_eq!(drawn, [1, 1, 2, 2]);
        assert!(matrix.draws(2).is_err());
    }
}
