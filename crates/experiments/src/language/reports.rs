//! Whether reports have what expressions read of them.

use rackmem_sim::statistics::{Statistic, schema, without_indices};

use super::Problem;
use super::ast::{Argument, Expr, Node};
use crate::document::{Body, Document, RunTemplate};
use crate::nearest::nearest;

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
    let near = nearest(&path, known(run));
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
        Node::Index(of, arguments) => {
            let (run, path) = path_in_report(of)?;
            let member = match arguments.as_slice() {
                [Argument { name: None, value: Expr { node: Node::Text(name), .. } }] => name,
                _ => return Some((run, path + "[]")),
            };
            Some((run, format!("{path}.{member}")))
        }
        _ => None,
    }
}

/// Whether reports of the run have this path. Trials on this host have no schema: any path is taken. So is a member of
/// a program's output whose name an expression makes, `output[]`, and what is in it.
fn has(run: &RunTemplate, path: &str) -> bool {
    let first = path.split(['.', '[']).next().unwrap_or_default();
    if first.is_empty() || first == "stats" || run.trial.is_some() || path.starts_with("output[]") {
        return true;
    }
    let path = path.trim_end_matches("[]");
    let is_part = |known: String| {
        known.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    known(run).into_iter().any(is_part)
}

/// Paths of the reports of a run. Of a program that an expression names, those of all programs.
fn known(run: &RunTemplate) -> Vec<String> {
    let schema = schema();
    let paths = |of: &[Statistic]| of.iter().map(|one| one.path.clone()).collect::<Vec<_>>();
    let Some(program) = &run.program else {
        return paths(&schema.field).into_iter().chain(["stats".to_owned()]).collect();
    };
    let is_it = |name: &str| program.name.plain().is_none_or(|plain| plain == name);
    let programs = schema.program.iter().filter(|one| is_it(&one.name));
    let in_its_place = program.if_it_fails.as_ref().and_then(|output| output.as_object());
    let in_its_place = in_its_place.into_iter().flat_map(|output| output.keys().cloned());
    let outputs = programs.flat_map(|one| paths(&one.member)).chain(in_its_place);
    let outputs = outputs.map(|path| format!("output.{path}"));
    outputs.chain(["cycles", "stats"].map(str::to_owned)).collect()
}
