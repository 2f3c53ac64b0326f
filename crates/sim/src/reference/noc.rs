//! Networks on chip beside BookSim2: mean latency over offered load.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use crate::noc::synthetic::{Experiment, PacketSize, Pattern, run};
use crate::noc::{Pipeline, Routing, Shape, Spec, VnetSpec};

/// Share of the saturation load up to which latencies are compared: beyond, small differences of load are large ones
/// of latency.
pub const COMPARED: f64 = 0.85;

/// Latency, in multiples of that without load, at which a network counts as saturated.
const SATURATED: f64 = 3.0;

/// The same at the knee of the curve, which more curves reach.
const KNEE: f64 = 1.5;

/// The reference's accepted load must be this share of what was offered.
const ACCEPTED: f64 = 0.985;

/// A network with the reference's curve.
#[derive(Clone, Debug)]
pub struct Case {
    /// Name of its files.
    pub name: String,
    /// The network and its traffic.
    pub experiment: Experiment,
    /// Offered load in flits per endpoint and cycle, and mean latency in cycles.
    pub curve: Vec<(f64, f64)>,
}

/// A load with the latency of both, in cycles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Offered load in flits per endpoint and cycle.
    pub load: f64,
    /// The reference's latency.
    pub theirs: f64,
    /// The model's.
    pub ours: f64,
    /// Whether it lies up to [`COMPARED`] of saturation.
    pub is_compared: bool,
}

impl Point {
    /// The model's latency over the reference's, less 1.
    pub fn error(&self) -> f64 {
        self.ours / self.theirs - 1.0
    }
}

/// Curves of both.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Name of the case.
    pub name: String,
    /// Points by load.
    pub points: Vec<Point>,
    /// Load at the knee of the reference's curve and of the model's.
    pub knee: Option<(f64, f64)>,
    /// Load of saturation.
    pub saturation: Option<(f64, f64)>,
}

/// All cases of a folder, by name.
///
/// # Errors
/// The folder or a file cannot be read, or a case is of another kind than the model knows.
pub fn cases(folder: &Path) -> Result<Vec<Case>, String> {
    let said = |error| format!("cannot read {}: {error}", folder.display());
    let entries = fs::read_dir(folder).map_err(said)?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|end| end == "cfg"));
    files.sort();
    files.iter().map(|file| Case::read(file)).collect()
}

impl Case {
    fn read(file: &Path) -> Result<Case, String> {
        let named = |problem: String| format!("{}: {problem}", file.display());
        let text = super::read(file).map_err(|error| named(error.to_string()))?;
        let curve = file.with_extension("csv");
        let curve_name = curve.display();
        let points = super::read(&curve).map_err(|error| format!("{curve_name}: {error}"))?;
        let points = read_curve(&points).map_err(|problem| format!("{curve_name}:{problem}"))?;
        Ok(Case {
            name: file.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
            experiment: experiment(&text).map_err(named)?,
            curve: points,
        })
    }

    /// Simulates the case with so many seeds, of which the mean counts, on two threads.
    ///
    /// # Errors
    /// A run that is not possible: case, load and reason.
    pub fn compare(&self, seeds: u64) -> Result<Comparison, String> {
        // The slow ones, at the end, are divided between the threads.
        let half = |odd: usize| {
            let mine = self.curve.iter().enumerate().filter(move |(at, _)| at % 2 == odd);
            mine.map(|(_, &(load, theirs))| self.point(load, theirs, seeds))
                .collect::<Result<Vec<Point>, String>>()
        };
        let (even, odd) = thread::scope(|scope| {
            let odd = scope.spawn(|| half(1));
            (half(0), odd.join())
        });
        let odd = odd.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let mut points = [even?, odd?].concat();
        points.sort_by(|a, b| a.load.total_cmp(&b.load));
        let reached = |growth: f64| {
            let theirs = load_of(growth, &points, |point| point.theirs)?;
            // A model that never gets there is infinitely late.
            let ours = load_of(growth, &points, |point| point.ours);
            Some((theirs, ours.unwrap_or(f64::INFINITY)))
        };
        let (knee, saturation) = (reached(KNEE), reached(SATURATED));
        let end = load_of(SATURATED, &points, |point| point.theirs);
        let end = end.or(points.last().map(|last| last.load)).unwrap_or(0.0);
        points.iter_mut().for_each(|point| point.is_compared = point.load <= COMPARED * end);
        Ok(Comparison { name: self.name.clone(), points, knee, saturation })
    }

