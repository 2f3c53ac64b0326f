//! Programs on a rack: one process per node, started together and ended together.
//!
//! `process` starts and watches one process, `output` takes its lines, `hosts` reaches nodes of other hosts.
//!
//! One thread watches everything with `poll`: the processes by descriptor, their output, and the
//! signals that ask the command itself to end.

mod hosts;
mod output;
mod process;

use std::ffi::OsString;
use std::io;
use std::time::{Duration, Instant};

use rackmem::protocol::Progress;
use rackmem::rack::Rack;
use rackmem_fabric::socket::timespec;
use rustix::event::{PollFd, PollFlags, poll};

use crate::console;
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;

use hosts::Lifeline;
pub use hosts::{Agreed, Spread, on_hosts};
pub use output::{Captured, Lines, Plain, Prefixed, Sink, Stream};
use process::{Ended, Launch, Process};

/// Time after the failure of a process until the others get SIGTERM: of what all find wrong only one may say why.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// Time that processes may take to end after SIGTERM.
const PATIENCE: Duration = Duration::from_secs(2);

/// Longest sleep of the watch; its events come earlier.
const LONG: Duration = Duration::from_secs(3600);

/// A program of a run.
#[derive(Clone, Debug)]
pub struct Program {
    /// Its name and its arguments.
    pub command: Vec<OsString>,
    /// Number of its processes.
    pub nodes: u16,
}

/// A run of programs on nodes of a rack.
#[derive(Clone, Debug)]
pub struct Job<'a> {
    /// Rack that is up.
    pub rack: &'a Rack,
    /// The programs, one at least: the first has node 0 and those that follow.
    pub programs: Vec<Program>,
    /// Size of a segment, unless the program asks for another.
    pub context_bytes: u64,
    /// The way by which operations progress.
    pub progress: Progress,
    /// Core of each process; none: unpinned.
    pub cores: Vec<usize>,
    /// Cores on which daemons poll; none: not known.
    pub daemon_cores: Vec<usize>,
}

impl Job<'_> {
    /// Number of processes: nodes 0 to this - 1.
    pub fn nodes(&self) -> u16 {
        self.programs.iter().map(|program| program.nodes).sum()
    }

    /// The program of a node and its arguments.
    fn command(&self, nid: u16) -> &[OsString] {
        let mut programs = self
            .programs
            .iter()
            .flat_map(|program| std::iter::repeat_n(&program.command, program.nodes.into()));
        programs.nth(nid.into()).expect("a node of the run")
    }

    /// Runs it to its end. Without a sink, output passes through unchanged.
    ///
    /// # Errors
    /// A process failed or could not be started, or the command was interrupted; then all have
    /// ended.
    pub fn run<'a>(&self, sink: Option<&'a mut dyn Sink>, interrupt: &'a Interrupt) -> Result<()> {
        let context = Context::create(self.rack)?;
        let launch = Launch::new(self, context.ctx_id, sink.is_some())?;
        let mut watch = Watch::new(sink, interrupt);
        let nids: Vec<u16> = (0..self.nodes()).collect();
        watch.start_all(&nids, |nid| launch.process(nid));
        watch.until_all_have_ended()
    }
}

/// A context for one run.
struct Context<'a> {
    rack: &'a Rack,
    ctx_id: u16,
}

impl Context<'_> {
    fn create(rack: &Rack) -> Result<Context<'_>> {
        Ok(Context { rack, ctx_id: rack.create_any_context(0o600)? })
    }
}

impl Drop for Context<'_> {
    fn drop(&mut self) {
        // The rack may have been taken down meanwhile, and its contexts with it.
        let _ = self.rack.remove_context(self.ctx_id);
    }
}

/// All processes of a run until the last has ended.
struct Watch<'a> {
    processes: Vec<Process>,
    sink: Option<&'a mut dyn Sink>,
    interrupt: &'a Interrupt,
    /// Failure that ends the run early.
    failure: Option<Failure>,
    /// The one that has failed, and the time at which those that are still there get SIGTERM.
    first: Option<(Ended, Instant)>,
    /// Time at which those that are still there get SIGKILL.
    deadline: Option<Instant>,
    /// Whether those of this host have got SIGKILL. Launchers get it later: a run on another host needs the time until
    /// then for its own process.
    killed_here: bool,
    /// Of a run for one node of a run over several hosts: the way to that. It reports how processes end.
    lifeline: Option<Lifeline>,
    /// Those that have failed, if the others go on without them.
    failed: Option<Vec<Ended>>,
    /// Time at which those that have not ended are ended.
    limit: Option<Instant>,
}

