//! The value of an expression; or, while runs are planned, the runs that it takes.
//!
//! A run that has not been made gives [`Value::Unknown`], which everything that is computed of it is, too. Both
//! branches of an unknown condition are evaluated, so that evaluating an expression once finds all runs whose
//! parameters are known; a run whose parameters depend on other runs is found once those have been made.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value as Json;

use super::ast::{Argument, Binary, Clause, Expr, Node, Unary};
use super::functions::FUNCTIONS;
use super::template::{Piece, Template};
use super::value::{Outcome, Stop, Value, missing};
use crate::document::{Body, Definition, Document};
use crate::run::Run;
use crate::variation::Variation;
use crate::{Effort, Known};

/// All that expressions can speak of.
pub struct World<'a> {
    /// The experiment file.
    pub document: &'a Document,
    /// Amount of work.
    pub effort: Effort,
    /// The setting that is varied, if one is.
    pub variation: Option<&'a Variation>,
    /// Trees by name: machines, options, facts about this host and the interface.
    pub trees: &'a BTreeMap<String, Known<Json>>,
    /// Values that the paper prints, by name of the claim.
    pub published: &'a BTreeMap<String, f64>,
    /// Reports of runs by name.
    pub reports: &'a BTreeMap<String, Known<Arc<Json>>>,
    /// Whether runs that have not been made are noted in `asked`; else they are missing.
    pub is_planning: bool,
    /// Runs that have been asked for and not been made.
    pub asked: RefCell<BTreeMap<String, Run>>,
    /// Names of the runs that have been asked for since this was last cleared.
    pub used: RefCell<BTreeSet<String>>,
}

/// Variables of a place in an expression.
#[derive(Clone, Default)]
pub struct Scope<'a> {
    variables: Vec<(String, Value<'a>)>,
}

impl<'a> Scope<'a> {
    /// The same with one variable more, which hides another of its name.
    pub fn set(&mut self, name: &str, value: Value<'a>) {
        self.variables.push((name.to_owned(), value));
    }

    fn get(&self, name: &str) -> Option<&Value<'a>> {
        self.variables.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value)
    }
}

