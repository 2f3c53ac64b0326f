//! sendmsg, recvmsg and their kin: a message is one call, and its head is local, too.

use std::ffi::{c_int, c_uint};
use std::ptr;
use std::time::{Duration, Instant};

use libc::{iovec, mmsghdr, msghdr, pid_t, size_t, ssize_t, timespec};

use crate::local::{Locals, Pointer, helping, system_calls};
use crate::next::next;
use crate::standin::{StandIn, Use};
use crate::transfer::{Division, needs_help, total, transfer, with_checks};
use crate::{kernel, thread};

/// The buffers of a message. `None`: they are more than the kernel takes, as it will say.
///
/// # Safety
/// The message is whole.
unsafe fn buffers<'a>(message: &msghdr) -> Option<&'a [iovec]> {
    match message.msg_iovlen {
        0 => Some(&[]),
        // SAFETY: by the condition.
        count @ 1..=1024 => Some(unsafe { std::slice::from_raw_parts(message.msg_iov, count) }),
        _ => None,
    }
}

fn call_recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    next!(recvmsg(fd => c_int, message => *mut msghdr, flags => c_int) -> ssize_t)
}

fn call_sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    next!(sendmsg(fd => c_int, message => *const msghdr, flags => c_int) -> ssize_t)
}

/// As recvmsg(2).
///
/// # Safety
/// As for recvmsg.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    if helping().is_none() {
        return call_recvmsg(fd, message, flags);
    }
    // SAFETY: the caller's promise.
    let (mut copy, given) = unsafe { (message.read(), message.read()) };
    // SAFETY: as above.
    let Some(buffers) = (unsafe { buffers(&given) }) else {
        return call_recvmsg(fd, message, flags);
    };
    let mut locals = Locals::new();
    copy.msg_name = locals.both(given.msg_name, given.msg_namelen as usize);
    copy.msg_control = locals.both(given.msg_control, given.msg_controllen);
    let moved = transfer(Division::NONE, buffers, Use::Fill, |list, _| {
        (copy.msg_iov, copy.msg_iovlen) = (list.as_ptr().cast_mut(), list.len());
        call_recvmsg(fd, &raw mut copy, flags)
    });
    if moved >= 0 {
        // SAFETY: as above.
        unsafe {
            (*message).msg_namelen = copy.msg_namelen;
            (*message).msg_controllen = copy.msg_controllen;
            (*message).msg_flags = copy.msg_flags;
        }
    }
    locals.finish(moved)
}

/// As sendmsg(2).
///
/// # Safety
/// As for sendmsg.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendmsg(
    fd: c_int,
    message: *const msghdr,
    flags: c_int,
) -> ssize_t {
    // Memory that is sent without a copy is in use after the call: local memory cannot stand in for it.
    if helping().is_none() || flags & libc::MSG_ZEROCOPY != 0 {
        return call_sendmsg(fd, message, flags);
    }
    // SAFETY: the caller's promise.
    let mut copy = unsafe { message.read() };
    // SAFETY: as above.
    let Some(buffers) = (unsafe { buffers(&copy) }) else {
        return call_sendmsg(fd, message, flags);
    };
    let mut locals = Locals::new();
    copy.msg_name = locals.input(copy.msg_name, copy.msg_namelen as usize);
    copy.msg_control = locals.input(copy.msg_control, copy.msg_controllen);
    let division = Division::of(fd, Use::Drain, total(buffers));
    let moved = transfer(division, buffers, Use::Drain, |list, done| {
        (copy.msg_iov, copy.msg_iovlen) = (list.as_ptr().cast_mut(), list.len());
        if done > 0 {
            // Descriptors are sent once.
            (copy.msg_control, copy.msg_controllen) = (ptr::null_mut(), 0);
        }
        call_sendmsg(fd, &raw const copy, flags)
    });
    locals.finish(moved)
}

/// A message of one buffer.
fn message(buffer: &mut iovec, name: Pointer, length: u32) -> msghdr {
    // SAFETY: zero is a value of the type.
    let mut message: msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (ptr::from_mut(buffer), 1);
    (message.msg_name, message.msg_namelen) = (name, length);
    message
}

