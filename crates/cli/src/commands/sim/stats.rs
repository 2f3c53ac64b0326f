//! `rackmem sim stats`.

use rackmem_sim::statistics::{Schema, Statistic, schema};

use super::args::StatsArgs;
use crate::console::{self, Align, Table};
use crate::failure::{Failure, Result};

/// Prints the schema of statistics, or a part of it.
///
/// # Errors
/// No statistic has any of the words.
pub fn run(args: &StatsArgs) -> Result<()> {
    let has = |one: &&Statistic| {
        let is_in = |word: &String| one.path.contains(word) || one.meaning.contains(word);
        args.words.is_empty() || args.words.iter().any(is_in)
    };
    let chosen = |all: &[Statistic]| all.iter().filter(has).cloned().collect::<Vec<_>>();
    let all = schema();
    let found = Schema { statistic: chosen(&all.statistic), field: chosen(&all.field) };
    if found.statistic.is_empty() && found.field.is_empty() {
        let words = args.words.join(" or ");
        return Err(Failure::usage(format!("no statistic has {words} in its path or meaning")));
    }
    if args.json {
        return console::print_json(&found);
    }
    let titled = [("statistic", &found.statistic), ("other field of a report", &found.field)];
    for (title, list) in titled.into_iter().filter(|(_, list)| !list.is_empty()) {
        console::print(&(table(title, list) + "\n"))?;
    }
    Ok(())
}

fn table(title: &str, list: &[Statistic]) -> String {
    let mut table =
        Table::new(&[(title, Align::Left), ("unit", Align::Left), ("meaning", Align::Left)]);
    for one in list {
        table.row([one.path.clone(), one.unit.clone(), one.meaning.clone()]);
    }
    table.render()
}
