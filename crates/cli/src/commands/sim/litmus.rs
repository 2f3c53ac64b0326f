//! `rackmem sim litmus`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::{Args, value_parser};
use rackmem_experiments::input;
use rackmem_sim::cpu::CpuSpec;
use rackmem_sim::litmus::generate::{BuiltIn, built_in};
use rackmem_sim::litmus::parse;
use rackmem_sim::litmus::suite::{self, Class, Judged, Summary, Sums};
use rackmem_sim::litmus::test::{Outcome, Quantifier};
use serde::Serialize;

use crate::console::{self, Align, Table};
use crate::failure::{Failure, Result};
use crate::reproduce::pool;

/// First text of `rackmem sim litmus --help`.
pub const ABOUT: &str = "\
Runs litmus tests on the model's cores and holds what they show against RVWMO, the memory model of RISC-V.
A test is in the form of herd's .litmus files. All outcomes that RVWMO allows are enumerated by its
axioms; the cores then run the test with one seed after the other, each with other delays, places in
memory, copies in caches, and addresses that are known late. An outcome is

  sequential   if some interleaving of the threads has it,
  relaxed      if RVWMO allows it, but no interleaving has it,
  forbidden    if RVWMO does not allow it: then the cores are wrong.

Without FILE the built-in set is run, and summed up by shape.";

/// Last text of it.
pub const EXAMPLES: &str = r#"A test, mp.litmus: P0 writes a message, then a flag; may P1 see the flag, not the message?

  RISCV MP+fence.w.w+po
  "Anything in quotes is a comment"
  {
  0:x5=x; 0:x6=y; 0:x7=1;
  1:x5=x; 1:x6=y;
  }
   P0          | P1          ;
   sw x7,0(x5) | lw x8,0(x6) ;
   fence w,w   | lw x9,0(x5) ;
   sw x7,0(x6) |             ;
  exists (1:x8=1 /\ 1:x9=0)

In braces are the values at the start: registers (0:x6=y is the address of y) and locations (y=2);
everything else is 0. Columns hold lw, ld, sw, sd, lr, sc and amo* with .aq and .rl, fence, li, add,
addi and the like, branches and labels. The condition begins with exists, ~exists or forall, and
combines 1:x8=1 and [x]=1 by /\, \/ and ~. `locations [x; 1:x9;]` before it shows more values.

Examples:
  rackmem sim litmus                                    the built-in set
  rackmem sim litmus mp.litmus --seeds 10000
  rackmem sim litmus --show MP+fence.w.w+addr > a.litmus    a test of the built-in set, to be changed

Exit status: 1 if a forbidden outcome was seen, 2 if a test cannot be read."#;

/// Runs of each test of a file, unless the user says otherwise.
const FILE_SEEDS: u64 = 1000;

/// The same for tests of the built-in set.
const SET_SEEDS: u64 = 20;

/// Arguments of `rackmem sim litmus`.
#[derive(Debug, Args)]
pub struct LitmusArgs {
    /// Tests in the form of herd [default: the built-in set]
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Runs of each test [default: 1000; 20 for the built-in set]
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..1 << 32))]
    pub seeds: Option<u64>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Print a test of the built-in set, and do nothing else
    #[arg(long, value_name = "NAME", exclusive = true)]
    pub show: Option<String>,
}

/// Runs tests.
///
/// # Errors
/// A test cannot be read, a run does not come to its end, or a forbidden outcome was seen.
pub fn run(args: &LitmusArgs) -> Result<()> {
    if let Some(name) = &args.show {
        return show(name);
    }
    if args.files.is_empty() { set(args) } else { files(args) }
}

fn show(name: &str) -> Result<()> {
    let all = built_in();
    if let Some(test) = all.iter().find(|test| test.name == name) {
        return console::print(&test.text);
    }
    let begins = |test: &&BuiltIn| test.name.starts_with(name) || test.shape == name;
    let like: Vec<&str> = all.iter().filter(begins).take(8).map(|test| &*test.name).collect();
    let hint = match &like[..] {
        [] => "names are like MP+fence.w.w+addr".to_owned(),
        like => format!("there are {}", like.join(", ")),
    };
    Err(Failure::usage(format!("the built-in set has no test {name}; {hint}")))
}

fn files(args: &LitmusArgs) -> Result<()> {
    let seeds = args.seeds.unwrap_or(FILE_SEEDS);
    let mut results = Vec::new();
    for path in &args.files {
        results.push((path, judge(path, seeds)?));
    }
    if args.json {
        let tests = results.iter().map(|(path, judged)| document(path, judged)).collect();
        let version = env!("CARGO_PKG_VERSION");
        console::print_json(&Files { version, seeds, tests })?;
    } else {
        let texts: Vec<String> = results.iter().map(|(_, judged)| render(judged)).collect();
        console::print(&texts.join("\n"))?;
    }
    let wrong = results.iter().filter(|(_, judged)| judged.seen(Class::Forbidden) > 0);
    refuse(wrong.map(|(_, judged)| judged.test.name.as_str()).collect())
}

/// Forbidden outcomes are a failure.
fn refuse(wrong: Vec<&str>) -> Result<()> {
    if wrong.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!("forbidden outcomes were seen in {}", wrong.join(", "))))
}

