//! The folder of shared libraries: it stands for `/` where dynamically linked programs look for them.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::folder::{Walk, parts, plain, ways};

/// Folders in which dynamic linkers look by themselves.
const FOLDERS: [&str; 5] = ["/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib"];

/// The settings of dynamic linkers in `/etc`: of glibc (`ld.so.cache`, `ld.so.preload`), of musl
/// (`ld-musl-riscv64.path`).
const SETTINGS: [&str; 2] = ["ld.so.", "ld-musl-"];

/// A folder that has libraries. Links in it do not lead out of it: absolute ones begin in it, as after `chroot`.
#[derive(Debug)]
pub(super) struct Libraries {
    /// Without links.
    root: PathBuf,
    /// What leads to the folders in it for which it stands.
    ways: BTreeSet<PathBuf>,
}

impl Libraries {
    /// # Errors
    /// It is not there, or is no folder.
    pub(super) fn new(root: &Path) -> io::Result<Libraries> {
        let root = fs::canonicalize(root)?;
        match fs::metadata(&root)?.is_dir() {
            true => {
                let names = FOLDERS.iter().chain(&["/etc"]);
                let ways = names.flat_map(|name| ways(&root, parts(Path::new(name)))).collect();
                Ok(Libraries { root, ways })
            }
            false => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Whether a name is one of those for which the folder stands.
    pub(super) fn covers(name: &Path) -> bool {
        let name = plain(name);
        let settings = name.strip_prefix("/etc").ok().and_then(Path::to_str);
        FOLDERS.iter().any(|folder| name.starts_with(folder))
            || settings.is_some_and(|name| SETTINGS.iter().any(|begin| name.starts_with(begin)))
    }

    /// The place of a name in the folder. A file that is missing has a place if its folder is there. Links lead to what
    /// has such a name itself.
    pub(super) fn resolve(&self, name: &Path, follow: bool) -> io::Result<PathBuf> {
        let path = self.walk(name, follow)?;
        if self.has(&path) { Ok(path) } else { Err(io::ErrorKind::NotFound.into()) }
    }

    /// Whether a place is one of those for which the folder stands.
    pub(super) fn has(&self, path: &Path) -> bool {
        self.shown(path).is_some_and(|shown| Libraries::covers(&shown))
    }

    /// Whether a place is one of those, or leads there.
    pub(super) fn shows(&self, path: &Path) -> bool {
        self.has(path) || self.ways.contains(path)
    }

    /// The place of a name that leads to those for which the folder stands.
    pub(super) fn way(&self, name: &Path, follow: bool) -> Option<PathBuf> {
        let is_way = |path: &PathBuf| self.ways.contains(path);
        let named = self.root.join(plain(name).strip_prefix("/").ok()?);
        let found = is_way(&named).then(|| self.walk(name, follow));
        found?.ok().filter(is_way)
    }

    /// The place of the dynamic linker that a program names, wherever it is in the folder.
    pub(super) fn linker(&self, name: &str) -> io::Result<PathBuf> {
        let walk = Walk::all(&self.root);
        walk.walk(parts(Path::new(name)), true, |_, _| {}).map_err(|(_, error)| error)
    }

    /// The place to which a name leads over what programs see.
    fn walk(&self, name: &Path, follow: bool) -> io::Result<PathBuf> {
        let walk = Walk { passes: &|place| self.shows(place), ..Walk::all(&self.root) };
        walk.walk(parts(name), follow, |_, _| {}).map_err(|(_, error)| error)
    }

    /// The program's name of a place in the folder.
    pub(super) fn shown(&self, path: &Path) -> Option<PathBuf> {
        path.strip_prefix(&self.root).ok().map(|rest| Path::new("/").join(rest))
    }
}
