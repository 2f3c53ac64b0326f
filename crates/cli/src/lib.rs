//! The command `rackmem`: racks on this machine, programs on them, measurements.
//!
//! [`args`] is the command line as a type; each command is a file of [`commands`]. Two modules do
//! the work they share: [`rackctl`] starts and stops the daemons of a rack, [`job`] runs one
//! process per node and ends them all together. [`reproduce`] compares the model with what papers
//! say, and [`plot`] draws.

pub mod args;
pub mod commands;
pub mod console;
pub mod failure;
pub mod help;
pub mod host;
pub mod installed;
pub mod interrupt;
pub mod job;
pub mod loadable;
pub mod placement;
pub mod plot;
pub mod programs;
pub mod rackctl;
pub mod reproduce;
pub mod size;
pub mod spawn;

use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command, DaemonArgs};
use failure::{Failure, Result};

/// Runs the command `rackmem` on the arguments of this process.
pub fn rackmem() -> ExitCode {
    let Cli { rack, command } = help::parse();
    report(the_rack(rack, &command).and_then(|rack| dispatch(rack.as_deref(), command)))
}

/// The rack that was named, before the command or after it.
fn the_rack(before: Option<String>, command: &Command) -> Result<Option<String>> {
    match (before, command.rack()) {
        (Some(_), None) => Err(Failure::usage("this command works on no rack: leave --rack out")),
        (before, after) => Ok(after.and_then(|after| after.rack.clone()).or(before)),
    }
}

fn dispatch(rack: Option<&str>, command: Command) -> Result<()> {
    match command {
        Command::Up(args) => commands::up::run(rack, &args),
        Command::Down(_) => commands::down::run(rack),
        Command::Status(args) => commands::status::run(rack, &args),
        Command::Context(args) => commands::context::run(rack, &args),
        Command::Run(args) => commands::run::run(rack, &args),
        Command::Blk(args) => commands::blk::run(rack, &args),
        Command::Borrow(args) => commands::borrow::run(rack, &args),
        Command::Lend(args) => commands::lend::run(rack, &args),
        Command::Leases(args) => commands::leases::run(rack, &args),
        Command::Monitor(args) => commands::monitor::run(rack, &args),
        Command::Top(args) => commands::top::run(rack, &args),
        Command::Bench(args) => commands::bench::run(&args),
        Command::Demo(args) => commands::demo::run(&args),
        Command::Noc(args) => commands::noc::run(&args),
        Command::Sim(args) => commands::sim::run(&args),
        Command::Cc(args) => commands::cc::run(&args),
        Command::Reproduce(args) => commands::reproduce::run(&args),
        Command::Nic(args) => commands::nic::run(&args),
        Command::Sockets(args) => commands::sockets::run(&args),
        Command::Completion(args) => commands::manual::completion(&args),
        Command::Man(args) => commands::manual::man(&args),
        Command::Program(args) => commands::program::run(&args),
        Command::Daemon(args) => commands::daemon::run(rack, &args),
    }
}

/// Runs the command `rackmemd` on the arguments of this process.
pub fn rackmemd() -> ExitCode {
    /// The daemon of one node of a rack: its remote memory controller in software.
    ///
    /// `rackmem up` makes the rack and starts one of these per node. It runs in the foreground,
    /// logs to stderr, and ends on SIGTERM or SIGINT.
    #[derive(Parser)]
    #[command(name = "rackmemd", version)]
    struct Rackmemd {
        #[command(flatten)]
        daemon: DaemonArgs,
    }
    let Rackmemd { daemon } = Rackmemd::parse();
    report(commands::daemon::run(daemon.rack.rack.as_deref(), &daemon))
}

fn report(result: Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure { message, status }) => {
            if let Some(message) = message {
                console::complain(&message);
            }
            ExitCode::from(status)
        }
    }
}
