//! Timers that are files: `timerfd_create`. They count the program's time, whichever their clock.

use serde::{Deserialize, Serialize};

use super::polling::IN;
use super::table::{CLOEXEC, NONBLOCK, Open, OpenFile, READ_WRITE, device};
use super::{Context, Errno, Files, Result, number};
use crate::kernel::Kind;
use crate::kernel::saved::{Checked, require};
use crate::kernel::timers::{Alarm, read_times, write_times};

/// Clocks of timers.
const REALTIME: u64 = 0;
const MONOTONIC: u64 = 1;
const BOOT: u64 = 7;

/// Clocks that wake a machine that sleeps, which programs of users may not do.
const REALTIME_ALARM: u64 = 8;
const BOOT_ALARM: u64 = 9;

/// A timer that is read.
#[derive(Serialize, Deserialize)]
pub(super) struct Timer {
    clock: u64,
    alarm: Alarm,
    /// How often it was due since it was set or read, as far as that was counted.
    count: u64,
    /// Its readers know that it is due. From there on nobody is woken until somebody looks at it.
    is_due: bool,
}

impl Timer {
    /// Checks what was read.
    pub(super) fn check(&self) -> Checked {
        require(matches!(self.clock, REALTIME | MONOTONIC | BOOT), || {
            format!("open.clock: a timer has no clock {}", self.clock)
        })
    }

    pub(super) const fn is_readable(&self) -> bool {
        self.count > 0
    }

    /// The next time at which it has somebody to wake.
    pub(super) fn due_ns(&self) -> Option<u64> {
        self.alarm.due_ns().filter(|_| !self.is_due)
    }

    /// Whether it has become due until now.
    pub(super) fn tick(&mut self, now_ns: u64) -> bool {
        if self.is_due {
            return false;
        }
        let before = self.count;
        self.count_until(now_ns);
        self.is_due = self.count > before;
        self.is_due
    }

    /// Counts how often it was due until now: somebody looks at it.
    fn count_until(&mut self, now_ns: u64) {
        self.count = self.count.saturating_add(self.alarm.take(now_ns));
        self.is_due = false;
    }

    /// Reads the count, which begins anew.
    pub(super) fn read(
        &mut self,
        context: &mut Context<'_>,
        waits: bool,
        buffer: &mut [u8],
    ) -> Result<usize> {
        self.count_until(context.host.now_ns());
        let room = buffer.first_chunk_mut::<8>().ok_or(Errno::INVAL)?;
        if self.count == 0 {
            return Err(context.would_block(waits));
        }
        *room = std::mem::take(&mut self.count).to_le_bytes();
        Ok(room.len())
    }
}

impl Files {
    /// `timerfd_create`, `timerfd_settime` and `timerfd_gettime`.
    pub(super) fn timer_call(&mut self, number: u64, context: &mut Context<'_>) -> Result {
        let [a0, a1, ..] = context.args();
        match number {
            number::TIMERFD_CREATE => self.new_timer(a0, a1),
            number::TIMERFD_SETTIME => self.set_timer(context),
            _ => {
                let now = context.host.now_ns();
                let timer = self.timer(a0)?;
                timer.count_until(now);
                let shown = timer.alarm.shown(now);
                write_times(context, a1, shown)
            }
        }
    }

    fn new_timer(&mut self, clock: u64, flags: u64) -> Result {
        let clock = u64::from(clock as u32);
        match clock {
            _ if flags as u32 & !(CLOEXEC | NONBLOCK) as u32 != 0 => return Err(Errno::INVAL),
            REALTIME | MONOTONIC | BOOT => {}
            REALTIME_ALARM | BOOT_ALARM => return Err(Errno::PERM),
            _ => return Err(Errno::INVAL),
        }
        let open = Open::Timer(Timer { clock, alarm: Alarm::default(), count: 0, is_due: false });
        let flags_shown = READ_WRITE | flags & NONBLOCK;
        let file = OpenFile { open, flags: flags_shown, status: device(Kind::Device) };
        self.table.add(file, flags & CLOEXEC != 0)
    }

    fn timer(&mut self, descriptor: u64) -> Result<&mut Timer> {
        match self.table.get(descriptor)? {
            Open::Timer(timer) => Ok(timer),
            _ => Err(Errno::INVAL),
        }
    }

    fn set_timer(&mut self, context: &mut Context<'_>) -> Result {
        const ABSOLUTE: u32 = 1;
        /// Nobody sets the calendar.
        const CANCEL_ON_SET: u32 = 2;
        let [descriptor, flags, new, old, ..] = context.args();
        let times = read_times(context, new)?;
        let flags = flags as u32;
        if flags & !(ABSOLUTE | CANCEL_ON_SET) != 0 {
            return Err(Errno::INVAL);
        }
        let now = context.host.now_ns();
        let timer = self.timer(descriptor)?;
        timer.count_until(now);
        let shown = timer.alarm.shown(now);
        let is_absolute = flags & ABSOLUTE != 0;
        (timer.alarm, timer.count) = Alarm::new(times, timer.clock, is_absolute, now);
        // A time that is over is due at once.
        self.tick(now);
        context.has_changed = true;
        if old != 0 { write_times(context, old, shown) } else { Ok(0) }
    }

    /// The next time at which a timer is due.
    pub(in crate::kernel) fn next_timer_ns(&self) -> Option<u64> {
        self.table.timers().filter_map(Timer::due_ns).min()
    }

    /// Counts timers that are due; returns whether there are any.
    pub(in crate::kernel) fn tick(&mut self, now_ns: u64) -> bool {
        let due = self.table.tick(now_ns);
        for &file in &due {
            self.note_change(file, IN);
        }
        !due.is_empty()
    }
}
