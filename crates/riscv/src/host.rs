//! [`Host`] on this machine: its standard streams and files.

mod folder;
mod held;
mod libraries;
mod names;
mod numbers;
mod open;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, Permissions};
use std::io::{self, IsTerminal, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};

use crate::Symbols;
use crate::elf::{self, LoadError};
use crate::kernel::{Change, Code, Errno, Host, Kind, OpenMode, Opened, Status, Stream};
pub use folder::{FOLDER, plain};
use folder::{Folder, Lost, Place};
use held::hold;
use names::{check_kind, ends_in_dots, is_folders, permitted};
pub use numbers::Numbers;

/// Mapped parts of libraries whose functions are known by name.
pub const MOST_PARTS: usize = 256;

/// Destination of a program's standard output and standard error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Output {
    /// To the standard streams of this process; warnings to its standard error.
    #[default]
    PassOn,
    /// Into the outcome.
    Capture,
}

/// Source of a program's standard input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Input {
    /// It is at its end.
    #[default]
    Empty,
    /// That of this process.
    PassOn,
}

/// The part of a [`LocalHost`] that a program has changed; the rest comes from its user.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct HostState {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    warnings: Vec<String>,
    inputs: BTreeMap<String, bool>,
    consumed_bytes: u64,
    #[serde(with = "crate::names::paths")]
    made: BTreeSet<PathBuf>,
}

/// Standard streams and files of the process; time as the engine counts it.
pub struct LocalHost {
    /// The time that the program sees.
    pub now_ns: u64,
    /// Standard output, if it is captured.
    pub stdout: Vec<u8>,
    /// Standard error, if output is captured.
    pub stderr: Vec<u8>,
    /// Warnings so far, once each.
    pub warnings: Vec<String>,
    /// Names of the files that the program has looked for, to read and not write them, and that it has not made itself;
    /// and whether the file was there at first. Names in the run's folder are relative to it.
    pub inputs: BTreeMap<String, bool>,
    /// Source of standard input.
    pub input: Input,
    /// Whether nobody reads standard output any more, and standard error, that are captured: writes then fail.
    pub is_unread: [bool; 2],
    /// Bytes of memory that the program finds in its machine.
    pub memory_bytes: u64,
    /// Waits for the programs that share the folder and come before this one.
    pub earlier: Option<Box<dyn Fn() + Send>>,
    harts: usize,
    output: Output,
    folder: Folder,
    made: BTreeSet<PathBuf>,
    /// Numbers of files that were made without a name, by device and number on the host.
    nameless: BTreeMap<(u64, u64), u64>,
    /// Bytes of standard input that the program has read.
    consumed_bytes: u64,
}

impl LocalHost {
    /// A host for a program with `harts` harts, which sees the files of `folder` and may write them. With `None` it
    /// sees no files but those of [`LocalHost::allow`].
    pub fn new(harts: usize, output: Output, folder: Option<&Path>) -> LocalHost {
        const MEMORY: u64 = 16 << 30;
        LocalHost {
            now_ns: 0,
            stdout: Vec::new(),
            stderr: Vec::new(),
            warnings: Vec::new(),
            inputs: BTreeMap::new(),
            input: Input::Empty,
            is_unread: [false; 2],
            memory_bytes: MEMORY,
            earlier: None,
            harts: harts.max(1),
            output,
            folder: Folder::new(folder),
            made: BTreeSet::new(),
            nameless: BTreeMap::new(),
            consumed_bytes: 0,
        }
    }

    /// What the program has changed so far.
    pub fn state(&self) -> HostState {
        HostState {
            stdout: self.stdout.clone(),
            stderr: self.stderr.clone(),
            warnings: self.warnings.clone(),
            inputs: self.inputs.clone(),
            consumed_bytes: self.consumed_bytes,
            made: self.made.clone(),
        }
    }

    /// Goes on from a state: skips what the program has read of standard input.
    ///
    /// # Errors
    /// Standard input cannot be read, or has less.
    pub fn restore(&mut self, state: HostState) -> io::Result<()> {
        let HostState { stdout, stderr, warnings, inputs, consumed_bytes, made } = state;
        self.stdout = stdout;
        self.stderr = stderr;
        self.warnings = warnings;
        self.inputs = inputs;
        self.made = made;
        let mut buffer = vec![0; 1 << 16];
        while self.consumed_bytes < consumed_bytes {
            let left = usize::try_from(consumed_bytes - self.consumed_bytes).unwrap_or(usize::MAX);
            let length = left.min(buffer.len());
            if self.input(&mut buffer[..length])? == 0 {
                let why =
                    format!("has less than the {consumed_bytes} bytes that the program had read");
                return Err(io::Error::other(why));
            }
        }
        Ok(())
    }

