//! Errors of connections: each says what failed, where, and what to do about it.

use std::fmt::Display;
use std::io;
use std::path::Path;

use crate::frame::FrameError;
use crate::greeting::GreetingError;
use crate::secret_file::SecretError;

/// Result of an operation on a connection.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The other end died, or the way to it broke.
    #[error("{peer} is lost: {reason}")]
    PeerLost {
        /// The peer's name or address.
        peer: String,
        /// Symptom by which the loss was noticed.
        reason: String,
    },
    /// The other side understood and declined. The text gives the reason and the remedy.
    #[error("{0}")]
    Refused(String),
    /// One of both ends cannot prove itself to the other.
    #[error("{peer}: {error}")]
    Unproved {
        /// The peer's address.
        peer: String,
        /// The reason.
        error: GreetingError,
    },
    /// The owner of the operation asked it to stop.
    #[error("stopped")]
    Stopped,
    /// The other side does not keep to the protocol.
    #[error("{0}")]
    Protocol(String),
    /// A system call failed.
    #[error("{what}: {source}")]
    Io {
        /// The attempted operation, as text that precedes the kernel's error.
        what: String,
        /// The error of the kernel.
        source: io::Error,
    },
}

impl From<FrameError> for Error {
    fn from(error: FrameError) -> Error {
        Error::Protocol(error.to_string())
    }
}

impl From<SecretError> for Error {
    fn from(error: SecretError) -> Error {
        match error {
            SecretError::Io { what, source } => Error::io(what, source),
            SecretError::Refused(text) => Error::Refused(text),
        }
    }
}

impl Error {
    /// A failed system call.
    pub fn io(what: impl Into<String>, source: impl Into<io::Error>) -> Error {
        Error::Io { what: what.into(), source: source.into() }
    }

    /// Listening at an address has failed.
    pub fn listen(at: impl Display, source: impl Into<io::Error>) -> Error {
        let source = source.into();
        Error::io(format!("cannot listen at {at}{}", listen_hint(&source)), source)
    }

    /// Listening at the socket file of a path has failed.
    pub fn listen_at_path(path: &Path, source: impl Into<io::Error>) -> Error {
        let source = source.into();
        let hint = match source.kind() {
            io::ErrorKind::AddrInUse => {
                ", where another process listens (`ss -xlp` names it): end that one, or choose another path"
            }
            _ => "",
        };
        Error::io(format!("cannot listen at {}{hint}", path.display()), source)
    }

    /// The reason of a loss; of other errors, the whole text.
    pub fn reason(self) -> String {
        match self {
            Error::PeerLost { reason, .. } => reason,
            other => other.to_string(),
        }
    }

    /// A copy of the error, for a second reader.
    pub fn again(&self) -> Error {
        match self {
            Error::PeerLost { peer, reason } => {
                Error::PeerLost { peer: peer.clone(), reason: reason.clone() }
            }
            Error::Unproved { peer, error } => {
                Error::Unproved { peer: peer.clone(), error: error.clone() }
            }
            Error::Refused(text) => Error::Refused(text.clone()),
            Error::Stopped => Error::Stopped,
            Error::Protocol(text) => Error::Protocol(text.clone()),
            Error::Io { what, source } => {
                let source = match source.raw_os_error() {
                    Some(errno) => io::Error::from_raw_os_error(errno),
                    None => io::Error::new(source.kind(), source.to_string()),
                };
                Error::Io { what: what.clone(), source }
            }
        }
    }

    /// The positive `errno` that stands for the error in C.
    pub fn errno(&self) -> i32 {
        match self {
            Error::PeerLost { .. } => libc::EHOSTDOWN,
            Error::Unproved { .. } => libc::EACCES,
            Error::Refused(_) => libc::ENOMEM,
            Error::Stopped => libc::EINTR,
            Error::Protocol(_) => libc::EPROTO,
            Error::Io { source, .. } => source.raw_os_error().unwrap_or(libc::EIO),
        }
    }
}

/// A hint that names the limit on open files and how to raise it, if that limit is the cause. Else empty.
pub fn limit_hint(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EMFILE) => {
            let limits = rustix::process::getrlimit(rustix::process::Resource::Nofile);
            let limit = limits.current.map_or("no".to_owned(), |limit| limit.to_string());
            format!(
                "; this process may have {limit} files open: raise that with `ulimit -n`, or LimitNOFILE= of \
                 its service"
            )
        }
        Some(libc::ENFILE) => "; this host may not have more files open: raise fs.file-max with \
                               sysctl"
            .to_owned(),
        _ => String::new(),
    }
}

/// The reason why a process cannot listen at an address, with what to do about it; empty if the error says it.
pub fn listen_hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            ", where another process listens (`ss -lntup` names it): end that one, or choose another port"
        }
        io::ErrorKind::AddrNotAvailable => ", which is no address of this host",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_in_use_is_told_from_a_port_in_use() {
        let in_use = || io::Error::from(io::ErrorKind::AddrInUse);
        // A path may be without a slash.
        for path in ["disk", "/run/disk"] {
            let said = Error::listen_at_path(Path::new(path), in_use()).to_string();
            assert!(said.contains("ss -xlp") && said.contains("another path"), "{said}");
        }
        let said = Error::listen("127.0.0.1:80", in_use()).to_string();
        assert!(said.contains("ss -lntup") && said.contains("another port"), "{said}");
    }
}
