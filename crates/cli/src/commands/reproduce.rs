//! `rackmem reproduce`.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::{Args, value_parser};
use rackmem_experiments::Effort;
use rackmem_experiments::document::{Document, DocumentError};
use rackmem_experiments::input;
use rackmem_experiments::outcome::Outcome;
use rackmem_experiments::papers::{self, PAPERS, Paper};
use rackmem_experiments::session::Session;
use rackmem_experiments::variation::Variation;

use crate::failure::{Failure, Result};
use crate::reproduce::{self, Options, pool, render, write};
use crate::{console, size};

/// First text of `rackmem reproduce --help`.
pub const ABOUT: &str = "\
Runs the experiments of a paper and compares what they give with what the paper says, claim by
claim: published value, measured value, ratio, verdict. A claim that is missed, or that cannot be
tested here, is listed with the reason. One table, which is printed, gives the tolerances.

WHAT is a paper, one of its parts, such as manycore-ni/fig7, or 'all'.

Runs are on the model; of some papers also on the runtime of this host, where only orderings and
ratios are judged: with memory of a lender there where userfaultfd is permitted, else the report says
that it is not. Without --quick all sizes are run, in windows as long as the paper's; that takes a
while.

The experiments are files, experiments/PAPER.toml: which runs there are, which quantities they give,
and how each claim is measured by them. --experiment runs a file of yours; the book explains the
language, in the chapter on experiments.";

/// Last text of it: examples, and the parts of all papers.
pub fn examples() -> String {
    let mut text = "\
Examples:
  rackmem reproduce --quick                     all of manycore-ni, fewer sizes, shorter windows
  rackmem reproduce manycore-ni/table3          one table
  rackmem reproduce all --quick                 every paper
  rackmem reproduce --out results/              with report.html, machine files and results.json
  rackmem reproduce --experiment mine.toml      your own experiments

Parts:
"
    .to_owned();
    for paper in &PAPERS {
        text += &format!("  {}: {}\n", paper.name, paper.part_names().join(", "));
    }
    text + "\nExit status: 0 if all experiments ran, whatever the verdicts are; 1 if one failed."
}

/// The paper that is reproduced if none is named.
const DEFAULT: &str = "manycore-ni";

/// Arguments of `rackmem reproduce`.
#[derive(Debug, Args)]
pub struct ReproduceArgs {
    /// Paper, or part of one, or 'all'
    #[arg(default_value = DEFAULT)]
    pub what: String,
    /// Fewer sizes, shorter runs
    #[arg(long)]
    pub quick: bool,
    /// Print JSON: verdicts and curves
    #[arg(long)]
    pub json: bool,
    /// Write report.html, results.json and the machine and report of each run into this directory
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Run the experiments of this file in place of a built-in one; WHAT is then one of its parts, or
    /// left out. A file whose 'paper' is one of the papers is judged by that paper's claims; any other
    /// gives the values itself that its claims are held against
    #[arg(long, value_name = "FILE", conflicts_with_all = ["graph", "cores"])]
    pub experiment: Option<PathBuf>,
    /// Graph for PageRank: a plain list of edges [default: a generated one; sonuma only]
    #[arg(long, value_name = "FILE")]
    pub graph: Option<PathBuf>,
    /// Source of the reads of Manycore NI's experiments [default: executed]; with `both`, the two ways are compared
    #[arg(long, value_enum)]
    pub cores: Option<CoresArg>,
    /// Make the runs of the model with so many seeds, those on this host so many times, and report the spread: an
    /// ordering has to hold with all of them
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u64).range(1..=99))]
    pub seeds: u64,
    /// Also change the statistics that each counted claim reads, and fail if no change turns a verdict: such a check
    /// would say nothing
    #[arg(long)]
    pub mutate: bool,
    /// Runs at the same time [default: one per core of this host]
    #[arg(long, value_name = "N", value_parser = value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
}

/// Source of reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum CoresArg {
    /// Cores that execute a program
    Executed,
    /// Instructions that the paper counts, in place of cores: faster
    Synthetic,
    /// Cores that execute a program, and the ratio to the other way
    Both,
}

/// Reproduces papers or a part of one, and prints the verdicts.
///
/// # Errors
/// There is no such paper or part, or a run fails.
pub fn run(args: &ReproduceArgs) -> Result<()> {
    let (paper, part) = match args.what.split_once('/') {
        None => (args.what.as_str(), None),
        Some((paper, part)) => (paper, Some(part)),
    };
    if let Some(file) = &args.experiment {
        let document = of_file(file)?;
        let is_default = args.what == DEFAULT;
        if !is_default && paper != document.paper {
            let (file, known) = (file.display(), &document.paper);
            return Err(Failure::usage(format!("{file} is about '{known}', not about '{paper}'")));
        }
        return show(args, &[one(args, &document, part, args.out.as_deref())?]);
    }
    if args.what == "all" {
        let folder = |paper: &Paper| args.out.as_ref().map(|out| out.join(paper.name));
        PAPERS.iter().filter_map(folder).try_for_each(|folder| write::prepare(&folder))?;
        let mut outcomes = Vec::new();
        for paper in &PAPERS {
            let document = paper.document().map_err(wrong)?;
            outcomes.push(one(args, &document, None, folder(paper).as_deref())?);
        }
        if let Some(dir) = &args.out {
            write::overview(dir, &outcomes)?;
        }
        return show(args, &outcomes);
    }
    let shown = if paper == "all" { &args.what } else { paper };
    let document = of_paper(paper, shown, ", and 'all'")?;
    show(args, &[one(args, &document, part, args.out.as_deref())?])
}

