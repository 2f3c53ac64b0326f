//! Prometheus' text format 0.0.4.

use std::fmt::Write;

use crate::failure;
use crate::http::{Response, Server};

/// Type of the pages.
const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Grows until the process ends; its name ends with `_total`.
    Counter,
    /// Goes up and down.
    Gauge,
}

impl Kind {
    /// Its name in the text format.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        }
    }
}

/// A metric of things of a kind: of nodes, of lenders.
pub struct Family<T: 'static> {
    /// Name, with its unit.
    pub name: &'static str,
    /// Counter or gauge.
    pub kind: Kind,
    /// What it says.
    pub help: &'static str,
    /// Its value. Those of 2^53 and more are rounded, as Prometheus does.
    pub value: fn(&T) -> f64,
}

/// A family whose values never fall.
pub const fn counter<T>(name: &'static str, help: &'static str, value: fn(&T) -> f64) -> Family<T> {
    Family { name, kind: Kind::Counter, help, value }
}

/// A family whose values go up and down.
pub const fn gauge<T>(name: &'static str, help: &'static str, value: fn(&T) -> f64) -> Family<T> {
    Family { name, kind: Kind::Gauge, help, value }
}

/// The value of a truth: 0 or 1.
pub fn flag(is_so: bool) -> f64 {
    u8::from(is_so).into()
}

/// Name and kind of a metric, and what it says.
pub type Described = (&'static str, Kind, &'static str);

/// All of these families.
pub fn described<T>(families: &[Family<T>]) -> Vec<Described> {
    families.iter().map(|family| (family.name, family.kind, family.help)).collect()
}

/// Serves `/metrics`. `page` gives its text, or says why there is none.
///
/// # Errors
/// There is no thread for it.
pub fn serve(
    server: Server,
    mut page: impl FnMut() -> Result<String, &'static str> + Send + 'static,
) -> failure::Result<()> {
    server.serve(move |path| {
        (path == "/metrics").then(|| match page() {
            Ok(text) => Response::page(CONTENT_TYPE, text),
            Err(why) => Response::unavailable(why),
        })
    })
}

/// Labels of a thing: names and values.
pub type Labels = Vec<(&'static str, String)>;

/// Writes families of some things; nothing if there are none.
pub fn write<T>(page: &mut String, families: &[Family<T>], things: &[(Labels, T)]) {
    if things.is_empty() {
        return;
    }
    for family in families {
        let Family { name, kind, help, value } = family;
        let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} {}", kind.name());
        for (labels, thing) in things {
            let labels: Vec<String> = labels
                .iter()
                .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
                .collect();
            let _ = writeln!(page, "{name}{{{}}} {}", labels.join(","), value(thing));
        }
    }
}

/// The value of a label between its quotes.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_have_all_things_below_one_head() {
        let families = [counter("a_total", "As.", |n: &u64| *n as f64)];
        let things =
            [(vec![("x", "1".to_owned())], 3), (vec![("x", "\"\\\n".to_owned())], 1 << 40)];
        let mut page = String::new();
        write(&mut page, &families, &things);
        assert_eq!(
            page,
            "# HELP a_total As.\n# TYPE a_total counter\na_total{x=\"1\"} 3\na_total{x=\"\\\"\\\\\\n\"} 1099511627776\n"
        );
        write(&mut page, &families, &[]);
        assert_eq!(page.lines().count(), 4);
    }
}
