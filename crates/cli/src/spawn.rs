//! Processes that do not outlive the command that started them, unless they are meant to.

use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use rustix::thread::{CpuSet, sched_setaffinity};

/// Arrangements between fork and exec.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spawn {
    /// Signal that the process gets when the calling thread ends, be it by SIGKILL.
    pub when_orphaned: Option<Signal>,
    /// Whether it gets a session of its own, out of reach of the terminal's signals.
    pub session: bool,
    /// Core to pin it to.
    pub core: Option<usize>,
}

impl Spawn {
    /// Arranges it for a command that is about to be spawned.
    pub fn prepare(self, command: &mut Command) {
        let parent = rustix::process::getpid();
        let arrange = move || -> std::io::Result<()> {
            if self.session {
                rustix::process::setsid()?;
            }
            if let Some(core) = self.core {
                let mut set = CpuSet::new();
                set.set(core);
                sched_setaffinity(None, &set)?;
            }
            if self.when_orphaned.is_some() {
                set_parent_process_death_signal(self.when_orphaned)?;
                // The parent may have ended before the request was made.
                if getppid() != Some(parent) {
                    return Err(std::io::ErrorKind::Interrupted.into());
                }
            }
            Ok(())
        };
        // SAFETY: between fork and exec it makes system calls only; nothing allocates or locks.
        unsafe { command.pre_exec(arrange) };
    }
}
