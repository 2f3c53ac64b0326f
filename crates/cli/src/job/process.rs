//! One process of a run.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

use rackmem::protocol::Progress;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open};

use super::output::{Lines, Sink, Stream};
use super::{Job, start_status};
use crate::choice::RACK_FILE;
use crate::failure::{Failure, Result};
use crate::rackctl;
use crate::spawn::Spawn;

/// Number of polls after which a process sleeps, and its value on a core of its own.
const SPIN_POLLS: &str = "RACKMEM_SPIN_POLLS";
const SPIN_POLLS_ALONE: &str = "50000";

/// Starts the processes of a run.
pub struct Launch<'a> {
    job: &'a Job<'a>,
    ctx_id: u16,
    base_dir: PathBuf,
    piped: bool,
}

impl Launch<'_> {
    pub fn new<'a>(job: &'a Job<'a>, ctx_id: u16, piped: bool) -> Result<Launch<'a>> {
        Ok(Launch { job, ctx_id, base_dir: rackctl::absolute_base()?, piped })
    }

    /// Starts the process of a node.
    pub fn process(&self, nid: u16) -> Result<Process> {
        let words = self.job.command(nid);
        let mut command = command(words)?;
        self.environment(&mut command, nid);
        let name = words[0].to_string_lossy();
        let core = self.job.cores.get(usize::from(nid)).copied();
        let start = Start { nid, name: &name, piped: self.piped, reads: nid == 0, launcher: false };
        start.spawn(command, core)
    }

    /// Starts a launcher for the process of a node of another host.
    pub fn elsewhere(&self, nid: u16, command: Command, launcher: &str) -> Result<Process> {
        let reads = nid == 0;
        let start = Start { nid, name: launcher, piped: self.piped, reads, launcher: true };
        start.spawn(command, None)
    }

    fn environment(&self, command: &mut Command, nid: u16) {
        command.env("RACKMEM_DIR", &self.base_dir);
        // It would come before the name of the rack.
        command.env_remove(RACK_FILE);
        for (name, value) in [
            ("RACKMEM_RACK", self.job.rack.name().to_owned()),
            ("RACKMEM_NODE", nid.to_string()),
            ("RACKMEM_NODES", self.job.nodes().to_string()),
            ("RACKMEM_CONTEXT", self.ctx_id.to_string()),
            ("RACKMEM_CONTEXT_SIZE", self.job.context_bytes.to_string()),
            ("RACKMEM_PROGRESS", self.job.progress.name().to_owned()),
        ] {
            command.env(name, value);
        }
        if self.has_core_to_itself(nid) && std::env::var_os(SPIN_POLLS).is_none() {
            command.env(SPIN_POLLS, SPIN_POLLS_ALONE);
        }
    }

    /// Whether the process of a node has a core that nobody else polls on. A process that is pinned sees only
    /// its own core, and would take itself for one of many there.
    fn has_core_to_itself(&self, nid: u16) -> bool {
        let Job { cores, daemon_cores, progress, .. } = self.job;
        let Some(core) = cores.get(usize::from(nid)) else { return false };
        let no_daemon_polls = *progress == Progress::Inline
            || !daemon_cores.is_empty() && !daemon_cores.contains(core);
        no_daemon_polls && cores.iter().filter(|other| *other == core).count() == 1
    }
}

/// The program of these words, or this one in the role of a built-in one.
fn command(words: &[OsString]) -> Result<Command> {
    let program = &words[0];
    let mut command = match program.as_encoded_bytes().strip_prefix(b":") {
        None => Command::new(program),
        Some(_) => {
            let this = std::env::current_exe()
                .map_err(|error| Failure::io("cannot find this program's file", error))?;
            let mut command = Command::new(this);
            let name = program.to_string_lossy();
            command.args([OsStr::new("program"), OsStr::new(&name[1..])]);
            command
        }
    };
    command.args(&words[1..]);
    Ok(command)
}

/// The way to start a process.
struct Start<'a> {
    nid: u16,
    /// The program, for messages.
    name: &'a str,
    /// Whether its output goes through this command.
    piped: bool,
    /// Whether it gets this command's standard input.
    reads: bool,
    /// Whether it is a launcher.
    launcher: bool,
}

impl Start<'_> {
    fn spawn(&self, mut command: Command, core: Option<usize>) -> Result<Process> {
        let name = self.name;
        let failed = |error| Failure::io(format_args!("cannot start '{name}'"), error);
        // A process of its own group can be ended with all it has started. But only one in the
        // terminal's group may read from it.
        let reads_terminal = self.reads && io::stdin().is_terminal();
        if !self.reads {
            command.stdin(Stdio::null());
        }
        if !reads_terminal {
            command.process_group(0);
        }
        if self.piped {
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
        }
        // A launcher may be the run on another host itself by then, which has to clean up.
        let signal = if self.launcher { Signal::TERM } else { Signal::KILL };
        Spawn { when_orphaned: Some(signal), session: false, core }.prepare(&mut command);
        let child = command.spawn().map_err(|error| self.failure(&error))?;
        Process::new(self, child, !reads_terminal).map_err(failed)
    }

    fn failure(&self, error: &io::Error) -> Failure {
        let hint = match error.kind() {
            io::ErrorKind::NotFound if !self.name.contains('/') => {
                ": there is no such program on the PATH".to_owned()
            }
            io::ErrorKind::NotFound => ": there is no such file".to_owned(),
            _ => format!(": {error}"),
        };
        Failure::with_status(start_status(error), format!("cannot start '{}'{hint}", self.name))
    }
}

