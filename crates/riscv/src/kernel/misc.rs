//! Time, random numbers, and calls with the same answer for every program.

use super::threads::{PROCESS, Threads};
use super::{Context, Effect, Errno, Result, UserMemory, number};
use crate::hart::{Hart, abi};

/// Calendar time at which every program begins: 2020-01-01 00:00 UTC, in nanoseconds since 1970. It is
/// fixed so that runs repeat.
pub(super) const EPOCH_NS: u64 = 1_577_836_800_000_000_000;

/// `TIMER_ABSTIME` of `clock_nanosleep`.
pub(super) const TIMER_ABSTIME: u64 = 1;

const NS: u64 = 1_000_000_000;

pub(super) fn call(number: u64, context: &mut Context<'_>, random: &mut u64) -> Option<Result> {
    let [a0, a1, a2, ..] = context.args();
    Some(match number {
        number::GETTIMEOFDAY => time_of_day(context, a0, a1),
        number::GETRANDOM => get_random(context, (a0, a1, a2), random),
        number::GETRUSAGE => usage(context, a0, a1),
        number::TIMES => {
            const TICK_NS: u64 = NS / 100;
            let ticks = context.host.now_ns() / TICK_NS;
            let written = if a0 == 0 { Ok(()) } else { context.write_words(a0, &[ticks, 0, 0, 0]) };
            written.map(|()| ticks)
        }
        number::UNAME => uname(context, a0),
        number::SYSINFO => sysinfo(context, a0),
        number::GETUID | number::GETEUID | number::GETGID | number::GETEGID => {
            Ok(crate::stack::USER)
        }
        _ => return None,
    })
}

/// `getrusage`: user time, system time, then counts of events of which there are none.
fn usage(context: &mut Context<'_>, who: u64, to: u64) -> Result {
    const PROCESS: i32 = 0;
    const THREAD: i32 = 1;
    const CHILDREN: i32 = -1;
    let used = match who as i32 {
        PROCESS | THREAD => context.host.now_ns(),
        CHILDREN => 0,
        _ => return Err(Errno::INVAL),
    };
    let mut words = [0; 18];
    (words[0], words[1]) = (used / NS, used % NS / 1000);
    context.write_words(to, &words).map(|()| 0)
}

/// What a clock shows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Clock {
    /// The calendar's time.
    Calendar,
    /// The time since the program has begun, which is that of all CPU time, too.
    Elapsed,
}

impl Clock {
    /// The clock with this number: one of Linux, or the CPU time of a thread or the process.
    fn of(number: u64, threads: &Threads) -> Result<Clock> {
        const PER_THREAD: i32 = 4;
        const DESCRIPTOR: i32 = 3;
        match number as i32 {
            0 | 5 | 8 | 11 => Ok(Clock::Calendar),
            1..=4 | 6 | 7 | 9 => Ok(Clock::Elapsed),
            0.. => Err(Errno::INVAL),
            number => {
                let id = u64::from(!(number >> 3) as u32);
                let is_ours = match number & PER_THREAD {
                    0 => id == 0 || id == PROCESS,
                    _ => id == 0 || threads.hart_of(id).is_some(),
                };
                let is_clock = is_ours && number & DESCRIPTOR != DESCRIPTOR;
                if is_clock { Ok(Clock::Elapsed) } else { Err(Errno::INVAL) }
            }
        }
    }

    fn now(self, context: &mut Context<'_>) -> u64 {
        let now = context.host.now_ns();
        if self == Clock::Calendar { EPOCH_NS.saturating_add(now) } else { now }
    }
}

/// `clock_gettime` and `clock_getres`.
pub(super) fn clock_call(
    number: u64,
    context: &mut Context<'_>,
    threads: &Threads,
) -> Option<Result> {
    let [clock, to, ..] = context.args();
    if !matches!(number, number::CLOCK_GETTIME | number::CLOCK_GETRES) {
        return None;
    }
    Some(Clock::of(clock, threads).and_then(|clock| {
        let time = match number {
            number::CLOCK_GETTIME => clock.now(context),
            _ if to == 0 => return Ok(0),
            _ => 1,
        };
        context.write_words(to, &[time / NS, time % NS]).map(|()| 0)
    }))
}