    /// Has it number files by the table of the programs that share them.
    pub fn share_numbers(&mut self, numbers: Arc<Mutex<Numbers>>) {
        self.folder.numbers = numbers;
    }

    /// Lets the program read a file, or what is in a folder, outside of the run's folder.
    ///
    /// # Errors
    /// It is not there.
    pub fn allow(&mut self, name: &Path) -> io::Result<()> {
        self.folder.allow(name)
    }

    /// Names the folder that stands for `/` where the program looks for its dynamic linker and for libraries.
    ///
    /// # Errors
    /// It is not there, or is no folder.
    pub fn set_libraries(&mut self, name: &Path) -> io::Result<()> {
        self.folder.set_libraries(name)
    }

    /// The bytes of a dynamic linker.
    ///
    /// # Errors
    /// There is no folder of libraries, or it has none of this name.
    pub fn linker(&mut self, name: &str) -> Result<Vec<u8>, LoadError> {
        let Some(libraries) = self.folder.libraries() else {
            return Err(LoadError::Dynamic(name.to_owned()));
        };
        let root = libraries.root().display().to_string();
        let read = libraries.linker(name);
        let read = read.and_then(|path| read_object(&path, 1 << 30).map(|bytes| (path, bytes)));
        let (path, bytes) = read.map_err(|error| {
            let why = match error.kind() {
                io::ErrorKind::NotFound => {
                    "no such file, and links do not lead out of it".to_owned()
                }
                _ => error.to_string(),
            };
            LoadError::Linker(name.to_owned(), format!("is not in {root}: {why}"))
        })?;
        self.note_input(&path, true);
        Ok(bytes)
    }

    /// `symbols` and those of libraries that are mapped: of [`MOST_PARTS`] of them, and of so many bytes of files, as a
    /// program may map a large one again and again.
    pub fn symbols_with(&self, symbols: &Symbols, code: &[Code]) -> Symbols {
        let mut left_bytes = 256 << 20;
        code.iter().take(MOST_PARTS).fold(symbols.clone(), |symbols, part| {
            let Code { pages, offset, name } = part;
            let place = self.folder.resolve(name, true).ok();
            let bytes = place.and_then(|place| read_object(&place.path, left_bytes).ok());
            left_bytes -= bytes.as_ref().map_or(0, |bytes| bytes.len() as u64);
            let own = bytes.map(|bytes| elf::symbols_of(&bytes, pages.clone(), *offset));
            own.map_or_else(|| symbols.clone(), |own| symbols.with(own))
        })
    }

    /// Lets the program read those of its arguments that are names of files, also as in `--graph=FILE`.
    pub fn allow_arguments(&mut self, args: &[String]) {
        for arg in args {
            let value = arg.split_once('=').map(|(_, value)| value);
            for name in [Some(arg.as_str()), value].into_iter().flatten().filter(|n| !n.is_empty())
            {
                self.folder.allow_argument(Path::new(name));
            }
        }
    }

    /// The place of a name. What leads outside is as if it were not there.
    fn place(&mut self, name: &str, follow: bool) -> io::Result<Place> {
        let place = self.folder.resolve(name, follow || is_folders(name));
        let place = place.map_err(|lost| match lost {
            Lost::Error(error) => error,
            Lost::Outside => {
                if !is_probed(name) {
                    self.warn(&format!(
                        "{name} is outside of the run's folder: the program gets ENOENT; \
                         --allow PATH lets it read a file or a folder"
                    ));
                }
                io::ErrorKind::NotFound.into()
            }
        })?;
        check_kind(name, &place.path)?;
        Ok(place)
    }

    /// Notes that the program has looked for a file.
    fn note_input(&mut self, path: &Path, was_there: bool) {
        if !self.made.contains(path) {
            self.inputs.entry(self.folder.input(path)).or_insert(was_there);
        }
    }

