//! The files of runs.

use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rackmem_sim::recipe::fingerprint_file;
use rustix::fs::{Access, FlockOperation, access, flock};
use serde_json::Value;

/// A folder with a file for each run.
#[derive(Clone, Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// The folder of this name, which need not be there yet.
    pub fn new(path: impl Into<PathBuf>) -> Folder {
        Folder(path.into())
    }

    /// The file of a run.
    pub fn file(&self, key: &str) -> PathBuf {
        self.file_of_kind(key, "json")
    }

    pub(super) fn file_of_kind(&self, name: &str, extension: &str) -> PathBuf {
        self.0.join(format!("{name}.{extension}"))
    }

    /// The report of an earlier run; `None` if there is none, or a file that its program read, or looked
    /// for in vain, is not as it was.
    ///
    /// # Errors
    /// The file cannot be read, or is no report.
    pub fn take(&self, key: &str) -> Result<Option<String>, String> {
        let file = self.file(key);
        let text = match fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(format!("{}: {error}", file.display())),
        };
        let report: Option<Value> = serde_json::from_str(&text).ok();
        let report = report.filter(|report| report["stats"].is_object()).ok_or_else(|| {
            format!("{} is no report of a run; delete it to make the run again", file.display())
        })?;
        Ok(inputs_are_the_same(&report).then_some(text))
    }

    /// Makes it if need be, so that no run is made whose report could not be stored.
    ///
    /// # Errors
    /// It cannot be made, or nothing may be written there.
    pub fn prepare(&self) -> Result<(), String> {
        fs::create_dir_all(&self.0)
            .and_then(|()| Ok(access(&self.0, Access::WRITE_OK)?))
            .map_err(|error| format!("{} cannot be written: {error}", self.0.display()))
    }

    /// Stores a report, whole or not at all.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn put(&self, key: &str, report: &str) -> Result<(), String> {
        let file = self.file(key);
        self.prepare()?;
        write_whole(&file, report.as_bytes())
            .map_err(|error| format!("{} cannot be written: {error}", file.display()))
    }
}

/// Whether files that a program has read are as they were, and those that were missing are missing still.
fn inputs_are_the_same(report: &Value) -> bool {
    let here = std::env::current_dir().ok();
    let mut inputs = report["inputs"].as_object().into_iter().flatten();
    inputs.all(|(name, was)| was.as_str() == Some(&fingerprint_file(here.as_deref(), name)))
}

/// Writes a file so that it is there whole or not at all. What is there and no file, such as a pipe, gets the content
/// as it is; a link stays, and the file that it names is written.
///
/// # Errors
/// Any of the operating system. The text names the file at the end of links, and the folder if that may not be written.
pub fn write_whole(file: &Path, content: &[u8]) -> io::Result<()> {
    write_whole_by(file, |out| out.write_all(content))
}

/// The same of content that is written piece by piece.
///
/// # Errors
/// As [`write_whole`], and those of the writer.
pub fn write_whole_by(
    file: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let end = target(file)?;
    let written = match end.exists() && !end.is_file() {
        true => File::create(&end).and_then(|file| buffered(&file, write)),
        false => replace(&end, write),
    };
    written.map_err(|error| match end == file {
        true => error,
        false => io::Error::new(error.kind(), format!("a link to {}: {error}", end.display())),
    })
}

/// Writes beside the file, and puts what is written in its place.
fn replace(file: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let parent = file.parent().filter(|parent| *parent != Path::new(""));
    let folder = parent.unwrap_or(Path::new("."));
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let part = folder.join(format!(".{name}.part"));
    let written = lock(&part).map_err(|error| match error.kind() {
        // The file itself may be writable.
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            let folder = folder.display();
            io::Error::new(error.kind(), format!("nothing can be made in {folder}: {error}"))
        }
        _ => error,
    })?;
    let stored = written
        .set_len(0)
        .and_then(|()| buffered(&written, write))
        .and_then(|()| written.set_permissions(Permissions::from_mode(0o644)))
        .and_then(|()| written.sync_all())
        .and_then(|()| fs::rename(&part, file));
    if stored.is_err() {
        let _ = fs::remove_file(&part);
    }
    stored
}

