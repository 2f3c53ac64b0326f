//! `rackmem down`.

use rackmem::rack::Rack;

use crate::console::{self, count};
use crate::failure::Result;
use crate::rackctl;

/// Stops a rack.
///
/// # Errors
/// There is none, or it cannot be stopped.
pub fn run(rack: Option<&str>) -> Result<()> {
    let rack = Rack::named(rack)?;
    let name = rack.name();
    let stopped = rackctl::down(&rack)?;
    if stopped.killed > 0 {
        let daemons = count(stopped.killed, "daemon");
        console::remark(&format!("{daemons} did not end when asked and had to be killed"));
    }
    match stopped.daemons {
        0 => console::print(&format!("removed what a dead rack '{name}' had left\n")),
        n => console::print(&format!("rack '{name}' is down: {} stopped\n", count(n, "daemon"))),
    }
}
