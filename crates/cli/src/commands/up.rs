//! `rackmem up`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, value_parser};
use rackmem::rack_file::RackFile;

use super::down::{HostsArgs, needs_file, part};
use super::key::with_own_keys;
use crate::args::{DEFAULT_SPIN_US, RackOrFileArg};
use crate::choice::Choice;
use crate::console::{self, count};
use crate::failure::{Failure, Result};
use crate::http::Endpoint;
use crate::interrupt::Interrupt;
use crate::job;
use crate::placement;
use crate::rackctl::{self, Plan, hosts};

/// Arguments of `rackmem up`.
#[derive(Debug, Args)]
pub struct UpArgs {
    /// Rack that the command works on.
    #[command(flatten)]
    pub rack: RackOrFileArg,
    /// How many nodes the rack has, unless a rack file says so
    #[arg(short, long, value_name = "N", value_parser = value_parser!(u16).range(1..=4096))]
    pub nodes: Option<u16>,
    /// Nodes of this host and the way to others.
    #[command(flatten)]
    pub hosts: HostsArgs,
    /// File of the private key of each node that starts; {node} in it is the node's number [default:
    /// $RACKMEM_KEY_FILE, else what the rack file says]
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// Pin each daemon to a core of its own, as far as there are enough
    #[arg(long)]
    pub pin: bool,
    /// How long a daemon polls without finding work before it sleeps
    #[arg(long, value_name = "MICROSECONDS", default_value_t = DEFAULT_SPIN_US)]
    pub spin: u64,
    /// One process for all nodes: saves cores, but the nodes can only fail together
    #[arg(long)]
    pub together: bool,
    /// Serve metrics for Prometheus to this host: the daemon of node N at N ports above this one
    #[arg(long, value_name = "ADDRESS")]
    pub metrics: Option<Endpoint>,
    /// Part of `rackmem up --hosts`, which says which links are missing
    #[arg(long, hide = true)]
    pub part: bool,
}

/// Starts a rack that stays, or of a rack over several hosts this host's nodes.
///
/// # Errors
/// It is up already or does not come up.
pub fn run(choice: &Choice, args: &UpArgs) -> Result<()> {
    let interrupt = Interrupt::catch()?;
    let file = with_own_keys(choice, args.key_file.as_deref())?;
    match (&file, args.nodes) {
        (Some(file), None) if args.hosts.hosts => {
            let settings = settings(args)?;
            let words = |nid| [part("up", &file.path, nid), settings.clone()].concat();
            job::on_hosts(file, &args.hosts.launcher, words, &interrupt)?;
            say_whether_linked(choice, file, &interrupt)
        }
        (Some(file), None) => up_here(choice, file, args, &interrupt),
        (None, _) if args.key_file.is_some() => Err(Failure::usage(
            "--key-file is for racks over several hosts: name one with --rack-file",
        )),
        (Some(_), Some(_)) => {
            Err(Failure::usage("the rack file says which nodes there are: leave --nodes out"))
        }
        (None, _) if args.hosts.hosts || !args.hosts.node.is_empty() => Err(needs_file()),
        (None, None) => Err(Failure::usage("how many nodes? Say --nodes N, or --rack-file FILE")),
        (None, Some(nodes)) => up(choice, nodes, args, &interrupt),
    }
}

/// Waits until the nodes are linked, if one of them is here to be asked.
fn say_whether_linked(choice: &Choice, file: &RackFile, interrupt: &Interrupt) -> Result<()> {
    let alone = hosts::wait_linked(&choice.rack()?, file, interrupt)?;
    if alone.is_empty() {
        return Ok(());
    }
    let (nodes, path) = (console::nodes(&alone), file.path.display());
    console::remark(&format!(
        "links are missing at {nodes}: `rackmem status --rack-file {path}` says why"
    ));
    Ok(())
}

/// Options of the daemons, for `rackmem up` on another host.
fn settings(args: &UpArgs) -> Result<Vec<OsString>> {
    let flags = [("--pin", args.pin), ("--together", args.together)];
    let flags = flags.into_iter().filter(|(_, is_set)| *is_set).map(|(flag, _)| flag.into());
    let mut words: Vec<OsString> =
        flags.chain(["--part".into(), "--spin".into(), args.spin.to_string().into()]).collect();
    if let Some(endpoint) = args.metrics {
        words.extend(["--metrics".into(), endpoint.to_string().into()]);
    }
    if let Some(path) = &args.key_file {
        let path = std::path::absolute(path)
            .map_err(|error| Failure::io("cannot tell the working directory", error))?;
        words.extend(["--key-file".into(), path.into()]);
    }
    Ok(words)
}

fn plan(nodes: u16, args: &UpArgs) -> Plan {
    let cores = match args.pin {
        true => placement::round_robin(&placement::cores(), usize::from(nodes)),
        false => Vec::new(),
    };
    let spin = Duration::from_micros(args.spin);
    let (together, metrics) = (args.together, args.metrics);
    Plan { cores, spin, together, stay: true, metrics, ..Plan::new(nodes) }
}

fn up(choice: &Choice, nodes: u16, args: &UpArgs, interrupt: &Interrupt) -> Result<()> {
    let rack = choice.rack()?;
    let name = rack.name();
    if rackctl::up(&rack, &plan(nodes, args), interrupt)? {
        console::remark(&format!("removed what a dead rack '{name}' had left"));
    }
    let nodes = count(usize::from(nodes), "node");
    let dir = rack.dir().display();
    console::print(&format!("rack '{name}' is up: {nodes}, {dir}\n"))
}

fn up_here(choice: &Choice, file: &RackFile, args: &UpArgs, interrupt: &Interrupt) -> Result<()> {
    let rack = choice.rack()?;
    let plan = plan(file.node_count(), args);
    let hosts::Up { started, awaited } = hosts::up(&rack, file, &args.hosts.node, plan, interrupt)?;
    let (name, dir) = (rack.name(), rack.dir().display());
    let (nodes, all) = (console::nodes(&started), file.node_count());
    let is = if started.len() == 1 { "is" } else { "are" };
    let waits = match awaited.is_empty() || args.part {
        true => String::new(),
        false => format!("no link yet to {}\n", console::nodes(&awaited)),
    };
    console::print(&format!("rack '{name}' of {all} nodes: {nodes} {is} up here, {dir}\n{waits}"))
}
