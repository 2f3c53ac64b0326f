//! Rights that a process needs; an error says in one sentence which of them are missing and how to get them.

use std::io;

use super::tap;
use rackmem_fabric::error::{Error, Result};

/// A right that the kernel gives to processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// Make and change interfaces.
    NetAdmin,
    /// Take packets from an interface.
    NetRaw,
    /// Put programs at the doors of interfaces.
    Bpf,
}

impl Capability {
    fn name(self) -> &'static str {
        match self {
            Capability::NetAdmin => "CAP_NET_ADMIN",
            Capability::NetRaw => "CAP_NET_RAW",
            Capability::Bpf => "CAP_BPF",
        }
    }

    /// Bits of which any will do.
    fn bits(self) -> u64 {
        match self {
            Capability::NetAdmin => 1 << 12,
            Capability::NetRaw => 1 << 13,
            // CAP_SYS_ADMIN had this right before CAP_BPF was made.
            Capability::Bpf => 1 << 39 | 1 << 21,
        }
    }
}

/// The rights of this process, as the kernel writes them.
fn effective(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    line.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(u64::MAX)
}

fn missing(needed: &[Capability], effective: u64) -> Vec<&'static str> {
    let lacks = |capability: &&Capability| effective & capability.bits() == 0;
    needed.iter().filter(lacks).map(|capability| capability.name()).collect()
}

/// Fails unless this process has these rights.
///
/// # Errors
/// [`Error::Refused`] says that `what` cannot be done, which rights are missing, and how to get them.
pub fn require(what: &str, needed: &[Capability]) -> Result<()> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let missing = missing(needed, effective(&status));
    if missing.is_empty() {
        return Ok(());
    }
    let names = missing.join(" and ");
    let program = std::env::current_exe().unwrap_or_else(|_| "rackmem".into());
    Err(Error::Refused(format!(
        "cannot {what}: this process lacks {names}; run it as root, or once `sudo setcap {}+ep {}`",
        missing.join(",").to_lowercase(),
        program.display()
    )))
}

/// Whether this process has these rights.
pub fn has(needed: &[Capability]) -> bool {
    require("", needed).is_ok()
}

/// Turns a refused system call into an error that says what is missing and how to get it.
pub fn explain(what: &str, error: io::Error) -> Error {
    match error.raw_os_error() {
        Some(libc::EPERM) => Error::Refused(format!(
            "cannot {what}: the kernel does not permit it; if this is a container, give it \
             CAP_NET_ADMIN and CAP_NET_RAW over its network (docker run --cap-add=NET_ADMIN,NET_RAW)"
        )),
        _ => Error::io(format!("cannot {what}"), error),
    }
}

/// The same for making a TAP interface.
pub fn explain_tap(name: &str, error: io::Error) -> Error {
    let device = tap::DEVICE;
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => Error::Refused(format!(
            "cannot make the interface {name}: there is no {device}; load the kernel's module with \
             `sudo modprobe tun`, in a container pass the device in (docker run --device {device})"
        )),
        Some(libc::EACCES) => Error::Refused(format!(
            "cannot make the interface {name}: {device} may not be opened for reading and writing; \
             run as root, or `sudo chmod 0666 {device}`"
        )),
        Some(libc::EBUSY | libc::EEXIST) => Error::Refused(format!(
            "cannot make the interface {name}: there is one already; choose another name"
        )),
        _ => explain(&format!("make the interface {name}"), error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_rights_are_named() {
        let needed = [Capability::NetAdmin, Capability::NetRaw, Capability::Bpf];
        assert_eq!(missing(&needed, 0), ["CAP_NET_ADMIN", "CAP_NET_RAW", "CAP_BPF"]);
        assert_eq!(missing(&needed, 1 << 12 | 1 << 21), ["CAP_NET_RAW"]);
        assert_eq!(effective("Name:\tx\nCapEff:\t0000000000003000\n"), 0x3000);
    }
}
