//! The files of a run.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rackmem_experiments::whole_file;
use rackmem_sim::machine::{self, Machine};
use rackmem_sim::report::Report;
use serde::Serialize;

use crate::console;
use crate::failure::{Failure, Result};

/// Writes all files of a run into a directory, which is made if need be.
pub(super) fn write(dir: &Path, machine: &Machine, report: &Report) -> Result<()> {
    make(dir)?;
    text(dir, "machine.toml", &machine::resolved(machine))?;
    json(dir, "stats.json", &report.stats)?;
    json(dir, "report.json", report)
}

/// Names of those files.
const FILES: [&str; 3] = ["machine.toml", "stats.json", "report.json"];

/// The same in words.
pub(super) fn files(dir: &Path) -> String {
    console::count(FILES.len(), "file") + &format!(" into {}: {}", dir.display(), FILES.join(", "))
}

/// Checks that another file of the run is none of those.
///
/// # Errors
/// It is one.
pub(super) fn check_beside(dir: &Path, option: &str, place: &Place) -> Result<()> {
    FILES.iter().try_for_each(|name| {
        let own = Place::find(&dir.join(name))?;
        Place::check_apart(&[("--out", Some(&own)), (option, Some(place))])
    })
}

/// Makes a directory; one in which nothing can be written is better reported before a long run.
pub(crate) fn make(dir: &Path) -> Result<()> {
    whole_file::make_folder(dir)
        .map_err(|error| Failure::io(format_args!("cannot make {}", dir.display()), error))
}

/// Writes a file into a directory, whole or not at all.
pub(crate) fn text(dir: &Path, name: &str, text: &str) -> Result<()> {
    whole(&dir.join(name), text)
}

/// Writes a file, whole or not at all.
pub(crate) fn whole(file: &Path, text: &str) -> Result<()> {
    whole_file::write(file, text.as_bytes()).map_err(|error| cannot_write(file, error))
}

/// The place of a file that will be written after a run, whatever becomes of its name meanwhile.
#[derive(Debug)]
pub(crate) struct Place {
    path: PathBuf,
    place: whole_file::Place,
}

impl Place {
    /// The place of this path; one that cannot be written is better reported before a long run.
    pub fn find(path: &Path) -> Result<Place> {
        Place::checked(path, whole_file::Place::find(path))
    }

    fn checked(path: &Path, found: io::Result<whole_file::Place>) -> Result<Place> {
        let checked = found.and_then(|place| place.check().map(|()| place));
        let place = checked.map_err(|error| cannot_write(path, error))?;
        Ok(Place { path: path.to_owned(), place })
    }

    /// The same, for a run of a program that sees the current folder: a link there may be one that a program has made,
    /// so that it does not lead outside.
    pub fn find_beside_program(path: &Path) -> Result<Place> {
        Place::checked(path, whole_file::Place::find_beside_program(path))
    }

    /// Checks that no two of these options name one file. Devices and pipes take whatever is written.
    ///
    /// # Errors
    /// Two do.
    pub fn check_apart(places: &[(&str, Option<&Place>)]) -> Result<()> {
        let file = |place: &Place| place.place.real_path().ok().filter(|path| !is_special(path));
        let files = places.iter().filter_map(|&(option, place)| Some((option, place?)));
        let files: Vec<_> = files.map(|(option, place)| (option, file(place), place)).collect();
        for (at, (option, file, place)) in files.iter().enumerate() {
            let is_same =
                |(_, other, _): &&(&str, Option<PathBuf>, &Place)| file.is_some() && other == file;
            if let Some((other, ..)) = files[..at].iter().find(is_same) {
                return Err(Failure::usage(format!(
                    "{other} and {option} name one file, {}; name two",
                    place.path.display()
                )));
            }
        }
        Ok(())
    }

    /// Its name, as the user has said it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the file piece by piece, whole or not at all.
    pub fn write_by(&self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
        self.place.write_by(write).map_err(|error| cannot_write(&self.path, error))
    }
}

fn is_special(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| !found.is_file())
}

/// The failure of a file that cannot be written.
pub(crate) fn cannot_write(file: &Path, error: io::Error) -> Failure {
    Failure::io(format_args!("cannot write {}", file.display()), error)
}

/// Writes a file of JSON.
pub(crate) fn json(dir: &Path, name: &str, value: &impl Serialize) -> Result<()> {
    let json = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::new(format!("cannot write JSON: {error}")))?;
    text(dir, name, &(json + "\n"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn all_files_are_written_into_a_directory_that_is_made() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("a/b");
        let machine = machine::load("manycore-ni", &[]).unwrap();
        write(&dir, &machine, &Report::default()).unwrap();
        for name in ["stats.json", "report.json"] {
            let text = fs::read_to_string(dir.join(name)).unwrap();
            assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{name}");
        }
        let again = dir.join("machine.toml");
        assert_eq!(machine::load(again.to_str().unwrap(), &[]).unwrap(), machine);
        assert!(files(&dir).starts_with("3 files into "));
        let blocked = dir.join("stats.json");
        let failure = write(&blocked, &machine, &Report::default()).unwrap_err();
        assert!(failure.message.unwrap().starts_with("cannot make "));
        // A file that is there stays as it is, if it cannot be written whole.
        let file = dir.join("page.html");
        fs::create_dir_all(dir.join(".page.html.part")).unwrap();
        fs::write(&file, "before").unwrap();
        let failure = text(&dir, "page.html", "after").unwrap_err().message.unwrap();
        assert!(failure.starts_with(&format!("cannot write {}: ", file.display())), "{failure}");
        assert_eq!(fs::read(&file).unwrap(), b"before");
    }
}
