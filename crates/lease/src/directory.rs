//! The directory by which lenders and the monitor of a rack are found on a host. It works whether or not the rack is
//! up, and `rackmem down` does not touch it.
//!
//! ```text
//! <base>/.memory/<rack>/monitor.sock     socket of the monitor
//!                       monitor.lock     held (flock) by the monitor's process
//!                       lender-71-0.sock socket of a lender
//! ```

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rackmem::rack::{Rack, base_dir};
use rustix::fs::FlockOperation;
use rustix::net::SocketType;

use crate::error::{Error, Result};
use rackmem_fabric::net::path::{self, Replace};

/// The directory of a rack's lenders.
#[derive(Clone, Debug)]
pub struct Directory(PathBuf);

/// The right to be the monitor; given up when dropped.
#[derive(Debug)]
pub struct Lock {
    _file: File,
    path: PathBuf,
}

impl Directory {
    /// The directory of this rack's sockets.
    pub fn of(rack: &Rack) -> Directory {
        Directory(base_dir().join(".memory").join(rack.name()))
    }

    /// Makes it.
    fn create(&self) -> io::Result<()> {
        rackmem::rack::make_base_dir().map_err(io::Error::other)?;
        DirBuilder::new().recursive(true).mode(0o755).create(&self.0)
    }

    /// Does something that needs the directory, which others may remove at any time if it is empty.
    fn within<T>(&self, what: &Path, make: impl Fn() -> io::Result<T>) -> Result<T> {
        let mut attempt = 0;
        loop {
            match self.create().and_then(|()| make()) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && attempt < 100 => {
                    attempt += 1;
                }
                other => {
                    let cannot =
                        |error| Error::io(format!("cannot make {}", what.display()), error);
                    return other.map_err(cannot);
                }
            }
        }
    }

    /// Listens at a socket in it, in place of one that is there: its owner is dead or about to end.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn listen(&self, path: &Path, mode: u32) -> Result<OwnedFd> {
        let listen = || path::listen(path, SocketType::STREAM, mode, Replace::Any);
        self.within(path, listen).map(|(fd, _)| fd)
    }

    /// Path of the monitor's socket.
    pub fn monitor_socket(&self) -> PathBuf {
        self.0.join("monitor.sock")
    }

    /// A path for a lender of this process.
    pub fn lender_socket(&self) -> PathBuf {
        static LENDERS: AtomicU32 = AtomicU32::new(0);
        let number = LENDERS.fetch_add(1, Ordering::Relaxed);
        self.0.join(format!("lender-{}-{number}.sock", std::process::id()))
    }

    /// Tries to become the monitor; `None`: another process is.
    ///
    /// # Errors
    /// The error of the file system.
    pub fn lock(&self) -> Result<Option<Lock>> {
        let path = self.0.join("monitor.lock");
        let cannot = |error: io::Error| Error::io(format!("cannot lock {}", path.display()), error);
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true).mode(0o600);
        let file = self.within(&path, || options.open(&path))?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::AGAIN) => return Ok(None),
            Err(error) => return Err(cannot(error.into())),
        }
        // The last holder may have removed the file meanwhile: then this is not the lock.
        let ours = file.metadata().map_err(cannot)?.ino();
        match fs::metadata(&path) {
            Ok(now) if now.ino() == ours => Ok(Some(Lock { _file: file, path })),
            _ => Ok(None),
        }
    }

    /// Removes sockets of lenders at which nobody listens: their processes were killed.
    pub fn sweep(&self) {
        for path in self.files() {
            let name = name_of(&path);
            let is_unborn = name.starts_with('.') && name.ends_with(".new");
            if (is_lender_socket(&path) || is_unborn) && path::is_dead(&path, SocketType::STREAM) {
                let _ = fs::remove_file(&path);
            }
        }
    }

    /// Removes the files of a monitor that was killed, unless a lender is there: it will be the monitor.
    pub fn clear_dead_monitor(&self) {
        let socket = self.monitor_socket();
        if !path::is_dead(&socket, SocketType::STREAM) {
            return;
        }
        let Ok(Some(lock)) = self.lock() else { return };
        self.sweep();
        if !self.files().any(|path| is_lender_socket(&path)) {
            let _ = fs::remove_file(socket);
            lock.remove();
        }
    }

    fn files(&self) -> impl Iterator<Item = PathBuf> {
        fs::read_dir(&self.0).into_iter().flatten().flatten().map(|entry| entry.path())
    }

    /// Removes the directory if nothing is left in it, and the one that all racks share.
    pub fn remove_if_empty(&self) {
        let _ = fs::remove_dir(&self.0).and_then(|()| match self.0.parent() {
            Some(parent) => fs::remove_dir(parent),
            None => Ok(()),
        });
    }
}

fn name_of(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or("")
}

fn is_lender_socket(path: &Path) -> bool {
    let name = name_of(path);
    name.starts_with("lender-") && name.ends_with(".sock")
}

impl Lock {
    /// Gives up the right, and the file with it.
    pub fn remove(self) {
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn a_socket_is_there_while_another_takes_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let directory = Directory(dir.path().join("rack"));
        let path = directory.monitor_socket();
        let mut last = directory.listen(&path, 0o600).unwrap();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let looking = scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let error = path::knock(&path, SocketType::STREAM).err();
                    assert!(error.is_none_or(|error| error.kind() != io::ErrorKind::NotFound));
                }
            });
            for _ in 0..1000 {
                last = directory.listen(&path, 0o600).unwrap();
            }
            is_over.store(true, Ordering::Relaxed);
            looking.join().unwrap();
        });
        drop(last);
        assert_eq!(fs::read_dir(&directory.0).unwrap().count(), 1);
    }

    #[test]
    fn what_killed_lenders_have_left_is_swept_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let directory = Directory(dir.path().join("rack"));
        let at = |name: &str| directory.0.join(name);
        let _living = directory.listen(&at("lender-1-0.sock"), 0o600).unwrap();
        drop(directory.listen(&at("lender-2-0.sock"), 0o600).unwrap());
        drop(directory.listen(&at("others.sock"), 0o600).unwrap());
        fs::write(at("lender-3-0.sock"), "no socket").unwrap();
        directory.sweep();
        let entries = fs::read_dir(&directory.0).unwrap();
        let mut left: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["lender-1-0.sock", "lender-3-0.sock", "others.sock"]);
    }
}
