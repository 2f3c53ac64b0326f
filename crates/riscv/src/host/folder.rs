//! The files that a program may see: those of its folder, and those that its user has named.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{self, Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::held;
use super::libraries::Libraries;
use super::numbers::Numbers;
use crate::kernel::{Entry, Kind, Status};
use crate::names::{path_of, text_of_part, text_of_path};

/// The name of the run's folder for programs: wherever it is on the host, they see the same.
pub const FOLDER: &str = "/rackmem";

/// Links that are followed for a name, as on Linux.
const MOST_LINKS: usize = 40;

const ELOOP: i32 = 40;

/// A name that has been resolved: a place on the host without links on the way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub path: PathBuf,
    /// Whether it is in the run's folder, where files may be written.
    pub is_own: bool,
    /// Whether it was found in the folder of libraries.
    pub is_library: bool,
}

/// Reasons why a name has no place.
#[derive(Debug)]
pub(super) enum Lost {
    /// It leads out of what the program may see.
    Outside,
    Error(io::Error),
}

impl Lost {
    pub(super) fn into_error(self) -> io::Error {
        match self {
            Lost::Outside => io::ErrorKind::NotFound.into(),
            Lost::Error(error) => error,
        }
    }
}

/// The part of the host's files that a program sees.
#[derive(Debug, Default)]
pub(super) struct Folder {
    /// The run's folder, without links.
    root: Option<PathBuf>,
    /// Other files and folders that may be read, without links.
    allowed: Vec<PathBuf>,
    /// And what leads to them.
    ways: BTreeSet<PathBuf>,
    /// Places that names of the program may lead over, as its user has said such names: to the run's folder, and to
    /// what is allowed. The program does not see them.
    passed: BTreeSet<PathBuf>,
    /// The folder that has the libraries of dynamically linked programs.
    libraries: Option<Libraries>,
    /// Those of its files: programs that share files have one table, and reach it in their order.
    pub(super) numbers: Arc<Mutex<Numbers>>,
}

impl Folder {
    pub(super) fn new(root: Option<&Path>) -> Folder {
        let said = root.and_then(|root| path::absolute(root).ok());
        let root = root.and_then(|root| fs::canonicalize(root).ok());
        let mut folder = Folder { root, ..Folder::default() };
        folder.pass(said.iter().flat_map(|said| parts(said)).collect());
        let above = folder.root.iter().flat_map(|root| root.ancestors());
        folder.passed.extend(above.map(Path::to_owned).collect::<Vec<_>>());
        folder
    }

    /// Lets names lead over the places that this one leads over. Where a link in the run's folder leads is not the
    /// user's word: a program may have made it.
    fn pass(&mut self, said: VecDeque<OsString>) {
        let (mut met, mut has_left) = (BTreeSet::new(), false);
        let note = |place: &Path, is_link: bool| {
            if !has_left {
                met.insert(place.to_owned());
            }
            has_left |= is_link && self.is_in_root(place);
        };
        // What is not there leads nowhere.
        let _ = Walk::all(Path::new("/")).walk(said, true, note);
        self.passed.extend(met);
    }

    /// Lets the program read a file, or what is in a folder. Relative names begin in the run's folder.
    pub(super) fn allow(&mut self, name: &Path) -> io::Result<()> {
        let path = match &self.root {
            Some(root) => root.join(name),
            None => name.to_owned(),
        };
        let said = parts(&path);
        let path = fs::canonicalize(path)?;
        if !self.allowed.contains(&path) {
            self.allowed.push(path.clone());
        }
        self.pass(said.clone());
        if !self.is_in_root(&path) {
            self.ways.extend(ways(Path::new("/"), said));
        }
        Ok(())
    }

    /// Names the folder that has libraries. Relative names begin in the run's folder.
    pub(super) fn set_libraries(&mut self, name: &Path) -> io::Result<()> {
        let root = self.root.clone().unwrap_or_default();
        self.libraries = Some(Libraries::new(&root.join(name))?);
        Ok(())
    }

    pub(super) const fn libraries(&self) -> Option<&Libraries> {
        self.libraries.as_ref()
    }

