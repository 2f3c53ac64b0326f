//! `rackmem sim`: runs machine files on the model.

pub mod args;
mod exec;
mod litmus;
pub(crate) mod output;
mod pipeline;
mod render;
mod render_extension;
mod render_rack;
mod stats;
mod trace;

use rackmem_sim::machine::{self, BUILT_IN, Machine, MachineError, Use};
use rackmem_sim::report::Report;
use rackmem_sim::run::{self, Options};

use crate::console::{self, Align, Table};
use crate::failure::{Failure, Result};
use crate::size;

use args::{MachineArgs, RunArgs, SimArgs, SimCommand, TraceArgs};

/// Runs the command of `rackmem sim`.
///
/// # Errors
/// The machine cannot be loaded, does not come to an end, or the output cannot be written.
pub fn run(args: &SimArgs) -> Result<()> {
    match &args.command {
        SimCommand::Run(args) => simulate(args),
        SimCommand::Machines => machines(),
        SimCommand::Show(args) => console::print(&machine::resolved(&load(args, Use::Any)?)),
        SimCommand::Stats(args) => stats::run(args),
        SimCommand::Exec(args) => exec::run(args),
        SimCommand::Litmus(args) => litmus::run(args),
    }
}

/// A machine that cannot be loaded is a wrong argument.
fn refused(error: MachineError) -> Failure {
    Failure::usage(error.to_string())
}

fn load(args: &MachineArgs, reader: Use) -> Result<Machine> {
    machine::load_for(reader, &args.machine, &args.set).map_err(refused)
}

fn machines() -> Result<()> {
    let mut table = Table::new(&[("machine", Align::Left), ("description", Align::Left)]);
    for built_in in BUILT_IN {
        let machine = machine::load(built_in.name, &[]).map_err(refused)?;
        table.row([built_in.name.to_owned(), machine.description]);
    }
    console::print(&table.render())
}

fn simulate(args: &RunArgs) -> Result<()> {
    let machine = load(&args.machine, Use::Workload)?;
    args.out.iter().try_for_each(|dir| output::make(dir))?;
    let trace = args.trace.trace.as_deref().map(output::Place::find).transpose()?;
    if let (Some(dir), Some(trace)) = (&args.out, &trace) {
        output::check_beside(dir, "--trace", trace)?;
    }
    let mut report = watched(&machine, &args.trace)?;
    // A trace that cannot be written takes nothing of the report away.
    let messages = std::mem::take(&mut report.trace);
    let node = trace::Node { messages, ..trace::Node::default() };
    let traced = trace::write(trace.as_ref(), &args.trace, &machine, 0, &[node]);
    let rate = crate::size::rounded(report.cycles as f64 / report.seconds.max(1e-9));
    console::remark(&format!("simulated in {:.1} s ({rate} cycles/s)", report.seconds));
    if let Some(dir) = &args.out {
        output::write(dir, &machine, &report)?;
    }
    if args.json {
        console::print_json(&report)?;
        return traced;
    }
    console::print(&render::report(&machine, &report))?;
    if let Some(dir) = &args.out {
        console::remark(&format!("wrote {}", output::files(dir)));
    }
    traced
}

/// Runs a machine and shows how far it has come.
fn watched(machine: &Machine, traced: &TraceArgs) -> Result<Report> {
    let spinner = console::spinner();
    let tell = |cycles: u64| {
        spinner.set_message(format!("{}: {} cycles", machine.name, size::rounded(cycles as f64)));
        true
    };
    let options = Options { trace: trace::cycles(traced, machine, 0), progress: Some(&tell) };
    let result = run::run(machine, &options);
    spinner.finish_and_clear();
    result.map_err(|error| Failure::new(format!("{}: {error}", machine.name)))
}
