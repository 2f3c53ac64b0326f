//! `rackmem bench` from this host to a node of another one.

use std::ffi::OsString;

use rackmem::protocol::Progress;

use super::BenchArgs;
use super::{Row, rows, table};
use crate::commands::spread::Hosts;
use crate::console;
use crate::failure::{Failure, Result};
use crate::host;
use crate::interrupt::Interrupt;
use crate::job::{Job, Program};

/// Measures between a node of this host and one of another host, on the daemons that are up.
pub(super) fn run(
    hosts: &Hosts,
    args: &BenchArgs,
    ways: &[Progress],
    interrupt: &Interrupt,
) -> Result<()> {
    let (from, to) = ends(hosts, args.node)?;
    let spinner = console::spinner();
    let mut rows = Vec::new();
    for &progress in ways {
        spinner.set_message(format!("measuring {} progress", progress.name()));
        rows.extend(measure((from, to), hosts, progress, args.quick, interrupt)?);
    }
    spinner.finish_and_clear();
    if args.json {
        return console::print_json(&rows);
    }
    let address = hosts.file.nodes[usize::from(to)].address;
    let table = table(&rows, ways).render();
    let (version, here) = (env!("CARGO_PKG_VERSION"), host::description());
    console::print(&format!(
        "rackmem {version}; node {from} on {here}, to node {to} ({address})\n\n{table}"
    ))
}

/// The node of this host, and the one that it measures.
fn ends(hosts: &Hosts, wanted: Option<u16>) -> Result<(u16, u16)> {
    let Hosts { file, here, .. } = hosts;
    let (name, path) = (&file.name, file.path.display());
    let Some(&first) = here.first() else {
        return Err(Failure::new(format!(
            "no node of rack '{name}' is up on this host: start them with `rackmem up --rack-file {path}`"
        )));
    };
    let mut others = (0..file.node_count()).filter(|nid| !here.contains(nid));
    match wanted {
        Some(nid) if nid >= file.node_count() => {
            let last = file.node_count() - 1;
            Err(Failure::new(format!("rack '{name}' has no node {nid}: its nodes are 0 to {last}")))
        }
        Some(nid) => match here.iter().find(|here| **here != nid) {
            Some(from) => Ok((*from, nid)),
            None => Err(Failure::new(format!(
                "node {nid} is the only one of this host that is up: name another one by --node"
            ))),
        },
        None => match others.next().or_else(|| here.get(1).copied()) {
            Some(to) => Ok((first, to)),
            None => {
                Err(Failure::new(format!("rack '{name}' has one node: a measurement takes two")))
            }
        },
    }
}

fn measure(
    (from, to): (u16, u16),
    hosts: &Hosts,
    progress: Progress,
    quick: bool,
    interrupt: &Interrupt,
) -> Result<Vec<Row>> {
    let quick = quick.then(|| "--quick".to_owned());
    let words = [":bench".to_owned(), format!("--from={from}"), format!("--to={to}")];
    let command = words.into_iter().chain(quick).map(OsString::from).collect();
    let job = Job {
        rack: &hosts.rack,
        programs: vec![Program { command, nodes: hosts.file.node_count() }],
        context_bytes: 0,
        progress,
        cores: Vec::new(),
        daemon_cores: Vec::new(),
    };
    rows(&hosts.captured(&job, vec![from, to], interrupt)?)
}
