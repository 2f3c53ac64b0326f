//! An experiment file: runs, quantities, and the measurement of each claim.

mod compile;
mod fitted;
mod raw;
mod repeats;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;

use rackmem_sim::exec::traffic::Stretch;

use crate::Effort;
use crate::bands::Bands;
use crate::claims::{Claim, Relation};
use crate::language::ast::{Expr, Node};
use crate::language::evaluate::{Scope, World};
use crate::language::template::Template;
use crate::language::value::{Outcome, Stop, Value};
use crate::outcome::Kind;
use crate::tolerance::Class;

/// An error in an experiment file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentError {
    /// Path as it was given.
    pub file: String,
    /// The line, if the problem has one.
    pub line: Option<usize>,
    /// The problem in words.
    pub problem: String,
}

impl fmt::Display for DocumentError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(out, "{}:{line}: {}", self.file, self.problem),
            None => write!(out, "{}: {}", self.file, self.problem),
        }
    }
}

impl std::error::Error for DocumentError {}

/// An experiment file.
#[derive(Debug)]
pub struct Document {
    /// Name of the paper on the command line, with which the names of its claims begin.
    pub paper: String,
    /// Title of the paper.
    pub title: String,
    /// Claims of the paper, in its order.
    pub published: Vec<Claim>,
    /// Names of machines in expressions, and the machines.
    pub machines: BTreeMap<String, String>,
    /// Names of options that expressions use.
    pub options: Vec<String>,
    /// Quantities and runs by name.
    pub definitions: BTreeMap<String, Definition>,
    /// Parts, in the paper's order.
    pub parts: Vec<Part>,
    /// All claims, those of no part last.
    pub checks: Vec<Check>,
    /// Claims that the runtime of this host shows, too.
    pub on_host: Vec<Check>,
    /// Figures as curves.
    pub sheets: Vec<Sheet>,
    /// Quantities without a published value.
    pub rows: Vec<Row>,
    /// Pictures of the loads of links.
    pub heats: Vec<Heat>,
    /// Definitions of the file that were chosen with the values of claims in view, and these claims.
    pub chosen: BTreeMap<String, Vec<String>>,
    /// The parameter that was chosen with the published value of a claim in view, by name of the claim.
    pub fitted: BTreeMap<String, String>,
    /// What other values of open parameters give.
    pub bands: Bands,
}

/// A table, a figure or another part that can be asked for by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The name on the command line.
    pub name: String,
    /// Title of the part.
    pub title: String,
}

/// A named quantity or run.
#[derive(Debug)]
pub struct Definition {
    /// Its parameters in order.
    pub parameters: Vec<Parameter>,
    /// What it stands for.
    pub body: Body,
}

/// A parameter of a quantity or a run.
#[derive(Debug)]
pub struct Parameter {
    /// Name in the expressions of the definition.
    pub name: String,
    /// Its value if none is given.
    pub default: Option<Expr>,
}

/// What a name stands for.
#[derive(Debug)]
pub enum Body {
    /// An expression.
    Value(ByEffort<Expr>),
    /// The report of a run.
    Run(Box<RunTemplate>),
}

/// Something that depends on the amount of work.
#[derive(Clone, Debug)]
pub struct ByEffort<T> {
    /// With `--quick`.
    pub quick: T,
    /// Without.
    pub full: T,
}

impl<T> ByEffort<T> {
    /// The one for this amount of work.
    pub fn of(&self, effort: Effort) -> &T {
        match effort {
            Effort::Quick => &self.quick,
            Effort::Full => &self.full,
        }
    }
}

/// A run with parameters.
#[derive(Debug)]
pub struct RunTemplate {
    /// Name in files and errors, such as `nic-send/{place}/{bytes}`.
    pub name: Template,
    /// The machine of the model; none: this host.
    pub machine: Option<Template>,
    /// Settings of the machine.
    pub settings: ByEffort<Vec<(String, Template)>>,
    /// A measurement of the runtime on this host.
    pub trial: Option<String>,
    /// A program of `programs/` in place of the machine's workload.
    pub program: Option<Program>,
    /// Estimate of the host's time, relative to other runs.
    pub cost: Option<Expr>,
}

/// A program that a run executes.
#[derive(Debug)]
pub struct Program {
    /// Name in `programs/`.
    pub name: Template,
    /// Arguments; those without a value are left out.
    pub arguments: Vec<Template>,
    /// Nodes that it runs on.
    pub nodes: Expr,
    /// Programs of the nodes after these, a node each: the name and the arguments.
    pub beside: Vec<Vec<Template>>,
    /// Way of progress on this host: `inline` or `packet`.
    pub progress: Template,
    /// What stands for its output if it fails: that it does may be a result.
    pub if_it_fails: Option<serde_json::Value>,
    /// Form of its output.
    pub output: Output,
}

/// What is taken of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Output {
    /// A line of JSON.
    #[default]
    Json,
    /// Lines `PASS name`, which become a list `passed`.
    Tests,
    /// In place of its output, the traffic of its region of interest.
    Region,
    /// In place of its output, the traffic from there on in its steady state.
    Steady,
}

impl Output {
    /// The stretch whose traffic is taken, if that is.
    pub fn stretch(self) -> Option<Stretch> {
        match self {
            Output::Region => Some(Stretch::Region),
            Output::Steady => Some(Stretch::Steady),
            Output::Json | Output::Tests => None,
        }
    }
}

