//! Failures of commands: one line for people, an exit status for scripts.

use std::fmt::Display;
use std::io;

/// Result of a command or a part of one.
pub type Result<T> = std::result::Result<T, Failure>;

/// A command that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The failure, its place and the remedy; `None` if the user has been told.
    pub message: Option<String>,
    /// Exit status of the process.
    pub status: u8,
}

impl Failure {
    /// A failure with status 1.
    pub fn new(message: impl Into<String>) -> Failure {
        Failure::with_status(1, message)
    }

    /// A failure with another status.
    pub fn with_status(status: u8, message: impl Into<String>) -> Failure {
        Failure { message: Some(message.into()), status }
    }

    /// A wrong combination of arguments.
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure::with_status(2, message)
    }

    /// A failure about which nothing is left to say.
    pub fn silent(status: u8) -> Failure {
        Failure { message: None, status }
    }

    /// The command was ended by a signal, as a shell reports it.
    pub fn interrupted(signal: i32) -> Failure {
        Failure::silent(128 + signal as u8)
    }

    /// A failed system call.
    pub fn io(what: impl Display, error: impl Into<io::Error>) -> Failure {
        let error = error.into();
        Failure::new(format!("{what}: {error}{}", rackmem::error::limit_hint(&error)))
    }
}

impl From<rackmem::error::Error> for Failure {
    fn from(error: rackmem::error::Error) -> Failure {
        Failure::new(error.to_string())
    }
}

impl From<rackmem_fabric::error::Error> for Failure {
    fn from(error: rackmem_fabric::error::Error) -> Failure {
        Failure::new(error.to_string())
    }
}

impl From<rackmem_lease::Error> for Failure {
    fn from(error: rackmem_lease::Error) -> Failure {
        Failure::new(error.to_string() + &error.hint())
    }
}
