//! The daemon of a node, or of several: `rackmemd`, and what `rackmem up` starts.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use rackmem::daemon::{self, Config};

use super::key::with_own_keys;
use crate::args::{DEFAULT_SPIN_US, RackOrFileArg};
use crate::choice::Choice;
use crate::failure::Result;
use crate::http::{Endpoint, Server};
use crate::interrupt::outlive_file_limits;
use crate::metrics::serve_nodes;

/// Arguments of `rackmem daemon` and of `rackmemd`.
#[derive(Debug, Args)]
pub struct DaemonArgs {
    /// Rack that the command works on.
    #[command(flatten)]
    pub rack: RackOrFileArg,
    /// Node to be; several of them share one process and one polling thread
    #[arg(long, value_name = "N", required = true)]
    pub node: Vec<u16>,
    /// File of the private key of each node; {node} in it is the node's number [default: $RACKMEM_KEY_FILE, else
    /// what the rack file says]
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// Core to pin the polling thread to
    #[arg(long, value_name = "CORE")]
    pub pin: Option<usize>,
    /// How long to poll without finding work before sleeping
    #[arg(long, value_name = "MICROSECONDS", default_value_t = DEFAULT_SPIN_US)]
    pub spin: u64,
    /// Yield the core between polls, for daemons that share one
    #[arg(long)]
    pub share_core: bool,
    /// Serve metrics for Prometheus there, to this host
    #[arg(long, value_name = "ADDRESS")]
    pub metrics: Option<Endpoint>,
}

/// Runs the daemon until it is asked to end.
///
/// # Errors
/// It cannot start; see [`daemon::run`].
pub fn run(choice: &Choice, args: &DaemonArgs) -> Result<()> {
    outlive_file_limits();
    tracing_subscriber::fmt().with_writer(io::stderr).with_ansi(false).with_target(false).init();
    let config = Config {
        rack: choice.rack()?,
        nids: args.node.clone(),
        pin_core: args.pin,
        spin: Duration::from_micros(args.spin),
        share_core: args.share_core,
        rack_file: with_own_keys(choice, args.key_file.as_deref())?,
        faults: None,
    };
    if let Some(endpoint) = args.metrics {
        let server = Server::listen(endpoint)?;
        tracing::info!("metrics at {}metrics", server.url());
        serve_nodes(server, &config.rack, &config.nids)?;
    }
    Ok(daemon::run(config)?)
}
