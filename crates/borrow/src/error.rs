//! Errors of borrowed memory: each says what failed, where, and what to do about it.

use std::io;

use rackmem_fabric::frame::FrameError;
use rackmem_fabric::udp::LinkError;

/// Result of an operation on borrowed memory.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The lender died or the way to it broke: the bytes are gone.
    #[error("{lender} is lost, and with it the memory that it had lent: {reason}")]
    Lost {
        /// The lender, as the user named it.
        lender: String,
        /// Symptom by which the loss was noticed.
        reason: String,
    },
    /// The way to a lender broke, or it does not answer; its memory may still be there.
    #[error("{lender} cannot be reached: {reason}")]
    Broken {
        /// The lender's name.
        lender: String,
        /// Symptom by which the breakage was noticed.
        reason: String,
    },
    /// The other end of a link or of a lent device died, or the way to it broke.
    #[error("{peer} is lost: {reason}")]
    PeerLost {
        /// The peer's name or address.
        peer: String,
        /// Symptom by which the loss was noticed.
        reason: String,
    },
    /// Bytes outside of the lease.
    #[error("bytes {offset} to {} are outside of the {size_bytes} that were leased", offset + length)]
    OutOfRange {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        length: u64,
        /// Size of the lease.
        size_bytes: u64,
    },
    /// The other side understood and declined. The text gives the reason and the remedy.
    #[error("{0}")]
    Refused(String),
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

impl From<LinkError> for Error {
    fn from(error: LinkError) -> Error {
        match error {
            LinkError::Lost { peer, reason } => Error::PeerLost { peer, reason },
            LinkError::Refused { .. } => Error::Refused(error.to_string()),
            LinkError::Io { what, source } => Error::Io { what, source },
        }
    }
}

impl Error {
    /// A failed system call.
    pub fn io(what: impl Into<String>, source: impl Into<io::Error>) -> Error {
        Error::Io { what: what.into(), source: source.into() }
    }

    /// Turns the loss of a lender into the loss of a peer that has lent no memory.
    pub(crate) fn of_peer(self) -> Error {
        match self {
            Error::Lost { lender, reason } => Error::PeerLost { peer: lender, reason },
            error => error,
        }
    }

    /// The reason of a loss; of other errors, the whole text.
    pub(crate) fn reason(self) -> String {
        match self {
            Error::Lost { reason, .. } => reason,
            other => other.to_string(),
        }
    }

    /// A copy of the error, for a second reader.
    pub(crate) fn again(&self) -> Error {
        match self {
            Error::Lost { lender, reason } => {
                Error::Lost { lender: lender.clone(), reason: reason.clone() }
            }
            Error::Broken { lender, reason } => {
                Error::Broken { lender: lender.clone(), reason: reason.clone() }
            }
            Error::PeerLost { peer, reason } => {
                Error::PeerLost { peer: peer.clone(), reason: reason.clone() }
            }
            &Error::OutOfRange { offset, length, size_bytes } => {
                Error::OutOfRange { offset, length, size_bytes }
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
            Error::Lost { .. } | Error::Broken { .. } | Error::PeerLost { .. } => libc::EHOSTDOWN,
            Error::OutOfRange { .. } => libc::ERANGE,
            Error::Refused(_) => libc::ENOMEM,
            Error::Stopped => libc::EINTR,
            Error::Protocol(_) => libc::EPROTO,
            Error::Io { source, .. } => source.raw_os_error().unwrap_or(libc::EIO),
        }
    }
}
