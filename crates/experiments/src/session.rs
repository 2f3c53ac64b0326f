//! A reproduction: which runs a selection of claims takes, and the verdicts that follow from their reports.

mod judge;
pub mod mutate;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value as Json;

use crate::claims::Claim;
use crate::document::{Check, Document, Measurement, Quantity, Row, Series, Sheet, Way};
use crate::language::ast::Expr;
use crate::language::evaluate::{Scope, World};
use crate::language::value::{Outcome as Evaluated, Stop, Value, missing};
use crate::outcome::{Beyond, Curve, Curves, FailedRun, Outcome, Summary};
use crate::run::Run;
use crate::variation::Variation;
use crate::{Effort, Known};

/// Reports of runs by name.
type Reports = BTreeMap<String, Known<Arc<Json>>>;

/// A reproduction of a paper, or of a part of it.
pub struct Session<'a> {
    /// The experiment file.
    pub document: &'a Document,
    /// Amount of work.
    pub effort: Effort,
    /// The setting that is varied, if one is.
    pub variation: Option<&'a Variation>,
    /// The part that is asked for; `None`: all.
    pub selection: Option<usize>,
    /// Trees that expressions can name.
    pub trees: BTreeMap<String, Known<Json>>,
    /// What this host can do that claims may need; else why not.
    pub abilities: BTreeMap<String, Known<()>>,
    /// Reports of the runs that have been made.
    reports: Reports,
    /// These runs, by name.
    runs: BTreeMap<String, Run>,
    published: BTreeMap<String, f64>,
}

