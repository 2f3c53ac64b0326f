//! A rack on this host, as a directory: one socket per node, one file per context.
//!
//! ```text
//! <base>/<rack>/rack.json        number of nodes, version, rack file
//!               rack.toml        of a rack over several hosts: the rack file as it was when the rack was made
//!               node-0.sock      socket of the daemon of node 0
//!               node-0.lock      held (flock) by that daemon while it lives
//!               node-0.log
//!               contexts/7       its permissions decide which users may join context 7 (soNUMA §5.1)
//!               contexts/123.id  incarnation of the context whose file has inode 123
//!               contexts/123.run held (flock) by the runs that the context belongs to, see [`crate::held_context`]
//! ```
//!
//! [`crate::trust`] decides whose `<base>` a program may use.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use rackmem_abi::MAX_NODES;
pub use rackmem_rmc::MAX_CONTEXTS;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::rack_file::RackFile;
use crate::trust;

/// Name of the rack that is meant when none is given.
pub const DEFAULT_RACK: &str = "default";

/// Longest path of a Unix socket, without its final zero.
const MAX_SOCKET_PATH_BYTES: usize = 107;

/// Permission bits of a context that let others than its owner join.
const FOR_OTHERS: u32 = 0o077;

/// Contents of `rack.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    /// Nodes of the rack.
    pub nodes: u16,
    /// Version of rackmem that made it.
    pub version: String,
    /// Absolute path of the rack file, if the rack stretches over several hosts.
    #[serde(default)]
    pub rack_file: Option<PathBuf>,
}

/// The directory of a rack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rack {
    dir: PathBuf,
    name: String,
}

/// Longest name of a rack.
const MAX_NAME_BYTES: usize = 64;

/// The directory that holds all racks of this user, and whether it was named by `$RACKMEM_DIR`.
fn base() -> (PathBuf, bool) {
    let from = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(dir) = from("RACKMEM_DIR") {
        return (dir.into(), true);
    }
    let uid = rustix::process::geteuid();
    if uid.is_root() {
        return ("/run/rackmem".into(), false);
    }
    // `sudo` and `su` may leave another user's.
    let is_ours = |dir: &PathBuf| fs::metadata(dir).is_ok_and(|found| found.uid() == uid.as_raw());
    match from("XDG_RUNTIME_DIR").map(PathBuf::from).filter(is_ours) {
        Some(dir) => (dir.join("rackmem"), false),
        None => (format!("/tmp/rackmem-{}", uid.as_raw()).into(), false),
    }
}

/// The directory that holds all racks of this user: `$RACKMEM_DIR`; else, for root, `/run/rackmem`;
/// for others `$XDG_RUNTIME_DIR/rackmem` if that is theirs, else `/tmp/rackmem-<uid>`.
pub fn base_dir() -> PathBuf {
    base().0
}

/// Makes [`base_dir`] if it is missing, and opens it.
///
/// # Errors
/// `EACCES`: it is not to be trusted, see [`crate::trust`].
pub fn make_base_dir() -> Result<File> {
    let (dir, named) = base();
    trust::make_dir(&dir, named).map_err(|error| cannot_use(&dir, error))
}

fn cannot_use(dir: &Path, error: io::Error) -> Error {
    Error::io(format!("cannot use {}", dir.display()), error)
}

/// Checks a name that becomes that of a file and is shown on terminals: letters, digits, `.`, `_` and
/// `-`, of which the last and the first do not begin it.
///
/// # Errors
/// It is something else, empty, or longer than 64 bytes.
pub fn check_name(name: &str) -> Result<()> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    let begins_well = !name.is_empty() && !name.starts_with(['-', '.']);
    if begins_well && name.len() <= MAX_NAME_BYTES && name.bytes().all(is_plain) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{name:?} is not a name: use at most {MAX_NAME_BYTES} letters, digits, '.', '_' and '-', and begin \
         with a letter, a digit or '_'"
    )))
}

/// Incarnation of contexts that are made by hand on each host of a rack: the number says it all. 0 and the time of
/// another incarnation are out of reach.
fn agreed_incarnation(ctx_id: u16) -> u64 {
    u64::MAX - u64::from(ctx_id)
}

fn new_incarnation() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_nanos() as u64
}

