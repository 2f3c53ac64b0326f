//! A table of a paper, reproduced: the latencies of a remote read for each placement of the network interface.

use rackmem_experiments::Effort;
use rackmem_experiments::papers::PAPERS;
use serde::Serialize;

use crate::console::{Align, Table};
use crate::failure::{Failure, Result};
use crate::reproduce::{self, Options, pool};
use crate::size;

/// Paper whose table is shown.
const PAPER: &str = "manycore-ni";

/// Part of the paper.
const PART: &str = "table3";

/// Claims that are shown, and their names in the table.
const SHOWN: [(&str, &str); 4] = [
    ("table3/ni-edge/total", "network interface at the edge of the chip"),
    ("table3/ni-per-tile/total", "in every tile"),
    ("table3/ni-split/total", "split between both"),
    ("table3/numa/total", "none: a load, as in a NUMA machine"),
];

/// A row of the table.
#[derive(Debug, Serialize)]
pub struct Row {
    claim: &'static str,
    name: &'static str,
    published_cycles: f64,
    measured_cycles: f64,
    ratio: f64,
}

/// Makes the runs: some seconds.
///
/// # Errors
/// A run failed.
pub fn rows() -> Result<Vec<Row>> {
    let document = PAPERS.iter().find(|paper| paper.name == PAPER).map(|paper| paper.document());
    let document = document.ok_or_else(|| Failure::new(format!("there is no paper {PAPER}")))?;
    let document = document.map_err(|error| Failure::new(error.to_string()))?;
    let part = reproduce::part(&document, Some(PART))?;
    let mut session = reproduce::session(&document, Effort::Quick, part, &Options::default());
    reproduce::make_all_runs(&mut session, pool::threads(None));
    let judged = reproduce::outcome(&session).claims;
    let row = |&(claim, name): &(&'static str, &'static str)| {
        let id = format!("{PAPER}/{claim}");
        let found = judged.iter().find(|judged| judged.id == id)?;
        Some(Row {
            claim,
            name,
            published_cycles: found.published?,
            measured_cycles: found.measured?,
            ratio: found.ratio?,
        })
    };
    let rows: Vec<Row> = SHOWN.iter().filter_map(row).collect();
    match rows.len() == SHOWN.len() {
        true => Ok(rows),
        false => Err(Failure::new(format!("{PAPER} gives no figure for each row of {PART}"))),
    }
}

/// The table.
pub fn render(rows: &[Row]) -> String {
    use Align::{Left, Right};
    let mut table = Table::new(&[
        ("remote read of 64 B, cycles", Left),
        ("published", Right),
        ("measured", Right),
        ("ratio", Right),
    ]);
    for row in rows {
        table.row([
            row.name.to_owned(),
            size::three_digits(row.published_cycles),
            size::three_digits(row.measured_cycles),
            format!("{:.2}", row.ratio),
        ]);
    }
    format!(
        "Table 3 of \"Manycore Network Interfaces for In-Memory Rack-Scale Computing\", on the model of its \
         64-core chip\n\n{}\nthe rest of the paper: `rackmem reproduce manycore-ni --quick`\n",
        table.render()
    )
}
