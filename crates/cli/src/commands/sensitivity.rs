//! `rackmem sensitivity`.

use std::path::PathBuf;

use clap::{Args, value_parser};
use rackmem_experiments::Effort;
use rackmem_experiments::bands::Bands;
use rackmem_experiments::digits::three_digits;
use rackmem_experiments::outcome::Outcome;
use rackmem_experiments::variation::Variation;
use rackmem_sim::machine;

use super::reproduce::of_paper;
use super::sim::output;
use crate::console::{self, Align, Table};
use crate::failure::{Failure, Result};
use crate::reproduce::{self, Options, pool};

/// First text of `rackmem sensitivity --help`.
pub const ABOUT: &str = "\
Runs the experiments of a paper again with other values of the parameters that the paper leaves open,
one at a time, and prints the band of each claim: the least and the most that it can be, the parameter
that moves it the most, and the values that turn its verdict.

Which parameters are open, and over which range, stands in the section [open] of the machine files.
`rackmem reproduce` shows the bands beside what it measures; --out makes the file that it reads.";

/// Last text of it.
pub const EXAMPLES: &str = "\
Examples:
  rackmem sensitivity tsm --quick
  rackmem sensitivity manycore-ni/fig7 --quick --parameter noc.vcs
  rackmem sensitivity sonuma --quick --out experiments/bands/sonuma.toml";

/// Arguments of `rackmem sensitivity`.
#[derive(Debug, Args)]
pub struct SensitivityArgs {
    /// Paper, or part of one
    pub what: String,
    /// Fewer sizes, shorter runs
    #[arg(long)]
    pub quick: bool,
    /// Try values of this parameter only; may be repeated
    #[arg(long, value_name = "PATH")]
    pub parameter: Vec<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Write the bands into this file
    #[arg(long, value_name = "FILE", conflicts_with = "parameter")]
    pub out: Option<PathBuf>,
    /// Runs at the same time [default: one per core of this host]
    #[arg(long, value_name = "N", value_parser = value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
}

/// Tries other values of open parameters, and prints the bands.
///
/// # Errors
/// There is no such paper, part or parameter, or the file cannot be written.
pub fn run(args: &SensitivityArgs) -> Result<()> {
    let (paper, part) = match args.what.split_once('/') {
        None => (args.what.as_str(), None),
        Some((paper, part)) => (paper, Some(part)),
    };
    if let (Some(_), Some(part)) = (&args.out, part) {
        return Err(Failure::usage(format!(
            "a file of bands is of a whole paper, not of '{part}'"
        )));
    }
    let document = of_paper(paper, paper, "")?;
    let place = args.out.as_deref().map(output::Place::find).transpose()?;
    let variations = wanted(Variation::open(&document).map_err(Failure::new)?, &args.parameter)?;
    let selection = reproduce::part(&document, part)?;
    let effort = if args.quick { Effort::Quick } else { Effort::Full };
    let options = Options { graph: None, cores: "executed" };
    let mut session = reproduce::session(&document, effort, selection, &options);
    // The model's parameters change no measurement of this host.
    let only_model = || Err("bands are of the model".to_owned());
    session.abilities.values_mut().for_each(|ability| *ability = only_model());
    let threads = pool::threads(args.jobs);
    reproduce::make_all_runs(&mut session, threads);
    let base = reproduce::outcome(&session);
    let mut varied = Vec::new();
    for (number, variation) in variations.iter().enumerate() {
        let (number, all, name) = (number + 1, variations.len(), variation.name());
        console::remark(&format!("{number} of {all}: {name}"));
        let outcome = reproduce::varied(&session, variation, threads);
        if let Some(failed) = outcome.failed_runs.first() {
            let (run, problem) = (&failed.experiment, &failed.problem);
            return Err(Failure::new(format!("{name}: the run {run} failed: {problem}")));
        }
        varied.push((variation, outcome));
    }
    let bands = Bands::of(&base, &varied);
    if let Some(place) = &place {
        write(place, paper, &bands)?;
    }
    match args.json {
        true => console::print_json(&bands),
        false => console::print(&render(&base, &bands)),
    }
}

fn wanted(all: Vec<Variation>, paths: &[String]) -> Result<Vec<Variation>> {
    let known: Vec<&str> = all.iter().map(|variation| variation.path.as_str()).collect();
    if let Some(unknown) = paths.iter().find(|path| !known.contains(&path.as_str())) {
        let near = machine::nearest(unknown, known);
        let near = near.map_or(String::new(), |known| format!("; did you mean {known}?"));
        return Err(Failure::usage(format!("no open parameter is called '{unknown}'{near}")));
    }
    let is_wanted = |variation: &Variation| paths.is_empty() || paths.contains(&variation.path);
    Ok(all.into_iter().filter(is_wanted).collect())
}

fn write(place: &output::Place, paper: &str, bands: &Bands) -> Result<()> {
    let quick = if bands.effort == "quick" { " --quick" } else { "" };
    let head = format!("# Made by `rackmem sensitivity {paper}{quick} --out`.\n\n");
    place.write_by(|out| out.write_all((head + &bands.to_toml()).as_bytes()))
}

fn render(base: &Outcome, bands: &Bands) -> String {
    let mut table = Table::new(&[
        ("claim", Align::Left),
        ("published", Align::Right),
        ("measured", Align::Right),
        ("least", Align::Right),
        ("most", Align::Right),
        ("moved most by", Align::Left),
        ("turned by", Align::Left),
    ]);
    for judged in &base.claims {
        let id = judged.id.split_once('/').map_or(judged.id.as_str(), |(_, id)| id);
        let Some(band) = bands.claims.get(id) else { continue };
        table.row([
            id.to_owned(),
            judged.published.map_or(String::new(), three_digits),
            judged.quantity().map_or(String::new(), three_digits),
            three_digits(band.least),
            three_digits(band.most),
            band.by.clone(),
            band.turns.join(", "),
        ]);
    }
    let turned = bands.claims.values().filter(|band| !band.turns.is_empty()).count();
    let (claims, tried) = (bands.claims.len(), bands.tried.len());
    table.render()
        + &format!("{tried} variations; {turned} of {claims} verdicts turn with at least one\n")
}
