//! Errors of set-up. Each message names the failure, its place, and a remedy if there is one.

use std::io;
use std::path::Path;

use rackmem_abi::Status;
use rackmem_fabric::secret_file::SecretError;

pub use rackmem_fabric::error::{limit_hint, listen_hint};

/// Result of a set-up call.
pub type Result<T> = std::result::Result<T, Error>;

/// A failed set-up call or operation.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    message: String,
    errno: i32,
    #[source]
    source: Option<io::Error>,
}

impl Error {
    pub(crate) fn new(errno: i32, message: impl Into<String>) -> Error {
        Error { message: message.into(), errno, source: None }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Error {
        Error::new(libc::EINVAL, message)
    }

    pub(crate) fn io(what: impl Into<String>, source: io::Error) -> Error {
        let errno = source.raw_os_error().unwrap_or(match source.kind() {
            io::ErrorKind::OutOfMemory => libc::ENOMEM,
            io::ErrorKind::PermissionDenied => libc::EACCES,
            _ => libc::EIO,
        });
        let message = format!("{}: {source}{}", what.into(), limit_hint(&source));
        Error { message, errno, source: Some(source) }
    }

    pub(crate) fn no_rack(name: &str) -> Error {
        let command = command_for(name);
        let message = format!("rack '{name}' is not up: start it with `{command} up --nodes N`");
        Error::new(libc::ENOENT, message)
    }

    pub(crate) fn no_context(ctx_id: u16, rack: &str) -> Error {
        let command = command_for(rack);
        let hint = format!("create it with `{command} context create {ctx_id}`");
        Error::new(libc::ENOENT, format!("rack '{rack}' has no context {ctx_id}: {hint}"))
    }

    pub(crate) fn no_permission(ctx_id: u16, path: &Path) -> Error {
        let hint = format!("the permissions of {} decide", path.display());
        Error::new(libc::EACCES, format!("no permission to join context {ctx_id}: {hint}"))
    }

    pub(crate) fn daemon_gone(nid: u16) -> Error {
        let message = format!("the daemon of node {nid} is gone: see `rackmem status`");
        Error::new(libc::EHOSTDOWN, message)
    }

    /// The positive `errno` that stands for the error in C.
    pub fn errno(&self) -> i32 {
        self.errno
    }
}

/// The command for a rack: that for the default one needs no name.
fn command_for(rack: &str) -> String {
    match rack == crate::rack::DEFAULT_RACK {
        true => "rackmem".to_owned(),
        false => format!("rackmem --rack {rack}"),
    }
}

impl From<SecretError> for Error {
    fn from(error: SecretError) -> Error {
        match error {
            SecretError::Io { what, source } => Error::io(what, source),
            SecretError::Refused(text) => Error::new(libc::EACCES, text),
        }
    }
}

impl From<Status> for Error {
    fn from(status: Status) -> Error {
        Error::new(-status.errno(), status.describe())
    }
}