    /// Makes an empty file that is about to be read, if it is not there. Whether it was not.
    fn create(&mut self, name: &str, is_new: bool) -> io::Result<bool> {
        if let Ok(Place { path, .. }) = self.folder.resolve(name, !is_new || is_folders(name))
            && held::find(&path)?.is_some()
        {
            check_kind(name, &path)?;
            return if is_new { Err(io::ErrorKind::AlreadyExists.into()) } else { Ok(false) };
        }
        let path = self.own_place(name, true)?;
        hold(&path)?.make_file()?;
        self.made.insert(path);
        Ok(true)
    }

    /// The limit on open files of this process is that of the machine for the program.
    fn too_many(&mut self, error: io::Error) -> io::Error {
        if error.raw_os_error() != Some(Errno::MFILE.0.into()) {
            return error;
        }
        self.warn(
            "the host's limit on open files is reached: the program gets ENFILE; `ulimit -n` raises it",
        );
        Errno::NFILE.into()
    }

    /// Empties a file that is about to be read.
    fn empty(&mut self, name: &str) -> io::Result<()> {
        let path = self.own_place(name, true)?;
        if !held::metadata(&path)?.is_file() {
            return Ok(());
        }
        self.made.insert(path.clone());
        let mode = OpenMode { write: true, truncate: true, ..OpenMode::default() };
        self.open_file(&path, mode).map(|_| ())
    }

    /// That the owner of a file may open it so: of other files than the program's own, this is the host's matter.
    fn check_permissions(&self, path: &Path, status: &Status, mode: OpenMode) -> io::Result<()> {
        if self.folder.is_in_root(path) { permits(status.permissions, mode) } else { Ok(()) }
    }

    /// Whether an open file, which was opened by this name, may be written.
    fn may_write(&self, name: &str, file: &File) -> bool {
        // The folder of libraries may be in the run's folder.
        let is_library = self.folder.resolve(name, true).is_ok_and(|place| place.is_library);
        self.folder.is_own(file) && !is_library
    }

    /// Opens a file of the program again, which its permissions may not allow any more.
    fn open_again(&mut self, path: &Path, mode: OpenMode) -> io::Result<Opened> {
        let permissions = held::metadata(path)?.permissions();
        if !self.folder.is_in_root(path) || permissions.mode() & 0o600 == 0o600 {
            return self.open_file(path, mode);
        }
        held::set_permissions(path, Permissions::from_mode(permissions.mode() | 0o600))?;
        let opened = self.open_file(path, mode);
        held::set_permissions(path, permissions)?;
        opened
    }

    /// Makes a file without a name. The host may use its number again, so that it gets one here only by a name.
    fn open_nameless(&mut self, folder: &str, mode: OpenMode) -> io::Result<Opened> {
        let path = self.own_place(folder, true)?;
        if !held::metadata(&path)?.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        let file = open::open_nameless(&path, mode)?;
        file.set_permissions(permitted(mode.permissions))?;
        let found = file.metadata()?;
        let status = self.folder.new_status(&found);
        self.nameless.insert((found.dev(), found.ino()), status.inode);
        Ok(Opened::File(file, status))
    }

    /// Opens what is at a place; a folder without its entries.
    fn open_file(&mut self, path: &Path, mode: OpenMode) -> io::Result<Opened> {
        let found = held::find(path)?;
        if let Some(found) = &found {
            let status = self.folder.status(found);
            if status.kind == Kind::File {
                self.check_permissions(path, &status, mode)?;
            }
            match status.kind {
                Kind::Folder if mode.create_new => {
                    return Err(io::ErrorKind::AlreadyExists.into());
                }
                Kind::Folder if mode.write || mode.create || mode.truncate => {
                    return Err(Errno::ISDIR.into());
                }
                Kind::Folder => return Ok(Opened::Folder(status, Vec::new())),
                Kind::Pipe if self.made.contains(path) => {
                    return match mode.create_new {
                        true => Err(io::ErrorKind::AlreadyExists.into()),
                        false => Ok(Opened::Pipe(status)),
                    };
                }
                Kind::Socket => return Err(Errno::NXIO.into()),
                Kind::Pipe | Kind::Device if !self.folder.is_named(path) => {
                    let shown = self.folder.shown(path);
                    self.warn(&format!(
                        "{shown} is a pipe or a device: the program gets EACCES; --allow {shown} \
                         lets it read there"
                    ));
                    return Err(io::ErrorKind::PermissionDenied.into());
                }
                _ => {}
            }
        }
        let file = open::open_place(path, mode).map_err(|error| self.too_many(error))?;
        if mode.write && (mode.truncate || found.is_none()) {
            self.made.insert(path.to_owned());
        }
        if mode.write && found.is_none() {
            file.set_permissions(permitted(mode.permissions))?;
        }
        let status = self.folder.status(&file.metadata()?);
        Ok(Opened::File(file, status))
    }
}

