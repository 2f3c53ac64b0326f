//! Runs on the model, and the trees of machines that expressions name.

use std::collections::BTreeMap;

use rackmem_sim::block::BLOCK_BYTES;
use rackmem_sim::exec::traffic;
use rackmem_sim::exec::{self, End, Job, NodeOutcome, Outcome};
use rackmem_sim::machine::{self, Machine, Override};
use rackmem_sim::report::Report;
use rackmem_sim::run;
use serde_json::{Value as Json, json};

use crate::Known;
use crate::document::{Document, Output};
use crate::prebuilt;
use crate::run::{Execution, Run, Work};
use crate::variation::Variation;

/// Headers whose constants expressions can name.
const HEADERS: [(&str, &str); 3] = [
    ("pagerank", include_str!("../programs/pagerank/pagerank.h")),
    ("nilib", include_str!("../include/scratchpad/nilib.h")),
    ("scrlib", include_str!("../include/scratchpad/scrlib.h")),
];

/// Makes a run of the model, on one thread: the others are taken by other runs.
///
/// # Errors
/// The machine cannot be built or cannot make the run, or a program does not come to a good end.
pub fn make(run: &Run) -> Known<Json> {
    let mut machine = run.machine().ok_or("this is not for the model")??;
    machine.run.threads = 1;
    match &run.work {
        Work::Workload => {
            let report = run::run(&machine, &run::Options::default());
            as_json(&report.map_err(|error| error.to_string())?)
        }
        Work::Program(execution) => execute(&machine, execution),
        Work::Trial(trial) => Err(format!("{trial} is not for the model")),
    }
}

fn as_json(report: &Report) -> Known<Json> {
    serde_json::to_value(report).map_err(|error| error.to_string())
}

fn execute(machine: &Machine, execution: &Execution) -> Known<Json> {
    let programs = execution.programs();
    let mut jobs = Vec::new();
    for (args, nodes) in &programs {
        jobs.push(Job { program: binary(&args[0])?, args, env: &[], nodes: *nodes });
    }
    if let Some(stretch) = execution.output.stretch() {
        let report = traffic::measure(machine, &jobs, stretch, exec::Options::default());
        return as_json(&report.map_err(|error| error.to_string())?);
    }
    let outcome = exec::run(machine, &jobs, exec::Options::default());
    let outcome = outcome.map_err(|error| error.to_string())?;
    let output = match (outcome.failed(), &execution.if_it_fails) {
        (Some(_), Some(instead)) => instead.clone(),
        _ => parsed(execution, &printed(&outcome)?)?,
    };
    Ok(json!({ "output": output, "cycles": outcome.cycles, "stats": outcome.stats }))
}

/// Parses the output of a program.
///
/// # Errors
/// It is not in the form that is expected.
pub fn parsed(execution: &Execution, text: &str) -> Known<Json> {
    match execution.output {
        Output::Tests => {
            let lines = text.lines().filter_map(|line| line.strip_prefix("PASS "));
            Ok(json!({ "passed": lines.collect::<Vec<_>>() }))
        }
        Output::Json | Output::Region | Output::Steady => {
            serde_json::from_str(text).map_err(|error| {
                format!("the program {} printed '{}': {error}", execution.program, text.trim_end())
            })
        }
    }
}

/// Output of the first process, once all have ended well.
fn printed(outcome: &Outcome) -> Known<String> {
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
fn last_words(node: &NodeOutcome) -> String {
    match &node.end {
        End::Crashed(crash) => crash.failure.why.to_string(),
        _ => String::from_utf8_lossy(&node.stderr).trim_end().to_owned(),
    }
}

fn binary(program: &str) -> Known<&'static [u8]> {
    prebuilt::find(program).ok_or_else(|| format!("there is no {program} for RISC-V here"))
}

/// The trees that expressions of a file can name, but those of the host.
pub fn trees(document: &Document) -> BTreeMap<String, Known<Json>> {
    let mut all = machines(document, None);
    all.insert("abi".to_owned(), Ok(interface()));
    all.insert("header".to_owned(), Ok(headers()));
    all
}

/// The trees of the machines that expressions name, varied.
pub fn machines(
    document: &Document,
    variation: Option<&Variation>,
) -> BTreeMap<String, Known<Json>> {
    let one = |(name, built_in): (&String, &String)| (name.clone(), tree(built_in, variation));
    document.machines.iter().map(one).collect()
}

/// All keys of a machine, and what follows from them under `derived`.
fn tree(built_in: &str, variation: Option<&Variation>) -> Known<Json> {
    let varied = variation.filter(|varied| varied.concerns(built_in));
    let varied: Vec<Override> =
        varied.map(|varied| Override::new(&varied.path, &varied.value)).into_iter().collect();
    let machine = machine::load(built_in, &varied).map_err(|error| error.to_string())?;
    let mut tree = serde_json::to_value(&machine).map_err(|error| error.to_string())?;
    tree["derived"] = json!({
        "cores": machine.cores(),
        "llc_banks": machine.llc_banks(),
        "edge_places": machine.edge_places(),
        "hop_cycles": machine.cycles(machine.network.hop_latency_ns),
        "memory_cycles": machine.cycles(machine.memory.latency_ns),
    });
    Ok(tree)
}

/// Constants of the interface to programs and other nodes.
fn interface() -> Json {
    json!({
        "line_bytes": rackmem_abi::LINE_BYTES,
        "packet_bytes": rackmem_abi::PACKET_BYTES,
        "header_bytes": rackmem_abi::HEADER_BYTES,
        "block_bytes": BLOCK_BYTES,
        "interrupt_lines": rackmem_sim::interconnect::INTERRUPT_LINES,
        "copy_stores": stores_of_a_copy(),
    })
}

/// Stores that start a copy: assignments to words of the command in the body of `ni_copy`.
fn stores_of_a_copy() -> usize {
    let nilib = HEADERS[1].1;
    let body = nilib.split("void ni_copy(").nth(1).and_then(|rest| rest.split("\n}").next());
    let lines = body.unwrap_or_default().lines();
    lines.filter(|line| line.trim_start().starts_with("command[")).count()
}

fn headers() -> Json {
    HEADERS.iter().map(|&(name, text)| (name.to_owned(), Json::Object(constants(text)))).collect()
}

/// Numbers that a header gives a name: `#define NAME 1`, or `enum { NAME = 1, ... }`.
fn constants(header: &str) -> serde_json::Map<String, Json> {
    let mut all = serde_json::Map::new();
    for line in header.lines() {
        let define = line.strip_prefix("#define ").and_then(|rest| rest.split_once(' '));
        let words =
            define.into_iter().chain(line.split([',', '{']).filter_map(|one| one.split_once('=')));
        for (name, value) in words {
            let value = value.trim().trim_end_matches([';', '}', ' ', ',']);
            if let Ok(number) = value.parse::<f64>() {
                all.entry(name.trim()).or_insert(json!(number));
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_of_headers_are_found_and_other_words_are_not() {
        let all = constants("#define A_B 1\n#define A 0.25\nenum { C = 3, D = C };\n#define E x\n");
        let names: Vec<&str> = all.keys().map(String::as_str).collect();
        assert_eq!(names, ["A", "A_B", "C"]);
        assert_eq!((&all["A"], &all["C"]), (&json!(0.25), &json!(3.0)));
        assert_eq!(stores_of_a_copy(), 4);
        assert_eq!(headers()["nilib"]["NI_MOST_COPY_BYTES"], 65536.0);
        assert_eq!(headers()["pagerank"]["PAGERANK_DAMPING"], 0.85);
    }
}