/// A process that has not ended well.
pub struct Ended {
    nid: u16,
    status: ExitStatus,
}

impl Ended {
    /// The node that it is in the run.
    pub fn nid(&self) -> u16 {
        self.nid
    }

    /// Sorts those that failed on their own before those that others may have made fail.
    pub fn suspicion(&self) -> bool {
        self.status.signal().is_none()
    }

    /// How it ended, as text behind its name, and the exit status for that.
    pub fn how(&self) -> (String, u8) {
        match (self.status.signal(), self.status.code()) {
            (Some(signal), _) => {
                let name = signal_hook::low_level::signal_name(signal);
                let name = name.map_or_else(String::new, |name| format!(" ({name})"));
                (format!("was killed by signal {signal}{name}"), 128 + signal as u8)
            }
            (None, code) => {
                let code = code.unwrap_or(1);
                (format!("ended with status {code}"), code as u8)
            }
        }
    }

    /// Message and exit status for this end; `others` are to be ended.
    pub fn failure(&self, others: usize) -> Failure {
        let (how, status) = self.how();
        let others = match others {
            0 => String::new(),
            1 => "; the other process was ended".to_owned(),
            n => format!("; the other {n} processes were ended"),
        };
        Failure::with_status(status, format!("node {} {how}{others}", self.nid))
    }
}

/// A process of a run, until it has been waited for and its output has been read.
pub struct Process {
    nid: u16,
    child: Child,
    handle: OwnedFd,
    owns_group: bool,
    launcher: bool,
    running: bool,
    pipes: Vec<(Lines, File)>,
}

impl Process {
    /// A launcher that reads nothing.
    pub fn of_launcher(nid: u16, command: Command, name: &str) -> Result<Process> {
        Start { nid, name, piped: true, reads: false, launcher: true }.spawn(command, None)
    }

    fn new(start: &Start<'_>, mut child: Child, owns_group: bool) -> io::Result<Process> {
        let Start { nid, launcher, .. } = *start;
        let pid = Pid::from_child(&child);
        let handle = pidfd_open(pid, PidfdFlags::empty())?;
        let mut pipes = Vec::new();
        let out = child.stdout.take().map(|pipe| (Stream::Out, OwnedFd::from(pipe)));
        let err = child.stderr.take().map(|pipe| (Stream::Err, OwnedFd::from(pipe)));
        for (stream, pipe) in out.into_iter().chain(err) {
            rustix::io::ioctl_fionbio(&pipe, true)?;
            pipes.push((Lines::new(nid, stream), File::from(pipe)));
        }
        Ok(Process { nid, child, handle, owns_group, launcher, running: true, pipes })
    }

    /// The node that it is in the run.
    pub fn nid(&self) -> u16 {
        self.nid
    }

    /// Whether it stands for a process on another host.
    pub fn is_launcher(&self) -> bool {
        self.launcher
    }

    pub fn is_running(&self) -> bool {
        self.running
    }

    /// Descriptors that wake the watch: the end of the process, and its output.
    pub fn poll_fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        let handle = self.running.then(|| self.handle.as_fd());
        let pipes = self.pipes.iter().map(|(_, pipe)| pipe.as_fd());
        handle.into_iter().chain(pipes).map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
    }

    /// If it has just ended: how.
    pub fn take_end(&mut self) -> Option<std::result::Result<(), Ended>> {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut fds = [PollFd::new(&self.handle, PollFlags::IN)];
        if !self.running || poll(&mut fds, Some(&now)) != Ok(1) {
            return None;
        }
        self.running = false;
        // Processes that it has left behind go now: until the wait below, its number is not reused.
        if self.owns_group {
            self.signal(Signal::KILL);
        }
        let status = self.child.wait().unwrap_or_default();
        Some(if status.success() { Ok(()) } else { Err(Ended { nid: self.nid, status }) })
    }

    /// Hands complete lines to the sink; at the end also an incomplete one.
    pub fn pass_output(&mut self, sink: &mut dyn Sink, ended: bool) -> io::Result<()> {
        let mut failed = None;
        self.pipes.retain_mut(|(lines, pipe)| match lines.read(pipe, sink, ended) {
            Ok(open) => open && !ended,
            Err(error) => {
                failed = Some(error);
                false
            }
        });
        failed.map_or(Ok(()), Err)
    }

    /// Asks it to end.
    pub fn terminate(&self) {
        if self.running {
            self.signal(Signal::TERM);
        }
    }

    /// Ends it.
    pub fn kill(&self) {
        if self.running {
            self.signal(Signal::KILL);
        }
    }

    /// The process has not been waited for, so the number is its own; that it may have ended is
    /// no error.
    fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        let _ = match self.owns_group {
            true => kill_process_group(pid, signal),
            false => kill_process(pid, signal),
        };
    }
}
