//! The traffic of a program's region of interest, as of a workload: bandwidth, the loads of links, and the stages of
//! remote operations, of node 0.

use std::time::Instant;

use rackmem_riscv::Mark;
use serde::Deserialize;

use super::session::{Session, Until};
use super::{ExecError, Job, Options, Outcome};
use crate::engine::Cycle;
use crate::machine::Machine;
use crate::recipe::Recipe;
use crate::report::Report;
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
    session.warm_memory(machine);
    let (report, rest) = stretched(&mut session, machine, stretch, &mut options);
    let outcome = session.finish(options);
    match report {
        Some(report) if outcome.cut_short.is_none() && outcome.failed().is_none() => {
            Ok(Report { recipe: Recipe::of(machine), ..report })
        }
        _ => Err(ExecError::Part(format!("{}, {rest}", why(&outcome)))),
    }
}

/// Goes to the stretch and measures it; and how far the program has come otherwise.
fn stretched(
    session: &mut Session,
    machine: &Machine,
    stretch: Stretch,
    options: &mut Options<'_>,
) -> (Option<Report>, &'static str) {
    session.run(Until { mark: Some(Mark::Begin), ..Until::default() }, options);
    if !session.is_running() {
        return (None, "before a region of interest begins");
    }
    let from = session.cycle();
    let mut region = Region { session, options, from };
    let (measured, rest) = match stretch {
        Stretch::Region => (Ok(region.whole(machine)), "before its region of interest ends"),
        Stretch::Steady => {
            let unit_gbps = chips::gbps(machine, 1.0);
            let options = run::Options::default();
            let measured = meter::measure(machine, &options, unit_gbps, &mut region);
            (measured, "before its bandwidth is known")
        }
    };
    let report = measured.map(|(span, common)| chips::report(&span, common, session.first()));
    (report.ok(), rest)
}

/// The end of a program that was to go on.
fn why(outcome: &Outcome) -> String {
    match (&outcome.cut_short, outcome.failed()) {
        (Some(why), _) => why.clone(),
        (None, Some((nid, node))) => format!("node {nid} {}", node.end),
        (None, None) => "the program ends".to_owned(),
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
    fn whole<'m>(&mut self, machine: &'m Machine) -> (Span<'m, Counts>, Report) {
        let began = Instant::now();
        let before = self.start();
        self.session.run(Until { mark: Some(Mark::End), ..Until::default() }, self.options);
        let after = self.reading(self.session.cycle());
        let span = Span { machine, before, after };
        let common = Report { converged: true, ..span.report(began) };
        (span, common)
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
        match self.session.run(until, self.options) {
            true => Ok(()),
            false => Err(RunError::Interrupted),
        }
    }

    fn amount(&mut self) -> f64 {
        chips::lines(self.session.first())
    }

    fn read(&mut self, now: Cycle) -> Reading<Counts> {
        self.reading(self.from + now)
    }
}
