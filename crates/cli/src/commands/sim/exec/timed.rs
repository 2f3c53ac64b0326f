//! `rackmem sim exec MACHINE`: a process on every node of a machine, of one program or of several.

use std::env;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::Path;

use rackmem_experiments::input;
use rackmem_riscv::kernel;
use rackmem_sim::exec::part::Part;
use rackmem_sim::exec::report::Report;
use rackmem_sim::exec::traffic::{self, Stretch};
use rackmem_sim::exec::{self, End, ExecError, Input, Job, Options, Outcome, Stop};
use rackmem_sim::machine::spec::WorkloadKind;
use rackmem_sim::machine::{self, Machine, Use};

use super::part::Traffic;
use super::{FAILED, NO_PROGRAM, Outputs, checkpoint, part, read};
use crate::commands::sim::args::{ExecArgs, MAX_NODES, ProgramArgs};
use crate::commands::sim::{pipeline, render, trace};
use crate::console;
use crate::failure::{Failure, Result};
use crate::job::{Lines, Plain, Prefixed, Sink, Stream};
use crate::several;
use crate::size;

/// The latest cycle with which a program may begin.
const LATEST_CYCLE: f64 = (1_u64 << 62) as f64;

/// Executes the programs on a machine, with timing.
///
/// # Errors
/// The machine or a program cannot be used, or a process did not end well.
pub fn run(args: &ExecArgs, stop: &Stop) -> Result<()> {
    let machine = load_machine(args)?;
    if let Some(path) = &args.checkpoint.restore {
        return checkpoint::restore(args, &machine, path, stop);
    }
    if args.rest.is_empty() {
        let first = &args.first;
        let why = format!("there is no program: name one after the machine, {first}");
        return Err(Failure::usage(why));
    }
    let programs = programs(args)?;
    let jobs: Vec<Job<'_>> = programs.iter().map(Program::job).collect();
    let part = args.part.part(check_nodes(&jobs)?)?;
    let outputs = Outputs::find(args)?;
    let begins = begins(&programs, &machine)?;
    let run =
        Run { args, machine: &machine, jobs: &jobs, begins, outputs: &outputs, begin: 0, stop };
    if let Some(place) = &outputs.checkpoint {
        return checkpoint::take(&run, part, place);
    }
    if let Some(stretch) = args.part.traffic {
        return run.measure_traffic(stretch.into());
    }
    let outcome = run.execute(|options| exec::part::run(&machine, &jobs, part, options))?;
    run.conclude(part, outcome)
}

/// A program that was read.
struct Program {
    bytes: Vec<u8>,
    args: Vec<String>,
    of_program: ProgramArgs,
}

impl Program {
    fn job(&self) -> Job<'_> {
        let ProgramArgs { nodes, env, .. } = &self.of_program;
        Job { program: &self.bytes, args: &self.args, env, nodes: *nodes }
    }
}

/// Reads the programs that are named.
fn programs(args: &ExecArgs) -> Result<Vec<Program>> {
    let programs = several::programs(args.of_program.clone(), &args.rest)?;
    let programs = programs.into_iter().map(|several::Program { options, words }| {
        let words = words.into_iter().map(OsString::into_string);
        let args: Vec<String> = words.collect::<std::result::Result<_, _>>().expect("from text");
        Ok(Program { bytes: read(&args[0])?, args, of_program: options })
    });
    programs.collect()
}

/// The cycle with which the process of each node begins.
///
/// # Errors
/// One is too late for the model's clock.
fn begins(programs: &[Program], machine: &Machine) -> Result<Vec<u64>> {
    let mut begins = Vec::new();
    for Program { of_program: ProgramArgs { nodes, begin, .. }, .. } in programs {
        let cycle = begin.unwrap_or_default() * machine.clock_ghz;
        if cycle > LATEST_CYCLE {
            let most = LATEST_CYCLE / machine.clock_ghz / 1e9;
            return Err(Failure::usage(format!("--begin: must be at most {most}s, for its clock")));
        }
        begins.extend(std::iter::repeat_n(cycle as u64, (*nodes).into()));
    }
    Ok(begins)
}

/// The number of all nodes.
fn check_nodes(jobs: &[Job<'_>]) -> Result<u16> {
    let nodes = exec::nodes_of(jobs);
    match u16::try_from(nodes) {
        Ok(few) if i64::from(few) <= MAX_NODES => Ok(few),
        _ => {
            Err(Failure::usage(format!("--nodes: are {nodes} in all, must be at most {MAX_NODES}")))
        }
    }
}

/// A run of programs, as its user sees it.
pub struct Run<'a> {
    pub args: &'a ExecArgs,
    pub machine: &'a Machine,
    pub jobs: &'a [Job<'a>],
    /// The cycle with which each node's process begins.
    pub begins: Vec<u64>,
    pub outputs: &'a Outputs,
    /// The cycle with which it begins.
    pub begin: u64,
    /// Ends it.
    pub stop: &'a Stop,
}

