//! `rackmem sweep`: studies.

pub mod args;
mod rows;

use std::collections::{HashMap, HashSet};
use std::env;
use std::path::Path;

use rackmem_experiments::study::file::is_study;
use rackmem_experiments::study::points::Varied;
use rackmem_experiments::study::{Failed, Folder, Point, Run, Shard, Study};
use rackmem_sim::machine::Override;
use serde_json::json;

use crate::console::{self, count};
use crate::failure::{Failure, Result};
use crate::launcher::quote;
use crate::reproduce::pool::{self, Job};

use args::SweepArgs;
use rows::Row;

/// Report of a run, or the reason why there is none.
type Outcome = std::result::Result<String, String>;

/// Runs `rackmem sweep`.
///
/// # Errors
/// The study is wrong, a file cannot be read or written, or a run failed.
pub fn run(args: &SweepArgs) -> Result<()> {
    let study = study(args)?;
    let folder = study.folder.as_ref().map(Folder::new);
    let points = selected(args, study.points().map_err(Failure::usage)?)?;
    let mut found = match &folder {
        Some(folder) if !args.again => taken(folder, &points)?,
        _ => HashMap::new(),
    };
    if args.list {
        return list(args, folder.as_ref(), &points, &found);
    }
    let there = found.len();
    let mut runs = points.iter().filter_map(|point| point.run.as_ref().ok());
    // A folder that has all runs may be one that can only be read.
    if let Some(folder) = &folder
        && runs.any(|run| !found.contains_key(&run.key))
    {
        folder.prepare().map_err(Failure::new)?;
    }
    let made = make(args, folder.as_ref(), &points, &found);
    let (runs, failed) = (made.len(), made.values().filter(|made| made.is_err()).count());
    found.extend(made);
    let rows = points.iter().map(|point| Row::new(point, &found)).collect::<Vec<_>>();
    rows::print(args, &rows)?;
    if let Some(folder) = &folder {
        store_failures(folder, &study, &points, &rows)?;
    }
    if let Some(folder) = &study.folder {
        let done = format!("{} made, {there} were there", count(runs - failed, "run"));
        console::remark(&format!("{}: {done}", folder.display()));
    }
    match rows.iter().filter(|row| row.error.is_some()).count() {
        0 => Ok(()),
        failed => Err(Failure::new(format!("{failed} of {} failed", count(rows.len(), "run")))),
    }
}

/// The study that the arguments describe.
fn study(args: &SweepArgs) -> Result<Study> {
    let path = Path::new(&args.study);
    let is_file = path.is_file() && is_study(path).map_err(Failure::new)?;
    let mut study = match is_file {
        true => Study::read(path).map_err(Failure::usage)?,
        false => Study { machine: args.study.clone(), nodes: 1, ..Study::default() },
    };
    study.set.extend(args.set.iter().cloned());
    study.vary.extend(args.vary.iter().map(varied));
    if study.vary.is_empty() && study.programs.is_empty() {
        let hint = "say --vary PATH=V1,V2, or name a file with [vary] (`rackmem help sweep`)";
        return Err(Failure::usage(format!("{}: nothing is varied; {hint}", args.study)));
    }
    study.folder = args.out.clone().or(study.folder);
    Ok(study)
}

fn varied(setting: &Override) -> Varied {
    let values = setting.value.split(',').map(|value| value.trim().to_owned());
    Varied { path: setting.path.clone(), values: values.collect() }
}

/// The points of this process: its share, or those that it is told.
fn selected(args: &SweepArgs, points: Vec<Point>) -> Result<Vec<Point>> {
    let key = |point: &Point| point.run.as_ref().map(|run| run.key.clone()).ok();
    if !args.only.is_empty() {
        let is_known =
            |only: &&String| points.iter().any(|point| key(point).as_ref() == Some(only));
        if let Some(only) = args.only.iter().find(|only| !is_known(only)) {
            let hint = "--list prints the names; they change with the study and the version";
            return Err(Failure::usage(format!("{} has no run {only}; {hint}", args.study)));
        }
        let wanted = |point: &Point| key(point).is_some_and(|key| args.only.contains(&key));
        return Ok(points.into_iter().filter(wanted).collect());
    }
    let slurm = Shard::of_slurm(|name| env::var(name).ok()).map_err(Failure::usage)?;
    let shard = args.shard.or(slurm).unwrap_or(Shard::WHOLE);
    let own = points.into_iter().enumerate().filter(|&(number, _)| shard.has(number));
    Ok(own.map(|(_, point)| point).collect())
}

