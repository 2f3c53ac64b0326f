//! Messages of the control plane: JSON with file descriptors, over Unix sequenced-packet sockets.
//!
//! Set-up is rare, so the format is simple: a message is one packet (no framing to get wrong), and
//! a person can read it.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use serde::{Serialize, de::DeserializeOwned};

/// Longest message in bytes; a status of a busy node is the longest.
pub const MAX_MESSAGE_BYTES: usize = 64 * 1024;

/// Most descriptors that come with one message.
pub const MAX_FDS: usize = 4;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 128;

/// Time for which a killed process may still listen: its locks are free before its sockets are.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// Pause between two looks at a socket; each look is a connection that a live process has to take.
const END_PAUSE: Duration = Duration::from_millis(50);

/// One end of a connection.
#[derive(Debug)]
pub struct Channel(OwnedFd);

/// A message and the descriptors that came with it.
#[derive(Debug)]
pub struct Received<T> {
    /// The deserialised message.
    pub message: T,
    /// At most [`MAX_FDS`].
    pub fds: Vec<OwnedFd>,
}

fn socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    Ok(rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

/// Listens at `path`, replacing a dead socket.
///
/// # Errors
/// `AlreadyExists`: the path names something else than a socket. `AddrInUse`: another process listens
/// there. Or the error of the kernel.
pub fn listen(path: &Path) -> io::Result<OwnedFd> {
    let fd = socket()?;
    remove_dead_socket(path)?;
    rustix::net::bind(&fd, &SocketAddrUnix::new(path)?)?;
    rustix::net::listen(&fd, BACKLOG)?;
    rustix::io::ioctl_fionbio(&fd, true)?;
    Ok(fd)
}

/// Removes `path` if it is a dead socket.
fn remove_dead_socket(path: &Path) -> io::Result<()> {
    let refused = |kind, what| Err(io::Error::new(kind, what));
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
        Ok(there) if there.file_type().is_socket() => {}
        Ok(_) => {
            let what = "what has that name is no socket: move it away";
            return refused(io::ErrorKind::AlreadyExists, what);
        }
    }
    let deadline = Instant::now() + END_TIMEOUT;
    while !is_dead(path)? {
        if Instant::now() > deadline {
            let what = "another process listens there: `ss -xlp` names it";
            return refused(io::ErrorKind::AddrInUse, what);
        }
        std::thread::sleep(END_PAUSE);
    }
    remove_socket(path)
}

/// Whether a socket is dead: no process listens, so the kernel refuses connections to its path.
fn is_dead(path: &Path) -> io::Result<bool> {
    let fd = socket()?;
    rustix::io::ioctl_fionbio(&fd, true)?;
    match rustix::net::connect(&fd, &SocketAddrUnix::new(path)?) {
        Err(rustix::io::Errno::CONNREFUSED | rustix::io::Errno::NOENT) => Ok(true),
        _ => Ok(false),
    }
}

