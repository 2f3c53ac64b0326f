//! Signals on their way, and what their receivers learn of them.

use serde::{Deserialize, Serialize};

use super::bit;
use crate::kernel::saved::{Checked, require};
use crate::kernel::threads::PROCESS;
use crate::stack::USER;

/// Bytes of `struct siginfo` (`asm-generic/siginfo.h`).
pub(in crate::kernel) const INFO_BYTES: usize = 128;

/// The first signal for real time: from here on each one that is sent arrives.
const FIRST_QUEUED: u64 = 32;

/// Signals of a kind that wait for a thread, at most; the next ones are lost.
const MOST_QUEUED: usize = 1024;

/// The part of `struct siginfo` that depends on the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::kernel) enum Source {
    /// The kernel, for `setitimer`.
    Kernel,
    /// An instruction. The address that it could not reach.
    Fault { address: u64 },
    /// A thread of the process, with a value for `sigqueue`.
    Program { value: u64 },
    /// A timer, with the value that it was made with.
    Timer { id: u32, overruns: u32, value: u64 },
}

/// A signal on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::kernel) struct Info {
    /// Its number, from 1 on.
    pub signal: u64,
    /// `si_code`.
    pub code: i32,
    pub source: Source,
}

impl Info {
    const BY_KERNEL: i32 = 0x80;
    const BY_TIMER: i32 = -2;

    /// A signal of the kernel itself.
    pub(in crate::kernel) const fn by_kernel(signal: u64) -> Info {
        Info { signal, code: Info::BY_KERNEL, source: Source::Kernel }
    }

    /// A signal of a write that nobody reads.
    pub(in crate::kernel) const fn by_write(signal: u64) -> Info {
        Info { signal, code: 0, source: Source::Program { value: 0 } }
    }

    /// A signal of `timer_create`.
    pub(in crate::kernel) const fn by_timer(signal: u64, id: u32, value: u64) -> Info {
        Info { signal, code: Info::BY_TIMER, source: Source::Timer { id, overruns: 0, value } }
    }

    /// As `struct siginfo`.
    pub(in crate::kernel) fn bytes(&self) -> [u8; INFO_BYTES] {
        let mut bytes = [0; INFO_BYTES];
        let mut put = |at: usize, value: u64, size: usize| {
            bytes[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
        };
        put(0, self.signal, 4);
        put(8, self.code as u32 as u64, 4);
        match self.source {
            Source::Kernel => {}
            Source::Fault { address } => put(16, address, 8),
            Source::Program { value } => {
                put(16, PROCESS, 4);
                put(20, USER, 4);
                put(24, value, 8);
            }
            Source::Timer { id, overruns, value } => {
                put(16, id.into(), 4);
                put(20, overruns.into(), 4);
                put(24, value, 8);
            }
        }
        bytes
    }
}

/// Signals that wait for a thread, or for any thread of the process, in the order in which they were sent.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Queue {
    waiting: Vec<Info>,
}

impl Queue {
    /// Checks what was read.
    pub(super) fn check(&self) -> Checked {
        let is_none = |info: &Info| !(1..=super::LAST).contains(&info.signal);
        let stray = self.waiting.iter().position(is_none);
        require(stray.is_none(), || format!("waiting: of entry {stray:?} there is no such signal"))
    }

    pub(super) fn mask(&self) -> u64 {
        self.waiting.iter().fold(0, |mask, info| mask | bit(info.signal))
    }

    /// Adds a signal. Of one that is not for real time a second one is lost, but for those of other timers.
    pub(super) fn push(&mut self, info: Info) {
        let of_kind = self.waiting.iter().filter(|other| other.signal == info.signal).count();
        let is_lost = match info.source {
            Source::Timer { .. } => false,
            _ => of_kind > 0 && info.signal < FIRST_QUEUED,
        };
        if !is_lost && of_kind < MOST_QUEUED {
            self.waiting.push(info);
        }
    }

    /// The one that was sent first of this number.
    pub(super) fn take(&mut self, signal: u64) -> Option<Info> {
        let first = self.waiting.iter().position(|info| info.signal == signal)?;
        Some(self.waiting.remove(first))
    }

    pub(super) fn forget(&mut self, signal: u64) {
        self.waiting.retain(|info| info.signal != signal);
    }

    pub(super) fn forget_timer(&mut self, timer: u32) {
        let is_of = |info: &Info| matches!(info.source, Source::Timer { id, .. } if id == timer);
        self.waiting.retain(|info| !is_of(info));
    }

    /// Counts further times at which a timer was due; `false` if no signal of it waits.
    pub(super) fn overrun(&mut self, timer: u32, count: u32) -> bool {
        for info in &mut self.waiting {
            if let Source::Timer { id, overruns, .. } = &mut info.source
                && *id == timer
            {
                *overruns = overruns.saturating_add(count).min(i32::MAX as u32);
                return true;
            }
        }
        false
    }
}