    fn point(&self, load: f64, theirs: f64, seeds: u64) -> Result<Point, String> {
        let mean = |seed| {
            let report = run(&Experiment { rate: load, seed, ..self.experiment.clone() });
            let report = report.map_err(|error| format!("{} at {load}: {error}", self.name))?;
            Ok(report.latency_mean_cycles)
        };
        let means: Result<Vec<f64>, String> = (1..=seeds).map(mean).collect();
        let ours = means?.iter().sum::<f64>() / seeds as f64;
        Ok(Point { load, theirs, ours, is_compared: false })
    }
}

/// The load at which latency has grown so much, between two points by the logarithm of latency.
fn load_of(growth: f64, points: &[Point], latency: impl Fn(&Point) -> f64) -> Option<f64> {
    let limit = growth * latency(points.first()?);
    let pair = points.windows(2).find(|pair| latency(&pair[1]) >= limit)?;
    let (low, high) = (latency(&pair[0]).ln(), latency(&pair[1]).ln());
    Some(pair[0].load + (pair[1].load - pair[0].load) * (limit.ln() - low) / (high - low))
}

/// What a line of a curve has.
const EXPECTED: &str = "expected case,load,seeds,accepted,latency, with numbers from 0 on and rising loads; or \
                        'saturated' as accepted, without a latency, in the last line";

/// Loads and mean latencies, where the reference accepted what was offered or is the first that did not. The error has
/// the number of the first line that is not as it must be.
fn read_curve(text: &str) -> Result<Vec<(f64, f64)>, String> {
    let mut points: Vec<(f64, f64)> = Vec::new();
    // Whether the reference does not carry the load of the last line.
    let (mut is_over, mut is_unfinished) = (false, false);
    for (at, line) in text.lines().enumerate().skip(1) {
        let bad = || format!("{}: '{line}': {EXPECTED}", at + 1);
        let fields: Vec<&str> = line.split(',').collect();
        let [_, load, _, accepted, latency, ..] = fields[..] else { return Err(bad()) };
        let number = |text: &str| {
            let value = text.parse::<f64>().ok();
            value.filter(|value| value.is_finite() && *value >= 0.0).ok_or_else(bad)
        };
        let load = number(load)?;
        if is_unfinished || points.last().is_some_and(|&(before, _)| load <= before) {
            return Err(bad());
        }
        // A load that the reference did not finish has no latency.
        if accepted == "saturated" && latency.is_empty() {
            is_unfinished = true;
            continue;
        }
        let (accepted, latency) = (number(accepted)?, number(latency)?);
        if !is_over {
            points.push((load, latency));
        }
        is_over |= accepted < ACCEPTED * load;
    }
    if points.is_empty() { Err(format!("1: no loads; {EXPECTED}")) } else { Ok(points) }
}

