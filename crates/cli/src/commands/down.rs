//! `rackmem down`.

use std::ffi::OsString;

use clap::Args;

use crate::args::RackOrFileArg;
use crate::choice::Choice;
use crate::console::{self, count};
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::launcher::{DEFAULT_LAUNCHER, Launcher};
use crate::{job, rackctl};

/// Arguments of `rackmem down`.
#[derive(Debug, Args)]
pub struct DownArgs {
    /// Rack that the command works on.
    #[command(flatten)]
    pub rack: RackOrFileArg,
    /// Nodes of this host and the way to others.
    #[command(flatten)]
    pub hosts: HostsArgs,
}

/// Nodes of a rack file that `rackmem up` starts, or `rackmem down` stops.
#[derive(Debug, Args)]
pub struct HostsArgs {
    /// Only this node of the rack file; may be repeated [default: those of this host]
    #[arg(long, value_name = "N", conflicts_with = "hosts")]
    pub node: Vec<u16>,
    /// All nodes of the rack file, each through the launcher
    #[arg(long)]
    pub hosts: bool,
    /// Command that runs a command on the host of a node: {host} is its IP, {node} its number
    #[arg(long, value_name = "COMMAND", default_value = DEFAULT_LAUNCHER, requires = "hosts")]
    pub launcher: Launcher,
}

/// Stops a rack, or of a rack over several hosts this host's nodes.
///
/// # Errors
/// There is none, or it cannot be stopped.
pub fn run(choice: &Choice, args: &DownArgs) -> Result<()> {
    let HostsArgs { node, hosts, launcher } = &args.hosts;
    let rack = choice.rack()?;
    let stopped = match choice.file() {
        Some(file) if *hosts => {
            let words = |nid| part("down", &file.path, nid);
            return job::on_hosts(file, launcher, words, &Interrupt::catch()?);
        }
        Some(file) if !node.is_empty() => rackctl::hosts::down(&rack, file, node)?,
        None if *hosts || !node.is_empty() => return Err(needs_file()),
        _ => rackctl::down(&rack)?,
    };
    let name = rack.name();
    if stopped.killed > 0 {
        let daemons = count(stopped.killed, "daemon");
        console::remark(&format!("{daemons} did not end when asked and had to be killed"));
    }
    if !node.is_empty() {
        return console::print(&format!(
            "{} of rack '{name}' stopped\n",
            count(node.len(), "node")
        ));
    }
    match stopped.daemons {
        0 => console::print(&format!("removed what a dead rack '{name}' had left\n")),
        n => console::print(&format!("rack '{name}' is down: {} stopped\n", count(n, "daemon"))),
    }
}

/// `--node` and `--hosts` without a rack file.
pub fn needs_file() -> Failure {
    Failure::usage("--node and --hosts are for racks over several hosts: name one with --rack-file")
}

/// The options of a command for one node on the node's own host.
pub fn part(command: &str, file: &std::path::Path, nid: u16) -> Vec<OsString> {
    let words = [command.as_ref(), "--rack-file".as_ref(), file.as_os_str(), "--node".as_ref()];
    let words = words.into_iter().map(std::ffi::OsStr::to_owned);
    words.chain([nid.to_string().into()]).collect()
}
