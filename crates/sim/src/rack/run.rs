//! Runs a rack until its bandwidth is known as precisely as the machine asks for.

use super::Rack;
use super::meter::{Measured, offered_gbps};
use crate::machine::Machine;
use crate::report::Report;
use crate::run::meter::measure;
use crate::run::{Options, RunError, Watchdog};

/// Stuck packets that are named.
const NAMED: usize = 8;

/// Runs a machine of kind `torus` until its traffic is measured.
///
/// # Errors
/// [`RunError::Impossible`] if it cannot be built or nobody posts requests, [`RunError::Stuck`] if
/// nothing has got on for too long.
pub fn run(machine: &Machine, options: &Options<'_>) -> Result<Report, RunError> {
    if options.trace.0 < options.trace.1 {
        let problem = "simplified nodes record no events; leave the trace out";
        return Err(RunError::Impossible(problem.to_owned()));
    }
    let rack = Rack::new(machine);
    let rack = rack.map_err(|error| RunError::Impossible(format!("rack: {error}")))?;
    if rack.sources() == 0 {
        let problem = "traffic.pattern: every node of traffic.sources would send to itself, so \
                       there is no traffic; choose another pattern or more sources";
        return Err(RunError::Impossible(problem.to_owned()));
    }
    let sources = rack.sources() as f64;
    let reads =
        |gbps| sources * gbps / machine.clock_ghz / f64::from(machine.workload.transfer_bytes);
    let mut measured = Measured {
        clock_ghz: machine.clock_ghz,
        offered: offered_gbps(machine).map(reads),
        rack,
        watchdog: Watchdog::new(machine, 0),
    };
    let (span, common) = measure(machine, options, 1.0, &mut measured)?;
    Ok(span.complete(common, &measured.rack))
}

#[inline]
pub(super) fn check(rack: &Rack, watchdog: &mut Watchdog) -> Result<(), RunError> {
    // An open loop may well have nothing under way for long.
    let progress = || (rack.lines_completed(), rack.requests_under_way() > 0);
    watchdog.look(rack.now(), progress, "no line has come back", || describe(rack))
}

/// Requests and packets under way, for people.
fn describe(rack: &Rack) -> String {
    let mut lines =
        vec![format!("in cycle {}: {} requests under way", rack.now(), rack.requests_under_way())];
    let stuck = rack.network.stuck(rack.now(), NAMED);
    lines.extend(stuck.iter().map(|packet| format!("  {packet}")));
    lines.join("\n")
}