/// `gettimeofday`: the time zone is UTC.
fn time_of_day(context: &mut Context<'_>, to: u64, zone: u64) -> Result {
    let time = Clock::Calendar.now(context);
    if to != 0 {
        context.write_words(to, &[time / NS, time % NS / 1000])?;
    }
    if zone != 0 {
        context.write_words(zone, &[0])?;
    }
    Ok(0)
}

pub(super) fn nanosleep(context: &mut Context<'_>, request: u64) -> Result<(u64, Effect)> {
    let time = context.read_time(request)?;
    let until = context.host.now_ns().saturating_add(time);
    Ok((0, Effect::Sleep { until_ns: Some(until) }))
}

pub(super) fn clock_nanosleep(
    context: &mut Context<'_>,
    threads: &Threads,
) -> Result<(u64, Effect)> {
    const THREAD_CPU_TIME: i32 = 3;
    const RAW: i32 = 4;
    const COARSE: [i32; 2] = [5, 6];
    const ALARMS: [i32; 2] = [8, 9];
    let [number, flags, request, ..] = context.args();
    let clock = Clock::of(number, threads)?;
    let number = number as i32;
    let has_timers = !COARSE.contains(&number) && !ALARMS.contains(&number);
    if number == THREAD_CPU_TIME || number == RAW || !has_timers {
        return Err(Errno::OPNOTSUPP);
    }
    if flags & TIMER_ABSTIME == 0 {
        return nanosleep(context, request);
    }
    let time = context.read_time(request)?;
    let until = if clock == Clock::Calendar { time.saturating_sub(EPOCH_NS) } else { time };
    Ok((0, Effect::Sleep { until_ns: Some(until) }))
}

/// Writes the rest of a sleep that a signal interrupts, if its call asks for that.
pub(super) fn write_rest(state: &Hart, memory: &mut dyn UserMemory, rest_ns: u64) -> Result<()> {
    let args: [u64; 4] = core::array::from_fn(|index| state.x[abi::A0 + index]);
    let to = match state.x[abi::A7] {
        number::NANOSLEEP => args[1],
        number::CLOCK_NANOSLEEP if args[1] & TIMER_ABSTIME == 0 => args[3],
        _ => 0,
    };
    if to == 0 {
        return Ok(());
    }
    let words = [rest_ns / NS, rest_ns % NS];
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    Ok(memory.write(to, &bytes)?)
}

/// Random bytes for a program, the same in every run.
fn get_random(
    context: &mut Context<'_>,
    (to, length, flags): (u64, u64, u64),
    state: &mut u64,
) -> Result {
    const MOST: u64 = 1 << 20;
    const RANDOM: u64 = 2;
    const INSECURE: u64 = 4;
    const ALL: u64 = 7;
    if flags & !ALL != 0 || flags & (RANDOM | INSECURE) == RANDOM | INSECURE {
        return Err(Errno::INVAL);
    }
    let length = length.min(MOST);
    let mut bytes = vec![0; length as usize];
    fill_random(state, &mut bytes);
    context.memory.write(to, &bytes)?;
    Ok(length)
}

/// Fills with numbers of a SplitMix64 generator.
pub(super) fn fill_random(state: &mut u64, bytes: &mut [u8]) {
    for piece in bytes.chunks_mut(8) {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = *state;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        piece.copy_from_slice(&(word ^ word >> 31).to_le_bytes()[..piece.len()]);
    }
}

/// `struct utsname`: six fields of 65 bytes. The release is one that no C library finds too old.
fn uname(context: &mut Context<'_>, to: u64) -> Result {
    const FIELD: usize = 65;
    let fields = ["Linux", "rackmem", "6.1.0", "#1", "riscv64", ""];
    let mut bytes = vec![0; FIELD * fields.len()];
    for (field, text) in bytes.chunks_mut(FIELD).zip(fields) {
        field[..text.len()].copy_from_slice(text.as_bytes());
    }
    context.memory.write(to, &bytes)?;
    Ok(0)
}

/// `struct sysinfo`: libraries choose their buffers by it.
fn sysinfo(context: &mut Context<'_>, to: u64) -> Result {
    let memory = context.host.memory_bytes();
    let uptime = context.host.now_ns() / NS;
    let (one_process, bytes_per_unit) = (1, 1);
    context.write_words(
        to,
        &[
            uptime,
            0, // loads
            0,
            0,
            memory,
            memory / 8 * 7,
            0, // shared, buffers, swap
            0,
            0,
            0,
            one_process,
            0, // high memory
            0,
            bytes_per_unit,
        ],
    )?;
    Ok(0)
}
