//! `rackmem up`.

use std::time::Duration;

use rackmem::rack::Rack;

use crate::args::UpArgs;
use crate::console::{self, count};
use crate::failure::Result;
use crate::interrupt::Interrupt;
use crate::placement;
use crate::rackctl::{self, Plan};

/// Starts a rack that stays.
///
/// # Errors
/// It is up already or does not come up.
pub fn run(rack: Option<&str>, args: &UpArgs) -> Result<()> {
    let rack = Rack::named(rack)?;
    let interrupt = Interrupt::catch()?;
    let cores = match args.pin {
        true => placement::round_robin(&placement::cores(), usize::from(args.nodes)),
        false => Vec::new(),
    };
    let spin = Duration::from_micros(args.spin);
    let together = args.together;
    let plan = Plan { cores, spin, together, stay: true, ..Plan::new(args.nodes) };
    let name = rack.name();
    if rackctl::up(&rack, &plan, &interrupt)? {
        console::remark(&format!("removed what a dead rack '{name}' had left"));
    }
    let nodes = count(usize::from(args.nodes), "node");
    let dir = rack.dir().display();
    console::print(&format!("rack '{name}' is up: {nodes}, {dir}\n"))
}
