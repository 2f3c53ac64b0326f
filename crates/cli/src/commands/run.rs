//! `rackmem run`.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::{Args, value_parser};
use rackmem::rack::Rack;
use rackmem::rack_file::RackFile;

use super::spread::Hosts;
use crate::args::{ProgressArg, RackOrFileArg};
use crate::choice::Choice;
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::job::{Agreed, Job, Prefixed, Program, Sink};
use crate::launcher::Launcher;
use crate::rackctl::{self, Plan, PrivateRack, State};
use crate::{loadable, placement, programs, several, size};

/// Arguments of `rackmem run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Rack that the command works on.
    #[command(flatten)]
    pub rack: RackOrFileArg,
    /// What is said of the first program.
    #[command(flatten)]
    pub of_program: ProgramArgs,
    /// Size of every node's segment, unless the program asks for another
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = size::parse)]
    pub context_size: u64,
    /// Executor of the operations, unless the program chooses one
    #[arg(long, value_name = "WHO", default_value = "inline")]
    pub progress: ProgressArg,
    /// Pin each process to a core of its own, as far as there are enough
    #[arg(long)]
    pub pin: bool,
    /// One process for the daemons of all nodes: saves cores on a rack of the run's own
    #[arg(long)]
    pub together: bool,
    /// Pass output through unchanged (always so with one node)
    #[arg(long)]
    pub no_prefix: bool,
    /// Command that runs a command on the host of a node, for a rack over several hosts: {host} is the node's IP,
    /// {node} its number [default: ssh {host}]
    #[arg(long, value_name = "COMMAND")]
    pub launcher: Option<Launcher>,
    /// The part of another host's run on this one.
    #[command(flatten)]
    pub part: PartArgs,
    /// The program and its arguments, up to a `:` before another one
    #[arg(trailing_var_arg = true, required = true, value_name = "PROGRAM")]
    pub command: Vec<OsString>,
}

/// Options of one program of several.
#[derive(Clone, Debug, Args)]
pub struct ProgramArgs {
    /// How many processes; a rack that is up may have more nodes [default: all its nodes]
    #[arg(short, long, value_name = "N", value_parser = value_parser!(u16).range(1..=MAX_NODES))]
    pub nodes: Option<u16>,
}

/// Nodes of a rack.
const MAX_NODES: i64 = 4096;

/// Options by which `rackmem run` starts itself on another host.
#[derive(Debug, Args)]
pub struct PartArgs {
    /// Node to be
    #[arg(long, hide = true, value_name = "N", requires_all = ["context", "directory", "nodes"])]
    pub as_node: Option<u16>,
    /// Number and incarnation of the run's context
    #[arg(long, hide = true, value_name = "ID:INCARNATION", requires = "as_node",
        value_parser = parse_agreed)]
    pub context: Option<(u16, u64)>,
    /// Working directory of the program
    #[arg(long, hide = true, value_name = "DIR", requires = "as_node")]
    pub directory: Option<PathBuf>,
}

fn parse_agreed(text: &str) -> std::result::Result<(u16, u64), String> {
    let parts = text
        .split_once(':')
        .and_then(|(id, incarnation)| Some((id.parse().ok()?, incarnation.parse().ok()?)));
    parts.ok_or_else(|| "expected ID:INCARNATION".to_owned())
}

/// What is to be run.
struct Request<'a> {
    args: &'a RunArgs,
    programs: Vec<several::Program<ProgramArgs>>,
    /// Processes of all programs, if that is said.
    nodes: Option<u16>,
}

impl Request<'_> {
    /// # Errors
    /// A program is missing or none, or it is not said how many processes it has.
    fn new(args: &RunArgs) -> Result<Request<'_>> {
        let programs = several::programs(args.of_program.clone(), &args.command)?;
        programs.iter().try_for_each(|program| check(&program.words[0]))?;
        let nodes = match &programs[..] {
            [one] => one.options.nodes,
            all => Some(sum(all)?),
        };
        Ok(Request { args, programs, nodes })
    }
}

