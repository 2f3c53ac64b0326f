//! `rackmem sim stats`.

use std::path::Path;

use rackmem_sim::machine::{self, BUILT_IN, Machine};
use rackmem_sim::statistics::{Program, Statistic, schema};
use serde_json::json;

use super::args::StatsArgs;
use crate::console::{self, Align, Table};
use crate::failure::{Failure, Result};

/// The statistics that are asked for.
enum Of {
    All,
    Machine(Box<Machine>),
    Program(&'static Program),
}

/// Statistics of one kind, which a table shows and a member of the JSON has.
struct Section {
    member: &'static str,
    /// The program whose output has them.
    program: Option<&'static str>,
    title: String,
    list: Vec<&'static Statistic>,
}

/// Prints the schema of statistics, or a part of it.
///
/// # Errors
/// No statistic has any of the words, or the machine cannot be loaded.
pub fn run(args: &StatsArgs) -> Result<()> {
    let (of, words) = chosen(args)?;
    let has = |one: &&Statistic| {
        let is_in = |word: &String| one.path.contains(word) || one.meaning.contains(word);
        words.is_empty() || words.iter().any(is_in)
    };
    let mut sections = sections(&of);
    sections.iter_mut().for_each(|section| section.list.retain(has));
    sections.retain(|section| !section.list.is_empty());
    if sections.is_empty() {
        let words = words.join(" or ");
        return Err(Failure::usage(format!("no statistic has {words} in its path or meaning")));
    }
    if args.json {
        let mut all = json!({});
        for Section { member, program, list, .. } in &sections {
            match program {
                Some(program) => all[member][program] = json!(list),
                None => all[member] = json!(list),
            }
        }
        return console::print_json(&all);
    }
    for Section { title, list, .. } in &sections {
        console::print(&(table(title, list) + "\n"))?;
    }
    Ok(())
}

fn sections(of: &Of) -> Vec<Section> {
    let section = |member, title: &str, list| Section {
        member,
        program: None,
        title: title.to_owned(),
        list,
    };
    let output = |program: &'static Program| Section {
        member: "output",
        program: Some(&program.name),
        title: format!("output of {}", program.name),
        list: program.member.iter().collect(),
    };
    let schema = schema();
    let statistics = match of {
        Of::Program(program) => return vec![output(program)],
        Of::Machine(machine) => schema.statistics_of(machine).collect(),
        Of::All => schema.statistics().collect(),
    };
    let fields = section("field", "other field of a report", schema.fields().collect());
    let mut all = vec![section("statistic", "statistic", statistics), fields];
    if matches!(of, Of::All) {
        all.extend(schema.program.iter().map(output));
    }
    all
}

/// The machine or the program, if the first word names one, and the other words.
fn chosen(args: &StatsArgs) -> Result<(Of, &[String])> {
    let program = |name: &String| schema().program.iter().find(|program| program.name == *name);
    match args.words.split_first() {
        Some((name, others)) if names_a_machine(name) => {
            let machine = machine::load(name, &args.set);
            let machine = machine.map_err(|error| Failure::usage(error.to_string()))?;
            Ok((Of::Machine(Box::new(machine)), others))
        }
        _ if !args.set.is_empty() => {
            Err(Failure::usage("--set needs a machine as the first word".to_owned()))
        }
        Some((name, others)) if let Some(program) = program(name) => {
            Ok((Of::Program(program), others))
        }
        _ => Ok((Of::All, &args.words)),
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
