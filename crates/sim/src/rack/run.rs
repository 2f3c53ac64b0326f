//! Runs a rack until its bandwidth is known as precisely as the machine asks for.

use super::Rack;
use super::meter::Meter;
use crate::engine::Cycle;
use crate::machine::Machine;
use crate::report::Report;
use crate::run::{Options, RunError};

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
    let mut rack = rack.map_err(|error| RunError::Impossible(format!("rack: {error}")))?;
    if rack.sources() == 0 {
        let problem = "traffic.pattern: every node of traffic.sources would send to itself, so \
                       there is no traffic; choose another pattern or more sources";
        return Err(RunError::Impossible(problem.to_owned()));
    }
    let mut meter = Meter::start(machine);
    let mut watchdog =
        Watchdog { patience_cycles: machine.run.watchdog_cycles, lines: 0, since: 0 };
    loop {
        let end = meter.next();
        while rack.step(end) {
            watchdog.check(&rack)?;
        }
        watchdog.check(&rack)?;
        options.told(end)?;
        if meter.look(&mut rack) {
            return Ok(meter.report(&rack));
        }
    }
}

/// Looks whether lines come back.
struct Watchdog {
    patience_cycles: u64,
    lines: u64,
    since: Cycle,
}

impl Watchdog {
    #[inline]
    fn check(&mut self, rack: &Rack) -> Result<(), RunError> {
        if rack.now() - self.since <= self.patience_cycles {
            return Ok(());
        }
        self.look(rack)
    }

    fn look(&mut self, rack: &Rack) -> Result<(), RunError> {
        let lines = rack.lines_completed();
        // An open loop may well have nothing under way for long.
        if lines == self.lines && rack.requests_under_way() > 0 {
            return Err(RunError::Stuck(format!(
                "no line has come back for {} cycles (run.watchdog_cycles = {})\n{}",
                rack.now() - self.since,
                self.patience_cycles,
                describe(rack)
            )));
        }
        (self.lines, self.since) = (lines, rack.now());
        Ok(())
    }
}

/// Requests and packets under way, for people.
fn describe(rack: &Rack) -> String {
    let mut lines =
        vec![format!("in cycle {}: {} requests under way", rack.now(), rack.requests_under_way())];
    let stuck = rack.network.stuck(rack.now(), NAMED);
    lines.extend(stuck.iter().map(|packet| format!("  {packet}")));
    lines.join("\n")
}
