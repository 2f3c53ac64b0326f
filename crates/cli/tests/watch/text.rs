//! A strict reader of Prometheus' text format 0.0.4.

use std::collections::BTreeMap;

/// Samples by name and labels, as they are written.
#[derive(Debug, Default, PartialEq)]
pub struct Page {
    samples: BTreeMap<String, f64>,
    kinds: BTreeMap<String, String>,
}

impl Page {
    /// Reads a page.
    ///
    /// # Panics
    /// A line is not as the format wants it: each family has HELP, TYPE and its samples, in this order and once.
    pub fn parse(text: &str) -> Page {
        assert!(text.is_empty() || text.ends_with('\n'), "the last line has no end");
        let mut page = Page::default();
        let mut helped = None;
        let mut family: Option<(String, String)> = None;
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').expect(line);
                assert!(is_name(name) && !help.trim().is_empty(), "{line}");
                helped = Some(name.to_owned());
                family = None;
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').expect(line);
                assert_eq!(helped.take().as_deref(), Some(name), "TYPE follows HELP: {line}");
                assert!(["counter", "gauge"].contains(&kind), "{line}");
                assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
                let before = page.kinds.insert(name.to_owned(), kind.to_owned());
                assert_eq!(before, None, "a second family of this name: {line}");
                family = Some((name.to_owned(), kind.to_owned()));
            } else {
                let (name, kind) = family.as_ref().unwrap_or_else(|| panic!("no TYPE: {line}"));
                page.sample(line, name, kind);
            }
        }
        page
    }

    fn sample(&mut self, line: &str, family: &str, kind: &str) {
        let (series, value) = line.rsplit_once(' ').expect(line);
        let labels = series.strip_prefix(family).expect(line);
        let labels = labels.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).expect(line);
        check_labels(labels);
        let value: f64 = value.parse().expect(line);
        assert!(value.is_finite() && value >= 0.0 && value.is_sign_positive(), "{line}");
        assert!(kind == "gauge" || value.fract() == 0.0, "{line}");
        assert_eq!(self.samples.insert(series.to_owned(), value), None, "a second time: {line}");
    }

    /// Value of `NAME{LABELS}`.
    pub fn value(&self, series: &str) -> f64 {
        *self.samples.get(series).unwrap_or_else(|| panic!("no {series} in {self:#?}"))
    }

    pub fn has(&self, series: &str) -> bool {
        self.samples.contains_key(series)
    }

    /// Names of families.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.kinds.keys().map(String::as_str)
    }

    /// Checks that all counters of an earlier page are there, and not less.
    pub fn follows(&self, earlier: &Page) {
        for (series, before) in &earlier.samples {
            let name = series.split('{').next().expect("a name");
            if earlier.kinds[name] == "counter" {
                let now = self.value(series);
                assert!(now >= *before, "{series} fell from {before} to {now}");
            }
        }
    }
}

fn is_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    name.starts_with("rackmem_") && name.chars().all(allowed)
}

/// Checks `name="value",...`, in which values escape what would end them.
fn check_labels(text: &str) {
    let mut rest = text;
    loop {
        let (name, value) = rest.split_once("=\"").unwrap_or_else(|| panic!("labels {text}"));
        assert!(["rack", "node", "lender"].contains(&name), "label {name} in {text}");
        let mut end = None;
        let mut characters = value.char_indices();
        while let Some((at, character)) = characters.next() {
            match character {
                '"' => {
                    end = Some(at);
                    break;
                }
                '\\' => {
                    let (_, escaped) = characters.next().expect(text);
                    assert!(['\\', '"', 'n'].contains(&escaped), "{text}");
                }
                _ => {}
            }
        }
        rest = &value[end.unwrap_or_else(|| panic!("a value without end in {text}")) + 1..];
        match rest.strip_prefix(',') {
            Some(next) => rest = next,
            None if rest.is_empty() => return,
            None => panic!("labels {text}"),
        }
    }
}

#[test]
fn wrong_pages_are_noticed() {
    let head = "# HELP rackmem_a_total A.\n# TYPE rackmem_a_total counter\n";
    let good = format!("{head}rackmem_a_total{{rack=\"a\\\"}}\",node=\"1\"}} 7\n");
    assert_eq!(Page::parse(&good).samples.len(), 1);
    for wrong in [
        "rackmem_a_total{rack=\"a\"} 7\n".to_owned(),
        format!("{head}rackmem_a_total{{rack=\"a\"}} seven\n"),
        format!("{head}rackmem_a_total{{rack=\"a\"}} -0\n"),
        format!("{head}rackmem_a_total{{rack=\"a\"}} 7.5\n"),
        format!("{head}rackmem_a_total{{pid=\"7\"}} 7\n"),
        format!("{head}rackmem_a_total{{rack=\"a}} 7\n"),
        format!("{head}rackmem_a_total{{rack=\"a\"}} 7"),
        format!("{head}rackmem_b_total{{rack=\"a\"}} 7\n"),
        format!("{head}{head}"),
        format!("{good}rackmem_a_total{{rack=\"a\\\"}}\",node=\"1\"}} 8\n"),
        head.replace("counter", "gauge"),
    ] {
        let parsed = std::panic::catch_unwind(|| Page::parse(&wrong));
        assert!(parsed.is_err(), "{wrong}");
    }
}
