//! Sockets: listening, connecting, and how long a connection lives in silence.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::socket::{wait, watch};
use rustix::event::PollFlags;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};

use super::SILENCE;
use crate::address::Address;
use crate::descriptors::{beyond_limit, own};
use crate::error::{Error, Result};

/// Interval of the kernel's keep-alive probes while a network is silent.
const PROBE: Duration = Duration::from_secs(1);

/// Longest time between two retransmissions (`linux/tcp.h`, since 6.15).
const TCP_RTO_MAX_MS: libc::c_int = 44;

/// The addresses that a `HOST:PORT` stands for.
///
/// # Errors
/// There is no such host.
pub fn resolve(name: &str) -> Result<Vec<SocketAddr>> {
    let all = name.to_socket_addrs().map_err(|error| match error.kind() {
        io::ErrorKind::InvalidInput => Error::Refused(format!(
            "'{name}' is no address: write HOST:PORT, such as 10.9.0.1:7000"
        )),
        _ => Error::io(format!("cannot find '{name}'"), error),
    })?;
    Ok(all.collect())
}

/// Listens at a `HOST:PORT`; port 0 is any that is free. Returns the address with its port.
///
/// # Errors
/// There is no such host, or the kernel refuses.
pub fn listen_tcp(name: &str) -> Result<(OwnedFd, SocketAddr)> {
    let cannot = |error: io::Error| Error::listen(name, error);
    let listener = std::net::TcpListener::bind(&resolve(name)?[..]).map_err(cannot)?;
    listener.set_nonblocking(true).map_err(cannot)?;
    let address = listener.local_addr().map_err(cannot)?;
    Ok((listener.into(), address))
}

/// Takes a waiting connection; it does not block, and neither does the connection.
///
/// # Errors
/// `WouldBlock` if none waits.
pub fn accept(listener: BorrowedFd<'_>, is_local: bool) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = rustix::net::accept_with(listener, flags)?;
    if !is_local {
        watch(fd.as_fd(), SILENCE)?;
    }
    Ok(fd)
}

/// Connects within the time; the socket does not block afterwards.
///
/// # Errors
/// The error of the kernel.
pub fn connect(address: &Address, patience: Duration) -> io::Result<OwnedFd> {
    connect_visibly(address, patience).map(own)
}

fn connect_visibly(address: &Address, patience: Duration) -> io::Result<OwnedFd> {
    match address {
        Address::Unix(path) => {
            let fd = new_socket(AddressFamily::UNIX)?;
            let address = SocketAddrUnix::new(path)?;
            let deadline = Instant::now() + patience;
            // A full queue of connections is no reason to wait in the kernel for ever.
            while let Err(error) = rustix::net::connect(&fd, &address) {
                if error != rustix::io::Errno::AGAIN || Instant::now() > deadline {
                    return Err(error.into());
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            crate::path::check_answerer(fd.as_fd(), path)?;
            Ok(fd)
        }
        Address::Tcp(name) => {
            let all = name.to_socket_addrs()?;
            let mut last = io::Error::from(io::ErrorKind::NotFound);
            for address in all {
                match connect_tcp(address, patience) {
                    Ok(fd) => {
                        watch(fd.as_fd(), SILENCE)?;
                        return Ok(fd);
                    }
                    Err(error) => last = error,
                }
            }
            Err(last)
        }
    }
}

/// A stream socket that does not block.
fn new_socket(family: AddressFamily) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    beyond_limit(|| rustix::net::socket_with(family, SocketType::STREAM, flags, None))
}

fn connect_tcp(address: SocketAddr, patience: Duration) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let fd = new_socket(family)?;
    match rustix::net::connect(&fd, &address) {
        Ok(()) => return Ok(fd),
        Err(rustix::io::Errno::INPROGRESS | rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    if wait(fd.as_fd(), PollFlags::OUT, patience)?.is_empty() {
        return Err(io::Error::new(io::ErrorKind::TimedOut, "connection timed out"));
    }
    sockopt::socket_error(&fd)?.map_err(io::Error::from).map(|()| fd)
}

/// Has a TCP connection live for so long in silence, but at least [`SILENCE`]. After an outage it goes on within a
/// second, before Linux 6.15 within as long again as the outage took. Nothing changes for other sockets.
pub fn allow_silence(fd: BorrowedFd<'_>, silence: Duration) {
    let ms = |time: Duration| i32::try_from(time.as_millis()).unwrap_or(i32::MAX);
    let _ = sockopt::set_tcp_user_timeout(fd, ms(silence.max(SILENCE)) as u32);
    let longest_retry_ms = ms(PROBE);
    // SAFETY: the kernel reads an int.
    let _ = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::IPPROTO_TCP,
            TCP_RTO_MAX_MS,
            (&raw const longest_retry_ms).cast(),
            size_of::<i32>() as libc::socklen_t,
        )
    };
}

/// Whether a host answered that nobody listens there.
pub fn is_refused(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if source.kind() == io::ErrorKind::ConnectionRefused)
}

/// Starts a thread that gets none of the program's signals.
pub fn without_signals<T>(start: impl FnOnce() -> T) -> T {
    // SAFETY: plain calls on sets that live on the stack.
    unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let started = start();
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        started
    }
}