impl Run<'_> {
    /// Executes them, and passes on what they print.
    ///
    /// # Errors
    /// The machine or a program cannot be used.
    pub fn execute<T>(
        &self,
        work: impl FnOnce(Options<'_>) -> std::result::Result<T, ExecError>,
    ) -> Result<T> {
        let Run { args, machine, jobs, .. } = *self;
        trace::check(&args.trace, machine, self.begin)?;
        let here = env::current_dir().map_err(|error| Failure::io("the current folder", error))?;
        let mut output = Output::new(exec::nodes_of(jobs), args.no_prefix);
        let spinner = console::spinner();
        let tell = |cycle: u64| {
            let cycles = size::rounded(cycle as f64);
            spinner.set_message(format!("{}: {cycles} cycles", machine.name));
            true
        };
        let mut sink = |nid: u16, stream: kernel::Stream, bytes: &[u8]| {
            spinner.suspend(|| output.write(nid, stream, bytes))
        };
        let result = work(Options {
            max_cycles: self.max_cycles(),
            max_instructions: args.max_instructions,
            folder: Some(here),
            allowed: args.allow.clone(),
            libraries: args.libraries.clone(),
            begins: self.begins.clone(),
            input: Input::PassOn,
            sink: Some(&mut sink),
            progress: Some(&tell),
            stop: Some(self.stop),
            trace: trace::cycles(&args.trace, machine, self.begin),
            pipeline: pipeline::stretch(&args.pipeline, machine),
        });
        spinner.finish_and_clear();
        let result = result.map_err(|error| refused(&args.first, &exec::names(jobs), &error))?;
        output.finish()?;
        Ok(result)
    }

    /// Measures the traffic of a stretch, and writes the report of it.
    fn measure_traffic(&self, stretch: Stretch) -> Result<()> {
        let Run { machine, jobs, outputs, .. } = *self;
        let report = self.execute(|options| traffic::measure(machine, jobs, stretch, options))?;
        let mut of_program = machine.clone();
        of_program.workload.kind = WorkloadKind::Program;
        console::print(&render::report(&of_program, &report))?;
        outputs.write_report(&report)
    }

    fn max_cycles(&self) -> Option<u64> {
        let in_time = self.args.max_time.map(|ns| (ns * self.machine.clock_ghz) as u64);
        [self.args.max_cycles, in_time].into_iter().flatten().min()
    }

    /// Writes what is asked for of its outcome.
    ///
    /// # Errors
    /// A process did not end well, or a file cannot be written.
    pub fn conclude(&self, part: Part, mut outcome: Outcome) -> Result<()> {
        let Run { args, machine, jobs, outputs, .. } = *self;
        for (nid, node) in outcome.nodes.iter().enumerate() {
            for warning in &node.warnings {
                console::remark(&format!("warning: node {nid}: {warning}"));
            }
        }
        let is_several = jobs.len() > 1;
        let nodes = outcome.nodes.iter_mut().zip(exec::by_node(jobs));
        let traces = nodes.map(|(node, job)| trace::Node {
            program: is_several.then(|| job.name().to_owned()),
            messages: std::mem::take(&mut node.trace),
            tracks: std::mem::take(&mut node.tracks),
        });
        let traces: Vec<_> = traces.collect();
        let verdict = verdict(jobs, part, &outcome);
        let place = outputs.trace.as_ref();
        let traced = trace::write(place, &args.trace, machine, self.begin, &traces);
        let lives = outcome.nodes.iter_mut().map(|node| std::mem::take(&mut node.lives));
        let lives: Vec<_> = (0..).zip(lives).collect();
        let shown = pipeline::write(outputs.pipeline.as_ref(), &args.pipeline, &lives);
        let verdict = verdict.and(traced).and(shown);
        let report = Report::new(machine, jobs, self.max_cycles(), &outcome);
        if let Some(measured) = &outcome.measured {
            console::remark(&part::summary(measured));
        }
        if args.stats {
            console::remark(&summary(&report, outcome.seconds));
        }
        outputs.write_report(&report)?;
        verdict
    }
}

/// The machine, unless its place is taken by the program.
fn load_machine(args: &ExecArgs) -> Result<Machine> {
    let first = &args.first;
    if is_elf(first) {
        let hint = "name the machine before it, as in `rackmem sim exec sonuma -- PROGRAM`, or say \
                    --functional";
        return Err(Failure::usage(format!("{first} is a program and no machine: {hint}")));
    }
    let is_steady = args.part.traffic == Some(Traffic::Steady);
    let reader = if is_steady { Use::Traffic } else { Use::Program };
    machine::load_for(reader, first, &args.set).map_err(super::super::refused)
}

fn is_elf(name: &str) -> bool {
    let mut magic = [0; 4];
    let read = input::open(Path::new(name)).and_then(|mut file| file.read_exact(&mut magic));
    read.is_ok() && magic == *b"\x7fELF"
}

