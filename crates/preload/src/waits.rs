//! System calls that wait, about time, and about processes.

use std::ffi::{c_int, c_uint};

use libc::{pid_t, size_t, ssize_t};

use crate::local::{Pointer, system_calls};

const EVENT: usize = size_of::<libc::epoll_event>();
const TIME: usize = size_of::<libc::timespec>();
const TIMER: usize = size_of::<libc::itimerspec>();
const SET: usize = size_of::<libc::sigset_t>();
const INFO: usize = size_of::<libc::siginfo_t>();
const USAGE: usize = size_of::<libc::rusage>();
const LIMIT: usize = size_of::<libc::rlimit64>();

/// Bytes of an array of `pollfd`.
fn polled(count: u64) -> usize {
    (count as usize).saturating_mul(size_of::<libc::pollfd>())
}

/// Bytes of a set of descriptors below `count` that the kernel looks at.
fn descriptors(count: c_int) -> usize {
    (count.max(0) as usize).div_ceil(64) * 8
}

fn events(count: c_int) -> usize {
    count.max(0) as usize * EVENT
}

system_calls! {
    poll(list: Pointer = both(polled(count)), count: u64, timeout: c_int) -> c_int;
    __poll_chk(list: Pointer = both(polled(count)), count: u64, timeout: c_int, limit: size_t)
        -> c_int;
    ppoll(list: Pointer = both(polled(count)), count: u64, timeout: Pointer = input(TIME),
        mask: Pointer = input(SET)) -> c_int;
    __ppoll_chk(list: Pointer = both(polled(count)), count: u64, timeout: Pointer = input(TIME),
        mask: Pointer = input(SET), limit: size_t) -> c_int;
    select(count: c_int, read: Pointer = both(descriptors(count)),
        write: Pointer = both(descriptors(count)), except: Pointer = both(descriptors(count)),
        timeout: Pointer = both(TIME)) -> c_int;
    pselect(count: c_int, read: Pointer = both(descriptors(count)),
        write: Pointer = both(descriptors(count)), except: Pointer = both(descriptors(count)),
        timeout: Pointer = input(TIME), mask: Pointer = input(SET)) -> c_int;
    epoll_wait(fd: c_int, list: Pointer = fill(events(count), EVENT), count: c_int,
        timeout: c_int) -> c_int;
    epoll_pwait(fd: c_int, list: Pointer = fill(events(count), EVENT), count: c_int,
        timeout: c_int, mask: Pointer = input(SET)) -> c_int;
    epoll_pwait2(fd: c_int, list: Pointer = fill(events(count), EVENT), count: c_int,
        timeout: Pointer = input(TIME), mask: Pointer = input(SET)) -> c_int;
    epoll_ctl(fd: c_int, operation: c_int, of: c_int, event: Pointer = input(EVENT)) -> c_int;

    nanosleep(time: Pointer = input(TIME), left: Pointer = both(TIME)) -> c_int;
    clock_nanosleep(clock: c_int, flags: c_int, time: Pointer = input(TIME),
        left: Pointer = both(TIME)) -> c_int;
    getitimer(which: c_int, timer: Pointer = both(TIMER)) -> c_int;
    setitimer(which: c_int, timer: Pointer = input(TIMER), old: Pointer = both(TIMER)) -> c_int;
    timer_create(clock: c_int, event: Pointer = input(64), timer: Pointer = both(8)) -> c_int;
    timer_gettime(timer: Pointer, time: Pointer = both(TIMER)) -> c_int;
    timer_settime(timer: Pointer, flags: c_int, time: Pointer = input(TIMER),
        old: Pointer = both(TIMER)) -> c_int;
    timerfd_gettime(fd: c_int, time: Pointer = both(TIMER)) -> c_int;
    timerfd_settime(fd: c_int, flags: c_int, time: Pointer = input(TIMER),
        old: Pointer = both(TIMER)) -> c_int;

    sigpending(set: Pointer = both(SET)) -> c_int;
    sigwaitinfo(set: Pointer = input(SET), info: Pointer = both(INFO)) -> c_int;
    sigtimedwait(set: Pointer = input(SET), info: Pointer = both(INFO),
        timeout: Pointer = input(TIME)) -> c_int;
    sigwait(set: Pointer = input(SET), signal: Pointer) -> c_int;
    signalfd(fd: c_int, set: Pointer = input(SET), flags: c_int) -> c_int;

    wait(status: Pointer = both(4)) -> pid_t;
    waitpid(process: pid_t, status: Pointer = both(4), options: c_int) -> pid_t;
    wait3(status: Pointer = both(4), options: c_int, usage: Pointer = both(USAGE)) -> pid_t;
    wait4(process: pid_t, status: Pointer = both(4), options: c_int, usage: Pointer = both(USAGE))
        -> pid_t;
    waitid(kind: c_int, id: c_uint, info: Pointer = both(INFO), options: c_int) -> c_int;
    getrusage(of: c_int, usage: Pointer = both(USAGE)) -> c_int;
    getrlimit(resource: c_int, limit: Pointer = both(LIMIT)) -> c_int;
    getrlimit64(resource: c_int, limit: Pointer = both(LIMIT)) -> c_int;
    setrlimit(resource: c_int, limit: Pointer = input(LIMIT)) -> c_int;
    setrlimit64(resource: c_int, limit: Pointer = input(LIMIT)) -> c_int;
    prlimit(process: pid_t, resource: c_int, limit: Pointer = input(LIMIT),
        old: Pointer = both(LIMIT)) -> c_int;
    prlimit64(process: pid_t, resource: c_int, limit: Pointer = input(LIMIT),
        old: Pointer = both(LIMIT)) -> c_int;
    times(times: Pointer = both(32)) -> ssize_t;
    uname(names: Pointer = both(size_of::<libc::utsname>())) -> c_int;
    sysinfo(system: Pointer = both(size_of::<libc::sysinfo>())) -> c_int;
    getgroups(count: c_int, list: Pointer = both(count.max(0) as usize * 4)) -> c_int;
    setgroups(count: size_t, list: Pointer = input(count * 4)) -> c_int;
    getresuid(real: Pointer = both(4), effective: Pointer = both(4), saved: Pointer = both(4))
        -> c_int;
    getresgid(real: Pointer = both(4), effective: Pointer = both(4), saved: Pointer = both(4))
        -> c_int;
    sched_getaffinity(process: pid_t, bytes: size_t, set: Pointer = both(bytes)) -> c_int;
    sched_setaffinity(process: pid_t, bytes: size_t, set: Pointer = input(bytes)) -> c_int;
    pthread_getaffinity_np(thread: usize, bytes: size_t, set: Pointer = both(bytes)) -> c_int;
    pthread_setaffinity_np(thread: usize, bytes: size_t, set: Pointer = input(bytes)) -> c_int;
    sched_getparam(process: pid_t, parameters: Pointer = both(4)) -> c_int;
    sched_setparam(process: pid_t, parameters: Pointer = input(4)) -> c_int;
    sched_setscheduler(process: pid_t, policy: c_int, parameters: Pointer = input(4)) -> c_int;
    prctl(option: c_int, a: Pointer = some(64), b: Pointer = some(64), c: Pointer, d: Pointer)
        -> c_int;
    getentropy(buffer: Pointer = both(length), length: size_t) -> c_int;
}
