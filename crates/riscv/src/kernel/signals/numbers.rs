//! Numbers and names of signals.

pub(in super::super) const SIGPIPE: u64 = 13;
pub(super) const SIGKILL: u64 = 9;
pub(super) const SIGSEGV: u64 = 11;
pub(super) const SIGSTOP: u64 = 19;

/// Names by number, from 1 on.
const NAMES: [&str; 31] = [
    "SIGHUP",
    "SIGINT",
    "SIGQUIT",
    "SIGILL",
    "SIGTRAP",
    "SIGABRT",
    "SIGBUS",
    "SIGFPE",
    "SIGKILL",
    "SIGUSR1",
    "SIGSEGV",
    "SIGUSR2",
    "SIGPIPE",
    "SIGALRM",
    "SIGTERM",
    "SIGSTKFLT",
    "SIGCHLD",
    "SIGCONT",
    "SIGSTOP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGXCPU",
    "SIGXFSZ",
    "SIGVTALRM",
    "SIGPROF",
    "SIGWINCH",
    "SIGIO",
    "SIGPWR",
    "SIGSYS",
];

/// The name of a signal, `SIGABRT` for 6; of those for real time it is none.
pub fn signal_name(signal: i32) -> Option<&'static str> {
    let index = usize::try_from(signal).ok()?.checked_sub(1)?;
    NAMES.get(index).copied()
}

/// Whether a program that has not asked for a signal goes on after it. One that would be stopped goes on, too, as
/// nobody could continue it.
pub(super) fn is_harmless(signal: u64) -> bool {
    matches!(
        signal_name(signal as i32),
        Some(
            "SIGCHLD"
                | "SIGCONT"
                | "SIGURG"
                | "SIGWINCH"
                | "SIGSTOP"
                | "SIGTSTP"
                | "SIGTTIN"
                | "SIGTTOU"
        )
    )
}