impl<'a> Session<'a> {
    /// A reproduction without runs yet.
    pub fn new(
        document: &'a Document,
        effort: Effort,
        selection: Option<usize>,
        trees: BTreeMap<String, Known<Json>>,
        abilities: BTreeMap<String, Known<()>>,
    ) -> Session<'a> {
        let values = document.published.iter();
        let values = values.filter_map(|claim| Some((claim.short_id().to_owned(), claim.value?)));
        let published = values.collect();
        let (reports, runs) = (BTreeMap::new(), BTreeMap::new());
        let variation = None;
        Session {
            document,
            effort,
            variation,
            selection,
            trees,
            abilities,
            reports,
            runs,
            published,
        }
    }

    /// Adds a run that has been made.
    pub fn add(&mut self, run: Run, report: Known<Json>) {
        self.reports.insert(run.name.clone(), report.map(Arc::new));
        self.runs.insert(run.name.clone(), run);
    }

    /// A reproduction like this one, on varied machines: trees of machines are the varied ones.
    pub fn varied<'v>(
        &self,
        variation: &'v Variation,
        machines: BTreeMap<String, Known<Json>>,
    ) -> Session<'v>
    where
        'a: 'v,
    {
        let mut trees = self.trees.clone();
        trees.extend(machines);
        let mut varied =
            Session::new(self.document, self.effort, self.selection, trees, self.abilities.clone());
        varied.variation = Some(variation);
        varied
    }

    /// Takes the reports of those of these runs that another reproduction has made as they are; gives the rest, and
    /// with another seed all runs on this host.
    pub fn take_made(&mut self, runs: Vec<Run>, other: &Session<'_>) -> Vec<Run> {
        let mut rest = Vec::new();
        let is_seed = self.variation.is_some_and(Variation::is_seed);
        for run in runs {
            let is_same = other.runs.get(&run.name) == Some(&run);
            let stays = is_same && !(is_seed && run.machine.is_none());
            match other.reports.get(&run.name).filter(|_| stays) {
                Some(report) => {
                    self.reports.insert(run.name.clone(), report.clone());
                    self.runs.insert(run.name.clone(), run);
                }
                None => rest.push(run),
            }
        }
        rest
    }

    /// All runs that have been made, with their reports if they went well.
    pub fn runs(&self) -> impl Iterator<Item = (&Run, &Known<Arc<Json>>)> {
        self.runs.values().map(|run| (run, &self.reports[&run.name]))
    }

    fn world(&self, is_planning: bool) -> World<'_> {
        self.world_of(&self.reports, is_planning)
    }

    fn world_of<'s>(&'s self, reports: &'s Reports, is_planning: bool) -> World<'s> {
        World {
            document: self.document,
            effort: self.effort,
            variation: self.variation,
            trees: &self.trees,
            published: &self.published,
            reports,
            is_planning,
            asked: RefCell::default(),
            used: RefCell::default(),
        }
    }

    /// Whether this host can do what something needs.
    fn able(&self, what: Option<&str>) -> Evaluated<()> {
        match what.and_then(|what| self.abilities.get(what)) {
            Some(Err(why)) => Err(Stop::Untestable(why.clone())),
            _ => Ok(()),
        }
    }

    fn is_selected(&self, part: Option<usize>) -> bool {
        self.selection.is_none() || self.selection == part
    }

    /// The runs that the selection takes and that have not been made. Some are known only when others have been
    /// made: ask again until there are none.
    pub fn plan(&self) -> Vec<Run> {
        let world = self.world(true);
        // Only the runs that expressions ask for matter here, not their values.
        for check in self.document.checks.iter().chain(&self.document.on_host) {
            if let (true, Way::Measured(measurement)) = (self.is_selected(check.part), &check.way) {
                let _ = self.measured(&world, measurement);
            }
        }
        for sheet in self.sheets() {
            let _ = curves(&world, sheet);
        }
        for row in self.rows() {
            let _ = rows(&world, row);
        }
        world.asked.into_inner().into_values().collect()
    }

    fn sheets(&self) -> impl Iterator<Item = &'a Sheet> {
        let is_able = |sheet: &&Sheet| self.able(sheet.needs.as_deref()).is_ok();
        self.document
            .sheets
            .iter()
            .filter(|sheet| self.is_selected(Some(sheet.part)))
            .filter(is_able)
    }

    fn rows(&self) -> impl Iterator<Item = &'a Row> {
        self.document.rows.iter().filter(|row| self.is_selected(Some(row.part)))
    }

    /// Judges the claims of the selection.
    pub fn outcome(&self, notes: Vec<String>) -> Outcome {
        let world = self.world(false);
        let by_id: BTreeMap<&str, &Check> =
            self.document.checks.iter().map(|check| (check.id.as_str(), check)).collect();
        let mut claims = Vec::new();
        for claim in &self.document.published {
            match by_id.get(claim.short_id()) {
                Some(check) if self.is_selected(check.part) => {
                    claims.push(self.judged(&world, claim, check, true));
                }
                _ => {}
            }
        }
        let mut runtime = Vec::new();
        for check in self.document.on_host.iter().filter(|check| self.is_selected(check.part)) {
            let claim = self.document.published.iter().find(|claim| claim.short_id() == check.id);
            // Explanations of missed claims are about the model.
            runtime.extend(claim.map(|claim| self.judged(&world, claim, check, false)));
        }
        let curves = self
            .sheets()
            .filter_map(|sheet| Some((sheet.name.clone(), curves(&world, sheet).ok()?)));
        Outcome {
            paper: self.document.paper.clone(),
            parts: self.document.parts.clone(),
            effort: self.effort.name(),
            notes,
            summary: Summary::of(&claims),
            claims,
            runtime,
            curves: curves.collect(),
            beyond: self.rows().flat_map(|row| rows(&world, row)).collect(),
            failed_runs: self.failed_runs(),
        }
    }

    fn failed_runs(&self) -> Vec<FailedRun> {
        let failed = self.reports.iter().filter_map(|(name, report)| {
            let problem = report.as_ref().err()?.clone();
            Some(FailedRun { experiment: name.clone(), problem })
        });
        failed.collect()
    }

    /// The title of each picture of links whose run has been made, and the report of this run.
    pub fn heats(&self) -> Vec<(&'a str, &Json)> {
        let world = self.world(false);
        let found = self.document.heats.iter().filter_map(|heat| {
            match world.value(&heat.run, &Scope::default()).ok()? {
                Value::Tree(report) => Some((heat.title.as_str(), report)),
                _ => None,
            }
        });
        found.collect()
    }

    /// A claim by its whole name, and how it is measured.
    fn claim_and_check(&self, id: &str) -> Option<(&'a Claim, &'a Check)> {
        let claim = self.document.published.iter().find(|claim| claim.id == id)?;
        let check = self.document.checks.iter().find(|check| check.id == claim.short_id())?;
        Some((claim, check))
    }

    /// The measured quantity of a claim, with the variables of its texts.
    fn measured<'s>(
        &'s self,
        world: &World<'s>,
        measurement: &Measurement,
    ) -> Evaluated<(Measure, Scope<'s>)> {
        self.able(measurement.needs.as_deref())?;
        let mut scope = Scope::default();
        for (name, expr) in &measurement.with {
            let value = world.value(expr, &scope)?;
            scope.set(name, value);
        }
        let measure = match &measurement.quantity {
            Quantity::Value(expr) => match world.value(expr, &scope)? {
                Value::Bool(flag) => Measure::Fact(flag),
                Value::Unknown => Measure::Unknown,
                value => Measure::Number(value.number()?),
            },
            Quantity::Sides(left, right) => {
                let (left, right) = (world.value(left, &scope), world.value(right, &scope));
                match (left?, right?) {
                    (Value::Unknown, _) | (_, Value::Unknown) => Measure::Unknown,
                    (left, right) => Measure::Sides(left.number()?, right.number()?),
                }
            }
        };
        if world.is_planning {
            let texts = [&measurement.remark, &measurement.explanation, &measurement.reading];
            texts.into_iter().for_each(|text| drop(world.text(text, &scope)));
        }
        Ok((measure, scope))
    }
}

