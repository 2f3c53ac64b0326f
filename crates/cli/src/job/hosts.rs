//! A program on nodes of several hosts.
//!
//! The run that the user has started is the outer one. Processes of nodes that are up on its host are its own. For each
//! other node it starts a launcher, and that an inner run on the node's host, which runs the node's process alone.
//! Output, exit status and signals of the launcher stand for those of the process.
//!
//! An inner run ends its program when it gets SIGTERM, when its parent ends, or when nobody can read its output any
//! more: one of these follows when the launcher is killed. Behind ssh it is the output, for the server closes it with
//! the connection.

use std::ffi::OsString;
use std::io::Stdout;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rackmem::held_context::HeldContext;
use rackmem::rack::MAX_CONTEXTS;
use rackmem::rack::Rack;
use rackmem::rack_file::RackFile;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{PidfdFlags, getppid, pidfd_open};
use rustix::rand::{GetRandomFlags, getrandom};

use super::output::{Prefixed, Sink};
use super::process::{Ended, Launch, Process};
use super::{Job, Watch};
use crate::console;
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::launcher::Launcher;

/// Numbers that are tried for the context of a run.
const ATTEMPTS: usize = 16;

/// Time that a command on other hosts may take.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(180);

/// Exit status of an inner run whose outer run is gone: as if SIGHUP had ended it.
const OUTER_GONE: u8 = 128 + 1;

/// Number and incarnation of a context that several hosts make for one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// Number of the context in its rack.
    pub ctx_id: u16,
    /// Distinguishes it from other contexts with this number.
    pub incarnation: u64,
}

impl Agreed {
    /// At random, among the upper half of the numbers: those made by hand are usually small.
    fn random() -> Result<Agreed> {
        let mut bytes = [0; 8];
        getrandom(&mut bytes, GetRandomFlags::empty())
            .map_err(|error| Failure::io("no random numbers", error))?;
        let number = u64::from_le_bytes(bytes);
        let half = MAX_CONTEXTS as u64 / 2;
        // The upper half of the incarnations belongs to contexts made by hand.
        Ok(Agreed { ctx_id: (half + number % half) as u16, incarnation: 1 + number / 4 })
    }
}

/// A run over the hosts of a rack file.
#[derive(Clone, Debug)]
pub struct Spread<'a> {
    /// The hosts.
    pub file: &'a RackFile,
    /// The way to other hosts.
    pub launcher: &'a Launcher,
    /// Nodes that are up on this host.
    pub here: Vec<u16>,
    /// Nodes of the run that get a process.
    pub nids: Vec<u16>,
    /// Options of the run, for those on other hosts.
    pub options: Vec<OsString>,
}

impl Job<'_> {
    /// Runs it on several hosts, as [`Job::run`] does on one.
    ///
    /// # Errors
    /// As [`Job::run`], or a launcher cannot be started.
    pub fn run_on_hosts<'a>(
        &self,
        spread: &Spread<'_>,
        sink: Option<&'a mut dyn Sink>,
        interrupt: &'a Interrupt,
    ) -> Result<()> {
        let is_here = |nid: u16| spread.here.contains(&nid);
        let (agreed, _context) = match spread.nids.iter().copied().any(is_here) {
            true => hold_any(self.rack).map(|(agreed, context)| (agreed, Some(context)))?,
            false => (Agreed::random()?, None),
        };
        let launch = Launch::new(self, agreed.ctx_id, sink.is_some())?;
        let directory = std::env::current_dir()
            .map_err(|error| Failure::io("cannot tell the working directory", error))?;
        let mut watch = Watch::new(sink, interrupt);
        watch.start_all(&spread.nids, |nid| match is_here(nid) {
            true => launch.process(nid),
            false => {
                let words = self.inner_run(spread, agreed, nid, &directory)?;
                let host = spread.file.nodes[usize::from(nid)].address.ip();
                let command = spread.launcher.command(host, nid, &words);
                launch.elsewhere(nid, command, spread.launcher.name())
            }
        });
        watch.until_all_have_ended()
    }

    /// The words of the run on a node's own host.
    fn inner_run(
        &self,
        spread: &Spread<'_>,
        agreed: Agreed,
        nid: u16,
        directory: &std::path::Path,
    ) -> Result<Vec<OsString>> {
        let Agreed { ctx_id, incarnation } = agreed;
        let mut words = vec![this_program()?, "run".into(), "--rack-file".into()];
        words.push(spread.file.path.clone().into());
        for option in [
            format!("--as-node={nid}"),
            format!("--nodes={}", self.nodes()),
            format!("--context={ctx_id}:{incarnation}"),
            format!("--context-size={}", self.context_bytes),
            format!("--progress={}", self.progress.name()),
        ] {
            words.push(option.into());
        }
        words.extend(["--directory".into(), directory.into()]);
        words.extend(spread.options.iter().cloned());
        words.push("--".into());
        words.extend(self.command(nid).iter().cloned());
        Ok(words)
    }

    /// Runs the process of one node, whose output the outer run takes.
    ///
    /// # Errors
    /// The context belongs to something else, the process failed, which the outer run reports, or the outer run is
    /// gone.
    pub fn run_as_node(&self, nid: u16, agreed: Agreed, interrupt: &Interrupt) -> Result<()> {
        let lifeline = Lifeline::new();
        let _context = HeldContext::hold(self.rack, agreed.ctx_id, agreed.incarnation)?;
        let launch = Launch::new(self, agreed.ctx_id, false)?;
        let mut watch = Watch::new(None, interrupt);
        watch.lifeline = Some(lifeline);
        watch.processes.push(launch.process(nid)?);
        watch.until_all_have_ended()
    }
}

