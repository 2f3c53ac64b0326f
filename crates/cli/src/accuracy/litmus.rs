//! The memory ordering of cores beside RVWMO, by shape of litmus tests.

use std::fmt::Write as _;

use rackmem_experiments::Effort;
use rackmem_sim::cpu::CpuSpec;
use rackmem_sim::litmus::generate::built_in;
use rackmem_sim::litmus::suite::{self, Summary, Sums};

use crate::failure::{Failure, Result};
use crate::html::table;

/// Runs the built-in set.
///
/// # Errors
/// A test does not come to its end.
pub fn collect(effort: Effort, threads: usize) -> Result<Summary> {
    let seeds = if effort == Effort::Quick { 5 } else { 100 };
    suite::run(&built_in(), &CpuSpec::default(), 0..seeds, threads)
        .map_err(|error| Failure::new(error.to_string()))
}

const HEAD: [&str; 5] =
    ["shape", "tests", "forbidden outcomes seen", "relaxed outcomes allowed", "of them seen"];

/// The sums of each shape, then those of all.
fn rows(summary: &Summary) -> Vec<Vec<String>> {
    let row = |name: &str, sums: &Sums| {
        let Sums { tests, forbidden_seen, relaxed, relaxed_seen, .. } = *sums;
        let numbers = [tests, forbidden_seen, relaxed, relaxed_seen];
        std::iter::once(name.to_owned()).chain(numbers.map(|n| n.to_string())).collect()
    };
    let shapes = summary.shapes.iter().map(|(shape, sums)| row(shape, sums));
    shapes.chain([row("all", &summary.total())]).collect()
}

/// The part of the page.
pub fn html(summary: &Summary) -> String {
    format!(
        "<h2>Memory ordering beside RVWMO</h2>\n<p>Litmus tests on the cores, {} runs. A relaxed outcome is one that \
         RVWMO allows and no interleaving of the threads has. Stores leave these cores after older loads, and in \
         order but where one joins an older one of its line, so LB, S and 2+2W show none.</p>\n",
        summary.total().runs
    ) + &table(&HEAD, &rows(summary))
}

/// The same as CSV.
pub fn csv(summary: &Summary) -> String {
    let mut text = String::from("shape,tests,forbidden_seen,relaxed_allowed,relaxed_seen\n");
    for row in rows(summary) {
        let _ = writeln!(text, "{}", row.join(","));
    }
    text
}