/// A measured quantity.
enum Measure {
    Number(f64),
    Sides(f64, f64),
    Fact(bool),
    Unknown,
}

/// Calls with every combination of these variables.
fn combinations<'s>(
    world: &World<'s>,
    each: &[(String, Expr)],
    scope: &Scope<'s>,
    with: &mut dyn FnMut(&Scope<'s>),
) -> Evaluated<()> {
    let Some(((name, list), rest)) = each.split_first() else {
        with(scope);
        return Ok(());
    };
    for value in world.value(list, scope)?.elements()? {
        let mut inner = scope.clone();
        inner.set(name, value);
        combinations(world, rest, &inner, with)?;
    }
    Ok(())
}

/// The curves of a sheet; none if a run of them failed.
fn curves<'s>(world: &World<'s>, sheet: &Sheet) -> Evaluated<Curves> {
    let mut all = Vec::new();
    for series in &sheet.series {
        combinations(world, &series.each, &Scope::default(), &mut |scope| {
            all.push(curve(world, series, scope));
        })?;
    }
    Ok(Curves {
        part: sheet.part,
        title: sheet.title.clone(),
        x: sheet.x.clone(),
        y: sheet.y.clone(),
        log_x: sheet.log_x,
        series: all.into_iter().collect::<Evaluated<_>>()?,
    })
}

fn curve<'s>(world: &World<'s>, series: &Series, scope: &Scope<'s>) -> Evaluated<Curve> {
    let (name, list) = &series.points;
    let (mut points, mut claims) = (Vec::new(), Vec::new());
    let mut is_unknown = false;
    let positions = match world.value(list, scope)? {
        Value::Unknown => vec![],
        list => list.elements()?,
    };
    for position in positions {
        let mut scope = scope.clone();
        scope.set(name, position);
        let claim = world.text(&series.claim, &scope)?;
        match (world.value(&series.x, &scope)?, world.value(&series.y, &scope)?) {
            (Value::Unknown, _) | (_, Value::Unknown) => is_unknown = true,
            (x, y) => {
                let x = x.number()?;
                points.push((x, y.number()?));
                if !claim.is_empty() {
                    claims.push((x, format!("{}/{claim}", world.document.paper)));
                }
            }
        }
    }
    if is_unknown && !world.is_planning {
        return missing("a point is not known");
    }
    Ok(Curve { name: world.text(&series.name, scope)?, dashed: series.dashed, points, claims })
}

/// The rows that have a value: those of failed runs are left out.
fn rows<'s>(world: &World<'s>, row: &Row) -> Vec<Beyond> {
    let mut all = Vec::new();
    // A list of a failed run has no rows.
    let _ = combinations(world, &row.each, &Scope::default(), &mut |scope| {
        let is_there =
            row.when.as_ref().map(|when| world.value(when, scope).and_then(|is| is.bool()));
        if is_there.is_some_and(|is| is != Ok(true)) {
            return;
        }
        let value = world.value(&row.value, scope);
        let name = world.text(&row.name, scope);
        if let (Ok(Value::Number(value)), Ok(name)) = (value, name) {
            all.push(Beyond { part: row.part, name, value, unit: row.unit.clone() });
        }
    });
    all
}
