//! The daemon of a node: the remote memory controller in software (soNUMA §7.1, "RMCemu").
//!
//! Two threads. [`control`] talks to clients and to the daemons of other nodes over sockets: it is
//! the device driver. [`worker`] runs the pipelines and never enters the kernel while there is
//! work: it is the controller. Control tells the worker what exists by commands, and waits for each
//! to be taken, so that neither ever sees half a change.

mod control;
mod foreign;
mod link;
mod local;
mod packet;
mod session;
mod signals;
mod worker;

use std::io::Write;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::FlockOperation;

use crate::error::{Error, Result};
use crate::rack::Rack;
use crate::shm::bell::Bell;
use crate::shm::sleep;

/// How long a worker polls without finding work before it sleeps, unless told otherwise.
pub const DEFAULT_SPIN: Duration = Duration::from_micros(50);

/// What a daemon is started with.
#[derive(Clone, Debug)]
pub struct Config {
    /// The rack, whose directory exists.
    pub rack: Rack,
    /// Node to be.
    pub nid: u16,
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
/// The rack is not there, the node number is not in it, the daemon of this node runs already, or
/// the kernel lacks something.
pub fn run(config: Config) -> Result<()> {
    let nodes = config.rack.describe()?.nodes;
    let nid = config.nid;
    if nid >= nodes {
        return Err(Error::invalid(format!("node {nid} is not in a rack of {nodes} nodes")));
    }
    sleep::register_process().map_err(|e| Error::io("the kernel lacks membarrier", e))?;
    let _lock = lock(&config)?;
    let signals = signals::catch().map_err(|e| Error::io("cannot catch signals", e))?;
    let bell = Arc::new(Bell::create().map_err(|e| Error::io("cannot create the bell", e))?);
    let worker = worker::spawn(&config, nodes, bell.clone())?;
    tracing::info!(nid, nodes, "up");
    let result = control::Control::new(&config, nodes, bell, worker)?.run(signals.as_fd());
    let _ = std::fs::remove_file(config.rack.socket_path(nid));
    tracing::info!(nid, "down");
    result
}

/// Takes the node's lock, which goes away with the process however it ends.
fn lock(config: &Config) -> Result<std::fs::File> {
    let path = config.rack.lock_path(config.nid);
    let failed = |e| Error::io(format!("cannot lock {}", path.display()), e);
    let mut options = std::fs::OpenOptions::new();
    let mut file =
        options.create(true).truncate(false).read(true).write(true).open(&path).map_err(failed)?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let nid = config.nid;
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
