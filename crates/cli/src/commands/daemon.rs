//! The daemon of a node, or of several: `rackmemd`, and what `rackmem up` starts.

use std::io;
use std::time::Duration;

use rackmem::daemon::{self, Config};

use super::key::with_own_keys;
use crate::args::DaemonArgs;
use crate::choice::Choice;
use crate::failure::Result;

/// Runs the daemon until it is asked to end.
///
/// # Errors
/// It cannot start; see [`daemon::run`].
pub fn run(choice: &Choice, args: &DaemonArgs) -> Result<()> {
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
    Ok(daemon::run(config)?)
}
