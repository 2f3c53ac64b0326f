//! `rackmem report`.

use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::console;
use crate::failure::{Failure, Result};
use crate::report::{page, runs};

/// First text of `rackmem report --help`.
pub const ABOUT: &str = "\
Writes one page about runs of the model, side by side: latency by stage and its histogram, the load of links, banks and
network interfaces, what limited each run in words, and how their machines differ. It opens offline.

RUN is the folder of `rackmem sim run --out`, the file of `rackmem sim exec --report`, or the folder of a sweep in
Python, of which all runs are taken.";

/// Last text of it.
pub const EXAMPLES: &str = "\
Examples:
  rackmem sim run manycore-ni --set ni.placement=edge --out edge
  rackmem sim run manycore-ni --out split
  rackmem report edge split -o report.html";

/// Runs beside each other, at most: more would not be legible.
const MOST: usize = 12;

/// Arguments of `rackmem report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Folders or files of runs
    #[arg(value_name = "RUN", required = true)]
    pub runs: Vec<PathBuf>,
    /// File for the page
    #[arg(short = 'o', long, value_name = "FILE", default_value = "report.html")]
    pub out: PathBuf,
}

/// Writes a file whole or not at all. What is there and no file, such as a pipe, gets the text as it is, and so does
/// what a link names that is not there yet.
fn write(file: &Path, text: &str) -> io::Result<()> {
    let file = match file.canonicalize() {
        Ok(there) if !there.is_file() => return fs::write(there, text),
        Ok(there) => there,
        Err(_) if file.is_symlink() => return fs::write(file, text),
        Err(_) => file.to_owned(),
    };
    let folder = file.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    let part = builder.permissions(Permissions::from_mode(0o644)).tempfile_in(folder);
    // The whole error names the part, of which nobody knows.
    let mut part = part.map_err(|error| io::Error::from(error.kind()))?;
    part.write_all(text.as_bytes())?;
    part.persist(&file).map(drop).map_err(|error| error.error)
}

/// Writes the page.
///
/// # Errors
/// There is no report of a name, there are too many, or the page cannot be written.
pub fn run(args: &ReportArgs) -> Result<()> {
    let runs = runs::read(&args.runs)?;
    if runs.len() > MOST {
        let count = runs.len();
        return Err(Failure::usage(format!(
            "these are {count} runs, and a page has {MOST} at most"
        )));
    }
    let shown = args.out.display();
    write(&args.out, &page::html(&runs)).map_err(|error| Failure::io(&shown, error))?;
    console::print(&format!("{shown}: {}\n", console::count(runs.len(), "run")))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_link_is_followed_whether_its_file_is_there_or_not() {
        let dir = tempfile::tempdir().unwrap();
        let [file, link] = ["file", "link"].map(|name| dir.path().join(name));
        symlink("file", &link).unwrap();
        for text in ["first", "second"] {
            write(&link, text).unwrap();
            assert_eq!(fs::read_to_string(&file).unwrap(), text);
            assert!(link.is_symlink());
        }
    }

    #[test]
    fn an_error_names_no_file_that_nobody_gave() {
        let dir = tempfile::tempdir().unwrap();
        let error = write(&dir.path().join("none/page.html"), "").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(!error.to_string().contains(".tmp"), "{error}");
    }
}