impl<'a> Watch<'a> {
    fn new(sink: Option<&'a mut dyn Sink>, interrupt: &'a Interrupt) -> Watch<'a> {
        Watch {
            processes: Vec::new(),
            sink,
            interrupt,
            failure: None,
            first: None,
            deadline: None,
            killed_here: false,
            lifeline: None,
            failed: None,
            limit: None,
        }
    }

    /// Starts the processes of nodes, until one cannot be started.
    fn start_all(&mut self, nids: &[u16], start: impl Fn(u16) -> Result<Process>) {
        for &nid in nids {
            match start(nid) {
                Ok(process) => self.processes.push(process),
                Err(failure) => return self.end_all(failure),
            }
        }
    }

    fn until_all_have_ended(mut self) -> Result<()> {
        while self.processes.iter().any(Process::is_running) {
            self.wait();
            self.look_at_signals();
            let failed = (0..self.processes.len()).filter_map(|index| self.look_at(index));
            // A crash makes others fail within microseconds: of those seen together, it is the
            // one that a signal has killed which tells why.
            let failed: Vec<Ended> = failed.collect();
            if let Some(all) = &mut self.failed {
                all.extend(failed);
            } else if let Some(first) = failed.into_iter().min_by_key(Ended::suspicion)
                && self.failure.is_none()
                && self.first.is_none()
            {
                self.first = Some((first, Instant::now() + LAST_WORDS));
            }
        }
        if let Some((first, _)) = self.first.take() {
            self.failure = Some(self.reason(&first));
        }
        match (self.failure, &mut self.failed) {
            (Some(failure), _) => Err(failure),
            (None, Some(failed)) if !failed.is_empty() => Err(hosts::failed_on(failed)),
            (None, _) => Ok(()),
        }
    }

    /// Sleeps until something has happened or is due.
    fn wait(&self) {
        let last_words = self.first.as_ref().map(|&(_, time)| time);
        let next = self.deadline.or(last_words).or(self.limit);
        let left = next.map(|at| at.saturating_duration_since(Instant::now())).unwrap_or(LONG);
        let timeout = timespec(left);
        let mut fds: Vec<PollFd<'_>> = self.processes.iter().flat_map(Process::poll_fds).collect();
        if self.failure.is_none() {
            fds.push(PollFd::from_borrowed_fd(self.interrupt.as_fd(), PollFlags::IN));
            fds.extend(self.lifeline.iter().flat_map(Lifeline::poll_fds));
        }
        // An interrupted or failed call only makes the caller look once more.
        let _ = poll(&mut fds, Some(&timeout));
    }

    fn look_at_signals(&mut self) {
        if let (Some(signal), None) = (self.interrupt.received(), &self.failure) {
            self.end_all(Failure::interrupted(signal));
        }
        let is_over = |time: Option<Instant>| time.is_some_and(|time| time <= Instant::now());
        if self.failure.is_none() {
            if let Some(failure) = self.lifeline.as_ref().and_then(Lifeline::failure) {
                self.end_all(failure);
            } else if is_over(self.limit) {
                self.end_all(hosts::too_late(&self.processes));
            }
        }
        if let Some((first, _)) = self.first.take_if(|(_, time)| is_over(Some(*time))) {
            self.end_all(self.reason(&first));
        }
        if is_over(self.deadline) {
            self.kill();
        }
    }

    fn kill(&mut self) {
        let is_due = |process: &&Process| self.killed_here || !process.is_launcher();
        self.processes.iter().filter(is_due).for_each(Process::kill);
        let waits = !self.killed_here && self.processes.iter().any(Process::is_launcher);
        self.deadline = waits.then(|| Instant::now() + PATIENCE);
        self.killed_here = true;
    }

    /// Passes on a process's output; returns the process if it has just ended badly.
    fn look_at(&mut self, index: usize) -> Option<Ended> {
        let process = &mut self.processes[index];
        let ended = process.take_end();
        // After the end, so that nothing of what it wrote is missed.
        let passed = match &mut self.sink {
            Some(sink) => process.pass_output(*sink, ended.is_some()),
            None => Ok(()),
        };
        if let Err(error) = passed {
            self.end_all(console::output_failed(error));
        }
        ended?.err()
    }

    /// The failure of a run in which a process has failed.
    fn reason(&self, first: &Ended) -> Failure {
        let others = self.processes.iter().filter(|process| process.is_running()).count();
        let failure = first.failure(others);
        match self.lifeline {
            Some(_) => Failure::silent(failure.status),
            None => failure,
        }
    }

    /// Asks all processes to end. The first reason counts.
    fn end_all(&mut self, why: Failure) {
        if self.failure.is_none() {
            let first = self.first.take().map(|(first, _)| self.reason(&first));
            self.failure = Some(first.unwrap_or(why));
            self.processes.iter().for_each(Process::terminate);
            self.deadline = Some(Instant::now() + PATIENCE);
        }
    }
}

/// The exit status that shells use for a program that cannot be started.
fn start_status(error: &io::Error) -> u8 {
    if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 }
}
