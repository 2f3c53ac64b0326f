//! `rackmem sim sweep`: all combinations of some settings.

use std::path::Path;

use rackmem_sim::machine::{self, Machine, Override};
use rackmem_sim::report::Report;
use serde::Serialize;
use serde_json::{Map, Value};

use super::args::SweepArgs;
use super::{load_with, output};
use crate::console::{self, Align, Table};
use crate::failure::{Failure, Result};
use crate::reproduce::pool::{self, Job};
use crate::size;

/// A measured value of a run, if it has one.
type Measured = fn(&Report) -> Option<f64>;

/// A column: its name, and what stands in it.
type Column = (&'static str, Measured);

/// Columns of each run in tables, behind its settings.
const COLUMNS: [Column; 7] = [
    ("latency_mean_cycles", |report| report.latency.map(|latency| latency.mean_cycles)),
    ("latency_p99_cycles", |report| report.latency.map(|latency| latency.p99_cycles as f64)),
    ("app_gbps", |report| loaded(report, report.app_gbps)),
    ("noc_gbps", |report| loaded(report, report.noc_gbps)),
    ("reads_per_us", |report| loaded(report, report.reads_per_us)),
    ("cycles", |report| Some(report.cycles as f64)),
    ("converged", |report| Some(f64::from(u8::from(report.converged)))),
];

/// Further columns of a rack of simplified nodes.
const RACK_COLUMNS: [Column; 5] = [
    ("offered_gbps", |report| report.rack.as_ref()?.offered_gbps),
    ("accepted_gbps", |report| Some(report.rack.as_ref()?.accepted_gbps.mean)),
    ("link_mean", |report| Some(report.rack.as_ref()?.link_mean)),
    ("link_max", |report| Some(report.rack.as_ref()?.link_max)),
    ("saturated", |report| Some(f64::from(u8::from(report.rack.as_ref()?.saturated)))),
];

/// The columns that any of the runs may fill.
fn columns(rows: &[Row]) -> Vec<Column> {
    let racks = rows.iter().any(|row| row.report.rack.is_some());
    let of_racks = RACK_COLUMNS.into_iter().filter(|_| racks);
    COLUMNS.into_iter().chain(of_racks).collect()
}

fn loaded(report: &Report, value: f64) -> Option<f64> {
    (!report.windows.is_empty()).then_some(value)
}

/// A run of the sweep.
#[derive(Serialize)]
struct Row {
    settings: Map<String, Value>,
    report: Report,
}

/// Runs the sweep.
pub(super) fn run(args: &SweepArgs) -> Result<()> {
    let twice = |(i, one): (usize, &Override)| args.vary[..i].iter().any(|o| o.path == one.path);
    if let Some(at) = args.vary.iter().enumerate().position(twice) {
        let path = &args.vary[at].path;
        return Err(Failure::usage(format!("{path} is varied twice; give all values at once")));
    }
    let points = product(&args.vary);
    let machines = points.iter().map(|point| load_with(&args.machine, point));
    let machines: Vec<Machine> = machines.collect::<Result<_>>()?;
    let jobs = points.iter().zip(&machines).map(|(point, machine)| Job {
        name: label(point),
        work: machine.clone(),
        cost: u64::from(machine.workload.transfer_bytes),
    });
    let results = pool::run(&jobs.collect::<Vec<_>>(), pool::threads(args.jobs));
    let mut rows = Vec::new();
    for (point, result) in points.iter().zip(results) {
        let report = result.map_err(|error| Failure::new(format!("{}: {error}", label(point))))?;
        let settings =
            point.iter().map(|setting| (setting.path.clone(), setting.value.clone().into()));
        rows.push(Row { settings: settings.collect(), report });
    }
    if let Some(dir) = &args.out {
        write(dir, &args.vary, &rows, &machines)?;
    }
    match (args.json, args.csv) {
        (true, _) => console::print_json(&rows),
        (_, true) => console::print(&csv(&args.vary, &rows)),
        _ => console::print(&table(&args.vary, &rows).render()),
    }
}

fn label(point: &[Override]) -> String {
    let parts = point.iter().map(|setting| format!("{}={}", setting.path, setting.value));
    parts.collect::<Vec<_>>().join(" ")
}

/// All combinations; the last setting changes fastest.
fn product(vary: &[Override]) -> Vec<Vec<Override>> {
    let mut points = vec![Vec::new()];
    for Override { path, value } in vary {
        let values: Vec<&str> = value.split(',').map(str::trim).collect();
        let longer = |point: Vec<Override>| {
            let one = |value: &&str| [point.clone(), vec![Override::new(path, *value)]].concat();
            values.iter().map(one).collect::<Vec<_>>()
        };
        points = points.into_iter().flat_map(longer).collect();
    }
    points
}

fn write(dir: &Path, vary: &[Override], rows: &[Row], machines: &[Machine]) -> Result<()> {
    output::make(dir)?;
    output::json(dir, "sweep.json", &rows)?;
    output::text(dir, "sweep.csv", &csv(vary, rows))?;
    for (number, machine) in machines.iter().enumerate() {
        output::text(dir, &format!("machine-{}.toml", number + 1), &machine::resolved(machine))?;
    }
    Ok(())
}

fn cells(
    vary: &[Override],
    columns: &[Column],
    row: &Row,
    number: impl Fn(f64) -> String,
) -> Vec<String> {
    let settings = vary.iter().map(|setting| match &row.settings[&setting.path] {
        Value::String(value) => value.clone(),
        other => other.to_string(),
    });
    let values = columns.iter().map(|(_, of)| of(&row.report).map_or(String::new(), &number));
    settings.chain(values).collect()
}

fn csv(vary: &[Override], rows: &[Row]) -> String {
    let names = vary.iter().map(|setting| setting.path.as_str());
    let columns = columns(rows);
    let header: Vec<&str> = names.chain(columns.iter().map(|&(name, _)| name)).collect();
    let mut text = header.join(",") + "\n";
    for row in rows {
        text += &(cells(vary, &columns, row, |value| value.to_string()).join(",") + "\n");
    }
    text
}

fn table(vary: &[Override], rows: &[Row]) -> Table {
    let names = vary.iter().map(|setting| (setting.path.as_str(), Align::Left));
    let columns = columns(rows);
    let values = columns.iter().map(|&(name, _)| (name, Align::Right));
    let mut table = Table::new(&names.chain(values).collect::<Vec<_>>());
    for row in rows {
        table.row(cells(vary, &columns, row, size::three_digits));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vary(texts: &[&str]) -> Vec<Override> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn all_combinations_are_made_in_order() {
        let points = product(&vary(&["a=1,2", "b=x, y"]));
        let labels: Vec<String> = points.iter().map(|point| label(point)).collect();
        assert_eq!(labels, ["a=1 b=x", "a=1 b=y", "a=2 b=x", "a=2 b=y"]);
    }

    #[test]
    fn csv_has_a_line_per_run_and_no_value_that_was_not_measured() {
        let vary = vary(&["noc.vcs=2"]);
        let settings = [("noc.vcs".to_owned(), Value::from("2"))].into_iter().collect();
        let report = Report { cycles: 7, converged: true, ..Report::default() };
        let text = csv(&vary, &[Row { settings, report }]);
        assert_eq!(
            text,
            "noc.vcs,latency_mean_cycles,latency_p99_cycles,app_gbps,noc_gbps,reads_per_us,\
             cycles,converged\n2,,,,,,7,1\n"
        );
    }
}
