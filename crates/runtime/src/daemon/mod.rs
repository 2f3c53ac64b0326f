//! The daemon of a node: the remote memory controller in software (soNUMA §7.1, "RMCemu").
//!
//! Two threads. `control` talks to clients and to the daemons of other nodes over sockets: it is
//! the device driver. `worker` runs the pipelines and never enters the kernel while there is
//! work: it is the controller. Control sends commands to the worker and waits until each is carried
//! out, so that neither ever sees half a change.
//!
//! One process may be the daemon of several nodes ([`Config::nids`], `rackmem up --together`). One worker thread then
//! runs all their controllers in turn, which saves cores; packets between them still travel on their links.
//!
//! # Trust
//!
//! - What a client writes into its queues is loaded once and checked. A buffer that the client did not share is reached
//!   by system calls, and only in processes of the daemon's own user.
//! - A member of a context may map the segments of the other members, and with inline progress it does: members of a
//!   context trust each other, and other processes need not trust them. A client that never asks for those segments
//!   reaches them only through the daemon's checks.
//! - Daemons trust daemons of the same user and of root.

mod control;
mod foreign;
#[cfg(fuzzing)]
pub use control::fuzz;
mod line;
mod local;
mod packet;
mod session;
mod signals;
mod worker;

use std::io::Write;
use std::os::fd::AsFd;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use rackmem_fabric::Faults;
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use rustix::process::Resource;

use self::control::Control;
use crate::error::{Error, Result};
use crate::rack::Rack;
use crate::rack_file::RackFile;
use crate::shm::bell::Bells;
use crate::shm::sleep;

/// Time that a worker polls without finding work before it sleeps, unless another is given.
pub const DEFAULT_SPIN: Duration = Duration::from_micros(50);

/// Longest time for which a command that only looks whether a lock is held may hold it.
const LOOK: Duration = Duration::from_secs(1);

/// Time that the threads of a daemon have to end after a signal.
const END_TIMEOUT: Duration = Duration::from_secs(3);

/// Wait before the next attempt to lock.
const RETRY: Duration = Duration::from_millis(1);

/// Settings of a daemon.
#[derive(Clone, Debug)]
pub struct Config {
    /// The rack, whose directory exists.
    pub rack: Rack,
    /// Nodes to be. Several share one process and one worker, which saves cores, and falls with
    /// all of them.
    pub nids: Vec<u16>,
    /// Core to pin the worker to.
    pub pin_core: Option<usize>,
    /// Time that the worker polls without finding work before it sleeps.
    pub spin: Duration,
    /// Whether the worker yields its core between polls that find nothing: for daemons that share
    /// a core.
    pub share_core: bool,
    /// The nodes of a rack over several hosts; `None`: all nodes run on this host.
    pub rack_file: Option<RackFile>,
    /// Faults of links over TCP to other hosts, for tests of programs.
    pub faults: Option<Faults>,
}

/// Runs the daemon until SIGTERM or SIGINT.
///
/// # Errors
/// The rack is not there, a node number is not in it, the daemon of a node runs already, or the
/// kernel lacks something.
pub fn run(config: Config) -> Result<()> {
    let nodes = config.rack.describe()?.nodes;
    if let Some(nid) = config.nids.iter().find(|nid| **nid >= nodes) {
        return Err(Error::invalid(format!("node {nid} is not in a rack of {nodes} nodes")));
    }
    sleep::register_process().map_err(|e| Error::io("the kernel lacks membarrier", e))?;
    allow_many_descriptors(nodes.into(), config.nids.len())?;
    let locks = config.nids.iter().map(|nid| lock(&config, *nid));
    let _locks = locks.collect::<Result<Vec<_>>>()?;
    let signals = signals::catch().map_err(|e| Error::io("cannot catch signals", e))?;
    let bell = Arc::new(Bells::create().map_err(|e| Error::io("cannot create the bell", e))?);
    let workers = worker::spawn(&config, nodes, &bell)?;
    let control = |(nid, worker)| Control::new(&config, nid, nodes, bell.clone(), worker);
    let controls = config.nids.iter().copied().zip(workers).map(control);
    let controls = controls.collect::<Result<Vec<_>>>()?;
    let signals = Arc::new(signals);
    let (ended, ends) = mpsc::channel();
    for control in &mut controls.into_iter() {
        let (signals, ended) = (signals.clone(), ended.clone());
        let run = move || {
            // However it ends, the others end with it.
            let _raise = signals::RaiseAtEnd;
            let _ = ended.send(control.run(signals.as_fd()));
        };
        let thread = std::thread::Builder::new().name("control".to_owned());
        thread.spawn(run).map_err(|e| Error::io("cannot start a thread", e))?;
    }
    drop(ended);
    signals::wait(&signals);
    ends_in_time(&ends)
}

