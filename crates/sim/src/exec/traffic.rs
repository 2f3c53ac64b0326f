//! The traffic of a program's region of interest, as of a workload: bandwidth, the loads of links, and the stages of
//! remote operations, of node 0.

use std::time::Instant;

use rackmem_riscv::Mark;
use serde::Deserialize;

use super::session::{Session, Until};
use super::{ExecError, Job, Options, Outcome};
use crate::engine::Cycle;
use crate::machine::Machine;
use crate::measure::Reads;
use crate::recipe::Recipe;
use crate::report::{Measured, Report};
use crate::run::chips::{self, Counts};
use crate::run::meter::{self, Metered, Reading, Span};
use crate::run::{self, RunError};

/// The stretch of a program whose traffic is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stretch {
    /// The region of interest (`rackmem/region.h`).
    Region,
    /// From the begin of the region of interest until the bandwidth is known as precisely as the machine asks for
    /// (`run.precision_percent`), as of a workload.
    Steady,
}

/// Executes a program with timing, and measures a stretch of it, after which it is stopped. As of a workload, the
/// last-level caches are full when it begins.
///
/// # Errors
/// The machine has no queue pairs whose traffic could be measured or cannot execute the program, or that fails or ends
/// before the end of the stretch.
pub fn measure(
    machine: &Machine,
    jobs: &[Job<'_>],
    stretch: Stretch,
    mut options: Options<'_>,
) -> Result<Report, ExecError> {
    if machine.ni.placement.stages().is_none() {
        return Err(ExecError::Machine(
            "ni.placement: has no queue pairs in the tiles of a chip, whose traffic is measured"
                .to_owned(),
        ));
    }
    let mut session = Session::new(machine, jobs, &options)?;
    session.follow_traffic(machine);
    let report = stretched(&mut session, machine, stretch, &mut options);
    let outcome = session.finish(options);
    match report {
        Ok(report) => Ok(Report { recipe: Recipe::of(machine), ..report }),
        Err(missed) => Err(ExecError::Part(too_early(&outcome, missed))),
    }
}

/// What ended in place of what was to come, if nothing failed; and what that is.
type Missed = (&'static str, &'static str);

const PROGRAM: &str = "the program ends";
const REGION: &str = "its region of interest ends";

/// Goes to the stretch and measures it.
fn stretched(
    session: &mut Session,
    machine: &Machine,
    stretch: Stretch,
    options: &mut Options<'_>,
) -> Result<Report, Missed> {
    session.run(Until { mark: Some(Mark::Begin), ..Until::default() }, options);
    if !session.is_running() {
        return Err((PROGRAM, "before a region of interest begins"));
    }
    if !session.is_inside() {
        return Err((REGION, "before a packet could come to another node"));
    }
    let from = session.cycle();
    let mut region = Region { session, options, from };
    let (span, common) = match stretch {
        Stretch::Region => {
            region.whole(machine).ok_or((PROGRAM, "before its region of interest ends"))?
        }
        Stretch::Steady => {
            let unit_gbps = chips::gbps(machine, 1.0);
            let options = run::Options::default();
            let measured = meter::measure(machine, &options, unit_gbps, &mut region);
            let ended = if session.is_running() { REGION } else { PROGRAM };
            measured.map_err(|_| (ended, "before its bandwidth is known"))?
        }
    };
    Ok(chips::report(&span, common, session.first()))
}

/// The end of a program that was to go on: its first line says where.
fn too_early(outcome: &Outcome, (ended, rest): Missed) -> String {
    let why = match (&outcome.cut_short, outcome.failed()) {
        (Some(why), _) => why.clone(),
        (None, Some((nid, node))) => format!("node {nid} {}", node.end),
        (None, None) => ended.to_owned(),
    };
    match why.split_once('\n') {
        Some((first, places)) => format!("{first}, {rest}\n{places}"),
        None => format!("{why}, {rest}"),
    }
}

/// A program from the begin of its region of interest on.
struct Region<'a, 'o> {
    session: &'a mut Session,
    options: &'a mut Options<'o>,
    from: Cycle,
}

impl Region<'_, '_> {
    /// All of it.
    fn whole<'m>(&mut self, machine: &'m Machine) -> Option<(Span<'m, Counts>, Report)> {
        let began = Instant::now();
        let before = self.start();
        let until = Until { mark: Some(Mark::End), ..Until::default() };
        let has_ended = self.session.run(until, self.options);
        let after = self.reading(self.session.cycle());
        let measured = Measured {
            from_cycle: before.cycle,
            to_cycle: after.cycle,
            bandwidth_settled: None,
            latency_settled: None,
            app_gbps_half_width: None,
            latency_half_width_cycles: None,
            precision_percent: 0.0,
        };
        let span = Span { machine, before, after };
        let common = Report { converged: true, measured: Some(measured), ..span.report(began) };
        has_ended.then_some((span, common))
    }

    fn reading(&mut self, cycle: Cycle) -> Reading<Counts> {
        self.session.settle();
        Reading { cycle, ..chips::read(self.session.first()) }
    }
}

impl Metered for Region<'_, '_> {
    type Counts = Counts;

    fn start(&mut self) -> Reading<Counts> {
        self.reading(self.from)
    }

    fn run_until(&mut self, end: Cycle) -> Result<(), RunError> {
        let until = Until { cycle: Some(self.from + end + 1), ..Until::default() };
        match self.session.run(until, self.options) && self.session.is_inside() {
            true => Ok(()),
            false => Err(RunError::Interrupted),
        }
    }

    fn amount(&mut self) -> f64 {
        chips::lines(self.session.first())
    }

    fn fresh(&mut self) -> Reads {
        chips::fresh(self.session.first())
    }

    fn read(&mut self, now: Cycle) -> Reading<Counts> {
        self.reading(self.from + now)
    }
}