/// As recvfrom(2).
///
/// # Safety
/// As for recvfrom.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recvfrom(
    fd: c_int,
    buffer: Pointer,
    length: size_t,
    flags: c_int,
    from: Pointer,
    size: *mut u32,
) -> ssize_t {
    let words = [(from, 1), (size.cast(), size_of::<u32>()), (buffer, length)];
    if !needs_help(&words.map(|(at, length)| iovec { iov_base: at, iov_len: length })) {
        return next!(recvfrom(fd => c_int, buffer => Pointer, length => size_t, flags => c_int,
            from => Pointer, size => *mut u32) -> ssize_t);
    }
    let mut buffer = iovec { iov_base: buffer, iov_len: length };
    let is_named = !from.is_null() && !size.is_null();
    // SAFETY: the caller's promise.
    let mut message = message(&mut buffer, from, if is_named { unsafe { size.read() } } else { 0 });
    // SAFETY: as above.
    unsafe {
        let moved = recvmsg(fd, &raw mut message, flags);
        if moved >= 0 && is_named {
            size.write(message.msg_namelen);
        }
        moved
    }
}

/// As recv(2).
///
/// # Safety
/// As for recv.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recv(
    fd: c_int,
    buffer: Pointer,
    length: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the caller's promise.
    unsafe { recvfrom(fd, buffer, length, flags, ptr::null_mut(), ptr::null_mut()) }
}

with_checks! {
    __recv_chk => recv(length, limit: size_t, flags: c_int);
    __recvfrom_chk
        => recvfrom(length, limit: size_t, flags: c_int, from: Pointer, size: *mut u32);
}

/// As sendto(2).
///
/// # Safety
/// As for sendto.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendto(
    fd: c_int,
    buffer: Pointer,
    length: size_t,
    flags: c_int,
    to: Pointer,
    size: u32,
) -> ssize_t {
    let words = [(to, size as usize), (buffer, length)];
    if !needs_help(&words.map(|(at, length)| iovec { iov_base: at, iov_len: length })) {
        return next!(sendto(fd => c_int, buffer => Pointer, length => size_t, flags => c_int,
            to => Pointer, size => u32) -> ssize_t);
    }
    let mut buffer = iovec { iov_base: buffer, iov_len: length };
    let message = message(&mut buffer, to, if to.is_null() { 0 } else { size });
    // SAFETY: the caller's promise.
    unsafe { sendmsg(fd, &raw const message, flags) }
}

/// As send(2).
///
/// # Safety
/// As for send.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn send(
    fd: c_int,
    buffer: Pointer,
    length: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the caller's promise.
    unsafe { sendto(fd, buffer, length, flags, ptr::null_mut(), 0) }
}

/// As sendmmsg(2).
///
/// # Safety
/// As for sendmmsg.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendmmsg(
    fd: c_int,
    list: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
) -> c_int {
    if helping().is_none() {
        return next!(sendmmsg(fd => c_int, list => *mut mmsghdr, count => c_uint, flags => c_int)
            -> c_int);
    }
    for index in 0..count.min(1024) as usize {
        // SAFETY: the caller's promise.
        unsafe {
            let message = list.add(index);
            let moved = sendmsg(fd, &raw const (*message).msg_hdr, flags);
            if moved < 0 {
                return if index == 0 { -1 } else { index as c_int };
            }
            (*message).msg_len = moved as c_uint;
        }
    }
    count.min(1024) as c_int
}

/// As recvmmsg(2): the time is looked at after each message.
///
/// # Safety
/// As for recvmmsg.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recvmmsg(
    fd: c_int,
    list: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
    timeout: *mut timespec,
) -> c_int {
    if helping().is_none() {
        return next!(recvmmsg(fd => c_int, list => *mut mmsghdr, count => c_uint, flags => c_int,
            timeout => *mut timespec) -> c_int);
    }
    let begin = Instant::now();
    // SAFETY: the caller's promise.
    let limit = unsafe { timeout.as_ref() }
        .map(|time| Duration::new(time.tv_sec.max(0) as u64, time.tv_nsec.max(0) as u32));
    let (mut done, mut flags) = (0, flags);
    let waits_for_one = flags & libc::MSG_WAITFORONE != 0;
    flags &= !libc::MSG_WAITFORONE;
    while done < count.min(1024) {
        // SAFETY: as above.
        unsafe {
            let message = list.add(done as usize);
            let moved = recvmsg(fd, &raw mut (*message).msg_hdr, flags);
            if moved < 0 {
                break;
            }
            (*message).msg_len = moved as c_uint;
        }
        done += 1;
        if waits_for_one {
            flags |= libc::MSG_DONTWAIT;
        }
        if let Some(limit) = limit {
            let left = limit.saturating_sub(begin.elapsed());
            let left =
                timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
            // SAFETY: as above.
            unsafe { timeout.write(left) };
            if left.tv_sec == 0 && left.tv_nsec == 0 {
                break;
            }
        }
    }
    if done == 0 && count != 0 { -1 } else { done as c_int }
}

