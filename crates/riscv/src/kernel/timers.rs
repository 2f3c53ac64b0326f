//! Timers that send signals: `setitimer` and `timer_create`. Those that are files are in `files/timer.rs`.
//!
//! They count the program's time. What a process has executed is not counted apart, so timers of CPU time count the
//! same, as the clocks of CPU time do.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::misc::{EPOCH_NS, TIMER_ABSTIME};
use super::saved::{Checked, require};
use super::signals::{Info, Sent, To};
use super::{Context, Errno, Kernel, Result, number};

const CLOCK_REALTIME: u64 = 0;

/// Timers of a process, at most.
const MOST_TIMERS: usize = 1024;

/// Numbers of timers are less: programs take them as signed.
const LAST_TIMER: u32 = i32::MAX as u32;

/// Signals of `ITIMER_REAL`, `ITIMER_VIRTUAL` and `ITIMER_PROF`.
const INTERVAL_SIGNALS: [u64; 3] = [14, 26, 27];

/// The last signal.
const LAST: u64 = 64;

/// The time at which something is due, and again after each period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Alarm {
    due_ns: Option<u64>,
    /// 0: once.
    period_ns: u64,
}

impl Alarm {
    /// The alarm that a period and a time set, of a clock; a time of 0 sets none. And how often it was due before the
    /// program began.
    pub(super) fn new(
        [period_ns, time]: [u64; 2],
        clock: u64,
        is_absolute: bool,
        now_ns: u64,
    ) -> (Alarm, u64) {
        let (time_ns, begin_ns) = match (is_absolute, clock) {
            (false, _) => (now_ns.saturating_add(time), 0),
            (true, CLOCK_REALTIME | CLOCK_TAI) => (time, EPOCH_NS),
            (true, _) => (time, 0),
        };
        if time == 0 {
            return (Alarm { due_ns: None, period_ns }, 0);
        }
        let before = begin_ns.saturating_sub(time_ns);
        let missed = if period_ns == 0 { 0 } else { before.div_ceil(period_ns) };
        let first = time_ns.saturating_add(missed.saturating_mul(period_ns));
        (Alarm { due_ns: Some(first.saturating_sub(begin_ns)), period_ns }, missed)
    }

    /// The next time at which it is due.
    pub(super) fn due_ns(&self) -> Option<u64> {
        self.due_ns
    }

    /// How often it was due until now; the next time is later.
    pub(super) fn take(&mut self, now_ns: u64) -> u64 {
        let Some(due) = self.due_ns.filter(|&due| due <= now_ns) else { return 0 };
        let count = (now_ns - due).checked_div(self.period_ns).map_or(1, |periods| periods + 1);
        let next = self.period_ns.checked_mul(count).and_then(|later| due.checked_add(later));
        self.due_ns = next.filter(|_| self.period_ns > 0);
        count
    }

    /// Time to the next one, and the period: what programs see of it.
    pub(super) fn shown(&self, now_ns: u64) -> [u64; 2] {
        // One that is due in this very moment has not been: 0 would be none.
        let rest = self.due_ns.map_or(0, |due| due.saturating_sub(now_ns).max(1));
        [self.period_ns, rest]
    }
}

/// A timer of `timer_create`.
#[derive(Debug, Serialize, Deserialize)]
struct Timer {
    clock: u64,
    alarm: Alarm,
    notice: Notice,
}

/// The notice that a timer gives when it is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Notice {
    Nothing,
    /// It sends a signal with a value: to the thread of this number, or to the process.
    Signal {
        signal: u64,
        value: u64,
        thread: Option<u64>,
    },
}

/// The timers of a process.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Timers {
    intervals: [Alarm; 3],
    timers: BTreeMap<u32, Timer>,
    /// Numbers are given once.
    next_id: u32,
}

/// Outcome of [`Kernel::expire`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expired {
    /// Harts with a signal to handle, or with a call that can go on. Those that sleep wake up;
    /// [`Kernel::interrupt`] prepares those that run, too, as soon as they stand between two instructions.
    pub woken: Vec<usize>,
    /// The signal that ends the program, and the hart that would have had it.
    pub killed: Option<(usize, i32)>,
}

impl Timers {
    /// Checks what was read.
    pub(super) fn check(&self) -> Checked {
        let Timers { timers, next_id, .. } = self;
        let last = timers.keys().next_back();
        require(*next_id < LAST_TIMER && last.is_none_or(|last| last < next_id), || {
            format!("timers.next_id: is {next_id}, and the last timer is {last:?}")
        })?;
        require(timers.len() <= MOST_TIMERS, || {
            format!("timers.timers: has more than {MOST_TIMERS} entries")
        })?;
        for (id, timer) in timers {
            let Notice::Signal { signal, .. } = timer.notice else { continue };
            require((1..=LAST).contains(&signal), || {
                format!("timers.timers.{id}.notice: there is no signal {signal}")
            })?;
        }
        Ok(())
    }

