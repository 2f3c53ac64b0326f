//! Whether all names of expressions are known, and none depends on itself.

use std::collections::BTreeMap;

use super::Problem;
use super::ast::{Argument, Clause, Expr, Node};
use super::functions::FUNCTIONS;
use super::reports;
use super::template::Template;
use crate::document::{Body, Definition, Document, Measurement, Quantity, Row, Series};
use crate::nearest::nearest;

/// Trees that every file can name.
pub const TREES: [&str; 4] = ["host", "abi", "option", "header"];

/// Functions that the evaluator itself knows.
const SPECIAL: [&str; 4] = ["argmax", "argmin", "published", "untestable"];

/// All names that expressions of a file may use.
pub struct Names<'a> {
    document: &'a Document,
}

impl<'a> Names<'a> {
    /// The names of a file.
    pub fn of(document: &'a Document) -> Names<'a> {
        Names { document }
    }

    /// Checks the expressions of a claim.
    ///
    /// # Errors
    /// A name that is not known.
    pub fn check_measurement(&self, measurement: &Measurement) -> Result<(), Problem> {
        let mut locals = Vec::new();
        for (name, expr) in &measurement.with {
            self.check(expr, &mut locals)?;
            locals.push(name.clone());
        }
        match &measurement.quantity {
            Quantity::Value(value) => self.check(value, &mut locals)?,
            Quantity::Sides(left, right) => {
                self.check(left, &mut locals)?;
                self.check(right, &mut locals)?;
            }
        }
        for template in [&measurement.remark, &measurement.reading, &measurement.explanation] {
            self.check_template(template, &mut locals)?;
        }
        Ok(())
    }

    /// Checks the expressions of a text.
    ///
    /// # Errors
    /// A name that is not known.
    pub fn check_template(&self, text: &Template, locals: &mut Vec<String>) -> Result<(), Problem> {
        text.expressions().try_for_each(|expr| self.check(expr, locals))
    }

    /// Checks an expression in which these variables are known.
    ///
    /// # Errors
    /// A name that is not known, or arguments that do not fit.
    pub fn check(&self, expr: &Expr, locals: &mut Vec<String>) -> Result<(), Problem> {
        match &expr.node {
            Node::Name(name) => self.name(expr.at, name, locals),
            Node::Call(name, arguments) => {
                self.call(expr.at, name, arguments)?;
                self.reported(expr)?;
                arguments.iter().try_for_each(|argument| self.check(&argument.value, locals))
            }
            Node::Each(body, clauses) => {
                let outer = locals.len();
                for clause in clauses {
                    match clause {
                        Clause::For(name, list) => {
                            self.check(list, locals)?;
                            locals.push(name.clone());
                        }
                        Clause::If(condition) => self.check(condition, locals)?,
                    }
                }
                self.check(body, locals)?;
                locals.truncate(outer);
                Ok(())
            }
            _ => {
                self.reported(expr)?;
                children(expr).into_iter().try_for_each(|child| self.check(child, locals))
            }
        }
    }

    fn name(&self, at: usize, name: &str, locals: &[String]) -> Result<(), Problem> {
        let document = self.document;
        let is_tree = document.machines.contains_key(name) || TREES.contains(&name);
        if is_tree || locals.iter().any(|local| local == name) {
            return Ok(());
        }
        if let Some(definition) = document.definitions.get(name) {
            return arguments_fit(at, name, definition, &[]);
        }
        let known = locals.iter().map(String::as_str);
        let known = known.chain(document.definitions.keys().map(String::as_str));
        let known = known.chain(document.machines.keys().map(String::as_str)).chain(TREES);
        Err(Problem::new(at, format!("there is no '{name}'{}", nearest(name, known))))
    }

    fn call(&self, at: usize, name: &str, arguments: &[Argument]) -> Result<(), Problem> {
        if let Some(definition) = self.document.definitions.get(name) {
            return arguments_fit(at, name, definition, arguments);
        }
        if SPECIAL.contains(&name) {
            return match arguments.len() {
                1 => Ok(()),
                count => Err(Problem::new(at, format!("{name} takes 1 argument, not {count}"))),
            };
        }
        let Some(function) = FUNCTIONS.iter().find(|function| function.name == name) else {
            let known = FUNCTIONS.iter().map(|function| function.name).chain(SPECIAL);
            let known = known.chain(self.document.definitions.keys().map(String::as_str));
            let what = format!("there is no function '{name}'{}", nearest(name, known));
            return Err(Problem::new(at, what));
        };
        let (fewest, most) = function.arguments;
        let count = arguments.len();
        if arguments.iter().any(|argument| argument.name.is_some()) {
            return Err(Problem::new(at, format!("{name} has no arguments by name")));
        }
        if count < fewest || count > most {
            return Err(Problem::new(
                at,
                format!("{name} takes {fewest} argument(s), not {count}"),
            ));
        }
        Ok(())
    }

    /// Checks statistics and members of reports against the schema.
    fn reported(&self, expr: &Expr) -> Result<(), Problem> {
        reports::statistics_exist(expr)?;
        reports::fields_exist(self.document, expr)
    }

    /// Checks that no definition depends on itself, and that all names are known but those of claims.
    ///
    /// # Errors
    /// The names of the circle, or what is not known.
    pub fn check_document(&self) -> Result<(), String> {
        let mut state = BTreeMap::new();
        for name in self.document.definitions.keys() {
            self.visit(name, &mut state, &mut Vec::new())?;
        }
        let said = |of: &str, problem: Problem| format!("{of}: {}", problem.what);
        for sheet in &self.document.sheets {
            for series in &sheet.series {
                self.check_series(series).map_err(|problem| said(&sheet.name, problem))?;
            }
        }
        for row in &self.document.rows {
            self.check_row(row).map_err(|problem| said(&format!("{:?}", row.name), problem))?;
        }
        let mut heats = self.document.heats.iter();
        heats
            .try_for_each(|heat| self.check(&heat.run, &mut vec![]))
            .map_err(|problem| problem.what)
    }

    fn check_each(&self, each: &[(String, Expr)]) -> Result<Vec<String>, Problem> {
        let mut locals = Vec::new();
        for (name, list) in each {
            self.check(list, &mut locals)?;
            locals.push(name.clone());
        }
        Ok(locals)
    }

    fn check_series(&self, series: &Series) -> Result<(), Problem> {
        let mut locals = self.check_each(&series.each)?;
        self.check_template(&series.name, &mut locals)?;
        self.check(&series.points.1, &mut locals)?;
        locals.push(series.points.0.clone());
        self.check_template(&series.claim, &mut locals)?;
        self.check(&series.x, &mut locals)?;
        self.check(&series.y, &mut locals)
    }

    fn check_row(&self, row: &Row) -> Result<(), Problem> {
        let mut locals = self.check_each(&row.each)?;
        row.when.iter().try_for_each(|when| self.check(when, &mut locals))?;
        self.check_template(&row.name, &mut locals)?;
        self.check(&row.value, &mut locals)
    }

    fn visit(
        &self,
        name: &'a str,
        state: &mut BTreeMap<&'a str, bool>,
        path: &mut Vec<&'a str>,
    ) -> Result<(), String> {
        match state.get(name) {
            Some(true) => return Ok(()),
            Some(false) => return Err(format!("{} -> {name} is a circle", path.join(" -> "))),
            None => {}
        }
        state.insert(name, false);
        path.push(name);
        let definition = &self.document.definitions[name];
        let mut locals: Vec<String> =
            definition.parameters.iter().map(|parameter| parameter.name.clone()).collect();
        for expr in expressions(definition) {
            self.check(expr, &mut locals).map_err(|problem| format!("{name}: {}", problem.what))?;
            let mut used = Vec::new();
            names_in(expr, &mut locals.iter().map(String::as_str).collect(), &mut used);
            for next in used {
                if let Some((next, _)) = self.document.definitions.get_key_value(next) {
                    self.visit(next, state, path)?;
                }
            }
        }
        path.pop();
        state.insert(name, true);
        Ok(())
    }
}

/// Arguments are those that a definition takes.
fn arguments_fit(
    at: usize,
    name: &str,
    definition: &Definition,
    arguments: &[Argument],
) -> Result<(), Problem> {
    let names = || definition.parameters.iter().map(|parameter| parameter.name.as_str());
    let mut positional = 0;
    for argument in arguments {
        match &argument.name {
            None => positional += 1,
            Some(given) if names().any(|known| known == given) => {}
            Some(given) => {
                let what = format!("{name} has no parameter '{given}'{}", nearest(given, names()));
                return Err(Problem::new(at, what));
            }
        }
    }
    let by_name = |wanted: &str| arguments.iter().any(|one| one.name.as_deref() == Some(wanted));
    let open: Vec<_> = definition.parameters.iter().filter(|one| !by_name(&one.name)).collect();
    if positional > open.len() {
        let what = format!("{name} takes {} argument(s), not {}", open.len(), arguments.len());
        return Err(Problem::new(at, what));
    }
    match open.iter().skip(positional).find(|parameter| parameter.default.is_none()) {
        None => Ok(()),
        Some(parameter) => Err(Problem::new(at, format!("{name} needs '{}'", parameter.name))),
    }
}

/// Expressions of a definition.
fn expressions(definition: &Definition) -> Vec<&Expr> {
    let defaults = definition.parameters.iter().filter_map(|one| one.default.as_ref());
    let mut all: Vec<&Expr> = defaults.collect();
    match &definition.body {
        Body::Value(value) => all.extend([&value.quick, &value.full]),
        Body::Run(run) => {
            all.extend(run.name.expressions());
            let settings = run.settings.quick.iter().chain(&run.settings.full);
            all.extend(settings.flat_map(|(_, value)| value.expressions()));
            all.extend(run.machine.iter().flat_map(Template::expressions));
            all.extend(&run.cost);
            if let Some(program) = &run.program {
                all.extend(program.name.expressions());
                let words = program.arguments.iter().chain(program.beside.iter().flatten());
                all.extend(words.flat_map(Template::expressions));
                all.extend(program.progress.expressions());
                all.push(&program.nodes);
            }
        }
    }
    all
}

fn children(expr: &Expr) -> Vec<&Expr> {
    match &expr.node {
        Node::List(all) => all.iter().collect(),
        Node::Call(_, arguments) => arguments.iter().map(|argument| &argument.value).collect(),
        Node::Each(body, clauses) => {
            let lists = clauses.iter().map(|clause| match clause {
                Clause::For(_, list) => list,
                Clause::If(condition) => condition,
            });
            lists.chain([body.as_ref()]).collect()
        }
        Node::Filled(template) => template.expressions().collect(),
        Node::Member(of, _) => vec![of],
        Node::Index(of, arguments) => {
            [of.as_ref()].into_iter().chain(arguments.iter().map(|one| &one.value)).collect()
        }
        Node::Unary(_, operand) => vec![operand],
        Node::Binary(_, left, right) => vec![left, right],
        Node::If { condition, yes, no } => vec![condition, yes, no],
        Node::Number(_) | Node::Text(_) | Node::Bool(_) | Node::None | Node::Name(_) => vec![],
    }
}

/// Names that an expression uses, but those of variables.
fn names_in<'e>(expr: &'e Expr, variables: &mut Vec<&'e str>, into: &mut Vec<&'e str>) {
    match &expr.node {
        Node::Name(name) if variables.contains(&name.as_str()) => {}
        Node::Name(name) | Node::Call(name, _) => into.push(name),
        _ => {}
    }
    let outer = variables.len();
    if let Node::Each(_, clauses) = &expr.node {
        variables.extend(clauses.iter().filter_map(|clause| match clause {
            Clause::For(name, _) => Some(name.as_str()),
            Clause::If(_) => None,
        }));
    }
    for child in children(expr) {
        names_in(child, variables, into);
    }
    variables.truncate(outer);
}