/// A part of a name that no other thread or process uses at the time.
fn unique() -> String {
    static MADE: AtomicU64 = AtomicU64::new(0);
    format!("{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed))
}

pub(crate) fn check_ctx_id(ctx_id: u16) -> Result<()> {
    match usize::from(ctx_id) < MAX_CONTEXTS {
        true => Ok(()),
        false => Err(Error::invalid(format!(
            "context {ctx_id} is out of range: 0 to {}",
            MAX_CONTEXTS - 1
        ))),
    }
}

impl Rack {
    /// The rack of this name, whether it exists or not; `None`: `$RACKMEM_RACK`, else `default`.
    ///
    /// # Errors
    /// [`check_name`] refuses the name, it makes socket paths too long, or the directory of all racks
    /// is not to be trusted (see [`crate::trust`]).
    pub fn named(name: Option<&str>) -> Result<Rack> {
        let name = match name {
            Some(name) => name.to_owned(),
            None => std::env::var("RACKMEM_RACK").unwrap_or_else(|_| DEFAULT_RACK.to_owned()),
        };
        check_name(&name)?;
        let (base, named) = base();
        match trust::open_dir(&base, named) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(cannot_use(&base, error));
            }
            _ => {}
        }
        let rack = Rack { dir: base.join(&name), name };
        let socket = rack.socket_path(MAX_NODES as u16 - 1);
        if socket.as_os_str().len() > MAX_SOCKET_PATH_BYTES {
            return Err(Error::invalid(format!(
                "'{}' is too long for a socket: set RACKMEM_DIR to a shorter path",
                socket.display()
            )));
        }
        Ok(rack)
    }

    /// Makes the directory of a rack of `nodes` nodes.
    ///
    /// # Errors
    /// It exists already, or the file system refuses.
    pub fn create(&self, nodes: u16) -> Result<()> {
        self.create_described(nodes, None)
    }

    /// Makes the directory of this host's nodes of a rack over several hosts.
    ///
    /// # Errors
    /// As [`Rack::create`].
    pub fn create_over_hosts(&self, file: &RackFile) -> Result<()> {
        self.create_described(file.node_count(), Some(file))
    }

    fn create_described(&self, nodes: u16, file: Option<&RackFile>) -> Result<()> {
        make_base_dir()?;
        let builder = || fs::DirBuilder::new();
        let make = || -> io::Result<()> {
            builder().mode(0o755).create(&self.dir)?;
            builder().mode(0o755).create(self.contexts_dir())?;
            if let Some(file) = file {
                fs::copy(&file.path, self.rack_file_copy())?;
            }
            let rack_file = file.map(|file| file.path.clone());
            let version = env!("CARGO_PKG_VERSION").to_owned();
            let description = Description { nodes, version, rack_file };
            // The name appears with its contents in it.
            let partial = self.dir.join("rack.json.partial");
            fs::write(&partial, serde_json::to_vec(&description)?)?;
            fs::rename(partial, self.dir.join("rack.json"))
        };
        make().map_err(|error| Error::io(format!("cannot create {}", self.dir.display()), error))
    }

    /// Removes the directory and everything in it.
    ///
    /// # Errors
    /// Errors of the file system; a missing directory is none.
    pub fn remove(&self) -> Result<()> {
        match fs::remove_dir_all(&self.dir) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Error::io(format!("cannot remove {}", self.dir.display()), error))
            }
            _ => Ok(()),
        }
    }

    /// Reads `rack.json`.
    ///
    /// # Errors
    /// There is no such rack, or its `rack.json` is damaged.
    pub fn describe(&self) -> Result<Description> {
        let path = self.dir.join("rack.json");
        let bytes = fs::read(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Error::no_rack(&self.name),
            _ => Error::io(format!("cannot read {}", path.display()), error),
        })?;
        serde_json::from_slice(&bytes)
            .map_err(|error| Error::invalid(format!("{} is damaged: {error}", path.display())))
    }

    /// The rack's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The rack's directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Whether this rack was made from a file with the same text.
    pub fn is_made_from(&self, file: &RackFile) -> bool {
        let texts =
            fs::read(self.rack_file_copy()).and_then(|made| Ok((made, fs::read(&file.path)?)));
        texts.is_ok_and(|(made, now)| made == now)
    }

    fn rack_file_copy(&self) -> PathBuf {
        self.dir.join("rack.toml")
    }

    /// Path of the socket of a node's daemon.
    pub fn socket_path(&self, nid: u16) -> PathBuf {
        self.dir.join(format!("node-{nid}.sock"))
    }

    /// Path of the file that the daemon of a node holds locked while it lives; contains its process number.
    pub fn lock_path(&self, nid: u16) -> PathBuf {
        self.dir.join(format!("node-{nid}.lock"))
    }

    /// Process that is or was the daemon of a node.
    pub fn daemon_pid(&self, nid: u16) -> Option<i32> {
        fs::read_to_string(self.lock_path(nid)).ok()?.trim().parse().ok()
    }

    /// Path of the log of a node's daemon.
    pub fn log_path(&self, nid: u16) -> PathBuf {
        self.dir.join(format!("node-{nid}.log"))
    }

    fn contexts_dir(&self) -> PathBuf {
        self.dir.join("contexts")
    }

    /// The file that stands for a context.
    pub fn context_path(&self, ctx_id: u16) -> PathBuf {
        self.contexts_dir().join(ctx_id.to_string())
    }

    /// Path of the file with the incarnation of the context whose file has this inode: a context number
    /// can be used again. The incarnation is not in the context's file, because members may write that.
    fn incarnation_path(&self, inode: u64) -> PathBuf {
        self.contexts_dir().join(format!("{inode}.id"))
    }

    /// Path of the file that the runs hold locked which the context belongs to.
    pub(crate) fn run_path(&self, inode: u64) -> PathBuf {
        self.contexts_dir().join(format!("{inode}.run"))
    }

    /// Incarnation of the context whose file has this inode: it differs from those of other contexts with the same
    /// `ctx_id` as long as the file is held open. 0 for every file that was made by hand.
    pub fn incarnation(&self, inode: u64) -> u64 {
        let text = fs::read_to_string(self.incarnation_path(inode)).unwrap_or_default();
        text.trim().parse().unwrap_or(0)
    }

    /// Creates a context; the file permissions `mode` decide which users may join it. If other users than the owner
    /// may, they may search the directories from now on. In a rack over several hosts its incarnation is that of every
    /// context with this number, so that commands on several hosts make the same context.
    ///
    /// # Errors
    /// It exists, its number is too large, or the file system refuses.
    pub fn create_context(&self, ctx_id: u16, mode: u32) -> Result<()> {
        let is_over_hosts = self.describe().is_ok_and(|rack| rack.rack_file.is_some());
        let incarnation =
            if is_over_hosts { agreed_incarnation(ctx_id) } else { new_incarnation() };
        self.create_context_with_incarnation(ctx_id, mode, incarnation)
    }

    /// Creates a context of this incarnation, which hosts have agreed on.
    ///
    /// # Errors
    /// As [`Rack::create_context`].
    pub fn create_context_with_incarnation(
        &self,
        ctx_id: u16,
        mode: u32,
        incarnation: u64,
    ) -> Result<()> {
        check_ctx_id(ctx_id)?;
        let made = self.link_context(ctx_id, mode, incarnation, |_| Ok(()));
        made.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => {
                Error::invalid(format!("context {ctx_id} exists already"))
            }
            _ => self.cannot_create(ctx_id, error),
        })
    }

    pub(crate) fn cannot_create(&self, ctx_id: u16, error: io::Error) -> Error {
        let path = self.context_path(ctx_id);
        Error::io(format!("cannot create context {ctx_id} ({})", path.display()), error)
    }

    /// Makes a context whose files appear at once: a process that joined between them would be in another context.
    /// `prepare` gets the inode of the context's file before others see it.
    pub(crate) fn link_context<T>(
        &self,
        ctx_id: u16,
        mode: u32,
        incarnation: u64,
        prepare: impl FnOnce(u64) -> io::Result<T>,
    ) -> io::Result<T> {
        let path = self.context_path(ctx_id);
        let unborn = path.with_extension(format!("{}.new", unique()));
        let make = || -> io::Result<T> {
            let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&unborn)?;
            // The process's umask must not take away requested permissions.
            file.set_permissions(fs::Permissions::from_mode(mode))?;
            let inode = file.metadata()?.ino();
            fs::write(self.incarnation_path(inode), format!("{incarnation}\n"))?;
            let link = || {
                let prepared = prepare(inode)?;
                fs::hard_link(&unborn, &path).map(|()| prepared)
            };
            let prepared = link().inspect_err(|_| self.forget(inode))?;
            if mode & FOR_OTHERS != 0 {
                [&base_dir(), &self.dir, &self.contexts_dir()]
                    .into_iter()
                    .try_for_each(|dir| trust::open_to_others(dir))?;
            }
            Ok(prepared)
        };
        let made = make();
        let _ = fs::remove_file(&unborn);
        made
    }

    /// Removes the files beside that of a context. A file made by hand has none.
    fn forget(&self, inode: u64) {
        let _ = fs::remove_file(self.incarnation_path(inode));
        let _ = fs::remove_file(self.run_path(inode));
    }

    /// Creates a context with a number that is free, and returns the number.
    ///
    /// # Errors
    /// As [`Rack::create_context`], or all numbers are taken.
    pub fn create_any_context(&self, mode: u32) -> Result<u16> {
        for ctx_id in 0..MAX_CONTEXTS as u16 {
            if !self.context_path(ctx_id).exists() && self.create_context(ctx_id, mode).is_ok() {
                return Ok(ctx_id);
            }
        }
        // The error of the last attempt says why none works.
        self.create_context(MAX_CONTEXTS as u16 - 1, mode).map(|()| MAX_CONTEXTS as u16 - 1)
    }

    /// Removes a context: no process can join it any more; members stay.
    ///
    /// # Errors
    /// There is no such context, or the file system refuses.
    pub fn remove_context(&self, ctx_id: u16) -> Result<()> {
        let path = self.context_path(ctx_id);
        let gone = path.with_extension(format!("{}.gone", unique()));
        fs::rename(&path, &gone).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Error::no_context(ctx_id, &self.name),
            _ => Error::io(format!("cannot remove context {ctx_id}"), error),
        })?;
        // The files beside it go first: a new context could get the inode, and with it their names.
        if let Ok(found) = fs::metadata(&gone) {
            self.forget(found.ino());
        }
        let removed = fs::remove_file(&gone);
        removed.map_err(|error| Error::io(format!("cannot remove context {ctx_id}"), error))
    }

    /// Opens the file of a context: the proof of the right to join it.
    ///
    /// # Errors
    /// There is no such context, or no permission.
    pub fn open_context(&self, ctx_id: u16, read_only: bool) -> Result<File> {
        let path = self.context_path(ctx_id);
        OpenOptions::new().read(true).write(!read_only).open(&path).map_err(|error| {
            match error.kind() {
                io::ErrorKind::NotFound => match self.describe() {
                    Ok(_) => Error::no_context(ctx_id, &self.name),
                    Err(no_rack) => no_rack,
                },
                io::ErrorKind::PermissionDenied => Error::no_permission(ctx_id, &path),
                _ => Error::io(format!("cannot open {}", path.display()), error),
            }
        })
    }

    /// The contexts of the rack, in order.
    pub fn contexts(&self) -> Vec<u16> {
        let entries = fs::read_dir(self.contexts_dir()).into_iter().flatten().flatten();
        let mut ids: Vec<u16> =
            entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        ids.sort_unstable();
        ids
    }
}

#[cfg(test)]
impl Rack {
    /// A rack below this directory, whatever the environment says.
    pub(crate) fn in_directory(base: &Path, name: &str) -> Rack {
        let rack = Rack { dir: base.join(name), name: name.to_owned() };
        fs::create_dir_all(rack.contexts_dir()).unwrap();
        rack
    }

    /// Files of contexts, and those beside them.
    pub(crate) fn left_in_contexts(&self) -> usize {
        fs::read_dir(self.contexts_dir()).unwrap().count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain() {
        for good in ["default", "a", "A-1_b.c", "_", "7", &"x".repeat(64)] {
            check_name(good).unwrap();
        }
        for bad in [
            "",
            "a b",
            "a;b",
            "-x",
            ".",
            "..",
            ".x",
            "a/b",
            "\u{1b}[2J",
            "ä",
            "a\n",
            &"x".repeat(65),
        ] {
            let error = check_name(bad).unwrap_err();
            assert_eq!(error.errno(), libc::EINVAL);
            assert!(!error.to_string().contains('\u{1b}'), "{error}");
        }
    }
}
