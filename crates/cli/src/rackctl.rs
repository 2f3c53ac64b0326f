//! Starts and stops the daemons of racks on this machine.
//!
//! A daemon lives while it holds its lock. A process number alone does not show that: a
//! number may have been given to another process by now.

pub mod hosts;

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rackmem::control;
use rackmem::rack::{self, Rack};
use rackmem::rack_file::RackFile;
use rackmem_fabric::socket::timespec;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::failure::{Failure, Result};
use crate::http::Endpoint;
use crate::interrupt::Interrupt;
use crate::spawn::Spawn;

/// Names of racks that belong to one run begin so.
const PRIVATE_PREFIX: &str = "private-";

/// Time that all daemons together may take to come up.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// Time that daemons may take to end when asked, and when forced.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// Time to wait for another command that starts or stops a rack.
const TURN_TIMEOUT: Duration = Duration::from_secs(60);

/// Time between two looks.
const PAUSE: Duration = Duration::from_millis(2);

/// Lines of a log that are shown when its daemon fails.
const LOG_TAIL_LINES: usize = 10;

/// Settings of the daemons of a rack.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Nodes of the rack.
    pub nodes: u16,
    /// Nodes to start.
    pub nids: Vec<u16>,
    /// The rack's file, if it stretches over several hosts.
    pub rack_file: Option<RackFile>,
    /// Core of each daemon; none: unpinned.
    pub cores: Vec<usize>,
    /// Time that a daemon polls without finding work before it sleeps.
    pub spin: Duration,
    /// Whether daemons yield their core between polls.
    pub share_core: bool,
    /// Whether one process is the daemon of all nodes.
    pub together: bool,
    /// Whether they stay when this command has ended.
    pub stay: bool,
    /// Where node 0 has its metrics, and each other as many ports above as its number.
    pub metrics: Option<Endpoint>,
}

impl Plan {
    /// Daemons that go where the kernel puts them.
    pub fn new(nodes: u16) -> Plan {
        let share_core = usize::from(nodes) > crate::placement::cores().len();
        let spin = rackmem::daemon::DEFAULT_SPIN;
        let (cores, nids) = (Vec::new(), (0..nodes).collect());
        Plan {
            nodes,
            nids,
            rack_file: None,
            cores,
            spin,
            share_core,
            together: false,
            stay: false,
            metrics: None,
        }
    }
}

impl Plan {
    /// Whether a node has a link to all that are started with it and share its memory.
    fn is_linked(&self, nid: u16, peers_up: &[u16]) -> bool {
        let Some(file) = &self.rack_file else { return peers_up.len() + 1 >= self.nids.len() };
        let others = self.nids.iter().filter(|other| **other != nid);
        let mut neighbours = others.filter(|other| file.is_neighbour(nid, **other));
        neighbours.all(|other| peers_up.contains(other))
    }
}

/// State of a rack on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// No directory.
    Absent,
    /// A directory without any daemon.
    Dead,
    /// These nodes have daemons.
    Up(Vec<u16>),
}

/// Looks at the locks of a rack.
///
/// # Errors
/// The directory or a lock cannot be read.
pub fn state(rack: &Rack) -> Result<State> {
    let unreadable =
        |error| Failure::io(format_args!("cannot read {}", rack.dir().display()), error);
    match locked_nodes(rack.dir()) {
        Ok(nodes) if nodes.is_empty() => Ok(State::Dead),
        Ok(nodes) => Ok(State::Up(nodes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(State::Absent),
        Err(error) => Err(unreadable(error)),
    }
}

/// The nodes of a rack's directory whose locks are held.
fn locked_nodes(dir: &Path) -> io::Result<Vec<u16>> {
    let mut nodes = Vec::new();
    for nid in all_locks(dir)? {
        if is_locked(&dir.join(format!("node-{nid}.lock")))? {
            nodes.push(nid);
        }
    }
    Ok(nodes)
}

/// The nodes of a rack's directory that have a lock, be it held or not.
fn all_locks(dir: &Path) -> io::Result<Vec<u16>> {
    let mut nodes: Vec<u16> = Vec::new();
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name();
        let nid = name.to_str().and_then(|name| name.strip_prefix("node-")?.strip_suffix(".lock"));
        nodes.extend(nid.and_then(|nid| nid.parse::<u16>().ok()));
    }
    nodes.sort_unstable();
    Ok(nodes)
}

fn is_locked(path: &Path) -> io::Result<bool> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        other => other?,
    };
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(false),
        Err(Errno::WOULDBLOCK) => Ok(true),
        Err(errno) => Err(errno.into()),
    }
}