    /// Lets the program read an argument, if it is the name of a file. A link in the run's folder may be one that a
    /// program has made: it does not lead outside.
    pub(super) fn allow_argument(&mut self, name: &Path) {
        let root = self.root.clone().unwrap_or_default();
        let name = root.join(name);
        let said = plain(&name);
        let is_inside = |path: &Path| self.root.is_some() && path.starts_with(&root);
        let leads_outside = |end: PathBuf| is_inside(&said) && !is_inside(&end);
        // Most arguments are no files.
        if !fs::canonicalize(&said).is_ok_and(leads_outside) && self.allow(&said).is_ok() {
            self.pass(parts(&name));
        }
    }

    /// That a place is not the run's folder itself, which is in use.
    pub(super) fn check_not_root(&self, path: &Path) -> io::Result<()> {
        match self.root.as_deref() == Some(path) {
            true => Err(io::ErrorKind::ResourceBusy.into()),
            false => Ok(()),
        }
    }

    /// Whether a place without links is in the run's folder.
    pub(super) fn is_in_root(&self, path: &Path) -> bool {
        self.root.as_ref().is_some_and(|root| path.starts_with(root))
    }

    /// Whether the user has named this very file.
    pub(super) fn is_named(&self, path: &Path) -> bool {
        self.allowed.iter().any(|allowed| allowed == path)
    }

    /// The place of a name that a program has said. The last link is followed if `follow` says so; a file that is
    /// missing has a place if its folder is there.
    pub(super) fn resolve(&self, name: &str, follow: bool) -> Result<Place, Lost> {
        let path = &path_of(name);
        let Some(libraries) = &self.libraries else { return self.resolve_on_host(name, follow) };
        if !Libraries::covers(path) {
            let found = self.resolve_on_host(name, follow);
            let is_seen = found.as_ref().is_ok_and(|place| !self.is_way(place));
            let way = if is_seen { None } else { libraries.way(path, follow) };
            let way = way.map(|path| Place { path, is_own: false, is_library: true });
            return way.map_or(found, Ok);
        }
        let found = libraries.resolve(path, follow).map_err(Lost::Error);
        let found = found.map(|path| Place { path, is_own: false, is_library: true });
        match &found {
            Ok(place) if fs::symlink_metadata(&place.path).is_ok() => found,
            _ => self.resolve_on_host(name, follow).or(found),
        }
    }

    fn resolve_on_host(&self, name: &str, follow: bool) -> Result<Place, Lost> {
        let walk = Walk {
            top: Path::new("/"),
            parts: &|name| self.parts(name),
            passes: &|place| self.passes(place),
            trusts: &|link| !self.is_in_root(link),
        };
        let at = walk
            .walk(self.parts(&path_of(name)), follow, |_, _| {})
            .map_err(|(at, error)| self.lost(&at, error))?;
        let is_own = self.is_in_root(&at);
        if is_own || self.is_allowed(&at) || self.ways.contains(&at) {
            return Ok(Place { path: at, is_own, is_library: false });
        }
        Err(Lost::Outside)
    }

    /// Whether names of the program may lead over a place: all others are as if nothing were there.
    fn passes(&self, place: &Path) -> bool {
        let is_seen = self.is_in_root(place) || self.is_allowed(place) || self.ways.contains(place);
        is_seen || self.passed.contains(place)
    }

    fn is_allowed(&self, path: &Path) -> bool {
        self.allowed.iter().any(|allowed| path.starts_with(allowed))
    }

    /// Whether a place that programs see only leads to what they may read.
    fn is_way(&self, place: &Place) -> bool {
        let Place { path, is_own, is_library } = place;
        match &self.libraries {
            Some(libraries) if *is_library => !libraries.has(path),
            _ => !is_own && !self.is_allowed(path),
        }
    }

    /// Takes from the status of a folder that only leads to others all that is the host's matter.
    pub(super) fn hide(&self, place: &Place, status: &mut Status) {
        if status.kind == Kind::Folder && self.is_way(place) {
            (status.permissions, status.links) = (0o755, 2);
        }
    }

    /// Whether programs see what is at `path` in a folder that only leads to others.
    fn shows(&self, folder: &Place, path: &Path) -> bool {
        match &self.libraries {
            Some(libraries) if folder.is_library => libraries.shows(path),
            _ => self.is_allowed(path) || self.ways.contains(path),
        }
    }

    /// The parts of a name; that of the run's folder is replaced by its place.
    fn parts(&self, name: &Path) -> VecDeque<OsString> {
        let own = name.strip_prefix(FOLDER).ok();
        match (own, &self.root) {
            (Some(rest), Some(root)) => parts(&root.join(rest)),
            _ => parts(name),
        }
    }

