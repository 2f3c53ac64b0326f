//! `rackmem monitor`.

use clap::Args;
use rackmem::rack::Rack;
use rackmem_borrow::agent::Config;

use super::lend::{NetworkArgs, serve};
use crate::args::RackArg;
use crate::failure::Result;

/// What `rackmem help monitor` says.
pub const ABOUT: &str = "\
Keeps the ledger of lenders and borrowers in a process of its own, in the foreground: who lends what \
to whom, and whom to ask for memory. It is needed if lenders are on several hosts, which name it \
with --monitor. On one host the first lender does this.

It holds nothing that lenders do not tell the next one: if it dies leases stay, and when it is \
started again at the same address, lenders report to it within a second.";

/// Examples of `rackmem help monitor`.
pub const EXAMPLES: &str = "Examples:\n  \
    rackmem monitor --listen node0:7000 --secret ~/.rackmem-secret\n  \
    rackmem lend 16G --listen node3:7000 --monitor node0:7000 --secret ~/.rackmem-secret\n  \
    rackmem leases --monitor node0:7000 --secret ~/.rackmem-secret";

/// Arguments of `rackmem monitor`.
#[derive(Debug, Args)]
pub struct MonitorArgs {
    /// What `--rack` names.
    #[command(flatten)]
    pub rack: RackArg,
    /// The network
    #[command(flatten)]
    pub network: NetworkArgs,
}

/// Is the monitor until it is asked to end.
///
/// # Errors
/// Another process is, or an address is taken.
pub fn run(rack: Option<&str>, args: &MonitorArgs) -> Result<()> {
    let config = args.network.apply(Config::monitor(Rack::named(rack)?))?;
    let what = format!("is the monitor of rack '{}'", config.rack.name());
    serve(config, &what)
}