/// The experiments of a paper; it is called `shown` in an error, which ends the list of papers with `more`.
///
/// # Errors
/// There is no such paper.
pub fn of_paper(name: &str, shown: &str, more: &str) -> Result<Document> {
    let known = PAPERS.iter().find(|known| known.name == name);
    let unknown = || {
        let names: Vec<&str> = PAPERS.iter().map(|known| known.name).collect();
        let names = names.join(", ");
        Failure::usage(format!("there is no paper '{shown}' here; there are {names}{more}"))
    };
    known.ok_or_else(unknown)?.document().map_err(wrong)
}

/// Experiments that cannot be read.
pub fn wrong(error: DocumentError) -> Failure {
    Failure::new(error.to_string())
}

fn of_file(file: &Path) -> Result<Document> {
    let name = file.display().to_string();
    let text = input::read_to_string(file)
        .map_err(|error| Failure::io(format_args!("cannot read {name}"), error))?;
    papers::document_of(&name, &text).map_err(wrong)
}

/// Makes the runs of a paper or a part of it, and judges.
fn one(
    args: &ReproduceArgs,
    document: &Document,
    part: Option<&str>,
    out: Option<&Path>,
) -> Result<Outcome> {
    let selection = reproduce::part(document, part)?;
    let effort = if args.quick { Effort::Quick } else { Effort::Full };
    let options = options(args, document)?;
    let mut session = reproduce::session(document, effort, selection, &options);
    out.map_or(Ok(()), write::prepare)?;
    let begin = Instant::now();
    reproduce::make_all_runs(&mut session, pool::threads(args.jobs));
    remark(&session, begin.elapsed());
    let mut outcome = reproduce::outcome(&session);
    if args.seeds > 1 {
        let threads = pool::threads(args.jobs);
        let seed = |seed| (seed, reproduce::varied(&session, &Variation::seed(seed), threads));
        outcome.spread_over(&(2..=args.seeds).map(seed).collect::<Vec<_>>());
    }
    if args.mutate {
        unshakable(&session)?;
    }
    if let Some(dir) = out {
        write::all(dir, &outcome, &session)?;
    }
    Ok(outcome)
}

/// Options that the experiments of this paper have.
fn options(args: &ReproduceArgs, document: &Document) -> Result<Options> {
    let has = |name: &str| args.what == "all" || document.options.iter().any(|one| one == name);
    if args.graph.is_some() && !has("graph") {
        let paper = &document.paper;
        return Err(Failure::usage(format!("{paper} has no graphs; --graph is for sonuma")));
    }
    if args.cores.is_some() && !has("cores") {
        let paper = &document.paper;
        return Err(Failure::usage(format!("{paper} has no --cores; it is for manycore-ni")));
    }
    let absolute = |graph: &PathBuf| {
        let name = graph.display();
        // A graph that cannot be read is better reported before the first run.
        input::open(graph)
            .and_then(|_| std::path::absolute(graph))
            .map_err(|error| Failure::io(format_args!("cannot read {name}"), error))
    };
    let cores = match args.cores {
        Some(CoresArg::Executed) | None => "executed",
        Some(CoresArg::Synthetic) => "synthetic",
        Some(CoresArg::Both) => "both",
    };
    Ok(Options { graph: args.graph.as_ref().map(absolute).transpose()?, cores })
}

/// Fails if a verdict cannot come out otherwise.
fn unshakable(session: &Session<'_>) -> Result<()> {
    let found = session.unshakable();
    if found.is_empty() {
        console::remark("every counted verdict turns with the statistics that it is read from");
        return Ok(());
    }
    let all = found.join("\n  ");
    Err(Failure::new(format!("verdicts that no change of statistics turns:\n  {all}")))
}

/// Says how much was simulated.
fn remark(session: &Session<'_>, took: Duration) {
    let count = session.runs().count();
    if count > 0 {
        let reports = session.runs().filter_map(|(_, report)| report.as_ref().ok());
        let cycles: u64 = reports.filter_map(|report| report["cycles"].as_u64()).sum();
        let (runs, cycles) = (console::count(count, "run"), size::rounded(cycles as f64));
        let seconds = took.as_secs_f64();
        console::remark(&format!("{runs}, {cycles} cycles of a chip, {seconds:.1} s"));
    }
}

fn show(args: &ReproduceArgs, outcomes: &[Outcome]) -> Result<()> {
    match outcomes {
        [only] if args.json => console::print_json(only)?,
        all if args.json => console::print_json(&all)?,
        all => {
            for outcome in all {
                console::print(&render::outcome(outcome, console::colour(&io::stdout())))?;
            }
            if all.len() > 1 {
                console::print(&render::shares(all))?;
            }
        }
    }
    let failed: Vec<_> = outcomes.iter().flat_map(|outcome| &outcome.failed_runs).collect();
    match failed.first() {
        None => Ok(()),
        Some(first) => Err(Failure::new(format!(
            "{} failed; the first is {}: {}",
            console::count(failed.len(), "run"),
            first.experiment,
            first.problem
        ))),
    }
}