    /// An error on the way; what is outside of the program's sight does not show in it.
    fn lost(&self, at: &Path, error: io::Error) -> Lost {
        let roots = self.root.iter().chain(&self.allowed);
        let is_inside = roots.into_iter().any(|root| at.starts_with(root));
        if is_inside { Lost::Error(error) } else { Lost::Outside }
    }

    /// The program's name of a place: as little as possible is of the host.
    pub(super) fn shown(&self, path: &Path) -> String {
        let own = self.root.as_ref().and_then(|root| path.strip_prefix(root).ok());
        let shown = match own {
            Some(rest) if rest.as_os_str().is_empty() => PathBuf::from(FOLDER),
            Some(rest) => Path::new(FOLDER).join(rest),
            None => path.to_owned(),
        };
        text_of_path(&shown)
    }

    /// The text of a link, as the program gets it.
    pub(super) fn shown_text(&self, text: &Path) -> String {
        match text.is_absolute() {
            true => self.shown(text),
            false => text_of_path(text),
        }
    }

    /// The same as [`Folder::shown`] of a place that has been resolved.
    pub(super) fn shown_place(&self, place: &Place) -> String {
        let libraries = self.libraries.as_ref().filter(|_| place.is_library);
        match libraries.and_then(|libraries| libraries.shown(&place.path)) {
            Some(shown) => text_of_path(&shown),
            None => self.shown(&place.path),
        }
    }

    /// The program's name of an open file, of which the host says this; `None` if the file has left its sight.
    pub(super) fn shown_open(&self, path: &Path) -> Option<String> {
        let libraries = self.libraries.as_ref().filter(|libraries| libraries.has(path));
        match libraries.and_then(|libraries| libraries.shown(path)) {
            Some(shown) => Some(text_of_path(&shown)),
            None => (self.is_in_root(path) || self.is_allowed(path)).then(|| self.shown(path)),
        }
    }

    /// The name of an input for a report: relative names begin in the run's folder.
    pub(super) fn input(&self, path: &Path) -> String {
        let own = self.root.as_ref().and_then(|root| path.strip_prefix(root).ok());
        text_of_path(own.unwrap_or(path))
    }

    pub(super) fn status(&self, metadata: &Metadata) -> Status {
        let inode = self.numbers().of(metadata);
        Folder::numbered(metadata, inode)
    }

    /// The same of a file that has just been made without a name.
    pub(super) fn new_status(&self, metadata: &Metadata) -> Status {
        let inode = self.numbers().fresh();
        Folder::numbered(metadata, inode)
    }

    fn numbered(metadata: &Metadata, inode: u64) -> Status {
        let kind = kind(metadata.file_type());
        // The size of a folder is the file system's own matter.
        let size = if kind == Kind::Folder { 4096 } else { metadata.len() };
        let (permissions, links) = (metadata.mode() & 0o7777, metadata.nlink());
        Status { kind, size, inode, permissions, links }
    }

    /// The numbers of files. What a program that panics leaves of them is whole.
    pub(super) fn numbers(&self) -> MutexGuard<'_, Numbers> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether an open file is in the run's folder, by whichever name, or was.
    pub(super) fn is_own(&self, file: &File) -> bool {
        let name = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()));
        name.is_ok_and(|name| self.is_in_root(&name))
    }

    /// The entries of a folder that a program sees, in the order of their names. Others get no numbers, which would
    /// otherwise depend on what is beside the program's files.
    pub(super) fn entries(&self, folder: &Place) -> io::Result<Vec<Entry>> {
        let is_way = self.is_way(folder);
        let mut found = Vec::new();
        for entry in held::read_folder(&folder.path)? {
            let entry = entry?;
            if is_way && !self.shows(folder, &folder.path.join(entry.file_name())) {
                continue;
            }
            let name = text_of_part(&entry.file_name());
            match entry.metadata() {
                Ok(metadata) => found.push((name, metadata)),
                // It has been removed since.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        found.sort_by(|(a, _), (b, _)| a.cmp(b));
        let mut numbers = self.numbers();
        let entry = |(name, metadata): (String, Metadata)| Entry {
            name,
            kind: kind(metadata.file_type()),
            inode: numbers.of(&metadata),
        };
        Ok(found.into_iter().map(entry).collect())
    }
}

/// The parts of a name, with its `..`.
pub(super) fn parts(name: &Path) -> VecDeque<OsString> {
    let part = |part: Component<'_>| match part {
        Component::Normal(part) => Some(part.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        _ => None,
    };
    name.components().filter_map(part).collect()
}

/// How names lead to places.
pub(super) struct Walk<'a> {
    /// Where names begin. No name leads out of it.
    pub top: &'a Path,
    /// The parts of a link's text.
    pub parts: &'a dyn Fn(&Path) -> VecDeque<OsString>,
    /// Whether names may lead over a place. Nothing is learned of others: they are as if they were not there.
    pub passes: &'a dyn Fn(&Path) -> bool,
    /// Whether a link may lead over all places, as no program can have made it.
    pub trusts: &'a dyn Fn(&Path) -> bool,
}

