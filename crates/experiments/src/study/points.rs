//! All combinations of settings and programs.

use std::path::Path;
use std::sync::Arc;

use rackmem_sim::machine::{self, MachineError, Origin, Override, Use};

use super::run::{Program, Run};
use crate::{input, prebuilt};

/// A setting that is varied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Varied {
    /// Its path in machine files, such as `noc.vcs`.
    pub path: String,
    /// Its values, as TOML.
    pub values: Vec<String>,
}

/// A run of a study: its settings, and the run or the reason why there is none.
#[derive(Clone, Debug)]
pub struct Point {
    /// The machine without these settings, as text.
    pub machine: Arc<str>,
    /// What is varied, with the values of this point.
    pub settings: Vec<Override>,
    /// The program with its arguments.
    pub argv: Option<Vec<String>>,
    /// The run, or the reason why the machine cannot be like that.
    pub run: Result<Run, String>,
}

/// All combinations on the machine of a text; the last setting changes fastest, and programs faster than settings.
pub fn points(machine: &str, vary: &[Varied], programs: &[Program], nodes: u16) -> Vec<Point> {
    let programs: Vec<Option<&Program>> = match programs {
        [] => vec![None],
        some => some.iter().map(Some).collect(),
    };
    let text: Arc<str> = machine.into();
    let point = |settings: &Vec<Override>, program: Option<&Program>| {
        let run = machine::load_text(reader(program.is_some()), "the machine", machine, settings);
        let run = run.map(|machine| Run::new(machine, program.cloned(), nodes));
        let (argv, settings) = (program.map(|one| one.argv.clone()), settings.clone());
        Point { machine: text.clone(), settings, argv, run: run.map_err(|error| said(&error)) }
    };
    let combinations = combinations(vary);
    let of = |settings| programs.iter().map(move |&program| point(settings, program));
    combinations.iter().flat_map(of).collect()
}

fn reader(executes: bool) -> Use {
    if executes { Use::Program } else { Use::Workload }
}

/// What is wrong; a setting has no place but its key.
pub fn said(error: &MachineError) -> String {
    match error.origin {
        Origin::Override => format!("{}: {}", error.key, error.problem),
        _ => error.to_string(),
    }
}

fn combinations(vary: &[Varied]) -> Vec<Vec<Override>> {
    let mut all = vec![Vec::new()];
    for Varied { path, values } in vary {
        let longer = |settings: Vec<Override>| {
            let one =
                |value: &String| [settings.clone(), vec![Override::new(path, value)]].concat();
            values.iter().map(one).collect::<Vec<_>>()
        };
        all = all.into_iter().flat_map(longer).collect();
    }
    all
}

/// A program by its name or path, with its arguments.
///
/// # Errors
/// There is no such program.
pub fn program(argv: &[String]) -> Result<Program, String> {
    let name = argv.first().ok_or("a program without a name")?.trim_start_matches(':');
    if let Some(ready) = prebuilt::find(name) {
        let argv = [vec![name.to_owned()], argv[1..].to_vec()].concat();
        return Ok(Program { argv, binary: ready.into() });
    }
    let binary = input::read(Path::new(name)).map_err(|error| {
        let ready: Vec<&str> = prebuilt::PROGRAMS.iter().map(|&(name, _)| name).collect();
        format!("{name}: {error}; programs that are ready are {}", ready.join(", "))
    })?;
    // The name without its folder, as the folder decides nothing.
    let short = Path::new(name).file_name().map_or(name.into(), |name| name.to_string_lossy());
    let argv = [vec![short.into_owned()], argv[1..].to_vec()].concat();
    Ok(Program { argv, binary: binary.into() })
}

impl Point {
    /// Settings and program in one line.
    pub fn label(&self) -> String {
        let settings = self.settings.iter().map(|one| format!("{}={}", one.path, shown(one)));
        let parts: Vec<String> = settings.chain(self.program()).collect();
        parts.join(" ")
    }

    /// What reads its machine.
    pub(super) fn reader(&self) -> Use {
        reader(self.argv.is_some())
    }

    /// The program and its arguments in one text.
    pub fn program(&self) -> Option<String> {
        self.argv.as_ref().map(|argv| argv.join(" "))
    }
}

/// A value as people write it.
pub fn shown(setting: &Override) -> &str {
    setting.value.trim_matches('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_combinations_are_made_in_order() {
        let varied = |path: &str, values: &[&str]| Varied {
            path: path.to_owned(),
            values: values.iter().map(|&value| value.to_owned()).collect(),
        };
        let vary = [varied("noc.vcs", &["2", "4"]), varied("ni.placement", &["edge", "\"split\""])];
        let machine = machine::resolved(&machine::load("manycore-ni", &[]).unwrap());
        let points = points(&machine, &vary, &[], 1);
        let labels: Vec<String> = points.iter().map(Point::label).collect();
        let expected = [
            "noc.vcs=2 ni.placement=edge",
            "noc.vcs=2 ni.placement=split",
            "noc.vcs=4 ni.placement=edge",
            "noc.vcs=4 ni.placement=split",
        ];
        assert_eq!(labels, expected);
    }

    #[test]
    fn programs_are_found_by_name_and_path_or_refused() {
        let named = |name: &str| program(&[name.to_owned(), "-x".to_owned()]);
        assert_eq!(named(":hello").unwrap().argv, ["hello", "-x"]);
        assert!(named("nothing").unwrap_err().contains("programs that are ready are bitonic"));
        let file = tempfile::NamedTempFile::new().unwrap();
        let found = named(file.path().to_str().unwrap()).unwrap();
        assert!(!found.argv[0].contains('/'));
    }
}
