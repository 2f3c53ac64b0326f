//! Sockets that have a name in the file system: made without a moment in which nobody listens, in place of a dead
//! process but never of anything that is no socket, and removed only by the process that made them.

use std::fs::Metadata;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::random;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 128;

/// Permission bits that let others than the owner change a directory.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Attempts to take a name that other processes may take first.
const MAX_ATTEMPTS: u32 = 100;

/// The sockets that a listener may replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replace {
    /// One at which nobody listens.
    Dead,
    /// Any: the caller has a lock, and the present listener is about to end.
    Any,
}

/// The name of a listening socket. Another's is not ours to remove.
#[derive(Debug)]
pub struct Name {
    path: PathBuf,
    file: (u64, u64),
}

impl Name {
    /// Removes the name, if it is still this socket's.
    pub fn remove(&self) {
        if std::fs::symlink_metadata(&self.path).is_ok_and(|there| identity(&there) == self.file) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn identity(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

fn new_socket(kind: SocketType) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None)?)
}

/// Listens at a path, whose file gets these permissions.
///
/// # Errors
/// `AddrInUse`: somebody listens there. `AlreadyExists`: the name is that of a file that is no socket. Otherwise the
/// error of the kernel.
pub fn listen(
    path: &Path,
    kind: SocketType,
    mode: u32,
    replace: Replace,
) -> io::Result<(OwnedFd, Name)> {
    let fd = new_socket(kind)?;
    let unborn = unborn(path)?;
    rustix::net::bind(&fd, &SocketAddrUnix::new(&unborn)?)?;
    let made = name(&fd, &unborn, path, kind, mode, replace);
    if made.is_err() {
        let _ = std::fs::remove_file(&unborn);
    }
    Ok((fd, made?))
}

fn name(
    fd: &OwnedFd,
    unborn: &Path,
    path: &Path,
    kind: SocketType,
    mode: u32,
    replace: Replace,
) -> io::Result<Name> {
    // Nobody can connect before it listens, and it does so with the permissions already there.
    std::fs::set_permissions(unborn, std::fs::Permissions::from_mode(mode))?;
    rustix::net::listen(fd, BACKLOG)?;
    let file = identity(&std::fs::symlink_metadata(unborn)?);
    take_name(unborn, path, kind, replace)?;
    Ok(Name { path: path.to_owned(), file })
}

/// A name beside the path until the socket listens.
fn unborn(path: &Path) -> io::Result<PathBuf> {
    let nonce = random::nonce()?;
    let [a, b, c, d, ..] = nonce;
    Ok(path.with_file_name(format!(".{a:02x}{b:02x}{c:02x}{d:02x}.new")))
}

/// Gives a socket its name: the path is at no time without a socket, nor with one at which nobody listens yet.
fn take_name(unborn: &Path, path: &Path, kind: SocketType, replace: Replace) -> io::Result<()> {
    for _ in 0..MAX_ATTEMPTS {
        if is_vacant(path, kind, replace)? {
            match rustix::fs::renameat_with(CWD, unborn, CWD, path, RenameFlags::NOREPLACE) {
                Err(rustix::io::Errno::EXIST) => continue,
                // Some file systems cannot do that.
                Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {}
                renamed => return Ok(renamed?),
            }
        }
        return std::fs::rename(unborn, path);
    }
    Err(io::ErrorKind::AddrInUse.into())
}

/// Whether the name is free; if not, it is that of a socket that may be replaced.
fn is_vacant(path: &Path, kind: SocketType, replace: Replace) -> io::Result<bool> {
    let there = match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        there => there?,
    };
    if !there.file_type().is_socket() {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "what has that name is no socket: remove it, or choose another path",
        ));
    }
    if replace == Replace::Dead && !is_dead(path, kind) {
        return Err(io::ErrorKind::AddrInUse.into());
    }
    Ok(false)
}

/// Looks whether somebody listens at a path. It does not wait for one that takes nobody: that is
/// [`io::ErrorKind::WouldBlock`].
///
/// # Errors
/// The error of the kernel: `NotFound` if nothing is there, `ConnectionRefused` if nobody listens.
pub fn knock(path: &Path, kind: SocketType) -> io::Result<()> {
    Ok(rustix::net::connect(&new_socket(kind)?, &SocketAddrUnix::new(path)?)?)
}

/// Whether a path is that of a socket at which nobody listens.
pub fn is_dead(path: &Path, kind: SocketType) -> bool {
    let is_socket = |there: Metadata| there.file_type().is_socket();
    let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    std::fs::symlink_metadata(path).is_ok_and(is_socket) && knock(path, kind).is_err_and(refused)
}

/// Checks the user at the other end of `socket`, which is connected to the Unix socket `path`. Accepted are
/// the same user, root, and the owner of the socket's directory if only that user can write to it.
///
/// # Errors
/// `PermissionDenied` names the user that answers.
pub fn check_answerer(socket: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    let (uid, ours) = (
        rustix::net::sockopt::socket_peercred(socket)?.uid.as_raw(),
        rustix::process::geteuid().as_raw(),
    );
    if uid == 0 || uid == ours {
        return Ok(());
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let dir = std::fs::metadata(parent.unwrap_or(Path::new(".")))?;
    if uid == dir.uid() && dir.mode() & WRITABLE_BY_OTHERS == 0 {
        return Ok(());
    }
    let shown = path.display();
    let message =
        format!("user {uid} answers at {shown}, who is neither you nor root: remove that socket");
    Err(io::Error::new(io::ErrorKind::PermissionDenied, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: SocketType = SocketType::STREAM;

    #[test]
    fn only_sockets_of_the_dead_are_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("at");
        let listen = |replace| listen(&path, STREAM, 0o600, replace);
        let failure = |replace| listen(replace).unwrap_err().kind();
        for replace in [Replace::Dead, Replace::Any] {
            std::fs::write(&path, "mine").unwrap();
            assert_eq!(failure(replace), io::ErrorKind::AlreadyExists);
            assert_eq!(std::fs::read(&path).unwrap(), b"mine");
            std::fs::remove_file(&path).unwrap();
            std::os::unix::fs::symlink("/nowhere", &path).unwrap();
            assert_eq!(failure(replace), io::ErrorKind::AlreadyExists);
            std::fs::remove_file(&path).unwrap();
        }
        let (first, name) = listen(Replace::Dead).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(failure(Replace::Dead), io::ErrorKind::AddrInUse);
        drop(first);
        assert!(is_dead(&path, STREAM));
        let (_second, second_name) = listen(Replace::Dead).unwrap();
        name.remove();
        knock(&path, STREAM).unwrap();
        let (_third, _) = listen(Replace::Any).unwrap();
        second_name.remove();
        knock(&path, STREAM).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn of_many_that_want_a_name_one_gets_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("at");
        for _ in 0..50 {
            let start = std::sync::Barrier::new(4);
            let got = std::thread::scope(|scope| {
                let want = || {
                    start.wait();
                    listen(&path, STREAM, 0o600, Replace::Dead)
                };
                let wanting: Vec<_> = (0..4).map(|_| scope.spawn(want)).collect();
                wanting.into_iter().filter_map(|one| one.join().unwrap().ok()).collect::<Vec<_>>()
            });
            assert_eq!(got.len(), 1);
            got[0].1.remove();
        }
    }
}
