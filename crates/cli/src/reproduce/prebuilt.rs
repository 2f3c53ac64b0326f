//! The common part of papers whose experiments are C programs: the results of a run, and the run on the
//! model.

use rackmem_sim::exec::{self, End, Job, NodeOutcome, Options, Outcome};
use rackmem_sim::machine::Machine;
use rackmem_sim::report::Stats;
use serde::Serialize;
use serde_json::Value;

use super::results::Known;

/// Output of a program, and counters of the machine under it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// The program's line of JSON; of a program that the machine stopped, its message.
    pub output: Value,
    /// Simulated cycles; 0 on the runtime.
    pub cycles: u64,
    /// Counters of the model by path of the part.
    pub stats: Stats,
}

/// The line of JSON that a program printed.
///
/// # Errors
/// It is not one.
pub fn parsed(program: &str, text: &str) -> Known<Value> {
    serde_json::from_str(text)
        .map_err(|error| format!("the program {program} printed '{}': {error}", text.trim_end()))
}

/// Runs a program on all nodes of a machine, in one thread: the others are taken by other runs.
///
/// # Errors
/// The machine cannot run it; how it ends is for the caller to see.
pub fn execute(
    mut machine: Machine,
    program: &str,
    arguments: &[String],
    nodes: u16,
) -> Known<Outcome> {
    machine.run.threads = 1;
    let argv = [program.to_owned()].into_iter().chain(arguments.iter().cloned());
    let args: Vec<String> = argv.collect();
    let job = Job { program: binary(program)?, args: &args, env: &[], nodes };
    exec::run(&machine, &job, Options::default()).map_err(|error| error.to_string())
}

/// Output of the first process, once all have ended well.
///
/// # Errors
/// The message of a node that has failed, or the reason why the run was cut short.
pub fn printed(outcome: &Outcome) -> Known<String> {
    if let Some((nid, node)) = outcome.failed() {
        let status = node.end.status();
        return Err(format!("node {nid} ended with status {status}: {}", last_words(node)));
    }
    if let Some(why) = &outcome.cut_short {
        return Err(why.clone());
    }
    let first = outcome.nodes.first().ok_or("the rack has no nodes")?;
    Ok(String::from_utf8_lossy(&first.stdout).into_owned())
}

/// Standard error of a process that failed, or the reason why the machine stopped it.
pub fn last_words(node: &NodeOutcome) -> String {
    match &node.end {
        End::Crashed(crash) => crash.failure.why.to_string(),
        _ => String::from_utf8_lossy(&node.stderr).trim_end().to_owned(),
    }
}

macro_rules! prebuilt {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_bytes!(concat!("../../../../programs/prebuilt/", $name, ".rv64"))),)*]
    };
}

/// Programs for RISC-V.
const PREBUILT: [(&str, &[u8]); 11] = prebuilt![
    "bitonic",
    "fft",
    "netpipe",
    "pagerank",
    "remote_read",
    "scr_test",
    "stream",
    "sync_bench",
    "tsm_kernels",
    "tsm_share",
    "tsm_transfer",
];

fn binary(program: &str) -> Known<&'static [u8]> {
    let found = PREBUILT.iter().find(|&&(name, _)| name == program);
    found.map(|&(_, bytes)| bytes).ok_or_else(|| format!("there is no {program} for RISC-V here"))
}