fn buffered(file: &File, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut out = BufWriter::new(file);
    write(&mut out)?;
    out.flush()
}

/// The file at the end of links, which need not be there.
fn target(file: &Path) -> io::Result<PathBuf> {
    let mut file = file.to_owned();
    // As many as the kernel follows.
    for _ in 0..40 {
        let Ok(next) = fs::read_link(&file) else { return Ok(file) };
        file = file.parent().map_or(next.clone(), |folder| folder.join(&next));
    }
    Err(rustix::io::Errno::LOOP.into())
}

/// Opens the part for this process alone. Of one that was killed there may be an old one; a process that has just put
/// its part in place leaves us with a file that has another name by now.
fn lock(part: &Path) -> io::Result<File> {
    use std::os::unix::fs::MetadataExt;
    loop {
        let file = File::options().create(true).write(true).truncate(false).open(part)?;
        flock(&file, FlockOperation::LockExclusive)?;
        let ours = file.metadata()?.ino();
        if fs::metadata(part).is_ok_and(|there| there.ino() == ours) {
            return Ok(file);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn files_are_whole_and_leave_nothing_beside_them() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::new(dir.path().join("new/runs"));
        assert_eq!(folder.take("a"), Ok(None));
        fs::write(dir.path().join("file"), "").unwrap();
        let error = Folder::new(dir.path().join("file")).prepare().unwrap_err();
        assert!(error.contains("file cannot be written"), "{error}");
        // A process that was killed left its part.
        fs::create_dir_all(dir.path().join("new/runs")).unwrap();
        fs::write(dir.path().join("new/runs/.a.json.part"), "something longer than a report")
            .unwrap();
        folder.put("a", "{\"stats\":{}}").unwrap();
        assert_eq!(folder.take("a").unwrap().unwrap(), "{\"stats\":{}}");
        assert_eq!(fs::read_dir(dir.path().join("new/runs")).unwrap().count(), 1);
        fs::write(folder.file("b"), "{").unwrap();
        assert!(folder.take("b").unwrap_err().contains("delete it to make the run again"));
    }

    #[test]
    fn writers_of_one_file_do_not_mix() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        let text = |writer: u8| vec![b'a' + writer; 100_000 + usize::from(writer)];
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let file = &file;
                scope.spawn(move || {
                    (0..20).for_each(|_| write_whole(file, &text(writer)).unwrap());
                });
            }
        });
        let found = fs::read(&file).unwrap();
        assert!((0..4).any(|writer| found == text(writer)));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn links_stay_links() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        symlink("missing", &link).unwrap();
        write_whole(&link, b"text").unwrap();
        assert!(fs::read_link(&link).is_ok());
        assert_eq!(fs::read(dir.path().join("missing")).unwrap(), b"text");
        let error = |name: &str, to: &str| {
            let link = dir.path().join(name);
            symlink(to, &link).unwrap();
            let error = write_whole(&link, b"text").unwrap_err().to_string();
            assert!(fs::read_link(&link).is_ok());
            error
        };
        let end = dir.path().join("nowhere/page.html");
        let dangling = error("dangling", "nowhere/page.html");
        assert!(dangling.starts_with(&format!("a link to {}: ", end.display())), "{dangling}");
        assert!(error("loop", "loop").contains("symbolic links"));
    }

    #[test]
    fn a_run_whose_files_have_changed_is_made_again() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, input) = (Folder::new(dir.path()), dir.path().join("graph.txt"));
        fs::write(&input, "1 2").unwrap();
        let hash = fingerprint_file(None, input.to_str().unwrap());
        let report = serde_json::json!({"stats": {}, "inputs": {input.to_str().unwrap(): hash}});
        folder.put("a", &report.to_string()).unwrap();
        assert!(folder.take("a").unwrap().is_some());
        fs::write(&input, "1 3").unwrap();
        assert_eq!(folder.take("a"), Ok(None));
        let missing = dir.path().join("missing.txt");
        let report = serde_json::json!({"stats": {}, "inputs": {missing.to_str().unwrap(): ""}});
        folder.put("b", &report.to_string()).unwrap();
        assert!(folder.take("b").unwrap().is_some());
        fs::write(&missing, "").unwrap();
        assert_eq!(folder.take("b"), Ok(None));
    }
}
