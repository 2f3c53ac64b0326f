//! Errors of set-up. Each message names the failure, its place, and a remedy if there is one.

use std::io;
use std::path::Path;

use rackmem_abi::Status;

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

impl From<Status> for Error {
    fn from(status: Status) -> Error {
        Error::new(-status.errno(), status.describe())
    }
}