/// That the owner of a file with such permissions may open it so.
pub(crate) fn permits(permissions: u32, mode: OpenMode) -> io::Result<()> {
    let wanted = u32::from(mode.read) << 8 | u32::from(mode.write) << 7;
    match wanted & !permissions {
        0 => Ok(()),
        _ => Err(io::ErrorKind::PermissionDenied.into()),
    }
}

/// Whether C libraries and language runtimes look there by themselves: no reason for a warning.
fn is_probed(name: &str) -> bool {
    const PROBED: [&str; 6] = [
        "/etc/localtime",
        "/usr/share/zoneinfo",
        "/usr/lib/locale",
        "/usr/share/locale",
        "/usr/lib/zoneinfo",
        "/etc/zoneinfo",
    ];
    PROBED.iter().any(|probed| Path::new(name).starts_with(probed))
}

/// The bytes of a library, if there are so many at most.
fn read_object(path: &Path, most_bytes: u64) -> io::Result<Vec<u8>> {
    let found = fs::metadata(path)?;
    // To open a pipe could wait for ever.
    match found.is_file() && found.len() <= most_bytes {
        true => fs::read(path),
        false => Err(io::Error::other("no regular file of a library's size")),
    }
}

impl Host for LocalHost {
    fn now_ns(&mut self) -> u64 {
        self.now_ns
    }

    fn output(&mut self, stream: Stream, bytes: &[u8]) -> io::Result<()> {
        if self.is_unread[(stream == Stream::Err) as usize] {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        match (self.output, stream) {
            (Output::Capture, Stream::Out) => self.stdout.extend_from_slice(bytes),
            (Output::Capture, Stream::Err) => self.stderr.extend_from_slice(bytes),
            (Output::PassOn, Stream::Out) => {
                let mut stdout = io::stdout().lock();
                stdout.write_all(bytes)?;
                stdout.flush()?;
            }
            (Output::PassOn, Stream::Err) => io::stderr().write_all(bytes)?,
        }
        Ok(())
    }

    fn input(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut stdin = match self.input {
            Input::Empty => return Ok(0),
            Input::PassOn => io::stdin().lock(),
        };
        if stdin.is_terminal() {
            let count = stdin.read(buffer)?;
            self.consumed_bytes += count as u64;
            return Ok(count);
        }
        // How the bytes come in pieces is the host's matter.
        let mut filled = 0;
        while filled < buffer.len() {
            match stdin.read(&mut buffer[filled..])? {
                0 => break,
                count => filled += count,
            }
        }
        self.consumed_bytes += filled as u64;
        Ok(filled)
    }

    fn harts(&self) -> usize {
        self.harts
    }

    fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }

    fn await_earlier(&mut self) {
        if let Some(earlier) = &self.earlier {
            earlier();
        }
    }

    fn warn(&mut self, message: &str) {
        if self.warnings.iter().any(|earlier| earlier == message) {
            return;
        }
        if self.output == Output::PassOn {
            eprintln!("warning: {message}");
        }
        self.warnings.push(message.to_owned());
    }

