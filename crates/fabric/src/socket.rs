//! TCP sockets between hosts, and waiting for sockets.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

/// Time after which a silent host counts as lost: data without an acknowledgement, or probes without an answer.
pub const SILENCE: Duration = Duration::from_millis(1500);

/// Interval of probes on an idle connection; the kernel takes whole seconds.
const PROBE: Duration = Duration::from_secs(1);

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 128;

fn socket(address: &SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socket_with(family, SocketType::STREAM, flags, None)?)
}

/// Listens at an address.
///
/// # Errors
/// The address is in use, or not one of this host.
pub fn listen(address: &SocketAddr) -> io::Result<OwnedFd> {
    let fd = socket(address)?;
    sockopt::set_socket_reuseaddr(&fd, true)?;
    rustix::net::bind(&fd, address)?;
    rustix::net::listen(&fd, BACKLOG)?;
    Ok(fd)
}

/// Takes a waiting connection; it does not block.
///
/// # Errors
/// `WouldBlock` if none waits.
pub fn accept(listener: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let fd = rustix::net::accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
    watch(fd.as_fd(), SILENCE)?;
    Ok(fd)
}

/// Begins to connect from one address to another: the socket becomes writable when it is connected, or has failed.
///
/// # Errors
/// The error of the kernel.
pub fn connect(from: &SocketAddr, to: &SocketAddr) -> io::Result<OwnedFd> {
    let fd = socket(to)?;
    // The address of this node, whatever the route, so that its peers know it.
    let mut any_port = *from;
    any_port.set_port(0);
    rustix::net::bind(&fd, &any_port)?;
    watch(fd.as_fd(), SILENCE)?;
    match rustix::net::connect(&fd, to) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(fd),
        Err(error) => Err(error.into()),
    }
}

/// The error with which connecting has failed.
///
/// # Errors
/// That error.
pub fn connected(fd: BorrowedFd<'_>) -> io::Result<()> {
    Ok(sockopt::socket_error(fd)??)
}

/// Lets the peer of an accepted connection take nothing in for as long as it likes: it is a program, which may do
/// something else. Another connection tells whether its host is silent.
///
/// # Errors
/// The error of the kernel.
pub fn allow_pauses(fd: BorrowedFd<'_>) -> io::Result<()> {
    Ok(sockopt::set_tcp_user_timeout(fd, 0)?)
}

/// Ends a connection for all its holders in this process.
pub fn end(fd: BorrowedFd<'_>) {
    let _ = rustix::net::shutdown(fd, rustix::net::Shutdown::Both);
}

/// The round trip of a connection in microseconds, as the kernel measures it by acknowledgements.
pub fn round_trip_us(fd: BorrowedFd<'_>) -> Option<f64> {
    // SAFETY: plain integers, for which zeros are good.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut length = size_of_val(&info) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes of the struct.
    let got = unsafe {
        let to = (&raw mut info).cast();
        libc::getsockopt(fd.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, to, &raw mut length)
    };
    (got == 0 && info.tcpi_rtt != 0).then(|| f64::from(info.tcpi_rtt))
}

/// Small packets leave at once. A host that is silent for so long ends the connection, whether or not anything is
/// sent. So does a process that takes nothing in for so long while its socket is full; one that is only stopped with
/// room left does not, for its kernel answers.
///
/// # Errors
/// The error of the kernel.
pub fn watch(fd: BorrowedFd<'_>, silence: Duration) -> io::Result<()> {
    sockopt::set_tcp_nodelay(fd, true)?;
    sockopt::set_socket_keepalive(fd, true)?;
    sockopt::set_tcp_keepidle(fd, PROBE)?;
    sockopt::set_tcp_keepintvl(fd, PROBE)?;
    sockopt::set_tcp_user_timeout(fd, silence.as_millis() as u32)?;
    Ok(())
}

/// Waits until something of `wanted` can be done, or the time is over: then nothing is set.
///
/// # Errors
/// The error of the kernel.
pub fn wait(fd: BorrowedFd<'_>, wanted: PollFlags, patience: Duration) -> io::Result<PollFlags> {
    let deadline = Instant::now() + patience;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let mut fds = [PollFd::from_borrowed_fd(fd, wanted)];
        match poll(&mut fds, Some(&timespec(left))) {
            Ok(_) => return Ok(fds[0].revents()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Time since `begun` beyond `patience`. For so long this thread did not run, though it had something to do. It is not
/// the silence of a peer: this thread could not have heard it.
pub fn delay(begun: Instant, patience: Duration) -> Duration {
    begun.elapsed().saturating_sub(patience)
}

/// A duration as the kernel takes it.
pub fn timespec(duration: Duration) -> Timespec {
    Timespec { tv_sec: duration.as_secs() as _, tv_nsec: duration.subsec_nanos() as _ }
}
