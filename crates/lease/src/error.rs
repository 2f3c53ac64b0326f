//! Errors of borrowed memory: each says what failed, where, and what to do about it.

use std::io;

use rackmem_fabric::error::{Error as Plain, limit_hint};
use rackmem_fabric::frame::FrameError;

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
    /// A failure that does not concern a lease, such as that of a connection or of a system call.
    #[error(transparent)]
    Plain(#[from] Plain),
}

impl From<FrameError> for Error {
    fn from(error: FrameError) -> Error {
        Plain::from(error).into()
    }
}

impl Error {
    /// A failed system call.
    pub fn io(what: impl Into<String>, source: impl Into<io::Error>) -> Error {
        Plain::io(what, source).into()
    }

    /// The other side, or this one, declines. The text gives the reason and the remedy.
    pub fn refused(text: impl Into<String>) -> Error {
        Plain::Refused(text.into()).into()
    }

    /// The other side does not keep to the protocol.
    pub fn protocol(text: impl Into<String>) -> Error {
        Plain::Protocol(text.into()).into()
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
            &Error::OutOfRange { offset, length, size_bytes } => {
                Error::OutOfRange { offset, length, size_bytes }
            }
            Error::Plain(error) => error.again().into(),
        }
    }

    /// Whether this number of an error says that this process, or its host, may have no more files open.
    pub(crate) fn is_at_limit(errno: i32) -> bool {
        matches!(errno, libc::EMFILE | libc::ENFILE)
    }

    /// The remedy, to follow the text, if a limit on open files is the cause; else empty.
    pub fn hint(&self) -> String {
        match self {
            Error::Plain(Plain::Io { source, .. }) => limit_hint(source),
            _ => String::new(),
        }
    }

    /// The positive `errno` that stands for the error in C.
    pub fn errno(&self) -> i32 {
        match self {
            Error::Lost { .. } | Error::Broken { .. } => libc::EHOSTDOWN,
            Error::OutOfRange { .. } => libc::ERANGE,
            Error::Plain(error) => error.errno(),
        }
    }
}
