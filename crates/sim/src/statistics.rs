//! What statistics and other fields of reports mean: `statistics.toml`, which `rackmem sim stats` prints.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

/// A statistic, or another field of a report.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Statistic {
    /// Path of the part and name, indices left out: `node[].rmc.maq.hits`.
    pub path: String,
    /// What is counted, or the unit of the value.
    pub unit: String,
    /// The counting part, the events, and the interval.
    pub meaning: String,
}

/// All statistics and fields.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Schema {
    /// Members of a report's `stats`.
    pub statistic: Vec<Statistic>,
    /// Its other members.
    pub field: Vec<Statistic>,
}

/// The schema of this version of the model.
pub fn schema() -> &'static Schema {
    static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
        let none = Schema { statistic: vec![], field: vec![] };
        toml::from_str(include_str!("statistics.toml")).unwrap_or(none)
    });
    &SCHEMA
}

impl Schema {
    /// Whether reports can have a statistic of this path, with indices or without.
    pub fn has(&self, path: &str) -> bool {
        let path = without_indices(path);
        self.statistic.iter().any(|known| known.path == path)
    }

    /// Whether there are statistics whose path ends so.
    pub fn has_end(&self, end: &str) -> bool {
        let end = without_indices(end);
        self.statistic.iter().any(|known| known.path.ends_with(&end))
    }
}

/// A path with `[]` for every `[12]`.
pub fn without_indices(path: &str) -> String {
    let mut plain = String::new();
    let mut is_inside = false;
    for c in path.chars() {
        match c {
            '[' => is_inside = true,
            ']' => is_inside = false,
            c if is_inside && c.is_ascii_digit() => continue,
            _ => {}
        }
        plain.push(c);
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_has_each_path_once_and_says_what_it_means() {
        let schema = schema();
        assert!(schema.statistic.len() > 100 && schema.field.len() > 50);
        let mut paths: Vec<&str> = schema.statistic.iter().map(|one| one.path.as_str()).collect();
        paths.sort_unstable();
        paths.dedup();
        assert_eq!(paths.len(), schema.statistic.len());
        for one in schema.statistic.iter().chain(&schema.field) {
            assert!(!one.unit.is_empty() && one.meaning.len() > 10, "{}", one.path);
        }
    }

    #[test]
    fn paths_are_known_with_indices_and_without() {
        assert_eq!(without_indices("node[12].core[3].loads"), "node[].core[].loads");
        assert!(schema().has("node[0].rmc.maq.hits") && schema().has("rrpp.lines"));
        assert!(schema().has_end("rmc.requests") && schema().has_end("[1].remote_stores"));
        assert!(!schema().has("rrpp.lies") && !schema().has_end(".none"));
    }
}
