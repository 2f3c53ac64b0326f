//! Checks of a kernel that was read from a file: whoever has written it, nothing of it may be out of bounds.

use super::Kernel;
use super::threads::MAX_THREADS;

/// The outcome of a check: otherwise the field, and what is wrong with it.
pub(super) type Checked = Result<(), String>;

/// Refuses a field unless it is sound.
pub(super) fn require(is_sound: bool, wrong: impl FnOnce() -> String) -> Checked {
    if is_sound { Ok(()) } else { Err(wrong()) }
}

impl Kernel {
    /// Checks a kernel that was read, of a machine that had so many bytes of memory.
    ///
    /// # Errors
    /// The first field that no kernel has so, and what is wrong with it.
    pub fn check(&self, memory_bytes: u64) -> Checked {
        self.memory.check(memory_bytes)?;
        self.threads.check()?;
        self.signals.check(MAX_THREADS)?;
        self.files.check()?;
        self.shared.check()?;
        self.timers.check()?;
        let has_thread = |hart| self.threads.id_on(hart).is_some();
        self.files.check_holders(has_thread)?;
        self.futexes.check(has_thread)?;
        let stray = self.sleepers.keys().find(|&&hart| !has_thread(hart));
        require(stray.is_none(), || {
            format!("sleepers.{}: no thread has this number", stray.unwrap_or(&0))
        })
    }
}
