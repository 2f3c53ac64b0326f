//! The rate at which this machine executes instructions of programs.
//!
//! The program is PageRank with threads on shared memory, or with a read per edge between nodes.
//! Loading its graph is a part of it, but of the 64 cores: there the difference between a short
//! run and a long one counts, in which all of them are at work.

use std::time::Instant;

use rackmem_experiments::prebuilt::pagerank;
use rackmem_riscv::functional;
use rackmem_sim::exec::{self, Job, Options};
use rackmem_sim::machine::{self, Override};
use serde::Serialize;

use super::internal;
use crate::console::{Align, Table};
use crate::failure::{Failure, Result};
use crate::size;

/// Length of the measurement.
pub struct Effort {
    /// Vertices of the graph without timing, as a power of two.
    pub functional_scale: u32,
    /// Vertices on machines, likewise.
    pub scale: u32,
    /// Supersteps of the long run of 64 cores.
    pub supersteps: u32,
    /// The median counts.
    pub repetitions: usize,
}

/// A program's machine and threads.
#[derive(Clone, Copy)]
struct Setup {
    what: &'static str,
    machine: Option<&'static str>,
    nodes: u16,
    cores: u16,
    threads: u32,
    /// Instructions per second that are wanted.
    aim: Option<f64>,
}

/// Instructions per second that are wanted of a chip of 64 cores.
const CHIP_AIM: f64 = 15e6;

const CHIP: Setup = Setup {
    what: "one chip",
    machine: Some("manycore-ni"),
    nodes: 1,
    cores: 64,
    threads: 1,
    aim: Some(CHIP_AIM),
};

const SETUPS: [Setup; 6] = [
    Setup { what: "no timing", machine: None, nodes: 1, cores: 1, threads: 1, aim: None },
    Setup { what: "one node", machine: Some("sonuma"), nodes: 1, cores: 1, threads: 1, aim: None },
    Setup { what: "rack", machine: Some("sonuma"), nodes: 8, cores: 1, threads: 1, aim: None },
    Setup { what: "rack", machine: Some("sonuma"), nodes: 8, cores: 1, threads: 2, aim: None },
    CHIP,
    Setup { threads: 2, ..CHIP },
];

/// Speed of one of them.
#[derive(Debug, PartialEq, Serialize)]
pub struct Row {
    what: &'static str,
    /// None without timing.
    machine: Option<&'static str>,
    nodes: u16,
    cores_per_node: u16,
    /// Threads of this host.
    threads: u32,
    /// Over all cores, as far as they count.
    instructions: u64,
    seconds: f64,
    instructions_per_second: f64,
    aim: Option<f64>,
}

/// Measures all of them.
///
/// # Errors
/// None that a release should have.
pub fn measure(effort: &Effort, tell: &dyn Fn(&str)) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for setup in &SETUPS {
        tell(&format!("executing a program: {}", setup.what));
        let runs = (0..effort.repetitions).map(|_| row(setup, effort));
        let mut runs = runs.collect::<Result<Vec<Row>>>()?;
        runs.sort_by(|a, b| a.instructions_per_second.total_cmp(&b.instructions_per_second));
        rows.push(runs.swap_remove(runs.len() / 2));
    }
    Ok(rows)
}

fn row(setup: &Setup, effort: &Effort) -> Result<Row> {
    let &Setup { what, machine, nodes, cores, threads, aim } = setup;
    let (instructions, seconds) = match machine {
        None => without_timing(effort.functional_scale)?,
        Some(machine) if cores > 1 => {
            let run = |supersteps| {
                let variant = ["--variant", "shm", "--threads", &cores.to_string()];
                on_machine(setup, machine, &variant, effort.scale, supersteps)
            };
            let (short, long) = (run(1)?, run(effort.supersteps)?);
            // On a host that is busy, the short one may be the longer one.
            if long.1 > short.1 { (long.0 - short.0, long.1 - short.1) } else { long }
        }
        Some(machine) => {
            let variant = if nodes > 1 { "fine" } else { "serial" };
            on_machine(setup, machine, &["--variant", variant], effort.scale, 1)?
        }
    };
    let instructions_per_second = instructions as f64 / seconds;
    let cores_per_node = cores;
    Ok(Row {
        what,
        machine,
        nodes,
        cores_per_node,
        threads,
        instructions,
        seconds,
        instructions_per_second,
        aim,
    })
}

