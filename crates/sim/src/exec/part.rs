//! The part of a program that is measured; the rest is executed without timing.

use rackmem_riscv::Mark;
use serde::{Deserialize, Serialize};

use super::session::{Session, Until};
use super::{Checkpoint, ExecError, Job, Options, Outcome, checkpoint};
use crate::chip::Chip;
use crate::engine::Cycle;
use crate::figures::Figures;
use crate::machine::Machine;
use crate::measure::two_sided_95;
use crate::report::Stats;

/// A part of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// All of it.
    #[default]
    Whole,
    /// From the begin of its first region of interest (`rackmem/region.h`) to the end.
    Region,
    /// A number of instructions of all cores, after others; without a number to the end of the program.
    Instructions {
        /// Instructions before the part.
        after: u64,
        /// Instructions of the part.
        count: Option<u64>,
    },
    /// Samples at equal distances, from which those of the whole program are estimated.
    Samples(Samples),
}

/// Samples of a program of one thread, at equal distances (Wunderlich et al., "SMARTS", ISCA 2003).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Samples {
    /// Instructions from the begin of a sample to that of the next one.
    pub every: u64,
    /// Instructions with timing before a sample, which warm what the fast-forward does not: predictors and queues.
    pub warm_up: u64,
    /// Instructions of a sample.
    pub length: u64,
}

impl Part {
    /// The place at which it ends, of a session that has come to its begin.
    fn end(self, session: &Session) -> Until<'static> {
        match self {
            Part::Region => Until { mark: Some(Mark::End), ..Until::default() },
            Part::Instructions { count, .. } => {
                let instructions = count.map(|count| session.instructions().saturating_add(count));
                Until { instructions, ..Until::default() }
            }
            Part::Whole | Part::Samples(_) => Until::default(),
        }
    }
}

impl Session {
    /// Executes without timing what is before a part, if anything is. Whether the program goes on after it.
    fn fast_forward_to(&mut self, part: Part, options: &mut Options<'_>) -> bool {
        let begin = match part {
            Part::Whole | Part::Samples(_) => return true,
            Part::Region => Until { mark: Some(Mark::Begin), ..Until::default() },
            Part::Instructions { after, .. } => {
                Until { instructions: Some(after), ..Until::default() }
            }
        };
        self.fast_forward(begin, options)
    }
}

impl Samples {
    /// Samples at these distances: of 10,000 instructions after a warm-up of 20,000, or of a share of the distance if
    /// that is less than 100,000.
    pub fn every(every: u64) -> Samples {
        Samples { every, warm_up: (every / 5).min(20_000), length: (every / 10).min(10_000) }
    }
}

/// What was measured of a part.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// The part that was asked for, which it takes to measure it again.
    pub of: Part,
    /// Instructions with timing, without those that warm up.
    pub instructions: u64,
    /// The cycles that they took.
    pub cycles: Cycle,
    /// Instructions without timing.
    pub fast_forwarded: u64,
    /// The estimate of the whole program, if samples were taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimate: Option<Estimate>,
    /// Counters of the part, as those of the whole run; of samples, of the last one.
    #[serde(skip)]
    pub stats: Stats,
}

/// An estimate of a whole program by samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The number of samples that were taken.
    pub samples: usize,
    /// Cycles per instruction, their mean.
    pub cycles_per_instruction: f64,
    /// Half the width of the interval that contains the value of the whole program in 95 of 100 cases.
    pub half_width: f64,
    /// Cycles of all instructions of the program.
    pub cycles: f64,
}

/// A place in a run.
struct Place {
    cycle: Cycle,
    instructions: u64,
    figures: Figures,
}

impl Place {
    fn of(session: &mut Session, options: &mut Options<'_>) -> Place {
        session.warm(options);
        session.settle();
        Place {
            cycle: session.cycle(),
            instructions: session.instructions(),
            figures: session.figures(),
        }
    }

    /// What was measured from here to now.
    fn measured(&self, session: &mut Session) -> Measured {
        session.settle();
        Measured {
            of: Part::Whole,
            instructions: session.instructions() - self.instructions,
            cycles: session.cycle() - self.cycle,
            fast_forwarded: 0,
            estimate: None,
            stats: session.figures().since(&self.figures),
        }
    }
}

