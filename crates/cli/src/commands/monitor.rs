//! `rackmem monitor`.

use clap::Args;
use rackmem_lease::agent::Config;

use super::lend::{NetworkArgs, serve};
use crate::args::RackOrFileArg;
use crate::choice::Choice;
use crate::failure::Result;

/// First text of `rackmem help monitor`.
pub const ABOUT: &str = "\
Keeps the ledger of lenders and borrowers in a process of its own, in the foreground: which lender lends what \
to whom, and which lender a borrower should ask. Lenders on several hosts need one, and name it with \
--monitor. On one host the first lender does this.

The monitor holds no state that lenders cannot report again: if it dies, leases stay, and when it is started \
again at the same address, lenders report to it within a second.";

/// Examples of `rackmem help monitor`.
pub const EXAMPLES: &str = "Examples:\n  \
    rackmem monitor --listen node0:7000 --secret ~/.rackmem-secret\n  \
    rackmem lend 16G --listen node3:7000 --monitor node0:7000 --secret ~/.rackmem-secret\n  \
    rackmem leases --monitor node0:7000 --secret ~/.rackmem-secret";

/// Arguments of `rackmem monitor`.
#[derive(Debug, Args)]
pub struct MonitorArgs {
    /// Rack that the command works on.
    #[command(flatten)]
    pub rack: RackOrFileArg,
    /// Options of listening over the network, as of `rackmem lend`.
    #[command(flatten)]
    pub network: NetworkArgs,
}

/// Runs the monitor until it is asked to end.
///
/// # Errors
/// Another process is, or an address is taken.
pub fn run(choice: &Choice, args: &MonitorArgs) -> Result<()> {
    let config = args.network.apply(choice, Config::monitor(choice.rack()?))?;
    let what = format!("is the monitor of rack '{}'", config.rack.name());
    serve(config, args.network.metrics, &what, |_| {})
}