/// Defines process_vm_readv and process_vm_writev. Another process's borrowed memory is read as it is: the call fails
/// with EFAULT for pages that are away there, if that process needs help, too.
macro_rules! of_processes {
    ($($name:ident: $here:ident, $there:ident;)*) => {$(
        #[doc = concat!("As ", stringify!($name), " of the C library.")]
        ///
        /// # Safety
        /// As for that function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            process: pid_t,
            local: *const iovec,
            local_count: usize,
            remote: *const iovec,
            remote_count: usize,
            flags: usize,
        ) -> ssize_t {
            let is_known = local_count <= 1024 && remote_count <= 1024 && local_count != 0 && remote_count != 0;
            if helping().is_none() || !is_known {
                return next!($name(process => pid_t, local => *const iovec, local_count => usize,
                    remote => *const iovec, remote_count => usize, flags => usize) -> ssize_t);
            }
            // SAFETY: the caller's promise.
            let (here, there) = unsafe {
                (std::slice::from_raw_parts(local, local_count),
                 std::slice::from_raw_parts(remote, remote_count))
            };
            let own = helping().filter(|_| process == kernel::process_id());
            let mut room = None;
            transfer(Division::PIECES, here, Use::$here, |list, done| {
                let most = total(list);
                let Some(remote) = StandIn::new(own, there, done, most, Use::$there, &mut room)
                else {
                    thread::set_errno(libc::ENOMEM);
                    return -1;
                };
                let (local, local_count) = (list.as_ptr(), list.len());
                let (first, count) = (remote.list().as_ptr(), remote.list().len());
                let moved = next!($name(process => pid_t, local => *const iovec, local_count => usize,
                    first => *const iovec, count => usize, flags => usize) -> ssize_t);
                if Use::$there == Use::Fill && moved > 0 {
                    remote.give_back(moved as usize);
                }
                moved
            })
        }
    )*};
}

of_processes! {
    process_vm_readv: Fill, Drain;
    process_vm_writev: Drain, Fill;
}

/// Most bytes of a control of unknown size.
const SOME: usize = 256;

system_calls! {
    bind(fd: c_int, name: Pointer = input(size as usize), size: u32) -> c_int;
    connect(fd: c_int, name: Pointer = input(size as usize), size: u32) -> c_int;
    accept(fd: c_int, name: Pointer = sized(size), size: Pointer = both(4)) -> c_int;
    accept4(fd: c_int, name: Pointer = sized(size), size: Pointer = both(4), flags: c_int)
        -> c_int;
    getsockname(fd: c_int, name: Pointer = sized(size), size: Pointer = both(4)) -> c_int;
    getpeername(fd: c_int, name: Pointer = sized(size), size: Pointer = both(4)) -> c_int;
    getsockopt(fd: c_int, level: c_int, option: c_int, value: Pointer = sized(size),
        size: Pointer = both(4)) -> c_int;
    setsockopt(fd: c_int, level: c_int, option: c_int, value: Pointer = input(size as usize),
        size: u32) -> c_int;
    socketpair(domain: c_int, kind: c_int, protocol: c_int, pair: Pointer = both(8)) -> c_int;
    msgsnd(queue: c_int, message: Pointer = input(size + 8), size: usize, flags: c_int) -> c_int;
    msgrcv(queue: c_int, message: Pointer = both(size + 8), size: usize, kind: isize,
        flags: c_int) -> ssize_t;
    semop(set: c_int, operations: Pointer = input(count * 6), count: usize) -> c_int;
    semtimedop(set: c_int, operations: Pointer = input(count * 6), count: usize,
        timeout: Pointer = input(16)) -> c_int;
    msgctl(queue: c_int, command: c_int, argument: Pointer = some(SOME)) -> c_int;
    shmctl(segment: c_int, command: c_int, argument: Pointer = some(SOME)) -> c_int;
    mq_send(queue: c_int, message: Pointer = input(size), size: usize, priority: c_uint) -> c_int;
    mq_receive(queue: c_int, message: Pointer = fill(size, 1), size: usize,
        priority: Pointer = both(4)) -> ssize_t;
    mq_timedsend(queue: c_int, message: Pointer = input(size), size: usize, priority: c_uint,
        timeout: Pointer = input(16)) -> c_int;
    mq_timedreceive(queue: c_int, message: Pointer = fill(size, 1), size: usize,
        priority: Pointer = both(4), timeout: Pointer = input(16)) -> ssize_t;
}