/// Executes a program, a part of it with timing.
///
/// # Errors
/// As [`super::run`]; and the program ends before the part begins.
pub fn run(
    machine: &Machine,
    jobs: &[Job<'_>],
    part: Part,
    mut options: Options<'_>,
) -> Result<Outcome, ExecError> {
    let mut session = Session::new(machine, jobs, &options)?;
    session.fast_forward_to(part, &mut options);
    rest(session, part, options)
}

/// What has become of a program where its part begins.
#[derive(Debug)]
pub enum Begun {
    /// It can go on from here.
    Checkpoint(Box<Checkpoint>),
    /// It has ended before.
    Ended(Box<Outcome>),
}

/// Executes a program without timing up to the begin of a part.
///
/// # Errors
/// As [`super::run`]; and the checkpoint cannot be taken: [`Session::checkpoint`].
pub fn checkpoint(
    machine: &Machine,
    jobs: &[Job<'_>],
    part: Part,
    mut options: Options<'_>,
) -> Result<Begun, ExecError> {
    checkpoint::only(jobs)?;
    let mut session = Session::new(machine, jobs, &options)?;
    if session.fast_forward_to(part, &mut options) {
        return session
            .checkpoint(jobs, part, &mut options)
            .map(|taken| Begun::Checkpoint(Box::new(taken)));
    }
    Ok(Begun::Ended(Box::new(session.finish(options))))
}

/// Goes on from a checkpoint to the end of the program: as the run in which it was taken, or with another part that
/// begins there.
///
/// # Errors
/// As [`Session::restore`].
pub fn restore(
    machine: &Machine,
    checkpoint: &Checkpoint,
    part: Part,
    options: Options<'_>,
) -> Result<Outcome, ExecError> {
    let session = Session::restore(machine, checkpoint, &options)?;
    let outcome = rest(session, part, options)?;
    Ok(Outcome { restored: Some(checkpoint.taken()), ..outcome })
}

/// Executes a program from the begin of a part on.
fn rest(mut session: Session, part: Part, mut options: Options<'_>) -> Result<Outcome, ExecError> {
    let options_of = &mut options;
    let measured = match part {
        Part::Whole => {
            session.run(Until::default(), options_of);
            None
        }
        Part::Region | Part::Instructions { .. } => {
            let end = part.end(&session);
            session.is_running().then(|| stretch(&mut session, end, options_of))
        }
        Part::Samples(samples) => sample(&mut session, samples, options_of)?,
    };
    if part != Part::Whole {
        session.fast_forward(Until::default(), options_of);
    }
    let fast_forwarded = session.fast_forwarded();
    let instructions = session.instructions();
    let mut outcome = session.finish(options);
    outcome.measured = measured.map(|measured| {
        let all = |estimate: Estimate| Estimate {
            cycles: estimate.cycles_per_instruction * instructions as f64,
            ..estimate
        };
        Measured { of: part, fast_forwarded, estimate: measured.estimate.map(all), ..measured }
    });
    Ok(outcome)
}

/// Measures a stretch.
fn stretch(session: &mut Session, until: Until<'_>, options: &mut Options<'_>) -> Measured {
    let begin = Place::of(session, options);
    // Some instructions have their timing outside of the stretch, too.
    session.each_chip(Chip::forget_lives);
    session.run(until, options);
    let measured = begin.measured(session);
    session.each_chip(Chip::stop_lives);
    measured
}

/// Takes samples to the end of the program; `None` if there is not one.
fn sample(
    session: &mut Session,
    samples: Samples,
    options: &mut Options<'_>,
) -> Result<Option<Measured>, ExecError> {
    let mut taken: Vec<Measured> = Vec::new();
    // The first one is amid its stretch of the program.
    let mut next = samples.every / 2;
    loop {
        let at = |instructions| Until { instructions: Some(instructions), ..Until::default() };
        refuse_threads(session)?;
        let goes_on = session.fast_forward(at(next.saturating_sub(samples.warm_up)), options)
            && session.run(at(next), options);
        if !goes_on {
            refuse_threads(session)?;
            break;
        }
        let one = stretch(session, at(session.instructions() + samples.length), options);
        // The program has ended in it: its last instructions are not like the others.
        if one.instructions < samples.length {
            break;
        }
        next += samples.every;
        taken.push(one);
    }
    Ok(summary(taken))
}

/// That the program has never had a second thread: how threads wait for each other depends on their times, which pieces
/// without timing do not have.
fn refuse_threads(session: &Session) -> Result<(), ExecError> {
    match session.has_had_threads() {
        true => Err(ExecError::Part(
            "samples are of programs of one thread, and this one has begun another: leave out --sample, and measure a \
             part by --fast-forward and --measure"
                .to_owned(),
        )),
        false => Ok(()),
    }
}

fn summary(taken: Vec<Measured>) -> Option<Measured> {
    let rates: Vec<f64> =
        taken.iter().map(|one| one.cycles as f64 / one.instructions.max(1) as f64).collect();
    let count = rates.len() as f64;
    let mean = rates.iter().sum::<f64>() / count;
    let squares: f64 = rates.iter().map(|rate| (rate - mean).powi(2)).sum();
    let half_width = match rates.len() {
        0 | 1 => f64::INFINITY,
        _ => two_sided_95(rates.len() - 1) * (squares / (count - 1.0) / count).sqrt(),
    };
    let (instructions, cycles) =
        (taken.iter().map(|one| one.instructions).sum(), taken.iter().map(|one| one.cycles).sum());
    let last = taken.into_iter().next_back()?;
    let estimate =
        Estimate { samples: rates.len(), cycles_per_instruction: mean, half_width, cycles: 0.0 };
    Some(Measured { instructions, cycles, estimate: Some(estimate), ..last })
}