impl<'a> Walk<'a> {
    /// One over all places below `top`.
    pub(super) fn all(top: &'a Path) -> Walk<'a> {
        Walk { top, parts: &parts, passes: &|_| true, trusts: &|_| true }
    }

    /// The place that parts of a name lead to. The last link is followed if `follow` says so; a file that is missing
    /// has a place if its folder is there. An error comes with the place that it is about. `note` gets the places on
    /// the way, and whether they are links.
    pub(super) fn walk(
        &self,
        mut rest: VecDeque<OsString>,
        follow: bool,
        mut note: impl FnMut(&Path, bool),
    ) -> Result<PathBuf, (PathBuf, io::Error)> {
        let mut at = self.top.to_owned();
        let mut links = 0;
        // Of the next parts, those of links that are trusted.
        let mut trusted: usize = 0;
        while let Some(part) = rest.pop_front() {
            let is_up = part == "..";
            let next = if is_up { at.clone() } else { at.join(&part) };
            if trusted == 0 && next != self.top && !(self.passes)(&next) {
                return Err((next, io::ErrorKind::NotFound.into()));
            }
            trusted = trusted.saturating_sub(1);
            if is_up {
                if at != self.top {
                    at.pop();
                }
                continue;
            }
            let is_last = rest.is_empty();
            let found = fs::symlink_metadata(&next);
            let is_link = found.as_ref().is_ok_and(Metadata::is_symlink);
            note(&next, is_link);
            match found {
                Ok(_) if is_link && (follow || !is_last) => {
                    links += 1;
                    let target = match links > MOST_LINKS {
                        true => Err(io::Error::from_raw_os_error(ELOOP)),
                        false => fs::read_link(&next),
                    };
                    let target = target.map_err(|error| (next.clone(), error))?;
                    if target.is_absolute() {
                        at = self.top.to_owned();
                    }
                    let parts = (self.parts)(&target);
                    trusted = if (self.trusts)(&next) { trusted + parts.len() } else { 0 };
                    for part in parts.into_iter().rev() {
                        rest.push_front(part);
                    }
                    continue;
                }
                Ok(found) if !is_last && !found.is_dir() => {
                    return Err((next, io::ErrorKind::NotADirectory.into()));
                }
                Ok(_) => {}
                Err(_) if is_last => {}
                Err(error) => return Err((next, error)),
            }
            at = next;
        }
        Ok(at)
    }
}

/// The folders and links below `top` that lead to a file by this name, and its place.
pub(super) fn ways(top: &Path, name: VecDeque<OsString>) -> BTreeSet<PathBuf> {
    let mut places = Vec::new();
    let note = |place: &Path, is_link: bool| places.extend(is_link.then(|| place.to_owned()));
    let end = Walk::all(top).walk(name, true, note);
    places.extend(end.ok());
    let above = places.iter().flat_map(|place| place.ancestors());
    above.filter(|place| place.starts_with(top) && *place != top).map(Path::to_owned).collect()
}

/// A path without `.` and `..`, whatever links there are.
pub fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

fn kind(kind: fs::FileType) -> Kind {
    use std::os::unix::fs::FileTypeExt;
    match kind {
        kind if kind.is_dir() => Kind::Folder,
        kind if kind.is_symlink() => Kind::Link,
        kind if kind.is_file() => Kind::File,
        kind if kind.is_fifo() => Kind::Pipe,
        kind if kind.is_socket() => Kind::Socket,
        _ => Kind::Device,
    }
}