/// Results of the control threads, until all have ended or the time is over: a thread that waits for something ends
/// with the process then.
fn ends_in_time(ends: &mpsc::Receiver<Result<()>>) -> Result<()> {
    let deadline = Instant::now() + END_TIMEOUT;
    let mut result = Ok(());
    loop {
        match ends.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(end) => result = result.and(end),
            Err(mpsc::RecvTimeoutError::Disconnected) => return result,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                tracing::error!("a thread does not end, and is left behind");
                return result;
            }
        }
    }
}

/// Least number of descriptors of a daemon: each of its nodes is linked to all others, and serves a few processes.
fn descriptors(nodes: usize, nids: usize) -> u64 {
    let (of_process, of_node, of_link, for_clients) = (12, 5, 5, 16);
    (of_process + nids * (of_node + of_link * (nodes - 1)) + for_clients) as u64
}

/// Every queue pair and buffer of a client is a descriptor here, and the usual limit is low.
///
/// # Errors
/// `EMFILE`: even the highest limit that is allowed is too low for the rack.
fn allow_many_descriptors(nodes: usize, nids: usize) -> Result<()> {
    let limits = rustix::process::getrlimit(Resource::Nofile);
    let wanted = rustix::process::Rlimit { current: limits.maximum, ..limits };
    if let Err(error) = rustix::process::setrlimit(Resource::Nofile, wanted) {
        tracing::warn!(%error, "cannot raise the limit on open files");
    }
    let least = descriptors(nodes, nids);
    match rustix::process::getrlimit(Resource::Nofile).current {
        Some(limit) if limit < least => Err(Error::new(
            libc::EMFILE,
            format!(
                "a daemon may have {limit} files open, and needs {least} in a rack of {nodes} nodes: raise that \
                 with `ulimit -Hn {least}` or more, or LimitNOFILE= of its service"
            ),
        )),
        _ => Ok(()),
    }
}

/// Takes the node's lock, which goes away with the process however it ends.
fn lock(config: &Config, nid: u16) -> Result<std::fs::File> {
    let path = config.rack.lock_path(nid);
    let failed = |e| Error::io(format!("cannot lock {}", path.display()), e);
    let mut options = std::fs::OpenOptions::new();
    let mut file =
        options.create(true).truncate(false).read(true).write(true).open(&path).map_err(failed)?;
    match flock_beside_looks(&file) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => {
            return Err(Error::new(
                libc::EBUSY,
                format!("the daemon of node {nid} of rack '{}' runs already", config.rack.name()),
            ));
        }
        Err(errno) => return Err(failed(errno.into())),
    }
    file.set_len(0).map_err(failed)?;
    writeln!(file, "{}", std::process::id()).map_err(failed)?;
    Ok(file)
}

/// Locks a file unless a daemon has it. Commands that look whether one does have it for a moment.
fn flock_beside_looks(file: &std::fs::File) -> std::result::Result<(), Errno> {
    let deadline = Instant::now() + LOOK;
    loop {
        match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) if Instant::now() < deadline => std::thread::sleep(RETRY),
            other => return other,
        }
    }
}
