//! Runs in which software is executed: `programs/many_reads.c` on the cores of the chip, whose remote
//! end is its mirror image as in all runs of this paper.

use rackmem_sim::exec::{self, Job, Options, Outcome};
use rackmem_sim::machine::Machine;
use rackmem_sim::report::{Latency, Report};
use serde_json::Value;

use super::experiment::Experiment;
use super::results::Known;
use crate::reproduce::results::Effort;

const PROGRAM: &[u8] = include_bytes!("../../../../../programs/prebuilt/many_reads.rv64");

/// Bytes that one core reads, so that all together move a multiple of the LLC.
const BYTES_PER_CORE: [(Effort, u64); 2] = [(Effort::Quick, 1 << 19), (Effort::Full, 1 << 21)];

/// Reads of a core at most and at least: enough for a steady state, whatever their size.
const READS: std::ops::RangeInclusive<u64> = 64..=2000;

/// Makes such a run.
///
/// # Errors
/// The machine cannot execute programs, or the program fails.
pub fn run(run: Experiment, machine: &Machine, effort: Effort) -> Known<Report> {
    let args = arguments(run, machine, effort);
    let job = Job { program: PROGRAM, args: &args, env: &[], nodes: 1 };
    let outcome =
        exec::run(machine, &job, Options::default()).map_err(|error| error.to_string())?;
    let printed = good_end(&outcome)?;
    let number = |name: &str| {
        let known = printed.get(name).and_then(Value::as_f64);
        known.ok_or_else(|| format!("the program prints no {name}"))
    };
    let mean_cycles = number("mean_us")? * 1000.0 * machine.clock_ghz;
    let count = number("reads")? as u64;
    let whole = mean_cycles.round() as u64;
    let latency = Latency {
        count,
        mean_cycles,
        // The program knows the mean alone.
        min_cycles: whole,
        p50_cycles: whole,
        p99_cycles: whole,
        max_cycles: whole,
    };
    // As much comes in as goes out to the mirror image.
    let app_gbps = 2.0 * number("bytes_per_second")? / 1e9;
    Ok(Report {
        machine: machine.name.clone(),
        cycles: outcome.cycles,
        seconds: outcome.seconds,
        stable: true,
        latency: (!run.loaded).then_some(latency),
        app_gbps,
        stats: outcome.stats,
        ..Report::default()
    })
}

fn arguments(run: Experiment, machine: &Machine, effort: Effort) -> Vec<String> {
    let bytes = u64::from(run.bytes);
    let mut args = vec!["many_reads".to_owned(), format!("--bytes={bytes}"), "--json".to_owned()];
    // Half of the footprint: the other half is that of what nodes tell each other.
    args.push(format!("--region={}", machine.workload.footprint_bytes / 2));
    if run.loaded {
        let wanted = BYTES_PER_CORE.iter().find(|(which, _)| *which == effort);
        let reads = wanted.map_or(0, |(_, wanted)| wanted / bytes);
        let reads = reads.clamp(*READS.start(), *READS.end());
        args.push("--async".to_owned());
        args.push(format!("--threads={}", machine.cores()));
        args.push(format!("--reads={reads}"));
        args.push("--buffers=4M".to_owned());
    } else {
        args.push(format!("--reads={}", machine.run.reads));
        args.push(format!("--warm-up={}", machine.workload.warmup_reads));
    }
    args
}

/// The line of JSON that the program printed.
fn good_end(outcome: &Outcome) -> Known<Value> {
    if let Some(why) = &outcome.cut_short {
        return Err(why.clone());
    }
    let node = outcome.nodes.first().ok_or("the rack has no nodes")?;
    if !node.end.is_success() {
        return Err(String::from_utf8_lossy(&node.stderr).trim_end().to_owned());
    }
    serde_json::from_slice(&node.stdout).map_err(|error| format!("the program's output: {error}"))
}
