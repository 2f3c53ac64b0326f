//! A run: a machine of the model or this host, and what it does there.

use rackmem_sim::machine::{self, Machine, Override, Use};
use serde_json::Value as Json;

use crate::Known;
use crate::document::{Output, Program, RunTemplate};
use crate::language::evaluate::{Scope, World};
use crate::language::template::Template;
use crate::language::value::{Outcome, Value, missing};

/// A run with all parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Name in files and errors; two runs of one name are the same.
    pub name: String,
    /// Machine of the model and its settings; none: this host.
    pub machine: Option<(String, Vec<Override>)>,
    /// What it does.
    pub work: Work,
    /// Estimate of the host's time, relative to other runs.
    pub cost: f64,
}

/// What a run does.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// The workload that the machine file names.
    Workload,
    /// It executes a program of `programs/`.
    Program(Execution),
    /// A measurement of the runtime on this host.
    Trial(String),
}

/// A program with its arguments.
#[derive(Clone, Debug, PartialEq)]
pub struct Execution {
    /// Name in `programs/`.
    pub program: String,
    /// Arguments, without the name.
    pub arguments: Vec<String>,
    /// Nodes that it runs on.
    pub nodes: u16,
    /// Programs of the nodes after these, a node each: the name and the arguments.
    pub beside: Vec<Vec<String>>,
    /// Way of progress on this host.
    pub progress: String,
    /// What stands for its output if it fails.
    pub if_it_fails: Option<Json>,
    /// Form of its output.
    pub output: Output,
}

impl Run {
    /// The run of a template with these parameters.
    ///
    /// # Errors
    /// An expression of the template has no value.
    pub fn new<'a>(template: &RunTemplate, world: &World<'a>, scope: &Scope<'a>) -> Outcome<Run> {
        let name = template.machine.as_ref().map(|name| optional(name, world, scope));
        let machine = match name.transpose()?.flatten() {
            None => None,
            Some(name) => {
                let varied = world.variation.filter(|varied| varied.concerns(&name));
                // Not every run of a machine reads what its file leaves open.
                let mut settings: Vec<Override> = varied
                    .map(|varied| Override::new(&varied.path, &varied.value).if_read())
                    .into_iter()
                    .collect();
                for (path, value) in template.settings.of(world.effort) {
                    if let Some(value) = optional(value, world, scope)? {
                        settings.retain(|varied| varied.path != *path);
                        settings.push(Override::new(path, value));
                    }
                }
                Some((name, settings))
            }
        };
        let work = match (&template.program, &template.trial) {
            (Some(program), _) => Work::Program(Execution::new(program, world, scope)?),
            (None, Some(trial)) => Work::Trial(trial.clone()),
            (None, None) => Work::Workload,
        };
        let cost = template.cost.as_ref().map(|cost| world.value(cost, scope)?.number());
        Ok(Run {
            name: world.text(&template.name, scope)?,
            machine,
            work,
            cost: cost.unwrap_or(Ok(1.0))?,
        })
    }

    /// The machine of the model that it runs on; `None` on this host.
    pub fn machine(&self) -> Option<Known<Machine>> {
        let (machine, settings) = self.machine.as_ref()?;
        let mut all = vec![Override::new("name", format!("\"{}\"", self.name))];
        all.extend(settings.iter().cloned());
        let reader = match &self.work {
            Work::Program(execution) if execution.output == Output::Steady => Use::Traffic,
            Work::Program(_) => Use::Program,
            Work::Workload | Work::Trial(_) => Use::Workload,
        };
        let loaded = machine::load_for(reader, machine, &all);
        Some(loaded.map_err(|error| format!("{}: {error}", self.name)))
    }
}

impl Execution {
    /// All programs, those of the first nodes first: the words of each, its name first, and its nodes.
    pub fn programs(&self) -> Vec<(Vec<String>, u16)> {
        let first = [std::slice::from_ref(&self.program), &self.arguments].concat();
        let beside = self.beside.iter().map(|words| (words.clone(), 1));
        [(first, self.nodes)].into_iter().chain(beside).collect()
    }

    fn new<'a>(program: &Program, world: &World<'a>, scope: &Scope<'a>) -> Outcome<Execution> {
        let words = |all: &[Template]| -> Outcome<Vec<String>> {
            let mut words = Vec::new();
            for word in all {
                words.extend(optional(word, world, scope)?);
            }
            Ok(words)
        };
        let nodes = world.value(&program.nodes, scope)?.number()?;
        if nodes < 1.0 || nodes > f64::from(u16::MAX) || nodes.fract() != 0.0 {
            return missing(format!("{nodes} is no number of nodes"));
        }
        Ok(Execution {
            program: world.text(&program.name, scope)?,
            arguments: words(&program.arguments)?,
            nodes: nodes as u16,
            beside: program.beside.iter().map(|all| words(all)).collect::<Outcome<_>>()?,
            progress: world.text(&program.progress, scope)?,
            if_it_fails: program.if_it_fails.clone(),
            output: program.output,
        })
    }
}

/// A text; `None` if it is an expression whose value is `none`.
fn optional<'a>(text: &Template, world: &World<'a>, scope: &Scope<'a>) -> Outcome<Option<String>> {
    match text.single() {
        Some(expr) => match world.value(expr, scope)? {
            Value::None => Ok(None),
            value => Ok(Some(value.shown(None))),
        },
        None => world.text(text, scope).map(Some),
    }
}
