//! The daemon of a node: the remote memory controller in software (soNUMA §7.1, "RMCemu").
//!
//! Two threads. `control` talks to clients and to the daemons of other nodes over sockets: it is
//! the device driver. `worker` runs the pipelines and never enters the kernel while there is
//! work: it is the controller. Control tells the worker what exists by commands, and waits for each
//! to be taken, so that neither ever sees half a change.

mod control;
mod foreign;
#[cfg(fuzzing)]
pub use control::fuzz;
mod link;
mod local;
mod packet;
mod session;
mod signals;
mod worker;

use std::io::Write;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use rustix::io::Errno;
use rustix::process::Resource;

use self::control::Control;
use crate::error::{Error, Result};
use crate::rack::Rack;
use crate::shm::bell::Bell;
use crate::shm::sleep;

/// How long a worker polls without finding work before it sleeps, unless told otherwise.
pub const DEFAULT_SPIN: Duration = Duration::from_micros(50);

/// How long somebody who only looks whether a lock is held may have it.
const LOOK: Duration = Duration::from_secs(1);

/// Wait before the next attempt to lock.
const RETRY: Duration = Duration::from_millis(1);

/// What a daemon is started with.
#[derive(Clone, Debug)]
pub struct Config {
    /// The rack, whose directory exists.
    pub rack: Rack,
    /// Nodes to be. Several share one process and one worker, which saves cores, and falls with
    /// all of them.
    pub nids: Vec<u16>,
    /// Core to pin the worker to.
    pub pin_core: Option<usize>,
    /// How long the worker polls without finding work before it sleeps.
    pub spin: Duration,
    /// Whether the worker yields its core between polls that find nothing: for daemons that share
    /// a core.
    pub share_core: bool,
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
    allow_many_descriptors();
    let locks = config.nids.iter().map(|nid| lock(&config, *nid));
    let _locks = locks.collect::<Result<Vec<_>>>()?;
    let signals = signals::catch().map_err(|e| Error::io("cannot catch signals", e))?;
    let bell = Arc::new(Bell::create().map_err(|e| Error::io("cannot create the bell", e))?);
    let workers = worker::spawn(&config, nodes, &bell)?;
    let control = |(nid, worker)| Control::new(&config.rack, nid, nodes, bell.clone(), worker);
    let controls = config.nids.iter().copied().zip(workers).map(control);
    let controls = controls.collect::<Result<Vec<_>>>()?;
    std::thread::scope(|threads| {
        let signals = signals.as_fd();
        let running = controls.into_iter().map(|control| {
            threads.spawn(move || {
                let result = control.run(signals);
                if result.is_err() {
                    signals::raise();
                }
                result
            })
        });
        let running: Vec<_> = running.collect();
        running.into_iter().try_for_each(|thread| thread.join().expect("control does not panic"))
    })
}

/// Every queue pair and buffer of a client is a descriptor here, and the usual limit is low.
fn allow_many_descriptors() {
    let limits = rustix::process::getrlimit(Resource::Nofile);
    let wanted = rustix::process::Rlimit { current: limits.maximum, ..limits };
    if let Err(error) = rustix::process::setrlimit(Resource::Nofile, wanted) {
        tracing::warn!(%error, "cannot raise the limit on open files");
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