/// The right to start and stop racks: one command at a time, for locks of daemons that are just
/// starting look free.
#[derive(Debug)]
struct Turn(#[expect(dead_code, reason = "its lock is what counts")] File);

fn wait_for_turn() -> Result<Turn> {
    let base = rack::base_dir();
    let failed =
        |error: io::Error| Failure::io(format_args!("cannot use {}", base.display()), error);
    let dir = rack::make_base_dir()?;
    let deadline = Instant::now() + TURN_TIMEOUT;
    loop {
        match flock(&dir, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(Turn(dir)),
            Err(Errno::WOULDBLOCK) if Instant::now() < deadline => std::thread::sleep(PAUSE),
            Err(Errno::WOULDBLOCK) => {
                return Err(Failure::new(format!(
                    "{} has been locked by another command for a minute: end that one first",
                    base.display()
                )));
            }
            Err(errno) => return Err(failed(errno.into())),
        }
    }
}

/// Starts a rack and waits until every daemon is linked to all others. Returns whether the rest of
/// a dead rack of that name had to be removed first.
///
/// # Errors
/// It is up already, or does not come up; then nothing stays behind.
pub fn up(rack: &Rack, plan: &Plan, interrupt: &Interrupt) -> Result<bool> {
    let _turn = wait_for_turn()?;
    let state = state(rack)?;
    if let State::Up(alive) = &state {
        let name = rack.name();
        return Err(Failure::new(format!(
            "rack '{name}' is up already ({}): stop it with `rackmem{} down` first",
            crate::console::count(alive.len(), "daemon"),
            rack_option(name)
        )));
    }
    rack.remove()?;
    start(rack, plan, false, interrupt)?;
    Ok(state == State::Dead)
}

/// The option that names a rack in a command line; empty for the default rack.
pub fn rack_option(name: &str) -> String {
    if name == rack::DEFAULT_RACK { String::new() } else { format!(" --rack {name}") }
}

/// Starts daemons, in the directory of a rack that is up already or in a new one.
fn start(rack: &Rack, plan: &Plan, joins: bool, interrupt: &Interrupt) -> Result<Vec<Child>> {
    let mut daemons = Vec::new();
    let create = || match &plan.rack_file {
        _ if joins => Ok(()),
        Some(file) => rack.create_over_hosts(file),
        None => rack.create(plan.nodes),
    };
    // A directory that could not be filled, for the disk is full, must not stay either.
    let started = create()
        .map_err(Failure::from)
        .and_then(|_| spawn_daemons(rack, plan, &mut daemons))
        .and_then(|()| wait_until_linked(rack, plan, &mut daemons, interrupt));
    if let Err(failure) = started {
        for daemon in &mut daemons {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        if !joins {
            let _ = rack.remove();
        }
        return Err(failure);
    }
    Ok(daemons)
}

fn spawn_daemons(rack: &Rack, plan: &Plan, daemons: &mut Vec<Child>) -> Result<()> {
    let failed = |error| Failure::io("cannot start a daemon", error);
    let program = std::env::current_exe().map_err(failed)?;
    let at_once = if plan.together { plan.nids.len() } else { 1 };
    for (index, nids) in plan.nids.chunks(at_once).enumerate() {
        let log = File::create(rack.log_path(nids[0])).map_err(failed)?;
        let core = plan.cores.get(index);
        let mut command = Command::new(&program);
        command.arg("daemon");
        match &plan.rack_file {
            Some(file) => {
                command.args(
                    file.key_file()
                        .map(|path| ["--key-file".as_ref(), path.as_os_str()])
                        .into_iter()
                        .flatten(),
                );
                command.arg("--rack-file").arg(&file.path)
            }
            None => command.args(["--rack", rack.name()]),
        };
        command.args(nids.iter().map(|nid| format!("--node={nid}")));
        command.args(["--spin", &plan.spin.as_micros().to_string()]);
        command.args(core.map(|core| format!("--pin={core}")));
        command.args(plan.share_core.then_some("--share-core"));
        if let Some(endpoint) = plan.metrics {
            command.args(["--metrics", &metrics_of(endpoint, nids[0])?.to_string()]);
        }
        command.stdin(Stdio::null()).stdout(log.try_clone().map_err(failed)?).stderr(log);
        // A daemon must not keep the directory busy in which it happened to be started.
        command.current_dir("/").env("RACKMEM_DIR", absolute_base()?);
        let when_orphaned = (!plan.stay).then_some(Signal::TERM);
        Spawn { when_orphaned, session: true, core: None }.prepare(&mut command);
        daemons.push(command.spawn().map_err(failed)?);
    }
    Ok(())
}

/// Where the daemon whose first node this is has its metrics.
fn metrics_of(endpoint: Endpoint, nid: u16) -> Result<Endpoint> {
    endpoint.above(nid).ok_or_else(|| {
        Failure::usage(format!(
            "the metrics of node {nid} have no port: there are not {nid} ports above {endpoint}"
        ))
    })
}

/// The directory of all racks, for processes whose working directory is another.
pub fn absolute_base() -> Result<PathBuf> {
    std::path::absolute(rack::base_dir())
        .map_err(|error| Failure::io("cannot tell the working directory", error))
}

fn wait_until_linked(
    rack: &Rack,
    plan: &Plan,
    daemons: &mut [Child],
    interrupt: &Interrupt,
) -> Result<()> {
    let deadline = Instant::now() + START_TIMEOUT;
    for &nid in &plan.nids {
        let is_linked =
            || control::status(rack, nid).is_ok_and(|node| plan.is_linked(nid, &node.peers_up));
        while !is_linked() {
            for (nid, daemon) in plan.nids.iter().zip(&mut *daemons) {
                if let Ok(Some(status)) = daemon.try_wait() {
                    return Err(daemon_failed(rack, *nid, &format!("ended ({status})")));
                }
            }
            if Instant::now() >= deadline {
                let seconds = START_TIMEOUT.as_secs();
                return Err(daemon_failed(rack, nid, &format!("is not up after {seconds} s")));
            }
            interrupt.sleep(PAUSE)?;
        }
    }
    Ok(())
}

fn daemon_failed(rack: &Rack, nid: u16, how: &str) -> Failure {
    let log = fs::read_to_string(rack.log_path(nid)).unwrap_or_default();
    Failure::new(format!("the daemon of node {nid} {how}; {}", end_of_log(&log)))
}

fn end_of_log(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    if lines.is_empty() {
        return "its log is empty".to_owned();
    }
    let tail = &lines[lines.len().saturating_sub(LOG_TAIL_LINES)..];
    format!("its log ends with:\n  {}", tail.join("\n  "))
}

/// Counts of daemons that were stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stopped {
    /// Daemons that were running.
    pub daemons: usize,
    /// Daemons among them that did not end when asked and were killed.
    pub killed: usize,
}

/// Stops a rack and removes its directory.
///
/// # Errors
/// There is no such rack, or a daemon cannot be stopped.
pub fn down(rack: &Rack) -> Result<Stopped> {
    let _turn = wait_for_turn()?;
    if state(rack)? == State::Absent {
        let name = rack.name();
        return Err(Failure::new(format!("rack '{name}' is not up: there is nothing to stop")));
    }
    stop(rack)
}

fn stop(rack: &Rack) -> Result<Stopped> {
    let unreadable =
        |error| Failure::io(format_args!("cannot read {}", rack.dir().display()), error);
    let nodes = locked_nodes(rack.dir()).map_err(unreadable)?;
    let stopped = stop_nodes(rack, &nodes)?;
    rack.remove()?;
    Ok(stopped)
}

fn stop_nodes(rack: &Rack, nodes: &[u16]) -> Result<Stopped> {
    let mut daemons = Vec::new();
    for &nid in nodes {
        daemons.extend(Daemon::find(&rack.lock_path(nid), nid)?);
    }
    let mut stopped = Stopped { daemons: daemons.len(), killed: 0 };
    for signal in [Signal::TERM, Signal::KILL] {
        for daemon in &daemons {
            daemon.signal(signal)?;
        }
        let deadline = Instant::now() + STOP_TIMEOUT;
        daemons.retain(|daemon| !daemon.has_ended_by(deadline));
        if signal == Signal::TERM {
            stopped.killed = daemons.len();
        }
    }
    if let Some(daemon) = daemons.first() {
        let Daemon { nid, pid, .. } = daemon;
        return Err(Failure::new(format!(
            "the daemon of node {nid} (process {pid}) does not end even when killed"
        )));
    }
    Ok(stopped)
}

/// A daemon that is certain to be the one that held the lock.
#[derive(Debug)]
struct Daemon {
    nid: u16,
    pid: i32,
    handle: OwnedFd,
}

impl Daemon {
    /// The holder of a lock, or `None` if nobody holds it.
    fn find(lock: &Path, nid: u16) -> Result<Option<Daemon>> {
        let failed = |error| Failure::io(format_args!("cannot use {}", lock.display()), error);
        let text = fs::read_to_string(lock).map_err(failed)?;
        let number: Option<i32> = text.trim().parse().ok();
        let Some(pid) = number.and_then(Pid::from_raw) else {
            return Err(Failure::new(format!("{} names no process", lock.display())));
        };
        let handle = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(handle) => handle,
            Err(Errno::SRCH) => return Ok(None),
            Err(errno) => return Err(failed(errno.into())),
        };
        // Held now: so the holder was alive when the handle was opened, and the handle is its.
        let held = is_locked(lock).map_err(failed)?;
        Ok(held.then_some(Daemon { nid, pid: pid.as_raw_pid(), handle }))
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        match pidfd_send_signal(&self.handle, signal) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(errno) => {
                let Daemon { nid, pid, .. } = self;
                Err(Failure::io(
                    format_args!("cannot stop the daemon of node {nid} (process {pid})"),
                    errno,
                ))
            }
        }
    }

    fn has_ended_by(&self, deadline: Instant) -> bool {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = timespec(left);
        poll(&mut [PollFd::new(&self.handle, PollFlags::IN)], Some(&timeout)) == Ok(1)
    }
}

