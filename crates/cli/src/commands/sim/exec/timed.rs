//! `rackmem sim exec MACHINE`: a process on every node of a machine.

use std::env;
use std::fs::File;
use std::io::{self, Read, Write};

use rackmem_riscv::kernel;
use rackmem_sim::exec::part::Part;
use rackmem_sim::exec::report::Report;
use rackmem_sim::exec::{self, End, ExecError, Input, Job, Options, Outcome, Stop};
use rackmem_sim::machine::{self, Machine, Use};

use super::{FAILED, NO_PROGRAM, Outputs, checkpoint, part, read};
use crate::commands::sim::args::ExecArgs;
use crate::commands::sim::{pipeline, trace};
use crate::console;
use crate::failure::{Failure, Result};
use crate::job::{Lines, Plain, Prefixed, Sink, Stream};
use crate::size;

/// Executes the program on a machine, with timing.
///
/// # Errors
/// The machine or the program cannot be used, or a process did not end well.
pub fn run(args: &ExecArgs, stop: &Stop) -> Result<()> {
    let machine = load_machine(args)?;
    if let Some(path) = &args.checkpoint.restore {
        return checkpoint::restore(args, &machine, path, stop);
    }
    let name = args.rest.first().ok_or_else(|| {
        let first = &args.first;
        Failure::usage(format!("there is no program: name one after the machine, {first}"))
    })?;
    let part = args.part.part(args.nodes)?;
    let program = read(name)?;
    let job = Job { program: &program, args: &args.rest, env: &args.env, nodes: args.nodes };
    let outputs = Outputs::find(args)?;
    let nodes = args.nodes;
    let run = Run { args, machine: &machine, name, nodes, outputs: &outputs, begin: 0, stop };
    if let Some(place) = &outputs.checkpoint {
        return checkpoint::take(&run, &job, part, place);
    }
    let outcome = run.execute(|options| exec::part::run(&machine, &job, part, options))?;
    run.conclude(&job, part, outcome)
}

/// A run of a program, as its user sees it.
pub struct Run<'a> {
    pub args: &'a ExecArgs,
    pub machine: &'a Machine,
    /// Name of the program.
    pub name: &'a str,
    pub nodes: u16,
    pub outputs: &'a Outputs,
    /// The cycle with which it begins.
    pub begin: u64,
    /// Ends it.
    pub stop: &'a Stop,
}