/// The processes of several programs.
fn sum(programs: &[several::Program<ProgramArgs>]) -> Result<u16> {
    let of = |program: &several::Program<ProgramArgs>| {
        let name = program.words[0].to_string_lossy();
        program.options.nodes.map(u32::from).ok_or_else(|| {
            Failure::usage(format!("how many processes of {name}? Say -n N before each program"))
        })
    };
    let sum = programs.iter().map(of).sum::<Result<u32>>()?;
    match u16::try_from(sum) {
        Ok(few) if i64::from(few) <= MAX_NODES => Ok(few),
        _ => Err(Failure::usage(format!("--nodes: are {sum} in all, must be at most {MAX_NODES}"))),
    }
}

fn check(program: &OsStr) -> Result<()> {
    let name = program.to_string_lossy();
    if let Some(name) = name.strip_prefix(':') {
        programs::find(name)?;
    } else if loadable::find(program).is_ok_and(|path| loadable::is_for_riscv(&path)) {
        let text = format!(
            "{name} is a program for RISC-V: `rackmem sim exec MACHINE -- {name}` executes it"
        );
        return Err(Failure::usage(text));
    }
    Ok(())
}

/// Runs programs with one process per node.
///
/// # Errors
/// The rack cannot be used, or a process failed: then with its status.
pub fn run(choice: &Choice, args: &RunArgs) -> Result<()> {
    let request = &Request::new(args)?;
    let interrupt = Interrupt::catch()?;
    if let Some(file) = choice.file() {
        return over_hosts(file, request, &interrupt);
    }
    if args.part.as_node.is_some() {
        return Err(Failure::usage("--as-node is for racks over several hosts"));
    }
    let Some(rack) = existing_rack(choice.name())? else { return privately(request, &interrupt) };
    // One that was started from a rack file, and is meant by its name.
    if let Some(path) = rack.describe()?.rack_file {
        return over_hosts(&RackFile::read(&path)?, request, &interrupt);
    }
    if args.together {
        return Err(Failure::usage(
            "--together is for a rack of the run's own; this one is up: say it to `rackmem up`",
        ));
    }
    refuse_launcher(args)?;
    let nodes = nodes_on(&rack, request)?;
    run_on(&rack, nodes, request, &interrupt)
}

fn privately(request: &Request<'_>, interrupt: &Interrupt) -> Result<()> {
    let args = request.args;
    refuse_launcher(args)?;
    let nodes = request.nodes.ok_or_else(|| {
        Failure::usage("how many processes? Say -n N, or start a rack with `rackmem up`")
    })?;
    let plan = Plan { together: args.together, ..Plan::new(nodes) };
    let private = PrivateRack::start(&plan, interrupt)?;
    run_on(private.rack(), nodes, request, interrupt)
}

fn refuse_launcher(args: &RunArgs) -> Result<()> {
    match args.launcher {
        None => Ok(()),
        Some(_) => Err(Failure::usage(
            "--launcher is for racks over several hosts: name one with --rack-file",
        )),
    }
}

/// Runs it on the hosts of a rack file, or on this one for another host's run.
fn over_hosts(file: &RackFile, request: &Request<'_>, interrupt: &Interrupt) -> Result<()> {
    let args = request.args;
    if args.together {
        return Err(Failure::usage(
            "--together is for a rack of the run's own: say it to `rackmem up`",
        ));
    }
    let hosts = Hosts::new(file, args.launcher.as_ref())?;
    let nodes = request.nodes.unwrap_or(file.node_count());
    if nodes > file.node_count() {
        return Err(too_many_for(file, nodes));
    }
    let cores = match args.pin {
        true => cores_by_host(file, nodes),
        false => Vec::new(),
    };
    let job = job(&hosts.rack, nodes, request, cores);
    let PartArgs { as_node, context, directory } = &args.part;
    if let (Some(nid), Some((ctx_id, incarnation)), Some(directory)) = (as_node, context, directory)
    {
        let agreed = Agreed { ctx_id: *ctx_id, incarnation: *incarnation };
        check_is_here(file, &hosts.here, *nid)?;
        std::env::set_current_dir(directory).map_err(|error| {
            Failure::io(format_args!("cannot enter {} on this host", directory.display()), error)
        })?;
        return job.run_as_node(*nid, agreed, interrupt);
    }
    let options = if args.pin { vec!["--pin".into()] } else { Vec::new() };
    let spread = hosts.spread((0..nodes).collect(), options);
    job.run_on_hosts(&spread, sink(nodes, args, &mut Prefixed::new()), interrupt)
}

