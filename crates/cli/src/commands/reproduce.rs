//! `rackmem reproduce`.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Args, value_parser};

use crate::console;
use crate::failure::{Failure, Result};
use crate::reproduce::manycore_ni::experiment::Cores;
use crate::reproduce::outcome::{self, Outcome};
use crate::reproduce::paper::{Paper, Part};
use crate::reproduce::results::{Effort, Experiment, Results};
use crate::reproduce::{
    cache_integrated_ni, claims, deoi, manycore_ni, pool, render, sonuma, tsm, write,
};
use crate::size;

/// First text of `rackmem reproduce --help`.
pub const ABOUT: &str = "\
Runs the experiments of a paper and compares what they give with what the paper says, claim by
claim: published value, measured value, ratio, verdict. A claim that is missed, or that cannot be
tested here, is listed with the reason. One table, which is printed, gives the tolerances.

WHAT is a paper or one of its parts, such as manycore-ni/fig7:

manycore-ni: synthetic workloads on the model of a 64-core chip. Without --quick all sizes are run,
in windows of 500,000 cycles until two of them differ by less than 1 %, as in the paper; that takes
a while.

sonuma: the programs remote_read, netpipe and pagerank on the model of the soNUMA machine, and for
the paper's development platform on the runtime, as far as the cores of this host reach.

cache-integrated-ni: locks, barriers, STREAM, bitonic sort and FFT on the model of the paper's FPGA
prototype, locks and barriers on that of up to 128 cores, and a test of every mechanism.

tsm: borrowed memory on models of the paper's simulator and of its PCIe prototype: transfers, write
policies, outstanding requests, prefetching, atomics and messages; and queue pairs on the model of
its FPGA prototype. Transfers, outstanding reads, prefetching, the microbenchmarks and queue pairs
also on the runtime of this host, where only orderings and ratios are judged.

deoi: random reads of a neighbour's memory, its network interface, and a key-value cache in its
memory, on the model of the paper's prototype. Reads and the cache also on the runtime of this host,
with memory of a lender there; where userfaultfd is not permitted, the report says so instead.";

/// Last text of it.
pub const EXAMPLES: &str = "\
Examples:
  rackmem reproduce --quick                     all of manycore-ni, fewer sizes, shorter windows
  rackmem reproduce manycore-ni/table3          one table
  rackmem reproduce sonuma --quick              another paper
  rackmem reproduce cache-integrated-ni         a third one, in full
  rackmem reproduce --out results/              with plots, machine files and results.json

Parts: manycore-ni/table1, /table2, /table3, /fig5, /fig6, /fig7, /routing, /fig9, /fig10,
/ablations; sonuma/interface, /table1, /fig7, /fig8, /table2, /fig9;
cache-integrated-ni/interface, /table1, /stream, /bitonic, /fft, /locks, /barriers;
tsm/background, /table2, /orion, /fig5, /comm, /fig8, /fig9, /thunder, /qpair;
deoi/table1, /fig4, /fig5, /fig7, /fig8, /cost.

Exit status: 0 if all experiments ran, whatever the verdicts are; 1 if one failed.";

/// Arguments of `rackmem reproduce`.
#[derive(Debug, Args)]
pub struct ReproduceArgs {
    /// Paper, or part of one
    #[arg(default_value = "manycore-ni")]
    pub what: String,
    /// Fewer sizes, shorter runs
    #[arg(long)]
    pub quick: bool,
    /// Print JSON: verdicts and curves
    #[arg(long)]
    pub json: bool,
    /// Write results.json, plots and the machine file of each run into this directory
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Run the experiments of this file in place of a built-in one. Is it of one of the papers, its claims are that
    /// paper's; else it gives the values itself that its claims are held against
    #[arg(long, value_name = "FILE")]
    pub experiment: Option<PathBuf>,
    /// Graph for PageRank: a plain list of edges [default: a generated one; sonuma only]
    #[arg(long, value_name = "FILE")]
    pub graph: Option<PathBuf>,
    /// Source of the reads of Manycore NI's experiments: with `executed`, latency and bandwidth are also measured with
    /// software that is executed, and the two ways are compared
    #[arg(long, value_enum, default_value_t = CoresArg::Synthetic)]
    pub cores: CoresArg,
    /// Runs at the same time [default: one per core of this host]
    #[arg(long, value_name = "N", value_parser = value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
}

/// Source of reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum CoresArg {
    /// Instructions that the paper counts, in place of cores
    Synthetic,
    /// Cores that execute a program
    Executed,
}

impl From<CoresArg> for Cores {
    fn from(arg: CoresArg) -> Cores {
        match arg {
            CoresArg::Synthetic => Cores::Synthetic,
            CoresArg::Executed => Cores::Executed,
        }
    }
}

