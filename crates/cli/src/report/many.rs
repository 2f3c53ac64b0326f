//! The page about a sweep: what becomes of quantities by setting, their extremes, and a few runs by themselves.

use std::collections::BTreeMap;

use rackmem_experiments::digits::three_digits;
use serde_json::Value;

use super::page::MOST_BESIDE;
use super::quantities::{self, BANDWIDTH, LATENCY, Quantity, TIME};
use super::runs::{MOST_IN_LABEL, Run, by_value, plain, stage_names};
use super::{page, sweep};
use crate::charts::Charts;
use crate::console::count;
use crate::failure::Result;
use crate::html::{escaped, marked_table, table};

/// Rows of the table of all runs up to which it is open when the page opens.
const MOST_OPEN: usize = 48;

/// Values of a setting that are listed.
const MOST_VALUES: usize = 16;

/// What a page about many runs has below its title.
///
/// # Errors
/// The file of a run cannot be read any longer.
pub fn body(
    charts: &mut Charts,
    runs: &[Run],
    labels: &[String],
    differences: &[String],
) -> Result<String> {
    let sweep = Sweep { runs, labels, differences };
    let mut body = sweep.head() + &sweep.failures() + &sweep.settings();
    let stages = sweep.stages_that_differ();
    body += &sweep::drawn(charts, runs, labels, differences, &stages);
    body += &(sweep.extremes() + &sweep.limits());
    body += &sweep.chosen(charts)?;
    Ok(body + &sweep.all())
}

struct Sweep<'a> {
    runs: &'a [Run],
    labels: &'a [String],
    differences: &'a [String],
}