fn arguments(more: &[&str], scale: u32, supersteps: u32) -> Vec<String> {
    let (scale, supersteps) = (scale.to_string(), supersteps.to_string());
    let own = ["pagerank", "--kronecker", &scale, "--supersteps", &supersteps];
    own.iter().chain(more).map(|&arg| arg.to_owned()).collect()
}

/// Instructions and seconds.
fn without_timing(scale: u32) -> Result<(u64, f64)> {
    let args = arguments(&["--variant", "serial"], scale, 1);
    let options = functional::Options {
        output: rackmem_riscv::host::Output::Capture,
        ..functional::Options::default()
    };
    let began = Instant::now();
    let outcome = functional::run(pagerank(), &args, &[], &options).map_err(internal)?;
    Ok((outcome.instructions, began.elapsed().as_secs_f64()))
}

fn on_machine(
    setup: &Setup,
    machine: &str,
    more: &[&str],
    scale: u32,
    supersteps: u32,
) -> Result<(u64, f64)> {
    let settings = [Override::new("run.threads", setup.threads)];
    let machine = machine::load(machine, &settings).map_err(internal)?;
    let args = arguments(more, scale, supersteps);
    let job = Job { program: pagerank(), args: &args, env: &[], nodes: setup.nodes };
    let outcome = exec::run(&machine, &[job], Options::default()).map_err(internal)?;
    match (&outcome.cut_short, outcome.failed()) {
        (None, None) => Ok((outcome.instructions, outcome.seconds)),
        (Some(why), _) => Err(Failure::new(why.clone())),
        (None, Some((nid, node))) => {
            Err(Failure::new(format!("{}: node {nid}: {:?}", setup.what, node.end)))
        }
    }
}

/// A table of them.
pub fn table(rows: &[Row]) -> Table {
    let mut table = Table::new(&[
        ("programs", Align::Left),
        ("machine", Align::Left),
        ("nodes x cores", Align::Right),
        ("threads", Align::Right),
        ("instructions", Align::Right),
        ("instructions/s", Align::Right),
        ("aim", Align::Right),
    ]);
    for row in rows {
        table.row([
            row.what.to_owned(),
            row.machine.unwrap_or("-").to_owned(),
            format!("{} x {}", row.nodes, row.cores_per_node),
            row.threads.to_string(),
            size::rounded(row.instructions as f64),
            size::rounded(row.instructions_per_second),
            row.aim.map_or("-".to_owned(), size::rounded),
        ]);
    }
    table
}

/// Factor by which two threads are faster than one for a rack, if both figures are there.
pub fn speedup(rows: &[Row]) -> Option<f64> {
    let rate = |threads| {
        let row = rows.iter().find(|row| row.nodes > 1 && row.threads == threads)?;
        Some(row.instructions_per_second)
    };
    Some(rate(2)? / rate(1)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rack(threads: u32, instructions_per_second: f64) -> Row {
        Row {
            what: "rack",
            machine: Some("sonuma"),
            nodes: 8,
            cores_per_node: 1,
            threads,
            instructions: 12_000_000,
            seconds: 2.0,
            instructions_per_second,
            aim: None,
        }
    }

    #[test]
    fn a_row_for_each_and_what_threads_are_worth() {
        let rows = [rack(1, 6e6), rack(2, 9e6)];
        assert_eq!(speedup(&rows), Some(1.5));
        assert_eq!(speedup(&rows[..1]), None);
        assert_eq!(
            table(&rows[..1]).render(),
            "programs  machine  nodes x cores  threads  instructions  instructions/s  aim\n\
             rack      sonuma           8 x 1        1        12.0 M          6.00 M    -\n"
        );
    }
}