/// A core for each node: the first node of a host gets the host's first core.
fn cores_by_host(file: &RackFile, nodes: u16) -> Vec<usize> {
    let cores = placement::cores();
    let place = |nid: u16| (0..nid).filter(|other| file.is_neighbour(nid, *other)).count();
    (0..nodes).filter_map(|nid| cores.get(place(nid) % cores.len().max(1)).copied()).collect()
}

fn check_is_here(file: &RackFile, here: &[u16], nid: u16) -> Result<()> {
    if here.contains(&nid) {
        return Ok(());
    }
    let (name, path) = (&file.name, file.path.display());
    Err(Failure::new(format!(
        "node {nid} of rack '{name}' is not up on this host: start it with `rackmem up --rack-file {path} --node \
         {nid}`"
    )))
}

/// The rack that was named, or else the default one if it is up.
fn existing_rack(name: Option<&str>) -> Result<Option<Rack>> {
    let named = name.is_some() || std::env::var_os("RACKMEM_RACK").is_some();
    let rack = Rack::named(name)?;
    let is_up = matches!(rackctl::state(&rack)?, State::Up(_));
    Ok((named || is_up).then_some(rack))
}

fn nodes_on(rack: &Rack, request: &Request<'_>) -> Result<u16> {
    let there = rack.describe()?.nodes;
    let wanted = request.nodes.unwrap_or(there);
    if wanted > there {
        return Err(too_many(rack.name(), there, wanted));
    }
    Ok(wanted)
}

/// The failure of a command that wants more nodes than a rack file has.
pub fn too_many_for(file: &RackFile, wanted: u16) -> Failure {
    let (name, there, path) = (&file.name, file.node_count(), file.path.display());
    Failure::new(format!(
        "rack '{name}' has {there} nodes, not {wanted}: say --nodes {there} or less, or give each host several nodes \
         in {path}, a port each"
    ))
}

/// The failure of a command that wants more nodes than a rack has.
fn too_many(name: &str, there: u16, wanted: u16) -> Failure {
    Failure::new(format!(
        "rack '{name}' has {there} nodes, not {wanted}: say --nodes {there} or less"
    ))
}

fn run_on(rack: &Rack, nodes: u16, request: &Request<'_>, interrupt: &Interrupt) -> Result<()> {
    let args = request.args;
    let cores = match args.pin {
        true => placement::round_robin(&placement::cores(), usize::from(nodes)),
        false => Vec::new(),
    };
    let job = job(rack, nodes, request, cores);
    job.run(sink(nodes, args, &mut Prefixed::new()), interrupt)
}

fn job<'a>(rack: &'a Rack, nodes: u16, request: &Request<'_>, cores: Vec<usize>) -> Job<'a> {
    let Request { args, programs, .. } = request;
    let of_program = |program: &several::Program<ProgramArgs>| Program {
        command: program.words.clone(),
        nodes: if programs.len() > 1 { program.options.nodes.unwrap_or(1) } else { nodes },
    };
    Job {
        rack,
        programs: programs.iter().map(of_program).collect(),
        context_bytes: args.context_size,
        progress: args.progress.into(),
        cores,
        daemon_cores: Vec::new(),
    }
}

/// Puts the node's number in front of lines, unless they are to pass unchanged.
fn sink<'a>(nodes: u16, args: &RunArgs, prefixed: &'a mut Prefixed) -> Option<&'a mut dyn Sink> {
    match args.no_prefix || nodes == 1 {
        true => None,
        false => Some(prefixed),
    }
}
