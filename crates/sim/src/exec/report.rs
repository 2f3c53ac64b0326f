//! The report of an executed program: its counters, and what is needed to run it again.

use std::collections::BTreeMap;

use serde::Serialize;

use super::part::Measured;
use super::{Job, Outcome, Taken};
use crate::engine::Cycle;
use crate::machine::Machine;
use crate::recipe::{Recipe, fingerprint};
use crate::report::Stats;

/// Status of a program that did not come to its end.
const CUT_SHORT: i32 = 125;

/// What the command and the Python module write of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Name of the machine.
    pub machine: String,
    /// The machine, as a file, and the version of the model.
    pub recipe: Recipe,
    /// The program; that of node 0, if there are several.
    #[serde(flatten)]
    pub program: Program,
    /// All programs in the order of their nodes, if there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<OneOfSeveral>,
    /// The cycle in which the run was to end at the latest.
    pub max_cycles: Option<Cycle>,
    /// Status of the first process that failed, or 0.
    pub exit_status: i32,
    /// The reason, if the run was ended before all processes came to their ends by themselves.
    pub cut_short: Option<String>,
    /// Simulated cycles, of the slowest node.
    pub cycles: Cycle,
    /// The same as time of the machine's clock.
    pub simulated_ns: f64,
    /// Instructions that all cores have retired.
    pub instructions: u64,
    /// The process of each node.
    pub nodes: Vec<Node>,
    /// Fingerprints of the files that the processes have read, by the names that they used; empty of those that were
    /// missing.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: BTreeMap<String, String>,
    /// The part that was measured, of which `stats` are then; none if that is the whole program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<Measured>,
    /// The checkpoint from which the program went on; cycles and instructions are counted from its begin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restored: Option<Taken>,
    /// Counters, by path of the part.
    pub stats: Stats,
}

/// What nodes execute.
#[derive(Clone, Debug, Serialize)]
pub struct Program {
    /// Name of the program: its first argument.
    pub program: String,
    /// Fingerprint of its bytes.
    pub program_hash: String,
    /// Its other arguments.
    pub arguments: Vec<String>,
    /// Its environment, without the variables of nodes.
    pub environment: Vec<String>,
}

/// One of several programs of a run.
#[derive(Clone, Debug, Serialize)]
pub struct OneOfSeveral {
    /// Its name, bytes, arguments and environment.
    #[serde(flatten)]
    pub program: Program,
    /// How many nodes execute it.
    pub nodes: u16,
}

impl Program {
    fn of(job: &Job<'_>) -> Program {
        Program {
            program: job.name().to_owned(),
            program_hash: fingerprint(job.program),
            arguments: job.args.iter().skip(1).cloned().collect(),
            environment: job.env.to_vec(),
        }
    }
}

/// One node's process.
#[derive(Clone, Debug, Serialize)]
pub struct Node {
    /// The exit status that a shell would report.
    pub exit_status: i32,
    /// The end in words.
    pub end: String,
    /// Cycle with which it began, if not with the run.
    #[serde(skip_serializing_if = "is_zero")]
    pub begin: Cycle,
    /// Cycle in which it ended.
    pub cycle: Cycle,
    /// Instructions that its cores have retired.
    pub instructions: u64,
    /// Things that it asked for and did not get.
    pub warnings: Vec<String>,
    /// Standard output, if the report has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdout: Option<String>,
    /// Standard error, if the report has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
}

fn is_zero(cycle: &Cycle) -> bool {
    *cycle == 0
}

impl Report {
    /// Of a run of programs, one at least, on a machine.
    pub fn new(
        machine: &Machine,
        jobs: &[Job<'_>],
        max_cycles: Option<Cycle>,
        outcome: &Outcome,
    ) -> Report {
        let failed = outcome.failed().map_or(0, |(_, node)| node.end.status());
        let nodes = outcome.nodes.iter().map(|node| Node {
            exit_status: node.end.status(),
            end: node.end.to_string(),
            begin: node.begin,
            cycle: node.cycle,
            instructions: node.instructions,
            warnings: node.warnings.clone(),
            stdout: None,
            stderr: None,
        });
        let all =
            jobs.iter().map(|job| OneOfSeveral { program: Program::of(job), nodes: job.nodes });
        let programs = if jobs.len() > 1 { all.collect() } else { Vec::new() };
        Report {
            machine: machine.name.clone(),
            recipe: Recipe::of(machine),
            program: Program::of(&jobs[0]),
            programs,
            max_cycles,
            exit_status: if outcome.cut_short.is_some() { CUT_SHORT } else { failed },
            cut_short: outcome.cut_short.clone(),
            cycles: outcome.cycles,
            simulated_ns: outcome.cycles as f64 / machine.clock_ghz,
            instructions: outcome.instructions,
            nodes: nodes.collect(),
            inputs: outcome.inputs.clone(),
            part: outcome.measured.clone(),
            restored: outcome.restored.clone(),
            stats: outcome.measured.as_ref().map_or(&outcome.stats, |part| &part.stats).clone(),
        }
    }

    /// The same with what the processes have printed, of a run without a sink.
    #[must_use]
    pub fn with_output(mut self, outcome: &Outcome) -> Report {
        let text = |bytes: &[u8]| Some(String::from_utf8_lossy(bytes).into_owned());
        for (node, outcome) in self.nodes.iter_mut().zip(&outcome.nodes) {
            (node.stdout, node.stderr) = (text(&outcome.stdout), text(&outcome.stderr));
        }
        self
    }
}
