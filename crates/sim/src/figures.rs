//! Counters under the paths of their parts, which can be read again later and compared.

use std::collections::BTreeMap;

use crate::report::Stats;

/// A reading of a counter.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Figure {
    sum: f64,
    /// For a mean or a share: what `sum` is divided by.
    over: Option<f64>,
}

/// Readings of all counters, by path.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures(BTreeMap<String, Figure>);

impl Figures {
    /// Reads a counter.
    pub fn insert(&mut self, path: String, count: f64) {
        self.0.insert(path, Figure { sum: count, over: None });
    }

    /// Adds to a counter's reading, which is 0 at first.
    pub fn add(&mut self, path: &str, count: f64) {
        let zero = Figure { sum: 0.0, over: None };
        self.0.entry(path.to_owned()).or_insert(zero).sum += count;
    }

    /// Reads a mean or a share: a sum, and the number or time that it is to be divided by.
    pub fn mean(&mut self, path: String, sum: f64, over: f64) {
        self.0.insert(path, Figure { sum, over: Some(over) });
    }

    /// Reads `part.name`: the total over the readings `part[0].name`, `part[1].name` and so on. Returns its sum.
    pub fn total(&mut self, part: &str, name: &str) -> f64 {
        let (first, end) = (format!("{part}["), format!("].{name}"));
        let parts = self.0.range(first.clone()..).take_while(|(path, _)| path.starts_with(&first));
        let readings = parts.filter(|(path, _)| path.ends_with(&end)).map(|(_, reading)| *reading);
        let zero = Figure { sum: 0.0, over: None };
        let total = readings.fold(zero, |all, one| Figure {
            sum: all.sum + one.sum,
            over: one.over.map(|over| over + all.over.unwrap_or(0.0)),
        });
        self.0.insert(format!("{part}.{name}"), total);
        total.sum
    }

    /// Adds readings under another path: `prefix` in front of theirs.
    pub fn add_under(&mut self, prefix: &str, readings: Figures) {
        let named =
            readings.0.into_iter().map(|(path, figure)| (format!("{prefix}{path}"), figure));
        self.0.extend(named);
    }

    /// What was counted since an earlier reading.
    pub fn since(&self, before: &Figures) -> Stats {
        let value = |(path, figure): (&String, &Figure)| {
            let none = Figure { sum: 0.0, over: None };
            let earlier = before.0.get(path).unwrap_or(&none);
            let over = figure.over.map(|over| over - earlier.over.unwrap_or(0.0));
            (path.clone(), Figure { sum: figure.sum - earlier.sum, over }.value())
        };
        self.0.iter().map(value).collect()
    }
}

impl Figure {
    fn value(self) -> f64 {
        self.over.map_or(self.sum, |over| self.sum / over.max(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_means_are_those_since_the_earlier_reading() {
        let reading = |count, sum, over| {
            let mut figures = Figures::default();
            figures.insert("a".to_owned(), count);
            figures.add("a", 1.0);
            figures.mean("b".to_owned(), sum, over);
            figures
        };
        let (before, after) = (reading(10.0, 100.0, 4.0), reading(15.0, 190.0, 7.0));
        let since: Vec<(String, f64)> = after.since(&before).into_iter().collect();
        assert_eq!(since, [("a".to_owned(), 5.0), ("b".to_owned(), 30.0)]);
        let whole: Vec<f64> = before.since(&Figures::default()).into_values().collect();
        assert_eq!(whole, [11.0, 25.0]);
        let mut figures = Figures::default();
        for home in 0..3 {
            figures.insert(format!("home[{home}].hits"), 5.0);
            figures.mean(format!("home[{home}].wait_mean"), 8.0, 2.0);
        }
        assert_eq!(
            (figures.total("home", "hits"), figures.total("home", "wait_mean")),
            (15.0, 24.0)
        );
        let totals = figures.since(&Figures::default());
        assert_eq!((totals["home.hits"], totals["home.wait_mean"]), (15.0, 4.0));
        let mut named = Figures::default();
        named.add_under("node[0].", before);
        assert_eq!(named.since(&Figures::default())["node[0].b"], 25.0);
    }
}