fn refused(machine: &str, program: &str, error: &ExecError) -> Failure {
    match error {
        ExecError::Program(..) => Failure::with_status(NO_PROGRAM, error.to_string()),
        ExecError::Checkpoint(_) | ExecError::Part(_) => {
            Failure::with_status(FAILED, format!("{program}: {error}"))
        }
        ExecError::Machine(_) => Failure::usage(format!("{machine}: {error}")),
        ExecError::Allowed(..) => Failure::usage(format!("--allow {error}")),
        ExecError::Libraries(..) => Failure::usage(format!("--libraries {error}")),
    }
}

/// Whether all is well; otherwise the failure and its place.
fn verdict(jobs: &[Job<'_>], part: Part, outcome: &Outcome) -> Result<()> {
    let names = exec::names(jobs);
    if let Some(why) = &outcome.cut_short {
        return Err(Failure::with_status(FAILED, format!("{names}: {why}")));
    }
    let Some((nid, node)) = outcome.failed() else {
        let is_measured = part == Part::Whole || outcome.measured.is_some();
        let missing = || Failure::with_status(FAILED, format!("{names}: {}", part::missing(part)));
        return if is_measured { Ok(()) } else { Err(missing()) };
    };
    let job = exec::by_node(jobs).nth(nid);
    let name = job.as_ref().map_or(&*names, Job::name);
    let status = node.end.status() as u8;
    let cycle = node.cycle;
    match &node.end {
        End::Crashed(crash) => {
            let message = format!("{name}: node {nid}, {crash}, in cycle {cycle}");
            Err(Failure::with_status(FAILED, message))
        }
        End::Exit(_) if outcome.nodes.len() == 1 => Err(Failure::silent(status)),
        End::Killed { .. } if console::has_lost_reader(status) => Err(Failure::silent(status)),
        End::Exit(_) | End::Killed { .. } => {
            let message = format!("{name}: node {nid} {} in cycle {cycle}", node.end);
            Err(Failure::with_status(status, message))
        }
        End::Stopped => Err(Failure::silent(status)),
    }
}

fn summary(report: &Report, seconds: f64) -> String {
    let rate = size::rounded(report.instructions as f64 / seconds.max(1e-9));
    format!(
        "{} cycles ({:.1} us), {} instructions in {seconds:.3} s: {rate} instructions a second",
        report.cycles,
        report.simulated_ns / 1000.0,
        report.instructions,
    )
}

/// The output of the processes: of one node byte for byte, of several line by line.
struct Output {
    to: To,
    /// The first error.
    lost: Option<io::Error>,
}

enum To {
    Bytes,
    Lines(Vec<[Lines; 2]>, Box<dyn Sink>),
}

impl Output {
    fn new(nodes: usize, no_prefix: bool) -> Output {
        if nodes == 1 {
            return Output { to: To::Bytes, lost: None };
        }
        let lines = |nid| [Lines::new(nid, Stream::Out), Lines::new(nid, Stream::Err)];
        let sink: Box<dyn Sink> =
            if no_prefix { Box::new(Plain) } else { Box::new(Prefixed::new()) };
        Output { to: To::Lines((0..nodes as u16).map(lines).collect(), sink), lost: None }
    }

    /// Whether somebody reads it.
    fn write(&mut self, nid: u16, stream: kernel::Stream, bytes: &[u8]) -> bool {
        let written = match (&mut self.to, stream) {
            (To::Bytes, kernel::Stream::Out) => write_all(&mut io::stdout().lock(), bytes),
            (To::Bytes, kernel::Stream::Err) => write_all(&mut io::stderr().lock(), bytes),
            (To::Lines(lines, sink), stream) => {
                let lines = &mut lines[usize::from(nid)][(stream == kernel::Stream::Err) as usize];
                lines.push(bytes, &mut **sink).and_then(|()| sink.flush())
            }
        };
        self.note(written)
    }

    /// Whether somebody reads. That nobody does is an error of the programs' writes, and none of the run; a terminal
    /// that has been closed is neither.
    fn note(&mut self, written: io::Result<()>) -> bool {
        let Err(error) = written else { return true };
        let is_read = error.kind() != io::ErrorKind::BrokenPipe;
        let is_closed = error.raw_os_error() == Some(libc::EIO);
        self.lost = self.lost.take().or((is_read && !is_closed).then_some(error));
        is_read
    }

    /// The end of the output.
    ///
    /// # Errors
    /// Some of it could not be written.
    fn finish(mut self) -> Result<()> {
        if let To::Lines(lines, sink) = &mut self.to {
            let mut all = lines.iter_mut().flatten();
            let finished = all.try_for_each(|lines| lines.finish(&mut **sink));
            let finished = finished.and_then(|()| sink.flush());
            self.note(finished);
        }
        let lost = |error| Failure::io("cannot write the program's output", error);
        self.lost.map_or(Ok(()), |error| Err(lost(error)))
    }
}

fn write_all(stream: &mut dyn Write, bytes: &[u8]) -> io::Result<()> {
    stream.write_all(bytes)?;
    stream.flush()
}