/// Reports of earlier runs by name.
fn taken(folder: &Folder, points: &[Point]) -> Result<HashMap<String, Outcome>> {
    let mut found = HashMap::new();
    for run in points.iter().filter_map(|point| point.run.as_ref().ok()) {
        if let Some(report) = folder.take(run).map_err(Failure::new)? {
            found.insert(run.key.clone(), Ok(report));
        }
    }
    Ok(found)
}

/// Makes the runs that are not there, each once, and stores each as soon as it is made.
fn make(
    args: &SweepArgs,
    folder: Option<&Folder>,
    points: &[Point],
    found: &HashMap<String, Outcome>,
) -> HashMap<String, Outcome> {
    let mut jobs: Vec<Job<&Run>> = Vec::new();
    let mut seen = HashSet::new();
    for point in points {
        let Ok(run) = &point.run else { continue };
        if !found.contains_key(&run.key) && seen.insert(&run.key) {
            let cost = u64::from(run.machine.workload.transfer_bytes);
            jobs.push(Job { name: point.label(), work: run, cost });
        }
    }
    let one = |run: &&Run| {
        let report = run.make(None).map_err(|error| error.to_string())?;
        folder.map_or(Ok(()), |folder| folder.put(&run.key, &report))?;
        Ok(report)
    };
    let made = pool::each(&jobs, pool::threads(args.jobs), &one);
    jobs.iter().map(|job| job.work.key.clone()).zip(made).collect()
}

/// Stores the reasons of failures, for pages about the folder.
fn store_failures(folder: &Folder, study: &Study, points: &[Point], rows: &[Row]) -> Result<()> {
    for (point, row) in points.iter().zip(rows) {
        let Some(why) = &row.error else { continue };
        let (machine, settings, argv) = (&*point.machine, &*point.settings, point.argv.as_deref());
        let failed = Failed { machine, settings, argv, nodes: study.nodes, why };
        folder.fail(&failed).map_err(Failure::new)?;
    }
    Ok(())
}

/// Prints a command for each run that is not there, or all runs as JSON.
fn list(
    args: &SweepArgs,
    folder: Option<&Folder>,
    points: &[Point],
    found: &HashMap<String, Outcome>,
) -> Result<()> {
    let folder = folder.ok_or_else(|| {
        Failure::usage("--list is of runs that have files: name their folder with --out")
    })?;
    if args.json {
        let one = |point: &Point| {
            let run = point.run.as_ref();
            json!({
                "run": point.label(),
                "key": run.ok().map(|run| &run.key),
                "file": run.ok().map(|run| folder.file(&run.key)),
                "done": run.is_ok_and(|run| found.contains_key(&run.key)),
                "error": run.err(),
            })
        };
        return console::print_json(&points.iter().map(one).collect::<Vec<_>>());
    }
    let mut seen = HashSet::new();
    let runs = points.iter().filter_map(|point| point.run.as_ref().ok());
    let missing = runs.filter(|run| !found.contains_key(&run.key) && seen.insert(&run.key));
    let again = again(args);
    let command = |run: &Run| format!("{again} --only {}\n", run.key);
    console::print(&missing.map(command).collect::<String>())
}

/// The command line that describes this study.
fn again(args: &SweepArgs) -> String {
    let mut words = vec![args.study.clone()];
    let options = [("--set", &args.set), ("--vary", &args.vary)];
    for (option, settings) in options {
        for setting in settings {
            words.extend([option.to_owned(), format!("{}={}", setting.path, setting.value)]);
        }
    }
    if let Some(out) = &args.out {
        words.extend(["--out".to_owned(), out.to_string_lossy().into_owned()]);
    }
    let words: Vec<_> = words.into_iter().map(Into::into).collect();
    format!("rackmem sweep {}", quote(&words).to_string_lossy())
}