/// Makes a context with a number that is free on this host.
fn hold_any(rack: &Rack) -> Result<(Agreed, HeldContext)> {
    for _ in 0..ATTEMPTS {
        let agreed = Agreed::random()?;
        match HeldContext::hold(rack, agreed.ctx_id, agreed.incarnation) {
            Ok(context) => return Ok((agreed, context)),
            Err(error) if error.errno() == libc::EEXIST => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Failure::new(format!("too many contexts of rack '{}' are taken on this host", rack.name())))
}

fn this_program() -> Result<OsString> {
    let program = std::env::current_exe();
    program
        .map(PathBuf::into)
        .map_err(|error| Failure::io("cannot find this program's file", error))
}

/// Descriptors that show an inner run the end of its outer run.
pub(super) struct Lifeline {
    /// Missing if the parent is in another process namespace.
    parent: Option<OwnedFd>,
    output: Stdout,
}

impl Lifeline {
    fn new() -> Lifeline {
        let parent = getppid().and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        Lifeline { parent, output: std::io::stdout() }
    }

    /// Descriptors that wake the watch when the outer run is gone. Errors of the output are always reported.
    pub fn poll_fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        let parent = self.parent.as_ref().map(|fd| PollFd::new(fd, PollFlags::IN));
        let output = PollFd::from_borrowed_fd(self.output.as_fd(), PollFlags::empty());
        parent.into_iter().chain([output])
    }

    /// The failure that ends the run, if the outer one is gone.
    pub fn failure(&self) -> Option<Failure> {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut fds: Vec<PollFd<'_>> = self.poll_fds().collect();
        let gone = PollFlags::IN | PollFlags::ERR | PollFlags::HUP;
        let is_gone = poll(&mut fds, Some(&now)).is_ok_and(|ready| ready > 0)
            && fds.iter().any(|fd| fd.revents().intersects(gone));
        is_gone.then(|| Failure::silent(OUTER_GONE))
    }
}

/// Runs a command of `rackmem` for each node of a rack file, each on the node's host. Those that succeed stay.
///
/// # Errors
/// It failed for a node; its complaint has been passed on.
pub fn on_hosts(
    file: &RackFile,
    launcher: &Launcher,
    words: impl Fn(u16) -> Vec<OsString>,
    interrupt: &Interrupt,
) -> Result<()> {
    let this = this_program()?;
    let mut prefixed = Prefixed::new();
    let mut watch = Watch::new(Some(&mut prefixed), interrupt);
    watch.failed = Some(Vec::new());
    watch.limit = Some(Instant::now() + COMMAND_TIMEOUT);
    let nids: Vec<u16> = (0..file.node_count()).collect();
    watch.start_all(&nids, |nid| {
        let words = [vec![this.clone()], words(nid)].concat();
        let host = file.nodes[usize::from(nid)].address.ip();
        Process::of_launcher(nid, launcher.command(host, nid, &words), launcher.name())
    });
    watch.until_all_have_ended()
}

/// The failure of a command on other hosts.
pub(super) fn failed_on(failed: &mut [Ended]) -> Failure {
    failed.sort_unstable_by_key(Ended::nid);
    let nids: Vec<u16> = failed.iter().map(Ended::nid).collect();
    let mut how: Vec<String> = failed.iter().map(|ended| ended.how().0).collect();
    how.sort_unstable();
    how.dedup();
    let (nodes, how) = (console::nodes(&nids), how.join(" or "));
    Failure::new(format!("it failed for {nodes}: the launcher {how}"))
}

/// The failure of a command that takes too long on other hosts.
pub(super) fn too_late(processes: &[Process]) -> Failure {
    let late: Vec<u16> =
        processes.iter().filter(|process| process.is_running()).map(Process::nid).collect();
    let seconds = COMMAND_TIMEOUT.as_secs();
    Failure::new(format!("no end after {seconds} s for {}", console::nodes(&late)))
}
