//! A table of a paper, reproduced: the latencies of a remote read for each placement of the network interface.

use serde::Serialize;

use crate::console::{Align, Table};
use crate::failure::{Failure, Result};
use crate::reproduce::manycore_ni::PAPER;
use crate::reproduce::manycore_ni::experiment::Cores;
use crate::reproduce::outcome;
use crate::reproduce::results::{Effort, Results};
use crate::reproduce::{claims, pool};
use crate::size;

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
    let claims = claims::parse(PAPER.published)?;
    let part = PAPER.part(PART);
    let mut results = Results::new(Effort::Quick, Cores::Synthetic);
    outcome::make_all_runs(&PAPER, &mut results, part, pool::threads(None));
    let judged = outcome::evaluate(&PAPER, &claims, &results, part).claims;
    let row = |&(claim, name): &(&'static str, &'static str)| {
        let id = format!("{}/{claim}", PAPER.name);
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
        false => {
            Err(Failure::new(format!("{} gives no figure for each row of {PART}", PAPER.name)))
        }
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