/// Removes a socket's name; anything else that has it stays.
///
/// # Errors
/// The error of the kernel.
pub fn remove_socket(path: &Path) -> io::Result<()> {
    let removed = std::fs::symlink_metadata(path).and_then(|there| {
        if there.file_type().is_socket() { std::fs::remove_file(path) } else { Ok(()) }
    });
    removed
        .or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

/// Takes a waiting connection; it does not block.
///
/// # Errors
/// `WouldBlock` if none waits.
pub fn accept(listener: BorrowedFd<'_>) -> io::Result<Channel> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(Channel(rustix::net::accept_with(listener, flags)?))
}

impl Channel {
    /// Connects without waiting; the channel blocks afterwards.
    ///
    /// # Errors
    /// `NotFound` or `ConnectionRefused` if no process listens, `WouldBlock` if too many connections wait
    /// to be accepted, `PermissionDenied` if a process of another user listens (see [`crate::trust`]), or
    /// another error of the kernel.
    pub fn connect(path: &Path) -> io::Result<Channel> {
        let fd = socket()?;
        rustix::io::ioctl_fionbio(&fd, true)?;
        rustix::net::connect(&fd, &SocketAddrUnix::new(path)?)?;
        rackmem_fabric::path::check_answerer(fd.as_fd(), path)?;
        rustix::io::ioctl_fionbio(&fd, false)?;
        Ok(Channel(fd))
    }

    /// Makes receiving fail with `WouldBlock` rather than wait.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn set_nonblocking(&self) -> io::Result<()> {
        Ok(rustix::io::ioctl_fionbio(&self.0, true)?)
    }

    /// Both ends of a connection.
    #[cfg(test)]
    pub fn pair() -> (Channel, Channel) {
        let flags = SocketFlags::CLOEXEC;
        let ends = rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
        let (one, other) = ends.unwrap();
        (Channel(one), Channel(other))
    }

    /// Waits until something can be received, or the time is over; `false`: it is.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn wait(&self, patience: Duration) -> io::Result<bool> {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let patience = Timespec::try_from(patience).map_err(|_| io::ErrorKind::InvalidInput)?;
        match poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&patience)) {
            Ok(ready) => Ok(ready != 0),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Sends a message with descriptors. A receiver that does not read makes it fail, not wait.
    ///
    /// # Errors
    /// The other end is gone or does not read, or the message is too long.
    pub fn send(&self, message: &impl Serialize, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let bytes = serde_json::to_vec(message)?;
        if bytes.len() > MAX_MESSAGE_BYTES || fds.len() > MAX_FDS {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "message too long"));
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            ancillary.push(SendAncillaryMessage::ScmRights(fds));
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        rustix::net::sendmsg(&self.0, &[IoSlice::new(&bytes)], &mut ancillary, flags)?;
        Ok(())
    }

    /// Receives a message.
    ///
    /// # Errors
    /// `UnexpectedEof` once the other end is closed; `InvalidData` if it is no such message; `EMFILE` if
    /// the message's descriptors exceed this process's limit on open files.
    pub fn receive<T: DeserializeOwned>(&self) -> io::Result<Received<T>> {
        let mut bytes = vec![0; MAX_MESSAGE_BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut buffers = [IoSliceMut::new(&mut bytes)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        let got = rustix::net::recvmsg(&self.0, &mut buffers, &mut ancillary, flags)?;
        let fds: Vec<OwnedFd> = ancillary
            .drain()
            .filter_map(|message| match message {
                RecvAncillaryMessage::ScmRights(fds) => Some(fds),
                _ => None,
            })
            .flatten()
            .collect();
        if got.bytes == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if got.flags.contains(ReturnFlags::TRUNC) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "message too long"));
        }
        if got.flags.contains(ReturnFlags::CTRUNC) {
            // The kernel leaves out what there is no room for: in the buffer, or in the process.
            return Err(if fds.len() == MAX_FDS {
                io::Error::new(io::ErrorKind::InvalidData, "too many descriptors")
            } else {
                io::Error::from_raw_os_error(libc::EMFILE)
            });
        }
        let message = serde_json::from_slice(&bytes[..got.bytes])?;
        Ok(Received { message, fds })
    }

    /// Ends the connection for both ends, which notice it when they next receive.
    pub fn hang_up(&self) {
        let _ = rustix::net::shutdown(&self.0, rustix::net::Shutdown::Both);
    }

    /// Whether the other end has hung up.
    pub fn is_hung_up(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut fds = [PollFd::new(&self.0, PollFlags::RDHUP)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        matches!(poll(&mut fds, Some(&now)), Ok(n) if n > 0)
            && fds[0].revents().intersects(PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR)
    }

    /// Process and user at the other end, as the kernel knows them.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn peer(&self) -> io::Result<rustix::net::UCred> {
        Ok(rustix::net::sockopt::socket_peercred(&self.0)?)
    }
}

#[cfg(fuzzing)]
impl From<OwnedFd> for Channel {
    fn from(fd: OwnedFd) -> Channel {
        Channel(fd)
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sockets_of_the_dead_are_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("node-0.sock");
        let failure = || listen(&path).unwrap_err().kind();
        std::fs::write(&path, "mine").unwrap();
        assert_eq!(failure(), io::ErrorKind::AlreadyExists);
        remove_socket(&path).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"mine");
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(dir.path().join("elsewhere"), &path).unwrap();
        assert_eq!(failure(), io::ErrorKind::AlreadyExists);
        std::fs::remove_file(&path).unwrap();
        let first = listen(&path).unwrap();
        assert_eq!(failure(), io::ErrorKind::AddrInUse);
        Channel::connect(&path).expect("the first is still found");
        drop(first);
        let _second = listen(&path).unwrap();
        Channel::connect(&path).unwrap();
        remove_socket(&path).unwrap();
        remove_socket(&path).unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn one_that_still_ends_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("node-0.sock");
        let ending = listen(&path).unwrap();
        std::thread::scope(|scope| {
            let next = scope.spawn(|| listen(&path));
            // The next one has looked once its connection waits to be accepted.
            while accept(ending.as_fd()).is_err() {
                assert!(!next.is_finished(), "it has not looked whether somebody listens");
                std::thread::yield_now();
            }
            drop(ending);
            next.join().unwrap().unwrap();
        });
    }
}