impl Sweep<'_> {
    fn head(&self) -> String {
        let of = |key: &str| distinct(self.runs.iter().map(|run| run.setting(key)));
        let machines: Vec<String> = of("name").iter().map(plain).collect();
        let versions = self.runs.iter().map(|run| run.report["recipe"]["version"].clone());
        let versions: Vec<String> =
            distinct(versions.filter(Value::is_string)).iter().map(plain).collect();
        let failed = self.runs.iter().filter(|run| run.error.is_some()).count();
        let failed = if failed == 0 { String::new() } else { format!(" {failed} of them failed.") };
        format!(
            "<h1>Runs of the model</h1>\n<p>{} of {}, rackmem {}.{failed}</p>\n",
            count(self.runs.len(), "run"),
            escaped(&machines.join(", ")),
            escaped(&versions.join(", "))
        )
    }

    /// Reasons of failures, with how many runs have them.
    fn failures(&self) -> String {
        let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (run, label) in self.runs.iter().zip(self.labels) {
            if let Some(error) = &run.error {
                reasons.entry(error).or_default().push(label);
            }
        }
        if reasons.is_empty() {
            return String::new();
        }
        let row = |(why, labels): (&str, Vec<&str>)| {
            ("missed", vec![why.to_owned(), labels.len().to_string(), labels[0].to_owned()])
        };
        let rows: Vec<_> = reasons.into_iter().map(row).collect();
        String::from("<h2>Runs that failed</h2>\n")
            + &marked_table(&["reason", "runs", "the first of them"], &rows)
    }

    /// The keys in which runs differ, with their values.
    fn settings(&self) -> String {
        let row = |key: &String| {
            let values = distinct(self.runs.iter().map(|run| run.setting(key)));
            let mut shown: Vec<String> = values.iter().take(MOST_VALUES).map(plain).collect();
            if values.len() > MOST_VALUES {
                shown.push(format!("... {}", plain(&values[values.len() - 1])));
            }
            vec![key.clone(), values.len().to_string(), shown.join(", ")]
        };
        let rows: Vec<Vec<String>> = self.differences.iter().map(row).collect();
        match rows.is_empty() {
            true => String::new(),
            false => {
                String::from("<h2>How their machines differ</h2>\n")
                    + &table(&["key", "values", ""], &rows)
            }
        }
    }

    /// Stages that do not take the same time in all runs that have them.
    fn stages_that_differ(&self) -> Vec<&str> {
        let differs = |name: &&str| {
            let mut all = self.runs.iter().filter_map(|run| run.stage(name).map(three_digits));
            let first = all.next();
            all.any(|one| Some(one) != first)
        };
        stage_names(self.runs).into_iter().filter(differs).collect()
    }

    /// Least, median and most of each quantity and stage, and the runs that have them.
    fn extremes(&self) -> String {
        let quantities = quantities::known(self.runs);
        let by_quantity = quantities
            .iter()
            .map(|one| self.extreme(one.name.to_owned(), self.runs.iter().map(|run| one.of(run))));
        let by_stage = stage_names(self.runs).into_iter().map(|name| {
            let values = self.runs.iter().map(|run| run.stage(name));
            self.extreme(format!("{name}, cycles"), values)
        });
        let rows: Vec<Vec<String>> = by_quantity.chain(by_stage).flatten().collect();
        let head = ["", "runs", "least", "median", "most", "least in", "most in"];
        String::from("<h2>Extremes</h2>\n") + &table(&head, &rows)
    }

    fn extreme(
        &self,
        name: String,
        values: impl Iterator<Item = Option<f64>>,
    ) -> Option<Vec<String>> {
        let known = ordered(values);
        let (least, most) = (known.first()?, known.last()?);
        let median = three_digits(known[known.len() / 2].0);
        let label = |at: usize| self.labels[at].clone();
        let mut row = vec![name, known.len().to_string(), three_digits(least.0), median];
        row.extend([three_digits(most.0), label(least.1), label(most.1)]);
        Some(row)
    }

    /// What limited how many runs.
    fn limits(&self) -> String {
        let mut found: BTreeMap<&str, Vec<(f64, usize)>> = BTreeMap::new();
        for (at, run) in self.runs.iter().enumerate() {
            for limit in &run.limits {
                found.entry(&limit.what).or_default().push((limit.share.unwrap_or(f64::NAN), at));
            }
        }
        let mut found: Vec<_> = found.into_iter().collect();
        found.sort_by_key(|(_, runs)| std::cmp::Reverse(runs.len()));
        let row = |(what, runs): &(&str, Vec<(f64, usize)>)| {
            let percent = |share: f64| match share.is_nan() {
                true => "-".to_owned(),
                false => format!("{:.0} %", 100.0 * share),
            };
            let by_share = |a: &&(f64, usize), b: &&(f64, usize)| a.0.total_cmp(&b.0);
            let (least, most) = (runs.iter().min_by(by_share), runs.iter().max_by(by_share));
            let share =
                |one: Option<&(f64, usize)>| one.map_or(String::new(), |one| percent(one.0));
            let label = most.map_or(String::new(), |one| self.labels[one.1].clone());
            vec![(*what).to_owned(), runs.len().to_string(), share(least), share(most), label]
        };
        let rows: Vec<Vec<String>> = found.iter().map(row).collect();
        String::from(
            "<h2>What limited them</h2>\n<p>Of a stage, its share of a read's latency; of links, the share of the time \
             in which the busiest carries flits; of a cache, the share of requests that miss.</p>\n",
        ) + &table(&["limit", "runs", "least", "most", "most in"], &rows)
    }

    /// The runs with extremes, each by itself.
    fn chosen(&self, charts: &mut Charts) -> Result<String> {
        let mut wanted: Vec<(usize, Vec<String>)> = Vec::new();
        for quantity in [&LATENCY, &BANDWIDTH, &TIME] {
            for (at, why) in self.ends(quantity) {
                match wanted.iter_mut().find(|(known, _)| *known == at) {
                    Some((_, reasons)) => reasons.push(why),
                    None => wanted.push((at, vec![why])),
                }
            }
        }
        if wanted.is_empty() {
            return Ok(String::new());
        }
        let said = wanted.iter().map(|(at, why)| {
            let text = format!("{}: {}", self.labels[*at], why.join(", "));
            format!("<li>{}</li>\n", escaped(&text))
        });
        let head = format!(
            "<h2>{} by themselves</h2>\n<p>The sections below show these {} of the {} runs. Choose others by \
             <code>rackmem report RUN... --only KEY=VALUE</code>: a page about {MOST_BESIDE} runs or fewer has these \
             sections for all of them.</p>\n<ul>\n{}</ul>\n",
            count(wanted.len(), "run"),
            wanted.len(),
            self.runs.len(),
            said.collect::<String>()
        );
        let wanted: Vec<usize> = wanted.into_iter().map(|(at, _)| at).collect();
        Ok(head + &page::each(charts, self.runs, self.labels, &wanted)?)
    }

    /// The runs with the least and the most of a quantity.
    fn ends(&self, quantity: &Quantity) -> Vec<(usize, String)> {
        let known = ordered(self.runs.iter().map(|run| quantity.of(run)));
        let end = |word: &str, one: Option<&(f64, usize)>| {
            one.map(|&(value, at)| {
                (at, format!("the {word} {}, {}", quantity.name, three_digits(value)))
            })
        };
        [end("least", known.first()), end("most", known.last())].into_iter().flatten().collect()
    }

    /// All runs, a row for each.
    fn all(&self) -> String {
        let named = self.differences.len() > MOST_IN_LABEL || self.differences.is_empty();
        let keys = if named { &[] } else { self.differences };
        let known = quantities::known(self.runs);
        let mut head: Vec<&str> = if named { vec!["run"] } else { Vec::new() };
        head.extend(keys.iter().map(String::as_str));
        head.extend(known.iter().map(|quantity| quantity.name));
        head.extend(["limited by", "machine's hash"]);
        let row = |(run, label): (&Run, &String)| {
            let mut row = if named { vec![label.clone()] } else { Vec::new() };
            row.extend(keys.iter().map(|key| plain(&run.setting(key))));
            row.extend(known.iter().map(|quantity| quantity.shown(run)));
            let limits = run.limits.iter().map(|limit| limit.what.as_str());
            let limits = limits.collect::<Vec<_>>().join(", ");
            row.push(run.error.as_ref().map_or(limits, |error| format!("failed: {error}")));
            row.push(plain(&run.report["recipe"]["machine_hash"]));
            (if run.error.is_some() { "missed" } else { "" }, row)
        };
        let rows: Vec<_> = self.runs.iter().zip(self.labels).map(row).collect();
        let open = if rows.len() > MOST_OPEN { "" } else { " open" };
        format!(
            "<h2>All runs</h2>\n<details{open}><summary>{}</summary>\n{}</details>\n",
            count(rows.len(), "run"),
            marked_table(&head, &rows)
        )
    }
}

/// Values that are known, by size, each with its place.
fn ordered(values: impl Iterator<Item = Option<f64>>) -> Vec<(f64, usize)> {
    let mut known: Vec<(f64, usize)> =
        values.enumerate().filter_map(|(at, value)| Some((value?, at))).collect();
    known.sort_by(|a, b| a.0.total_cmp(&b.0));
    known
}

/// Each value once, in order.
fn distinct(values: impl Iterator<Item = Value>) -> Vec<Value> {
    let mut values: Vec<Value> = values.collect();
    values.sort_by(by_value);
    values.dedup();
    values
}