impl<'a> World<'a> {
    /// The value of an expression.
    ///
    /// # Errors
    /// A run is missing, a path leads nowhere, or an operand has the wrong type.
    pub fn value(&self, expr: &Expr, scope: &Scope<'a>) -> Outcome<Value<'a>> {
        match &expr.node {
            Node::Number(number) => Ok(Value::Number(*number)),
            Node::Text(text) => Ok(Value::text(text)),
            Node::Filled(template) => Ok(Value::text(&self.text(template, scope)?)),
            Node::Bool(flag) => Ok(Value::Bool(*flag)),
            Node::None => Ok(Value::None),
            Node::Name(name) => self.name(name, scope),
            Node::List(all) => {
                let values: Outcome<_> = all.iter().map(|one| self.value(one, scope)).collect();
                Ok(Value::list(values?))
            }
            Node::Call(name, arguments) => self.call(name, arguments, scope),
            Node::Each(body, clauses) => {
                let rows = self.each(body, clauses, scope)?;
                Ok(Value::list(rows.into_iter().map(|(_, value)| value).collect()))
            }
            Node::Member(of, name) => self.value(of, scope)?.member(name),
            Node::Index(of, arguments) => self.index(of, arguments, scope),
            Node::Unary(operator, operand) => unary(*operator, &self.value(operand, scope)?),
            Node::Binary(operator, left, right) => self.binary(*operator, left, right, scope),
            Node::If { condition, yes, no } => match self.value(condition, scope)? {
                Value::Unknown => {
                    // Only the runs that both ask for matter.
                    let _ = (self.value(yes, scope), self.value(no, scope));
                    Ok(Value::Unknown)
                }
                condition => self.value(if condition.bool()? { yes } else { no }, scope),
            },
        }
    }

    /// A text with the values of its expressions.
    ///
    /// # Errors
    /// As [`World::value`].
    pub fn text(&self, template: &Template, scope: &Scope<'a>) -> Outcome<String> {
        let mut text = String::new();
        for piece in &template.0 {
            match piece {
                Piece::Text(plain) => text += plain,
                Piece::Value(expr, digits) => text += &self.value(expr, scope)?.shown(*digits),
            }
        }
        Ok(text)
    }

    fn name(&self, name: &str, scope: &Scope<'a>) -> Outcome<Value<'a>> {
        if let Some(value) = scope.get(name) {
            return Ok(value.clone());
        }
        if let Some(definition) = self.document.definitions.get(name) {
            return self.definition(name, definition, &[], scope);
        }
        match self.trees.get(name) {
            Some(Ok(tree)) => Ok(Value::of(tree)),
            Some(Err(problem)) => missing(problem),
            None => missing(format!("there is no {name}")),
        }
    }

    fn call(&self, name: &str, arguments: &[Argument], scope: &Scope<'a>) -> Outcome<Value<'a>> {
        if let Some(definition) = self.document.definitions.get(name) {
            return self.definition(name, definition, arguments, scope);
        }
        match name {
            "argmax" => return self.arg_best(arguments, scope, |value, best| value > best),
            "argmin" => return self.arg_best(arguments, scope, |value, best| value < best),
            _ => {}
        }
        let values: Outcome<Vec<Value>> =
            arguments.iter().map(|argument| self.value(&argument.value, scope)).collect();
        let values = values?;
        if values.iter().any(Value::is_unknown) {
            return Ok(Value::Unknown);
        }
        match name {
            "published" => {
                let claim = values[0].shown(None);
                let found = self.published.get(&claim).map(|&value| Value::Number(value));
                found.ok_or_else(|| Stop::Missing(format!("there is no value of a claim {claim}")))
            }
            "untestable" => Err(Stop::Untestable(values[0].shown(None))),
            _ => match FUNCTIONS.iter().find(|function| function.name == name) {
                Some(function) => (function.apply)(&values),
                None => missing(format!("there is no function {name}")),
            },
        }
    }

    /// The value of a definition, or the report of a run.
    fn definition(
        &self,
        name: &str,
        definition: &'a Definition,
        arguments: &[Argument],
        scope: &Scope<'a>,
    ) -> Outcome<Value<'a>> {
        let mut inner = Scope::default();
        let mut positional = arguments.iter().filter(|argument| argument.name.is_none());
        for parameter in &definition.parameters {
            let by_name = |argument: &&Argument| argument.name.as_deref() == Some(&parameter.name);
            let argument = arguments.iter().find(by_name).or_else(|| positional.next());
            let value = match (argument, &parameter.default) {
                (Some(argument), _) => self.value(&argument.value, scope)?,
                (None, Some(default)) => self.value(default, &inner)?,
                (None, None) => return missing(format!("{name} needs {}", parameter.name)),
            };
            inner.set(&parameter.name, value);
        }
        match &definition.body {
            Body::Value(by_effort) => self.value(by_effort.of(self.effort), &inner),
            Body::Run(_) if inner.variables.iter().any(|(_, value)| value.is_unknown()) => {
                self.used.borrow_mut().insert(format!("{name}(?)"));
                Ok(Value::Unknown)
            }
            Body::Run(template) => {
                let run = Run::new(template, self, &inner)?;
                self.used.borrow_mut().insert(run.name.clone());
                self.report(run)
            }
        }
    }

    fn report(&self, run: Run) -> Outcome<Value<'a>> {
        match self.reports.get(&run.name) {
            Some(Ok(report)) => Ok(Value::of(report)),
            Some(Err(problem)) => missing(format!("the run {} failed: {problem}", run.name)),
            None if self.is_planning => {
                self.asked.borrow_mut().insert(run.name.clone(), run);
                Ok(Value::Unknown)
            }
            None => missing(format!("the run {} was not made", run.name)),
        }
    }

    /// Values of a comprehension, each with its variables.
    fn each(
        &self,
        body: &Expr,
        clauses: &[Clause],
        scope: &Scope<'a>,
    ) -> Outcome<Vec<(Vec<Value<'a>>, Value<'a>)>> {
        let mut rows = Vec::new();
        self.nest(body, clauses, scope.clone(), &mut Vec::new(), &mut rows)?;
        Ok(rows)
    }

    fn nest(
        &self,
        body: &Expr,
        clauses: &[Clause],
        mut scope: Scope<'a>,
        bound: &mut Vec<Value<'a>>,
        rows: &mut Vec<(Vec<Value<'a>>, Value<'a>)>,
    ) -> Outcome<()> {
        match clauses.split_first() {
            None => rows.push((bound.clone(), self.value(body, &scope)?)),
            Some((Clause::If(condition), rest)) => match self.value(condition, &scope)? {
                Value::Unknown => {
                    let mut found = Vec::new();
                    self.nest(body, rest, scope, bound, &mut found)?;
                    rows.extend(found.into_iter().map(|(bound, _)| (bound, Value::Unknown)));
                }
                condition if condition.bool()? => self.nest(body, rest, scope, bound, rows)?,
                _ => {}
            },
            Some((Clause::For(name, list), rest)) => {
                let list = self.value(list, &scope)?;
                let elements = match list {
                    Value::Unknown => vec![Value::Unknown],
                    list => list.elements()?,
                };
                for element in elements {
                    scope.set(name, element.clone());
                    bound.push(element);
                    self.nest(body, rest, scope.clone(), bound, rows)?;
                    bound.pop();
                    scope.variables.pop();
                }
            }
        }
        Ok(())
    }

    /// The variables for which a value is best; of equal ones the first.
    fn arg_best(
        &self,
        arguments: &[Argument],
        scope: &Scope<'a>,
        is_better: fn(f64, f64) -> bool,
    ) -> Outcome<Value<'a>> {
        let [Argument { value: Expr { node: Node::Each(body, clauses), .. }, .. }] = arguments
        else {
            return missing("it is taken of one 'value for name in list'");
        };
        let mut best: Option<(f64, Vec<Value>)> = None;
        let mut is_unknown = false;
        for (bound, value) in self.each(body, clauses, scope)? {
            if value.is_unknown() {
                is_unknown = true;
                continue;
            }
            let value = value.number()?;
            if best.as_ref().is_none_or(|(most, _)| is_better(value, *most)) {
                best = Some((value, bound));
            }
        }
        match best {
            _ if is_unknown => Ok(Value::Unknown),
            Some((_, mut bound)) if bound.len() == 1 => Ok(bound.remove(0)),
            Some((_, bound)) => Ok(Value::list(bound)),
            None => missing("there is nothing to choose from"),
        }
    }