    fn open(&mut self, name: &str, mode: OpenMode) -> io::Result<Opened> {
        self.await_earlier();
        if mode.is_nameless {
            return self.open_nameless(name, mode).map_err(|error| self.too_many(error));
        }
        if mode.create && name.ends_with('/') && !ends_in_dots(name) {
            // The folder that it would be in has to be there.
            self.folder.resolve(name, false).map_err(Lost::into_error)?;
            return Err(Errno::ISDIR.into());
        }
        if mode.write {
            let path = self.own_place(name, !mode.create_new)?;
            return match mode.is_again {
                true => self.open_again(&path, mode),
                false => self.open_file(&path, mode),
            };
        }
        let made = if mode.create { self.create(name, mode.create_new) } else { Ok(false) };
        let is_made = made.map_err(|error| self.too_many(error))?;
        let place = self.place(name, true)?;
        let path = &place.path;
        if mode.truncate {
            self.empty(name)?;
        }
        let mut opened = match mode.is_again {
            true => self.open_again(path, mode),
            false => self.open_file(path, mode),
        };
        if let Ok(Opened::Folder(mut status, _)) = opened {
            self.folder.hide(&place, &mut status);
            let entries = self.folder.entries(&place).map_err(|error| self.too_many(error));
            opened = entries.map(|entries| Opened::Folder(status, entries));
        }
        if is_made && let Ok(Opened::File(file, status)) = &mut opened {
            file.set_permissions(permitted(mode.permissions))?;
            status.permissions = permitted(mode.permissions).mode();
        }
        if !matches!(opened, Ok(Opened::Folder(..))) {
            // One that may not be read is there.
            let is_there = opened.is_ok() || held::metadata(path).is_ok_and(|it| it.is_file());
            self.note_input(path, is_there);
        }
        opened
    }

    fn status(&mut self, name: &str, follow: bool) -> io::Result<Status> {
        self.await_earlier();
        let place = self.place(name, follow)?;
        let mut found = held::metadata(&place.path).map(|found| self.folder.status(&found));
        match &mut found {
            Ok(Status { kind: Kind::File, .. }) => self.note_input(&place.path, true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.note_input(&place.path, false);
            }
            Err(_) => {}
            Ok(status) => self.folder.hide(&place, status),
        }
        found.map_err(|error| self.too_many(error))
    }

    fn read_link(&mut self, name: &str) -> io::Result<String> {
        self.await_earlier();
        let Place { path, .. } = self.place(name, false)?;
        let text = hold(&path).and_then(|held| held.read_link());
        let text = text.map_err(|error| self.too_many(error))?;
        Ok(self.folder.shown_text(&text))
    }

    fn enter(&mut self, name: &str) -> io::Result<String> {
        self.await_earlier();
        let place = self.place(name, true)?;
        let found = held::metadata(&place.path).map_err(|error| self.too_many(error))?;
        match found.is_dir() {
            true => Ok(self.folder.shown_place(&place)),
            false => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    fn reopen(&mut self, name: &str, file: &File, mode: OpenMode) -> io::Result<File> {
        self.await_earlier();
        match self.may_write(name, file) {
            true => {
                let wanted = OpenMode { write: mode.write || mode.truncate, ..mode };
                permits(file.metadata()?.permissions().mode(), wanted)?;
            }
            false if mode.write || mode.truncate => {
                return Err(io::ErrorKind::ReadOnlyFilesystem.into());
            }
            false => {}
        }
        let path = held::path_of(file);
        if mode.truncate && !mode.write {
            open::open(&path, OpenMode { read: false, write: true, ..mode })?;
        }
        let mode = OpenMode { create: false, create_new: false, ..mode };
        open::open(&path, mode).map_err(|error| self.too_many(error))
    }

    fn name_of(&mut self, file: &File) -> io::Result<String> {
        self.await_earlier();
        let path = held::read_link_of(file)?;
        self.folder.shown_open(&path).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn permit(&mut self, name: &str, file: &File, permissions: u32) -> io::Result<()> {
        self.await_earlier();
        match self.may_write(name, file) {
            true => held::permit(file, permitted(permissions)),
            false => Err(io::ErrorKind::ReadOnlyFilesystem.into()),
        }
    }

    fn open_path(&mut self, name: &str, follow: bool) -> io::Result<(File, Status)> {
        self.await_earlier();
        let Place { path, .. } = self.place(name, follow)?;
        let file = held::open_path(&path).map_err(|error| self.too_many(error))?;
        let status = self.folder.status(&file.metadata()?);
        Ok((file, status))
    }

    fn read_open_link(&mut self, link: &File) -> io::Result<String> {
        self.await_earlier();
        Ok(self.folder.shown_text(&held::read_open_link(link)?))
    }

    fn link_open(&mut self, name: &str, file: &File, to: &str) -> io::Result<()> {
        self.await_earlier();
        match self.may_write(name, file) {
            true => self.link_file(file, to).map_err(|error| self.too_many(error)),
            false => Err(io::ErrorKind::ReadOnlyFilesystem.into()),
        }
    }

    fn change(&mut self, change: &Change<'_>) -> io::Result<()> {
        self.await_earlier();
        self.change_name(change).map_err(|error| self.too_many(error))
    }
}