    /// The next time at which one is due.
    fn next_ns(&self) -> Option<u64> {
        let timers = self.timers.values().map(|timer| &timer.alarm);
        self.intervals.iter().chain(timers).filter_map(|alarm| alarm.due_ns).min()
    }

    fn timer(&mut self, id: u64) -> Result<&mut Timer> {
        let id = u32::try_from(id as i32).map_err(|_| Errno::INVAL)?;
        self.timers.get_mut(&id).ok_or(Errno::INVAL)
    }
}

/// A `struct timeval` in nanoseconds.
fn read_microseconds(context: &mut Context<'_>, at: u64) -> Result {
    let (seconds, microseconds) = (context.read_u64(at)?, context.read_u64(at.wrapping_add(8))?);
    if microseconds >= 1_000_000 || seconds > i64::MAX as u64 {
        return Err(Errno::INVAL);
    }
    Ok(seconds.saturating_mul(NS).saturating_add(microseconds * 1000))
}

const NS: u64 = 1_000_000_000;

impl Kernel {
    /// The next time at which [`Kernel::expire`] has something to do, as [`Host::now_ns`](super::Host::now_ns).
    pub fn next_timer(&self) -> Option<u64> {
        self.timers.next_ns().into_iter().chain(self.files.next_timer_ns()).min()
    }

    /// Sends the signals of timers that are due, and wakes threads that may wait for those that are files.
    pub fn expire(&mut self, now_ns: u64) -> Expired {
        let mut expired = Expired::default();
        self.now_ns = self.now_ns.max(now_ns);
        let harts = self.threads.harts();
        for (index, signal) in INTERVAL_SIGNALS.into_iter().enumerate() {
            if self.timers.intervals[index].take(now_ns) > 0 {
                self.notify(To::Process(&harts), Info::by_kernel(signal), &mut expired);
            }
        }
        let ids: Vec<u32> = self.timers.timers.keys().copied().collect();
        for id in ids {
            let Some(timer) = self.timers.timers.get_mut(&id) else { continue };
            let (count, notice) = (timer.alarm.take(now_ns), timer.notice);
            let Notice::Signal { signal, value, thread } = notice else { continue };
            if count > 0 {
                self.ring((id, count), (signal, value, thread), &harts, &mut expired);
            }
        }
        if self.files.tick(now_ns) {
            let woken = self.retrying().filter(|hart| !expired.woken.contains(hart));
            expired.woken.extend(woken.collect::<Vec<_>>());
        }
        expired
    }

    /// Sends the signal of a timer that was due so many times.
    fn ring(
        &mut self,
        (id, count): (u32, u64),
        (signal, value, thread): (u64, u64, Option<u64>),
        harts: &[usize],
        expired: &mut Expired,
    ) {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        if self.signals.overrun(id, count) {
            return;
        }
        let to = match thread.map(|thread| self.threads.hart_of(thread)) {
            Some(Some(hart)) => To::Thread(hart),
            // The thread is over.
            Some(None) => return,
            None => To::Process(harts),
        };
        self.notify(to, Info::by_timer(signal, id, value), expired);
        self.signals.overrun(id, count - 1);
    }

    fn notify(&mut self, to: To<'_>, info: Info, expired: &mut Expired) {
        match self.signals.send(to, info) {
            Sent::Ignored | Sent::Pends => {}
            Sent::Kills(hart) => {
                expired.killed = expired.killed.or(Some((hart, info.signal as i32)));
            }
            Sent::Waits(hart) => {
                if self.is_for(hart, info.signal) && !expired.woken.contains(&hart) {
                    expired.woken.push(hart);
                }
            }
        }
    }

    pub(super) fn timer_call(&mut self, number: u64, context: &mut Context<'_>) -> Option<Result> {
        let [a0, a1, ..] = context.args();
        Some(match number {
            number::GETITIMER => self.interval(a0).and_then(|index| {
                let shown = self.timers.intervals[index].shown(context.host.now_ns());
                write_microseconds(context, a1, shown)
            }),
            number::SETITIMER => self.set_interval(context),
            number::TIMER_CREATE => self.create_timer(context),
            number::TIMER_SETTIME => self.set_timer(context),
            number::TIMER_GETTIME => {
                self.timers.timer(a0).map(|timer| timer.alarm).and_then(|alarm| {
                    let shown = alarm.shown(context.host.now_ns());
                    write_times(context, a1, shown)
                })
            }
            number::TIMER_GETOVERRUN => match self.timers.timer(a0) {
                Ok(_) => Ok(self.signals.overruns(a0 as u32).into()),
                Err(errno) => Err(errno),
            },
            number::TIMER_DELETE => self.timers.timer(a0).map(|_| ()).map(|()| {
                self.timers.timers.remove(&(a0 as u32));
                self.signals.forget_timer(a0 as u32);
                0
            }),
            _ => return None,
        })
    }

    fn interval(&self, which: u64) -> Result<usize> {
        let index = usize::try_from(which as u32).unwrap_or(usize::MAX);
        if index < self.timers.intervals.len() { Ok(index) } else { Err(Errno::INVAL) }
    }