/// Reproduces a paper or a part of it, and prints the verdicts.
///
/// # Errors
/// There is no such paper or part, or a run fails.
pub fn run(args: &ReproduceArgs) -> Result<()> {
    let (paper, part) = match args.what.split_once('/') {
        None => (args.what.as_str(), None),
        Some((paper, part)) => (paper, Some(part)),
    };
    if let Some(file) = &args.experiment {
        let name = file.display().to_string();
        let text = std::fs::read_to_string(file)
            .map_err(|error| Failure::io(format_args!("cannot read {name}"), error))?;
        let document = rackmem_experiments::papers::document_of(&name, &text);
        return by_file(&document.map_err(|error| Failure::new(error.to_string()))?, part, args);
    }
    if std::env::var_os("OLD_FRAME").is_none() {
        if let Some(known) = rackmem_experiments::papers::PAPERS.iter().find(|one| one.name == paper) {
            return by_file(&known.document().map_err(|error| Failure::new(error.to_string()))?, part, args);
        }
    }
    let (manycore_ni, sonuma) = (&manycore_ni::PAPER, &sonuma::PAPER);
    let cache_integrated_ni = &cache_integrated_ni::PAPER;
    if paper == sonuma.name {
        let part = selection(sonuma, part)?;
        return reproduce(sonuma, part, args, sonuma::setting(args.graph.as_deref())?);
    }
    let names = [
        manycore_ni.name,
        sonuma.name,
        cache_integrated_ni.name,
        tsm::PAPER.name,
        deoi::PAPER.name,
    ];
    if !names.contains(&paper) {
        let message = format!("there is no paper '{paper}' here; there are {}", names.join(", "));
        return Err(Failure::usage(message));
    }
    if args.graph.is_some() {
        return Err(Failure::usage(format!("{paper} has no graphs; --graph is for sonuma")));
    }
    if paper == cache_integrated_ni.name {
        let part = selection(cache_integrated_ni, part)?;
        return reproduce(cache_integrated_ni, part, args, cache_integrated_ni::setting());
    }
    if paper == tsm::PAPER.name {
        let part = selection(&tsm::PAPER, part)?;
        return reproduce(&tsm::PAPER, part, args, tsm::setting());
    }
    if paper == deoi::PAPER.name {
        let part = selection(&deoi::PAPER, part)?;
        return reproduce(&deoi::PAPER, part, args, deoi::setting());
    }
    reproduce(manycore_ni, selection(manycore_ni, part)?, args, args.cores.into())
}

fn by_file(
    document: &rackmem_experiments::document::Document,
    part: Option<&str>,
    args: &ReproduceArgs,
) -> Result<()> {
    use crate::experiments;
    let selection = experiments::part(document, part)?;
    let is_executed = args.cores == CoresArg::Executed;
    let options = experiments::Options { graph: args.graph.clone(), is_executed };
    let effort = if args.quick {
        rackmem_experiments::Effort::Quick
    } else {
        rackmem_experiments::Effort::Full
    };
    let mut session = experiments::session(document, effort, selection, &options);
    experiments::make_all_runs(&mut session, pool::threads(args.jobs));
    let outcome = experiments::outcome(&session);
    if let Some(dir) = &args.out {
        experiments::write::all(dir, &outcome, &session)?;
    }
    if args.json {
        console::print_json(&outcome)?;
    } else {
        console::print(&experiments::render::outcome(&outcome, console::colour(&io::stdout())))?;
    }
    Ok(())
}

/// The part of the paper that is meant; `None` for all of it.
fn selection<E: Experiment>(paper: &Paper<E>, part: Option<&str>) -> Result<Option<Part>> {
    let Some(part) = part else { return Ok(None) };
    let unknown = || {
        let names: Vec<&str> = paper.parts.iter().map(|part| part.name).collect();
        let names = names.join(", ");
        Failure::usage(format!("{} has no part '{part}'; there are {names}", paper.name))
    };
    paper.part(part).map(Some).ok_or_else(unknown)
}

fn reproduce<E: Experiment>(
    paper: &Paper<E>,
    selection: Option<Part>,
    args: &ReproduceArgs,
    setting: E::Setting,
) -> Result<()> {
    let claims = claims::parse(paper.published)?;
    let effort = if args.quick { Effort::Quick } else { Effort::Full };
    let mut results = Results::new(effort, setting);
    let begin = Instant::now();
    outcome::make_all_runs(paper, &mut results, selection, pool::threads(args.jobs));
    remark(paper, &results, begin.elapsed());
    let outcome = outcome::evaluate(paper, &claims, &results, selection);
    if let Some(dir) = &args.out {
        write::all(dir, paper, &outcome, &results)?;
    }
    if args.json {
        console::print_json(&outcome)?;
    } else {
        console::print(&render::outcome(&outcome, console::colour(&io::stdout())))?;
    }
    first_failure(&outcome)
}

/// Says how much was simulated.
fn remark<E: Experiment>(paper: &Paper<E>, results: &Results<E>, took: Duration) {
    let count = results.runs().count();
    if count > 0 {
        let reports = results.runs().filter_map(|(_, report)| report.ok());
        let cycles: u64 = reports.map(paper.cycles).sum();
        let (runs, cycles) = (console::count(count, "run"), size::rounded(cycles as f64));
        let seconds = took.as_secs_f64();
        console::remark(&format!("{runs}, {cycles} cycles of a chip, {seconds:.1} s"));
    }
}

fn first_failure(outcome: &Outcome) -> Result<()> {
    match outcome.failed_runs.first() {
        None => Ok(()),
        Some(first) => Err(Failure::new(format!(
            "{} failed; the first is {}: {}",
            console::count(outcome.failed_runs.len(), "run"),
            first.experiment,
            first.problem
        ))),
    }
}