/// How a claim is measured, or why it is not.
#[derive(Debug)]
pub struct Check {
    /// Name of the claim, without that of the paper.
    pub id: String,
    /// Part that it is shown with, by its place in [`Document::parts`].
    pub part: Option<usize>,
    /// The way to a verdict.
    pub way: Way,
    /// Value to hold it against and the relation to it, if the file itself gives them.
    pub own: (Option<f64>, Option<Relation>),
}

impl Check {
    /// Ability of this host without which it is not measured.
    pub fn needs(&self) -> Option<&str> {
        match &self.way {
            Way::Measured(measurement) => measurement.needs.as_deref(),
            Way::Untestable(_) => None,
        }
    }
}

/// The way to a verdict.
#[derive(Debug)]
pub enum Way {
    /// None: the reason.
    Untestable(String),
    /// A measurement.
    Measured(Box<Measurement>),
}

/// A measurement of a claim.
#[derive(Debug)]
pub struct Measurement {
    /// Row of the table of tolerances.
    pub class: Class,
    /// Kind of the claim, where it does not follow from its class and its runs.
    pub kind: Option<Kind>,
    /// The claim before it that has the same quantity and the same published value.
    pub repeats: Option<String>,
    /// Variables, in the order of their computation.
    pub with: Vec<(String, Expr)>,
    /// The measured quantity.
    pub quantity: Quantity,
    /// Ability of this host without which it is not measured.
    pub needs: Option<String>,
    /// Unit, if it is not that of the claim.
    pub unit: Option<String>,
    /// Details for people.
    pub remark: Template,
    /// The reading of the claim, where there are several.
    pub reading: Template,
    /// Reason why it is missed.
    pub explanation: Template,
}

/// A measured quantity.
#[derive(Debug)]
pub enum Quantity {
    /// A value, or whether something is so.
    Value(Expr),
    /// Both sides of an ordering.
    Sides(Expr, Expr),
}

/// A figure as curves.
#[derive(Debug)]
pub struct Sheet {
    /// Name of its figure.
    pub name: String,
    /// Part that it is shown with.
    pub part: usize,
    /// Title above the curves.
    pub title: String,
    /// Label of the horizontal axis.
    pub x: String,
    /// Label of the vertical axis.
    pub y: String,
    /// Whether the horizontal axis is logarithmic.
    pub log_x: bool,
    /// Ability of this host without which it is not drawn.
    pub needs: Option<String>,
    /// Curves.
    pub series: Vec<Series>,
}

/// Curves of a sheet.
#[derive(Debug)]
pub struct Series {
    /// Variables of which each combination is a curve.
    pub each: Vec<(String, Expr)>,
    /// Name of a curve.
    pub name: Template,
    /// Variable of the points, and its values.
    pub points: (String, Expr),
    /// Horizontal position.
    pub x: Expr,
    /// Vertical position.
    pub y: Expr,
    /// The claim whose published value a point is held against; empty: none.
    pub claim: Template,
    /// Whether it is dashed.
    pub dashed: bool,
}

/// Quantities without a published value.
#[derive(Debug)]
pub struct Row {
    /// Part that they are shown with.
    pub part: usize,
    /// Variables of which each combination is a row.
    pub each: Vec<(String, Expr)>,
    /// Whether there are any.
    pub when: Option<Expr>,
    /// First column of the row.
    pub name: Template,
    /// A number; without one there is no row.
    pub value: Expr,
    /// As the table shows it.
    pub unit: String,
}

/// A picture of the loads of links.
#[derive(Debug)]
pub struct Heat {
    /// Title above the picture.
    pub title: String,
    /// Run whose `links` are drawn.
    pub run: Expr,
}

/// The value of something that depends on no run, machine or amount of work.
fn constant<T>(
    document: &Document,
    bound: &[(String, Expr)],
    compute: impl for<'a> FnOnce(&World<'a>, &Scope<'a>) -> Outcome<T>,
) -> Result<T, String> {
    let (trees, published, reports) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    let world = World {
        document,
        effort: Effort::Full,
        variation: None,
        trees: &trees,
        published: &published,
        reports: &reports,
        is_planning: false,
        asked: RefCell::default(),
        used: RefCell::default(),
    };
    let mut scope = Scope::default();
    let said = |stop| match stop {
        Stop::Missing(why) | Stop::Untestable(why) => why,
    };
    for (name, expr) in bound {
        let value = world.value(expr, &scope).map_err(said)?;
        scope.set(name, value);
    }
    compute(&world, &scope).map_err(said)
}

fn constant_text(
    template: &Template,
    bound: &[(String, Expr)],
    document: &Document,
) -> Result<String, String> {
    constant(document, bound, |world, scope| world.text(template, scope))
}

/// The elements of a list, as expressions.
fn constant_list(list: &Expr, document: &Document) -> Result<Vec<Expr>, String> {
    constant(document, &[], |world, scope| {
        world.value(list, scope)?.elements()?.iter().map(literal).collect()
    })
}

fn literal(value: &Value<'_>) -> Outcome<Expr> {
    let node = match value {
        Value::Number(number) => Node::Number(*number),
        Value::Text(text) => Node::Text(text.to_string()),
        Value::Bool(flag) => Node::Bool(*flag),
        Value::List(all) => Node::List(all.iter().map(literal).collect::<Outcome<_>>()?),
        Value::None => Node::None,
        Value::Tree(_) | Value::Unknown => {
            return Err(Stop::Missing("it is not the same for all runs".to_owned()));
        }
    };
    Ok(Expr { at: 0, node })
}
