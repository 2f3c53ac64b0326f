//! The command `rackmem`: racks on this machine, programs on them, measurements.
//!
//! [`args`] is the command line as a type; each command is a file of [`commands`]. Three modules do
//! the work they share: [`choice`] finds the rack that is meant, [`rackctl`] starts and stops the
//! daemons of a rack, [`job`] runs one process per node and ends them all together, also on other
//! hosts, which [`launcher`] reaches. [`reproduce`] compares the model with what papers say, and
//! [`charts`] draws.

pub mod accuracy;
pub mod args;
pub mod charts;
pub mod choice;
pub mod commands;
pub mod console;
pub mod failure;
pub mod help;
pub mod host;
pub mod html;
pub mod http;
pub mod installed;
pub mod interrupt;
pub mod job;
pub mod launcher;
pub mod live;
pub mod loadable;
pub mod metrics;
pub mod placement;
pub mod programs;
pub mod prose;
pub mod rackctl;
pub mod report;
pub mod reproduce;
pub mod several;
pub mod size;
pub mod spans;
pub mod spawn;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command, RackOrFileArg};
use choice::Choice;
use commands::daemon::DaemonArgs;
use failure::{Failure, Result};

/// Runs the command `rackmem` on the arguments of this process.
pub fn rackmem() -> ExitCode {
    let Cli { rack, rack_file, command } = help::parse();
    report(choose(rack, rack_file, &command).and_then(|choice| dispatch(&choice, command)))
}

/// The rack that was named or whose file was, before the command or after it.
fn choose(rack: Option<String>, file: Option<PathBuf>, command: &Command) -> Result<Choice> {
    let name = the_rack(rack, command)?;
    let file = the_file(file, command)?;
    let from_environment = || match command.rack_file() {
        Some(_) if name.is_none() => Choice::file_from_environment(),
        _ => None,
    };
    let file = file.or_else(from_environment);
    Choice::new(name, file.as_deref())
}

/// The rack file that was named on the command line.
fn the_file(before: Option<PathBuf>, command: &Command) -> Result<Option<PathBuf>> {
    match (before, command.rack_file()) {
        (Some(_), None) => Err(Failure::usage(
            "this command works on no rack over several hosts: leave --rack-file out",
        )),
        (before, after) => Ok(after.cloned().flatten().or(before)),
    }
}

/// The rack that was named, before the command or after it.
fn the_rack(before: Option<String>, command: &Command) -> Result<Option<String>> {
    match (before, command.rack()) {
        (Some(_), None) => Err(Failure::usage("this command works on no rack: leave --rack out")),
        (before, after) => Ok(after.cloned().flatten().or(before)),
    }
}

fn dispatch(choice: &Choice, command: Command) -> Result<()> {
    match command {
        Command::Up(args) => commands::up::run(choice, &args),
        Command::Down(args) => commands::down::run(choice, &args),
        Command::Status(args) => commands::status::run(choice, &args),
        Command::Info(args) => commands::info::run(choice, &args),
        Command::Context(args) => commands::context::run(choice, &args),
        Command::Key(args) => commands::key::run(&args),
        Command::Run(args) => commands::run::run(choice, &args),
        Command::Blk(args) => commands::blk::run(choice, &args),
        Command::Borrow(args) => commands::borrow::run(choice, &args),
        Command::Lend(args) => commands::lend::run(choice, &args),
        Command::Leases(args) => commands::leases::run(choice, &args),
        Command::Monitor(args) => commands::monitor::run(choice, &args),
        Command::Top(args) => commands::top::run(choice, &args),
        Command::Bench(args) => commands::bench::run(choice, &args),
        Command::Demo(args) => commands::demo::run(choice, &args),
        Command::Noc(args) => commands::noc::run(&args),
        Command::Dram(args) => commands::dram::run(&args),
        Command::Sim(args) => commands::sim::run(&args),
        Command::Sweep(args) => commands::sweep::run(&args),
        Command::Cc(args) => commands::cc::run(&args),
        Command::Reproduce(args) => commands::reproduce::run(&args),
        Command::Sensitivity(args) => commands::sensitivity::run(&args),
        Command::Accuracy(args) => commands::accuracy::run(&args),
        Command::Report(args) => commands::report::run(&args),
        Command::Nic(args) => commands::nic::run(choice, &args),
        Command::Sockets(args) => commands::sockets::run(choice, &args),
        Command::Completion(args) => commands::manual::completion(&args),
        Command::Man(args) => commands::manual::man(&args),
        Command::Program(args) => commands::program::run(&args),
        Command::Daemon(args) => commands::daemon::run(choice, &args),
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
    let RackOrFileArg { rack, rack_file } = &daemon.rack;
    let file = rack_file.clone().or_else(|| match rack {
        Some(_) => None,
        None => Choice::file_from_environment(),
    });
    let choice = Choice::new(rack.clone(), file.as_deref());
    report(choice.and_then(|choice| commands::daemon::run(&choice, &daemon)))
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