/// The experiment of a configuration.
fn experiment(text: &str) -> Result<Experiment, String> {
    let pairs = text.lines().filter_map(|line| line.trim_end_matches(';').split_once(" = "));
    let values: HashMap<&str, &str> = pairs.collect();
    let word = |name: &str| values.get(name).copied().ok_or(format!("has no '{name}'"));
    let number =
        |name: &str| word(name)?.parse::<usize>().map_err(|_| format!("'{name}' is not a number"));
    let size = vec![word("k")?; number("n")?].join("x");
    let topology: Shape = format!("{}:{size}", word("topology")?)
        .parse()
        .map_err(|error: crate::noc::SpecError| error.to_string())?;
    let router = match (number("routing_delay")?, number("speculative")?) {
        (1, 0) => Pipeline::Five,
        (0, 0) => Pipeline::Four,
        (0, 1) => Pipeline::Three,
        other => return Err(format!("no router has (routing_delay, speculative) = {other:?}")),
    };
    let pattern = match word("traffic")? {
        "uniform" => Pattern::Uniform,
        "bitcomp" => Pattern::BitComplement,
        other => return Err(format!("the pattern '{other}' is not known")),
    };
    let flits = u8::try_from(number("packet_size")?).map_err(|error| error.to_string())?;
    let routing = Routing::usual(&topology);
    let spec = Spec {
        vnets: vec![VnetSpec { vcs: number("num_vcs")?, ordered: false }],
        buffer_flits: number("vc_buf_size")?,
        ..Spec::standalone(topology, routing, router)
    };
    Ok(Experiment {
        pattern,
        packet_flits: PacketSize::fixed(flits),
        warm_up_cycles: 6_000,
        measure_cycles: 9_000,
        ..Experiment::new(spec, 0.1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "case,offered,seeds,accepted,latency,least,most,network\n";

    #[test]
    fn a_curve_ends_where_the_reference_does() {
        let curve = |lines: &str| read_curve(&format!("{HEAD}{lines}"));
        let two = "m,0.1,3,0.1,20,19,21,20\nm,0.2,3,0.2,40,39,41,20\n";
        let expected = vec![(0.1, 20.0), (0.2, 40.0)];
        assert_eq!(curve(two), Ok(expected.clone()));
        assert_eq!(curve(&format!("{two}m,0.3,3,saturated,,,,\n")), Ok(expected.clone()));
        // The first load that is not accepted is the last that counts.
        let more = "m,0.3,3,0.21,90,1,1,1\nm,0.4,3,0.21,95,1,1,1\n";
        assert_eq!(curve(&format!("{two}{more}")), Ok([expected, vec![(0.3, 90.0)]].concat()));
    }

    #[test]
    fn a_bad_line_of_a_curve_is_named() {
        let good = "m,0.1,3,0.1,20,1,1,1\n";
        for (lines, number) in [
            ("m,0.2,3,0.2\n", 3),
            ("m,0.2,3,0.2,,,,\n", 3),
            ("m,0.2,3,0.2,late,1,1,1\n", 3),
            ("m,0.2,3,0.2,NaN,1,1,1\n", 3),
            ("m,0.2,3,-0.2,20,1,1,1\n", 3),
            ("\n", 3),
            ("m,0.1,3,0.1,20,1,1,1\n", 3),
            ("m,0.2,3,0.2,21,1,1,1\nm,0.15,3,0.15,20,1,1,1\n", 4),
            ("m,0.2,3,saturated,,,,\nm,0.3,3,0.3,20,1,1,1\n", 4),
            ("m,0.2,3,0.1,90,1,1,1\nm,0.3,3,x,20,1,1,1\n", 4),
        ] {
            let error = read_curve(&format!("{HEAD}{good}{lines}")).expect_err(lines);
            let begin = format!("{number}: '");
            assert!(error.starts_with(&begin) && error.contains("expected case,load"), "{error}");
        }
        assert!(read_curve(HEAD).is_err());
    }

    /// A load that no endpoint can offer: the run is not possible.
    #[test]
    fn a_run_that_is_not_possible_is_an_error() {
        let text = "topology = mesh;\nk = 4;\nn = 4;\nrouting_delay = 1;\nspeculative = 0;\ntraffic = uniform;\n\
                    packet_size = 1;\nnum_vcs = 2;\nvc_buf_size = 4;\n";
        let text = text.replace("k = 4;\nn = 4;", "k = 4;\nn = 2;");
        let experiment = experiment(&text).unwrap();
        let case = Case { name: "m".to_owned(), experiment, curve: vec![(0.1, 20.0), (7.0, 40.0)] };
        let error = case.compare(1).unwrap_err();
        assert!(error.contains("m at 7: a rate of 7"), "{error}");
    }
}
