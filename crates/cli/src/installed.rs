//! Files that are built or installed together with this command.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::failure::{Failure, Result};

/// The path of a library: in Cargo's folder, where its name is `built`, or where it was installed.
///
/// # Errors
/// The kernel does not say where this command is.
pub fn find(library: &str, built: &str) -> Result<Option<PathBuf>> {
    let own = std::env::current_exe()
        .map_err(|error| Failure::io("cannot tell where this command is", error))?;
    let dir = own.parent().unwrap_or(&own);
    let of_distribution = format!("../lib/{}-linux-gnu", std::env::consts::ARCH);
    let installed = ["", "../lib", &of_distribution].map(|place| dir.join(place).join(library));
    let built = newest_in(&dir.join("deps"), built);
    Ok(built.into_iter().chain(installed).find_map(|path| path.canonicalize().ok()))
}

/// The newest library among those that Cargo built on the way to this command: static ones have a number in
/// their names there.
fn newest_in(deps: &Path, library: &str) -> Option<PathBuf> {
    let (stem, end) = library.rsplit_once('.')?;
    let is_it = |name: &str| {
        let rest = name.strip_prefix(stem)?.strip_suffix(end)?.strip_suffix('.')?;
        let number = rest.strip_prefix('-').unwrap_or(rest);
        number.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(())
    };
    let built = |entry: fs::DirEntry| -> Option<(SystemTime, PathBuf)> {
        is_it(entry.file_name().to_str()?)?;
        Some((entry.metadata().ok()?.modified().ok()?, entry.path()))
    };
    fs::read_dir(deps).ok()?.flatten().filter_map(built).max().map(|(_, path)| path)
}

#[test]
fn the_newest_build_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let make = |name: &str, seconds: u64| {
        let file = fs::File::create(dir.path().join(name)).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds))
            .unwrap();
    };
    assert_eq!(newest_in(dir.path(), "libx.a"), None);
    for (name, seconds) in [
        ("libx-0a1b.a", 5),
        ("libx-77ff.a", 7),
        ("libx.a", 6),
        ("libx_y-99.a", 9),
        ("libx-zz.a", 9),
    ] {
        make(name, seconds);
    }
    assert_eq!(newest_in(dir.path(), "libx.a"), Some(dir.path().join("libx-77ff.a")));
}