    fn set_interval(&mut self, context: &mut Context<'_>) -> Result {
        let [which, new, old, ..] = context.args();
        let alarm = match new {
            0 => Alarm::default(),
            _ => {
                let period_ns = read_microseconds(context, new)?;
                let rest = read_microseconds(context, new.wrapping_add(16))?;
                let due = context.host.now_ns().saturating_add(rest);
                Alarm { due_ns: (rest > 0).then_some(due), period_ns }
            }
        };
        let index = self.interval(which)?;
        let shown = self.timers.intervals[index].shown(context.host.now_ns());
        self.timers.intervals[index] = alarm;
        if old != 0 { write_microseconds(context, old, shown) } else { Ok(0) }
    }

    fn create_timer(&mut self, context: &mut Context<'_>) -> Result {
        let [clock, event, to, ..] = context.args();
        if !is_clock(clock) {
            return Err(Errno::INVAL);
        }
        if self.timers.timers.len() >= MOST_TIMERS || self.timers.next_id >= LAST_TIMER {
            return Err(Errno::AGAIN);
        }
        let id = self.timers.next_id;
        let notice = match event {
            0 => Notice::Signal { signal: INTERVAL_SIGNALS[0], value: id.into(), thread: None },
            _ => self.read_notice(context, event)?,
        };
        context.memory.write(to, &id.to_le_bytes())?;
        self.timers.next_id += 1;
        self.timers.timers.insert(id, Timer { clock, alarm: Alarm::default(), notice });
        Ok(0)
    }

    /// A `struct sigevent`.
    fn read_notice(&self, context: &mut Context<'_>, event: u64) -> Result<Notice> {
        const SIGNAL: u32 = 0;
        const NONE: u32 = 1;
        const THREAD: u32 = 2;
        const THREAD_ID: u32 = 4;
        let value = context.read_u64(event)?;
        let signal = u64::from(context.read_u32(event.wrapping_add(8))?);
        let kind = context.read_u32(event.wrapping_add(12))?;
        let thread = context.read_u32(event.wrapping_add(16))?;
        let is_signal = (1..=LAST).contains(&signal);
        match kind {
            NONE => Ok(Notice::Nothing),
            SIGNAL | THREAD if is_signal => Ok(Notice::Signal { signal, value, thread: None }),
            THREAD_ID if is_signal && self.threads.hart_of(thread.into()).is_some() => {
                Ok(Notice::Signal { signal, value, thread: Some(thread.into()) })
            }
            _ => Err(Errno::INVAL),
        }
    }

    fn set_timer(&mut self, context: &mut Context<'_>) -> Result {
        let [id, flags, new, old, ..] = context.args();
        if new == 0 {
            return Err(Errno::INVAL);
        }
        let times = read_times(context, new)?;
        let now = context.host.now_ns();
        let timer = self.timers.timer(id)?;
        let shown = timer.alarm.shown(now);
        (timer.alarm, _) = Alarm::new(times, timer.clock, flags & TIMER_ABSTIME != 0, now);
        self.signals.forget_timer(id as u32);
        if old != 0 { write_times(context, old, shown) } else { Ok(0) }
    }
}

const CLOCK_TAI: u64 = 11;

/// Whether a clock is one that timers count by.
fn is_clock(clock: u64) -> bool {
    const MONOTONIC: i32 = 1;
    const PROCESS_CPU: i32 = 2;
    const THREAD_CPU: i32 = 3;
    const BOOT: i32 = 7;
    const TAI: i32 = CLOCK_TAI as i32;
    /// CPU time of the calling process and thread, as C libraries name it.
    const OWN_PROCESS_CPU: i32 = -6;
    const OWN_THREAD_CPU: i32 = -2;
    matches!(
        clock as i32,
        0 | MONOTONIC | PROCESS_CPU | THREAD_CPU | BOOT | TAI | OWN_PROCESS_CPU | OWN_THREAD_CPU
    )
}

/// The period and the time of a `struct itimerspec`, in nanoseconds.
pub(super) fn read_times(context: &mut Context<'_>, at: u64) -> Result<[u64; 2]> {
    Ok([context.read_time(at)?, context.read_time(at.wrapping_add(16))?])
}

/// A period and a time as `struct itimerspec`.
pub(super) fn write_times(context: &mut Context<'_>, at: u64, shown: [u64; 2]) -> Result {
    let [period, rest] = shown;
    context.write_words(at, &[period / NS, period % NS, rest / NS, rest % NS])?;
    Ok(0)
}

/// A period and a time as `struct itimerval`; less than a microsecond is one.
fn write_microseconds(context: &mut Context<'_>, at: u64, shown: [u64; 2]) -> Result {
    let [period, rest] = shown.map(|ns| ns.div_ceil(1000));
    const US: u64 = 1_000_000;
    context.write_words(at, &[period / US, period % US, rest / US, rest % US])?;
    Ok(0)
}