fn judge(path: &Path, seeds: u64) -> Result<Judged> {
    let name = path.display().to_string();
    let text =
        input::read_to_string(path).map_err(|error| Failure::usage(format!("{name}: {error}")))?;
    let test = parse(&name, &text).map_err(|error| Failure::usage(error.to_string()))?;
    Judged::new(test, &CpuSpec::default(), 0..seeds)
        .map_err(|error| Failure::new(error.to_string()))
}

/// All outcomes: those of the model, and those that came.
fn outcomes(judged: &Judged) -> BTreeMap<&Outcome, u64> {
    let mut outcomes: BTreeMap<&Outcome, u64> =
        judged.allowed.outcomes.keys().map(|outcome| (outcome, 0)).collect();
    outcomes.extend(judged.seen.iter().map(|(outcome, runs)| (outcome, *runs)));
    outcomes
}

/// What the model says of the condition.
fn model(judged: &Judged) -> &'static str {
    let condition = &judged.test.condition;
    match (condition.quantifier, condition.is_true(judged.allowed.outcomes.keys())) {
        (Quantifier::Exists, true) => "allowed",
        (Quantifier::Exists, false) => "forbidden",
        (_, true) => "true",
        (_, false) => "false",
    }
}

fn render(judged: &Judged) -> String {
    let test = &judged.test;
    let mut table =
        Table::new(&[("outcome", Align::Left), ("runs", Align::Right), ("by RVWMO", Align::Left)]);
    for (outcome, runs) in outcomes(judged) {
        let class = judged.class(outcome).name();
        table.row([test.outcome(outcome), runs.to_string(), class.to_owned()]);
    }
    let runs: u64 = judged.seen.values().sum();
    format!(
        "{}\n{}\n{}\nby RVWMO {}; the formula held in {} of {runs} runs\n",
        test.name,
        table.render(),
        test.condition(),
        model(judged),
        judged.runs_with(),
    )
}

/// The result of tests from files.
#[derive(Serialize)]
struct Files {
    version: &'static str,
    seeds: u64,
    tests: Vec<Document>,
}

/// The result of one of them.
#[derive(Serialize)]
struct Document {
    file: String,
    name: String,
    condition: String,
    by_rvwmo: &'static str,
    runs: u64,
    runs_with_formula: u64,
    outcomes: Vec<Row>,
}

/// An outcome.
#[derive(Serialize)]
struct Row {
    values: BTreeMap<String, String>,
    runs: u64,
    by_rvwmo: &'static str,
}

fn document(path: &Path, judged: &Judged) -> Document {
    let test = &judged.test;
    let row = |(outcome, runs): (&Outcome, u64)| {
        let names = test.observed.iter().map(|observed| test.observed_name(*observed));
        let values = names.zip(outcome.iter().map(|value| test.value(*value))).collect();
        Row { values, runs, by_rvwmo: judged.class(outcome).name() }
    };
    Document {
        file: path.display().to_string(),
        name: test.name.clone(),
        condition: test.condition(),
        by_rvwmo: model(judged),
        runs: judged.seen.values().sum(),
        runs_with_formula: judged.runs_with(),
        outcomes: outcomes(judged).into_iter().map(row).collect(),
    }
}

/// The result of the built-in set.
#[derive(Serialize)]
struct Set {
    version: &'static str,
    seeds: u64,
    shapes: Vec<Shape>,
    total: Sums,
    violations: Vec<String>,
}

/// The sums of a shape.
#[derive(Serialize)]
struct Shape {
    shape: &'static str,
    #[serde(flatten)]
    sums: Sums,
}

fn set(args: &LitmusArgs) -> Result<()> {
    let seeds = args.seeds.unwrap_or(SET_SEEDS);
    let summary = suite::run(&built_in(), &CpuSpec::default(), 0..seeds, pool::threads(None))
        .map_err(|error| Failure::new(error.to_string()))?;
    let names: Vec<&str> =
        summary.violations.iter().map(|violation| &*violation.judged.test.name).collect();
    if args.json {
        let shape = |(shape, sums): &(&'static str, Sums)| Shape { shape, sums: *sums };
        console::print_json(&Set {
            version: env!("CARGO_PKG_VERSION"),
            seeds,
            shapes: summary.shapes.iter().map(shape).collect(),
            total: summary.total(),
            violations: names.iter().map(|name| (*name).to_owned()).collect(),
        })?;
    } else {
        console::print(&summed_up(&summary))?;
    }
    refuse(names)
}

fn summed_up(summary: &Summary) -> String {
    let mut table = Table::new(&[
        ("shape", Align::Left),
        ("tests", Align::Right),
        ("outcomes allowed", Align::Right),
        ("seen", Align::Right),
        ("relaxed", Align::Right),
        ("seen", Align::Right),
        ("forbidden seen", Align::Right),
    ]);
    let mut row = |name: &str, sums: &Sums| {
        let Sums { tests, allowed, seen, relaxed, relaxed_seen, forbidden_seen, .. } = *sums;
        let numbers = [tests, allowed, seen, relaxed, relaxed_seen, forbidden_seen];
        let numbers = numbers.map(|number| number.to_string());
        table.row(std::iter::once(name.to_owned()).chain(numbers));
    };
    summary.shapes.iter().for_each(|(shape, sums)| row(shape, sums));
    let total = summary.total();
    row("all", &total);
    let mut text = table.render();
    text += &format!(
        "\n{} runs. RVWMO forbids the outcome that {} of the tests ask for.\n",
        total.runs, total.tests_forbidden
    );
    for violation in &summary.violations {
        text += &format!("\n{}\n{}", violation.text, render(&violation.judged));
    }
    text
}