/// A rack that lives as long as this value.
#[derive(Debug)]
pub struct PrivateRack {
    rack: Rack,
    daemons: Vec<Child>,
}

impl PrivateRack {
    /// Starts one.
    ///
    /// # Errors
    /// As [`up`].
    pub fn start(plan: &Plan, interrupt: &Interrupt) -> Result<PrivateRack> {
        let _turn = wait_for_turn()?;
        sweep();
        let rack = Rack::named(Some(&format!("{PRIVATE_PREFIX}{}", std::process::id())))?;
        let daemons = start(&rack, plan, false, interrupt)?;
        Ok(PrivateRack { rack, daemons })
    }

    /// The rack, named after this process.
    pub fn rack(&self) -> &Rack {
        &self.rack
    }
}

impl Drop for PrivateRack {
    fn drop(&mut self) {
        if let Err(failure) = stop(&self.rack) {
            // Nobody knows when those will end.
            return failure.message.iter().for_each(|message| crate::console::remark(message));
        }
        for daemon in &mut self.daemons {
            let _ = daemon.wait();
        }
    }
}

/// Removes what private racks have left whose command was killed. Failing to is no reason not to
/// start another.
fn sweep() {
    for entry in fs::read_dir(rack::base_dir()).into_iter().flatten().flatten() {
        let is_private =
            entry.file_name().to_str().is_some_and(|name| name.starts_with(PRIVATE_PREFIX));
        if is_private && locked_nodes(&entry.path()).is_ok_and(|nodes| nodes.is_empty()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_log_is_cut_at_its_beginning() {
        assert_eq!(end_of_log(""), "its log is empty");
        assert_eq!(end_of_log("a\nb\n"), "its log ends with:\n  a\n  b");
        let long: Vec<String> = (0..100).map(|line| line.to_string()).collect();
        let end = end_of_log(&long.join("\n"));
        assert_eq!(end.lines().count(), 1 + LOG_TAIL_LINES);
        assert!(end.ends_with("\n  98\n  99"));
    }

    #[test]
    fn only_held_locks_count() {
        let dir = tempfile::tempdir().unwrap();
        let held = File::create(dir.path().join("node-12.lock")).unwrap();
        File::create(dir.path().join("node-3.lock")).unwrap();
        File::create(dir.path().join("other.lock")).unwrap();
        assert!(locked_nodes(dir.path()).unwrap().is_empty());
        flock(&held, FlockOperation::NonBlockingLockExclusive).unwrap();
        assert_eq!(locked_nodes(dir.path()).unwrap(), [12]);
    }
}
