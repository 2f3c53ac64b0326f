//! `rackmem sim stats`.

use std::path::Path;

use rackmem_sim::machine::{self, BUILT_IN, Machine};
use rackmem_sim::statistics::{Statistic, schema};
use serde_json::json;

use super::args::StatsArgs;
use crate::console::{self, Align, Table};
use crate::failure::{Failure, Result};

/// Prints the schema of statistics, or a part of it.
///
/// # Errors
/// No statistic has any of the words, or the machine cannot be loaded.
pub fn run(args: &StatsArgs) -> Result<()> {
    let (machine, words) = chosen(args)?;
    let has = |one: &&Statistic| {
        let is_in = |word: &String| one.path.contains(word) || one.meaning.contains(word);
        words.is_empty() || words.iter().any(is_in)
    };
    let statistics: Vec<&Statistic> = match &machine {
        Some(machine) => schema().statistics_of(machine).filter(has).collect(),
        None => schema().statistics().filter(has).collect(),
    };
    let fields: Vec<&Statistic> = schema().field.iter().filter(has).collect();
    if statistics.is_empty() && fields.is_empty() {
        let words = words.join(" or ");
        return Err(Failure::usage(format!("no statistic has {words} in its path or meaning")));
    }
    if args.json {
        return console::print_json(&json!({ "statistic": statistics, "field": fields }));
    }
    let titled = [("statistic", &statistics), ("other field of a report", &fields)];
    for (title, list) in titled.into_iter().filter(|(_, list)| !list.is_empty()) {
        console::print(&(table(title, list) + "\n"))?;
    }
    Ok(())
}

/// The machine, if the first word names one, and the other words.
fn chosen(args: &StatsArgs) -> Result<(Option<Machine>, &[String])> {
    match args.words.split_first() {
        Some((name, others)) if names_a_machine(name) => {
            let machine = machine::load(name, &args.set);
            Ok((Some(machine.map_err(|error| Failure::usage(error.to_string()))?), others))
        }
        _ if !args.set.is_empty() => {
            Err(Failure::usage("--set needs a machine as the first word".to_owned()))
        }
        _ => Ok((None, &args.words)),
    }
}

fn names_a_machine(word: &str) -> bool {
    BUILT_IN.iter().any(|known| known.name == word) || Path::new(word).is_file()
}

fn table(title: &str, list: &[&Statistic]) -> String {
    let mut table =
        Table::new(&[(title, Align::Left), ("unit", Align::Left), ("meaning", Align::Left)]);
    for one in list {
        table.row([one.path.clone(), one.unit.clone(), one.meaning.clone()]);
    }
    table.render()
}