    fn index(&self, of: &Expr, arguments: &[Argument], scope: &Scope<'a>) -> Outcome<Value<'a>> {
        let of = self.value(of, scope)?;
        let mut wanted = Vec::new();
        for argument in arguments {
            wanted.push((argument.name.as_deref(), self.value(&argument.value, scope)?));
        }
        if of.is_unknown() || wanted.iter().any(|(_, value)| value.is_unknown()) {
            return Ok(Value::Unknown);
        }
        match wanted.as_slice() {
            [(None, Value::Text(name))] => of.member(name),
            [(None, Value::Number(at))] => {
                let all = of.elements()?;
                let found = all.get(*at as usize).filter(|_| *at >= 0.0).cloned();
                found.ok_or_else(|| Stop::Missing(format!("no element {at} of {}", all.len())))
            }
            conditions => row(&of, conditions),
        }
    }

    fn binary(
        &self,
        operator: Binary,
        left: &Expr,
        right: &Expr,
        scope: &Scope<'a>,
    ) -> Outcome<Value<'a>> {
        let left = self.value(left, scope)?;
        match (operator, &left) {
            (Binary::And, Value::Bool(false)) | (Binary::Or, Value::Bool(true)) => return Ok(left),
            _ => {}
        }
        let right = self.value(right, scope)?;
        if left.is_unknown() || right.is_unknown() {
            return Ok(Value::Unknown);
        }
        operated(operator, &left, &right)
    }
}

/// The first row with these members.
fn row<'a>(of: &Value<'a>, conditions: &[(Option<&str>, Value<'a>)]) -> Outcome<Value<'a>> {
    for element in of.elements()? {
        let has = |(name, value): &(Option<&str>, Value<'a>)| {
            name.is_some_and(|name| element.member(name).is_ok_and(|found| found.equals(value)))
        };
        if conditions.iter().all(has) {
            return Ok(element);
        }
    }
    let shown = |(name, value): &(Option<&str>, Value<'a>)| {
        format!("{}={}", name.unwrap_or_default(), value.shown(None))
    };
    let all: Vec<String> = conditions.iter().map(shown).collect();
    missing(format!("no row with {}", all.join(", ")))
}

fn unary<'a>(operator: Unary, operand: &Value<'a>) -> Outcome<Value<'a>> {
    if operand.is_unknown() {
        return Ok(Value::Unknown);
    }
    Ok(match operator {
        Unary::Minus => Value::Number(-operand.number()?),
        Unary::Not => Value::Bool(!operand.bool()?),
    })
}

fn operated<'a>(operator: Binary, left: &Value<'a>, right: &Value<'a>) -> Outcome<Value<'a>> {
    if let (Binary::Add, Value::Text(left), Value::Text(right)) = (operator, left, right) {
        return Ok(Value::text(&format!("{left}{right}")));
    }
    if let (Binary::Add, Value::List(left), Value::List(right)) = (operator, left, right) {
        return Ok(Value::list(left.iter().chain(right.iter()).cloned().collect()));
    }
    let numbers = || Ok::<_, Stop>((left.number()?, right.number()?));
    let number = |of: fn(f64, f64) -> f64| numbers().map(|(a, b)| Value::Number(of(a, b)));
    let flag = |of: fn(f64, f64) -> bool| numbers().map(|(a, b)| Value::Bool(of(a, b)));
    match operator {
        Binary::Add => number(|a, b| a + b),
        Binary::Subtract => number(|a, b| a - b),
        Binary::Multiply => number(|a, b| a * b),
        Binary::Divide => number(|a, b| a / b),
        Binary::Modulo => number(|a, b| a % b),
        Binary::Less => flag(|a, b| a < b),
        Binary::AtMost => flag(|a, b| a <= b),
        Binary::More => flag(|a, b| a > b),
        Binary::AtLeast => flag(|a, b| a >= b),
        Binary::Equal => Ok(Value::Bool(left.equals(right))),
        Binary::Unequal => Ok(Value::Bool(!left.equals(right))),
        Binary::In => {
            let all = right.elements()?;
            Ok(Value::Bool(all.iter().any(|one| one.equals(left))))
        }
        Binary::And => Ok(Value::Bool(left.bool()? && right.bool()?)),
        Binary::Or => Ok(Value::Bool(left.bool()? || right.bool()?)),
    }
}
