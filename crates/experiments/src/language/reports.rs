//! Whether reports have what expressions read of them.

use rackmem_sim::statistics::{schema, without_indices};

use super::Problem;
use super::ast::{Argument, Expr, Node};
use crate::document::{Body, Document, RunTemplate};
use crate::nearest::nearest;

/// Members of the report of a program.
const OF_PROGRAMS: [&str; 3] = ["output", "cycles", "stats"];

/// A statistic that is named in an expression is one that reports can have: `run.stats['rrpp.lines']`,
/// `total(run.stats, '.lines')`.
pub(super) fn statistics_exist(expr: &Expr) -> Result<(), Problem> {
    let is_stats = |of: &Expr| matches!(&of.node, Node::Member(_, name) if name == "stats");
    let schema = schema();
    let (path, is_known) = match &expr.node {
        Node::Index(of, arguments) if is_stats(of) => match arguments.as_slice() {
            [Argument { name: None, value: Expr { node: Node::Text(path), .. } }] => {
                (path, schema.has(path))
            }
            _ => return Ok(()),
        },
        Node::Call(name, arguments) if name == "total" => match arguments.as_slice() {
            [of, Argument { value: Expr { node: Node::Text(end), .. }, .. }]
                if is_stats(&of.value) =>
            {
                (end, schema.has_end(end))
            }
            _ => return Ok(()),
        },
        _ => return Ok(()),
    };
    if is_known {
        return Ok(());
    }
    let near = nearest(&without_indices(path), schema.statistics().map(|known| &known.path));
    Err(Problem::new(expr.at, format!("no report has a statistic '{path}'{near}")))
}

/// A member of a run's report is one that its reports can have: `read(64).latency.mean_cycles`.
pub(super) fn fields_exist(document: &Document, expr: &Expr) -> Result<(), Problem> {
    let Some((name, path)) = path_in_report(expr) else {
        return Ok(());
    };
    let Some(Body::Run(run)) = document.definitions.get(name).map(|found| &found.body) else {
        return Ok(());
    };
    if has(run, &path) {
        return Ok(());
    }
    let fields = schema().field.iter().map(|field| field.path.as_str());
    let known: Vec<&str> = match run.program {
        Some(_) => OF_PROGRAMS.to_vec(),
        None => fields.chain(["stats"]).collect(),
    };
    let near = nearest(&path, known);
    Err(Problem::new(expr.at, format!("the report of {name} has no '{path}'{near}")))
}

/// The run at the root of an expression, and the path from there, with `[]` for each index.
fn path_in_report(expr: &Expr) -> Option<(&str, String)> {
    match &expr.node {
        Node::Call(name, _) | Node::Name(name) => Some((name, String::new())),
        Node::Member(of, name) => {
            let (run, path) = path_in_report(of)?;
            Some((run, if path.is_empty() { name.clone() } else { format!("{path}.{name}") }))
        }
        Node::Index(of, _) => path_in_report(of).map(|(run, path)| (run, path + "[]")),
        _ => None,
    }
}

/// Whether reports of the run have this path. Trials on this host and outputs of programs have no schema: any path is
/// taken.
fn has(run: &RunTemplate, path: &str) -> bool {
    let first = path.split(['.', '[']).next().unwrap_or_default();
    if first.is_empty() || run.trial.is_some() {
        return true;
    }
    if run.program.is_some() {
        return OF_PROGRAMS.contains(&first);
    }
    let path = path.trim_end_matches("[]");
    let is_part = |known: &str| {
        known.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    first == "stats" || schema().field.iter().any(|field| is_part(&field.path))
}
