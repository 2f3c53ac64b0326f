//! `rackmem run`.

use rackmem::rack::Rack;

use crate::args::RunArgs;
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::job::{Job, Prefixed, Sink};
use crate::rackctl::{self, Plan, PrivateRack, State};
use crate::{loadable, placement, programs};

/// Runs a program with one process per node.
///
/// # Errors
/// The rack cannot be used, or a process failed: then with its status.
pub fn run(rack: Option<&str>, args: &RunArgs) -> Result<()> {
    if let Some(name) = args.command[0].to_string_lossy().strip_prefix(':') {
        programs::find(name)?;
    } else if loadable::find(&args.command[0]).is_ok_and(|path| loadable::is_for_riscv(&path)) {
        let name = args.command[0].to_string_lossy();
        let text = format!(
            "{name} is a program for RISC-V: `rackmem sim exec MACHINE -- {name}` executes it"
        );
        return Err(Failure::usage(text));
    }
    let interrupt = Interrupt::catch()?;
    match existing_rack(rack)? {
        Some(_) if args.together => Err(Failure::usage(
            "--together is for a rack of the run's own; this one is up: say it to `rackmem up`",
        )),
        Some(rack) => {
            let nodes = nodes_on(&rack, args)?;
            run_on(&rack, nodes, args, &interrupt)
        }
        None => {
            let nodes = args.nodes.ok_or_else(|| {
                Failure::usage("how many processes? Say -n N, or start a rack with `rackmem up`")
            })?;
            let plan = Plan { together: args.together, ..Plan::new(nodes) };
            let private = PrivateRack::start(&plan, &interrupt)?;
            run_on(private.rack(), nodes, args, &interrupt)
        }
    }
}

/// The rack that was named, or else the default one if it is up.
fn existing_rack(name: Option<&str>) -> Result<Option<Rack>> {
    let named = name.is_some() || std::env::var_os("RACKMEM_RACK").is_some();
    let rack = Rack::named(name)?;
    let is_up = matches!(rackctl::state(&rack)?, State::Up(_));
    Ok((named || is_up).then_some(rack))
}

fn nodes_on(rack: &Rack, args: &RunArgs) -> Result<u16> {
    let there = rack.describe()?.nodes;
    let wanted = args.nodes.unwrap_or(there);
    if wanted > there {
        let name = rack.name();
        return Err(Failure::new(format!(
            "rack '{name}' has {there} nodes, not {wanted}: say -n {there} or less"
        )));
    }
    Ok(wanted)
}

fn run_on(rack: &Rack, nodes: u16, args: &RunArgs, interrupt: &Interrupt) -> Result<()> {
    let cores = match args.pin {
        true => placement::round_robin(&placement::cores(), usize::from(nodes)),
        false => Vec::new(),
    };
    let job = Job {
        rack,
        nodes,
        command: args.command.clone(),
        context_bytes: args.context_size,
        progress: args.progress.into(),
        cores,
    };
    let mut prefixed = Prefixed::new();
    let sink: Option<&mut dyn Sink> = match args.no_prefix || nodes == 1 {
        true => None,
        false => Some(&mut prefixed),
    };
    job.run(sink, interrupt)
}
