//! Rights to connect to a listener: the one policy of all listeners.
//!
//! | a listener at | takes |
//! |---|---|
//! | `HOST:PORT`, loopback included | peers that prove something: a secret, the key of a node with the right, or a certificate |
//! | the same, `--insecure` | every peer that reaches it; the log says so |
//! | a path | processes of its user and of root, and others if the mode of its file lets them write |
//!
//! Loopback is no exception: all users of a host reach it.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::net::sockopt;

use super::proof::Proof;
use crate::error::{Error, Result};
use crate::rights::Right;

/// Permissions of a socket's file that let others than its owner connect.
const OTHERS_WRITE: u32 = 0o022;

/// Permissions of a socket's file unless others are said.
pub const DEFAULT_MODE: u32 = 0o600;

/// Rights to connect to a listener.
#[derive(Clone, Debug)]
pub struct Access {
    /// What peers over a network have to prove; `None`: see `is_insecure`.
    pub proof: Option<Proof>,
    /// Peers over a network need not prove anything.
    pub is_insecure: bool,
    /// Permissions of a socket's file.
    pub mode: u32,
}

impl Default for Access {
    fn default() -> Access {
        Access { proof: None, is_insecure: false, mode: DEFAULT_MODE }
    }
}

impl Access {
    /// Admits every peer that reaches the port.
    pub fn insecure() -> Access {
        Access { is_insecure: true, ..Access::default() }
    }

    /// Admits peers that prove this.
    pub fn with_proof(proof: Proof) -> Access {
        Access { proof: Some(proof), ..Access::default() }
    }

    /// Checks that a peer that has come in, of this node if it is known, has one of these rights.
    ///
    /// # Errors
    /// As [`Proof::check`].
    pub fn check_right(
        &self,
        node: Option<u16>,
        rights: &[Right],
    ) -> std::result::Result<(), String> {
        self.proof.as_ref().map_or(Ok(()), |proof| proof.check(node, rights))
    }

    /// As [`check_exposure`], for a listener that wants a proof.
    ///
    /// # Errors
    /// As [`check_exposure`].
    pub fn check(&self, listen: &str, could: &str) -> Result<()> {
        let remedy =
            "name a secret that all hosts have by --secret FILE, or their keys by --rack-file FILE";
        check_exposure(listen, self.proof.is_some(), self.is_insecure, could, remedy)
    }
}

/// Refuses to listen at a `HOST:PORT` where peers prove nothing, unless `is_insecure`, which is logged. The error names
/// the action that every peer `could` take, and the `remedy` that keeps strangers out.
///
/// # Errors
/// [`Error::Refused`].
pub fn check_exposure(
    listen: &str,
    has_proof: bool,
    is_insecure: bool,
    could: &str,
    remedy: &str,
) -> Result<()> {
    if has_proof {
        return Ok(());
    }
    if !is_insecure {
        return Err(Error::Refused(format!(
            "whoever reaches {listen}, as all users of this host do, could {could}: {remedy}, or say \
             --insecure"
        )));
    }
    tracing::warn!("--insecure: whoever reaches {listen} can {could}");
    Ok(())
}

/// Whether the process that has connected to a Unix socket with a file of these permissions may: the file may have
/// got others since, or the process had the directory to itself.
///
/// # Errors
/// `PermissionDenied` if it may not.
pub fn check_peer(socket: BorrowedFd<'_>, mode: u32) -> io::Result<()> {
    let peer = sockopt::socket_peercred(socket)?.uid;
    let is_ours = peer.is_root() || peer == rustix::process::geteuid();
    if is_ours || mode & OTHERS_WRITE != 0 {
        return Ok(());
    }
    let uid = peer.as_raw();
    Err(io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!("it is a process of user {uid}, and the socket has mode {mode:04o} (--mode)"),
    ))
}