impl Run<'_> {
    /// Executes it, and passes on what it prints.
    ///
    /// # Errors
    /// The machine or the program cannot be used.
    pub fn execute<T>(
        &self,
        work: impl FnOnce(Options<'_>) -> std::result::Result<T, ExecError>,
    ) -> Result<T> {
        let Run { args, machine, name, nodes, .. } = *self;
        trace::check(&args.trace, machine, self.begin)?;
        let here = env::current_dir().map_err(|error| Failure::io("the current folder", error))?;
        let mut output = Output::new(nodes, args.no_prefix);
        let spinner = console::spinner();
        let tell = |cycle: u64| {
            let cycles = size::rounded(cycle as f64);
            spinner.set_message(format!("{}: {cycles} cycles", machine.name));
            true
        };
        let mut sink = |nid: u16, stream: kernel::Stream, bytes: &[u8]| {
            spinner.suspend(|| output.write(nid, stream, bytes));
        };
        let result = work(Options {
            max_cycles: self.max_cycles(),
            max_instructions: args.max_instructions,
            folder: Some(here),
            allowed: args.allow.clone(),
            libraries: args.libraries.clone(),
            input: Input::PassOn,
            sink: Some(&mut sink),
            progress: Some(&tell),
            stop: Some(self.stop),
            trace: trace::cycles(&args.trace, machine, self.begin),
            pipeline: pipeline::stretch(&args.pipeline, machine),
        });
        spinner.finish_and_clear();
        let result = result.map_err(|error| refused(&args.first, name, &error))?;
        output.finish()?;
        Ok(result)
    }

    fn max_cycles(&self) -> Option<u64> {
        let in_time = self.args.max_time.map(|ns| (ns * self.machine.clock_ghz) as u64);
        [self.args.max_cycles, in_time].into_iter().flatten().min()
    }

    /// Writes what is asked for of its outcome.
    ///
    /// # Errors
    /// A process did not end well, or a file cannot be written.
    pub fn conclude(&self, job: &Job<'_>, part: Part, mut outcome: Outcome) -> Result<()> {
        let Run { args, machine, name, outputs, .. } = *self;
        for (nid, node) in outcome.nodes.iter().enumerate() {
            for warning in &node.warnings {
                console::remark(&format!("warning: node {nid}: {warning}"));
            }
        }
        let traces = outcome.nodes.iter_mut().map(|node| trace::Node {
            messages: std::mem::take(&mut node.trace),
            tracks: std::mem::take(&mut node.tracks),
        });
        let traces: Vec<_> = traces.collect();
        let verdict = verdict(name, part, &outcome);
        let place = outputs.trace.as_ref();
        let traced = trace::write(place, &args.trace, machine, self.begin, &traces);
        let lives = outcome.nodes.iter_mut().map(|node| std::mem::take(&mut node.lives));
        let lives: Vec<_> = (0..).zip(lives).collect();
        let shown = pipeline::write(outputs.pipeline.as_ref(), &args.pipeline, &lives);
        let verdict = verdict.and(traced).and(shown);
        let report = Report::new(machine, job, self.max_cycles(), &outcome);
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
    machine::load_for(Use::Program, first, &args.set).map_err(super::super::refused)
}

fn is_elf(name: &str) -> bool {
    let mut magic = [0; 4];
    let read = File::open(name).and_then(|mut file| file.read_exact(&mut magic));
    read.is_ok() && magic == *b"\x7fELF"
}

fn refused(machine: &str, program: &str, error: &ExecError) -> Failure {
    match error {
        ExecError::Program(_) => Failure::with_status(NO_PROGRAM, format!("{program}: {error}")),
        ExecError::Checkpoint(_) | ExecError::Part(_) => {
            Failure::with_status(FAILED, format!("{program}: {error}"))
        }
        ExecError::Machine(_) => Failure::usage(format!("{machine}: {error}")),
        ExecError::Allowed(..) => Failure::usage(format!("--allow {error}")),
        ExecError::Libraries(..) => Failure::usage(format!("--libraries {error}")),
    }
}

/// Whether all is well; otherwise the failure and its place.
fn verdict(name: &str, part: Part, outcome: &Outcome) -> Result<()> {
    if let Some(why) = &outcome.cut_short {
        return Err(Failure::with_status(FAILED, format!("{name}: {why}")));
    }
    let Some((nid, node)) = outcome.failed() else {
        let is_measured = part == Part::Whole || outcome.measured.is_some();
        let missing = || Failure::with_status(FAILED, format!("{name}: {}", part::missing(part)));
        return if is_measured { Ok(()) } else { Err(missing()) };
    };
    let status = node.end.status() as u8;
    let cycle = node.cycle;
    match &node.end {
        End::Crashed(crash) => {
            let message = format!("{name}: node {nid}, {crash}, in cycle {cycle}");
            Err(Failure::with_status(FAILED, message))
        }
        End::Exit(_) if outcome.nodes.len() == 1 => Err(Failure::silent(status)),
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
    fn new(nodes: u16, no_prefix: bool) -> Output {
        if nodes == 1 {
            return Output { to: To::Bytes, lost: None };
        }
        let lines = |nid| [Lines::new(nid, Stream::Out), Lines::new(nid, Stream::Err)];
        let sink: Box<dyn Sink> =
            if no_prefix { Box::new(Plain) } else { Box::new(Prefixed::new()) };
        Output { to: To::Lines((0..nodes).map(lines).collect(), sink), lost: None }
    }

    fn write(&mut self, nid: u16, stream: kernel::Stream, bytes: &[u8]) {
        let written = match (&mut self.to, stream) {
            (To::Bytes, kernel::Stream::Out) => write_all(&mut io::stdout().lock(), bytes),
            (To::Bytes, kernel::Stream::Err) => write_all(&mut io::stderr().lock(), bytes),
            (To::Lines(lines, sink), stream) => {
                let lines = &mut lines[usize::from(nid)][(stream == kernel::Stream::Err) as usize];
                lines.push(bytes, &mut **sink).and_then(|()| sink.flush())
            }
        };
        self.note(written);
    }

    /// Nobody may be reading: that is no reason to stop, nor an error.
    fn note(&mut self, written: io::Result<()>) {
        let lost = written.err().filter(|error| error.kind() != io::ErrorKind::BrokenPipe);
        self.lost = self.lost.take().or(lost);
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
