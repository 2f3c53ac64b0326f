//! read, write and their kin, where the kernel does not wait for pages that are away but fails with
//! EFAULT: without the right to handle its faults, and if the faulting thread serves itself.
//!
//! The pages are brought before the call, and again if they have left meanwhile. A call that wants more than
//! fits into local memory is made in pieces.

use std::ffi::{c_int, c_uint, c_void};
use std::mem::MaybeUninit;

use libc::{iovec, msghdr, off64_t, size_t, sockaddr, socklen_t, ssize_t};
use rackmem_borrow::paging::{PAGE_BYTES, Pager};

use crate::next::next;
use crate::{process, thread};

/// Most buffers of one call that are handed on at once; others follow.
const MAX_PIECES: usize = 128;

/// How often a call is repeated whose pages leave again and again.
const MAX_ATTEMPTS: u32 = 10_000;

/// The pager, if system calls need help.
pub fn helping() -> Option<&'static Pager> {
    if thread::is_inside() {
        return None;
    }
    process::pager().filter(|pager| pager.is_user_mode_only())
}

/// What a call does with the memory it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// The kernel writes there; it may do less than it could.
    Fill,
    /// The kernel reads it, all of it unless something comes in between.
    Drain,
}

/// Buffers of which the beginning is there.
struct Pieces {
    list: [MaybeUninit<iovec>; MAX_PIECES],
    count: usize,
    bytes: usize,
}

impl Pieces {
    /// Brings what follows after the first `done` bytes of `buffers`, as much as may be, at most `most`.
    fn bring(pager: &Pager, buffers: &[iovec], done: usize, most: usize, usage: Use) -> Pieces {
        let mut pieces = Pieces { list: [MaybeUninit::uninit(); MAX_PIECES], count: 0, bytes: 0 };
        let mut skip = done;
        for buffer in buffers {
            let skipped = skip.min(buffer.iov_len);
            skip -= skipped;
            let (base, length) = (buffer.iov_base as usize + skipped, buffer.iov_len - skipped);
            if length == 0 {
                continue;
            }
            // What is lost is left to the kernel, which says EFAULT.
            let wanted = length.min(most - pieces.bytes);
            let there = pager.ensure_present(base, wanted, usage == Use::Fill).unwrap_or(wanted);
            let there = there.clamp(1, wanted);
            pieces.list[pieces.count]
                .write(iovec { iov_base: base as *mut c_void, iov_len: there });
            pieces.count += 1;
            pieces.bytes += there;
            if there < length || pieces.bytes == most || pieces.count == MAX_PIECES {
                break;
            }
        }
        pieces
    }

    fn list(&self) -> &[iovec] {
        // SAFETY: so many were written.
        unsafe { std::slice::from_raw_parts(self.list.as_ptr().cast(), self.count) }
    }

    fn are_borrowed(&self, pager: &Pager) -> bool {
        self.list().iter().any(|piece| pager.overlaps(piece.iov_base as usize, piece.iov_len))
    }
}

/// Makes a call with the buffers present; `call` is given some of them, and how many bytes went before.
fn transfer(
    pager: &Pager,
    buffers: &[iovec],
    usage: Use,
    mut call: impl FnMut(&[iovec], usize) -> ssize_t,
) -> ssize_t {
    let total: usize = buffers.iter().map(|buffer| buffer.iov_len).sum();
    let (mut done, mut attempts, mut most) = (0, 0, usize::MAX);
    loop {
        let pieces = {
            let _inside = thread::enter();
            Pieces::bring(pager, buffers, done, most, usage)
        };
        let moved = call(pieces.list(), done);
        if moved < 0 {
            let is_away = thread::errno() == libc::EFAULT && pieces.are_borrowed(pager);
            if is_away && attempts < MAX_ATTEMPTS {
                // The first pages may have left for the last ones.
                attempts += 1;
                most = (pieces.bytes / 2).max(PAGE_BYTES);
                continue;
            }
            return if done > 0 { done as ssize_t } else { moved };
        }
        attempts = 0;
        done += moved as usize;
        // The kernel stops, without an error, at a page that has left meanwhile: what it would not take for another
        // reason it refuses when asked again.
        if usage == Use::Fill || moved == 0 || done >= total {
            return done as ssize_t;
        }
    }
}

/// The only buffer, if it is one.
fn only(buffers: &[iovec]) -> (*mut c_void, size_t) {
    buffers.first().map_or((std::ptr::null_mut(), 0), |only| (only.iov_base, only.iov_len))
}

/// Defines a function of one buffer.
macro_rules! of_buffer {
    ($(#[$doc:meta])* $name:ident, $usage:ident,
     ($fd:ident, $buffer:ident: $pointer:ty, $length:ident $(, $more:ident: $type:ty)*),
     |$done:ident| ($($passed:expr),*)) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// As for the function of that name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            $fd: c_int,
            $buffer: $pointer,
            $length: size_t
            $(, $more: $type)*
        ) -> ssize_t {
            let Some(pager) = helping().filter(|_| $length > 0) else {
                return next!($name($fd => c_int, $buffer => $pointer, $length => size_t
                    $(, $more => $type)*) -> ssize_t);
            };
            let buffers = [iovec { iov_base: $buffer as *mut c_void, iov_len: $length }];
            transfer(pager, &buffers, Use::$usage, |buffers, $done| {
                let ($buffer, $length) = only(buffers);
                let _ = $done;
                next!($name($fd => c_int, $buffer as $pointer => $pointer, $length => size_t
                    $(, $passed => $type)*) -> ssize_t)
            })
        }
    };
}

of_buffer!(/** As read(2). */ read, Fill, (fd, buffer: *mut c_void, length), |done| ());
of_buffer!(/** As write(2). */ write, Drain, (fd, buffer: *const c_void, length), |done| ());
of_buffer!(/** As read(2), with the size of the buffer. */ __read_chk, Fill,
    (fd, buffer: *mut c_void, length, limit: size_t), |done| (limit));
of_buffer!(/** As pread(2). */ pread, Fill,
    (fd, buffer: *mut c_void, length, offset: off64_t), |done| (offset + done as off64_t));
of_buffer!(/** As pread(2). */ pread64, Fill,
    (fd, buffer: *mut c_void, length, offset: off64_t), |done| (offset + done as off64_t));
of_buffer!(/** As pwrite(2). */ pwrite, Drain,
    (fd, buffer: *const c_void, length, offset: off64_t), |done| (offset + done as off64_t));
of_buffer!(/** As pwrite(2). */ pwrite64, Drain,
    (fd, buffer: *const c_void, length, offset: off64_t), |done| (offset + done as off64_t));
of_buffer!(/** As recv(2). */ recv, Fill,
    (fd, buffer: *mut c_void, length, flags: c_int), |done| (flags));
of_buffer!(/** As recv(2), with the size of the buffer. */ __recv_chk, Fill,
    (fd, buffer: *mut c_void, length, limit: size_t, flags: c_int), |done| (limit, flags));
of_buffer!(/** As send(2). */ send, Drain,
    (fd, buffer: *const c_void, length, flags: c_int), |done| (flags));
of_buffer!(/** As recvfrom(2). */ recvfrom, Fill,
    (fd, buffer: *mut c_void, length, flags: c_int, from: *mut sockaddr, size: *mut socklen_t),
    |done| (flags, from, size));
of_buffer!(/** As sendto(2). */ sendto, Drain,
    (fd, buffer: *const c_void, length, flags: c_int, to: *const sockaddr, size: socklen_t),
    |done| (flags, to, size));

/// Defines a function of several buffers.
macro_rules! of_buffers {
    ($(#[$doc:meta])* $name:ident, $usage:ident, ($($more:ident: $type:ty),*),
     |$done:ident| ($($passed:expr),*)) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// As for the function of that name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            fd: c_int,
            buffers: *const iovec,
            count: c_int
            $(, $more: $type)*
        ) -> ssize_t {
            let Some(pager) = helping().filter(|_| count > 0) else {
                return next!($name(fd => c_int, buffers => *const iovec, count => c_int
                    $(, $more => $type)*) -> ssize_t);
            };
            // SAFETY: the caller's promise.
            let buffers = unsafe { std::slice::from_raw_parts(buffers, count as usize) };
            transfer(pager, buffers, Use::$usage, |buffers, $done| {
                let _ = $done;
                let (first, count) = (buffers.as_ptr(), buffers.len() as c_int);
                next!($name(fd => c_int, first => *const iovec, count => c_int
                    $(, $passed => $type)*) -> ssize_t)
            })
        }
    };
}

of_buffers!(/** As readv(2). */ readv, Fill, (), |done| ());
of_buffers!(/** As writev(2). */ writev, Drain, (), |done| ());
of_buffers!(/** As preadv(2). */ preadv, Fill, (offset: off64_t),
    |done| (offset + done as off64_t));
of_buffers!(/** As preadv(2). */ preadv64, Fill, (offset: off64_t),
    |done| (offset + done as off64_t));
of_buffers!(/** As pwritev(2). */ pwritev, Drain, (offset: off64_t),
    |done| (offset + done as off64_t));
of_buffers!(/** As pwritev(2). */ pwritev64, Drain, (offset: off64_t),
    |done| (offset + done as off64_t));

/// The message with its buffers present; what else it points to is brought, too.
fn transfer_message(
    pager: &Pager,
    message: &mut msghdr,
    usage: Use,
    mut call: impl FnMut(&mut msghdr) -> ssize_t,
) -> ssize_t {
    let buffers = match message.msg_iovlen {
        0 => &[][..],
        // SAFETY: the caller of the function around this promises that the message is whole.
        count => unsafe { std::slice::from_raw_parts(message.msg_iov, count) },
    };
    let (whole, whole_count) = (message.msg_iov, message.msg_iovlen);
    let sent = |pager: &Pager, message: &msghdr| {
        let _inside = thread::enter();
        for (at, length) in [
            (message.msg_name, message.msg_namelen as usize),
            (message.msg_control, message.msg_controllen),
        ] {
            if length > 0 {
                let _ = pager.ensure_present(at as usize, length, usage == Use::Fill);
            }
        }
    };
    // Fill, also for what is sent: a message is not continued by another with the same head.
    let moved = transfer(pager, buffers, Use::Fill, |buffers, _| {
        sent(pager, message);
        message.msg_iov = buffers.as_ptr().cast_mut();
        message.msg_iovlen = buffers.len();
        call(message)
    });
    message.msg_iov = whole;
    message.msg_iovlen = whole_count;
    moved
}

/// As recvmsg(2).
///
/// # Safety
/// As for recvmsg.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    let Some(pager) = helping() else {
        return next!(recvmsg(fd => c_int, message => *mut msghdr, flags => c_int) -> ssize_t);
    };
    // SAFETY: the caller's promise. The kernel is given the copy, which is not borrowed.
    let mut copy = unsafe { message.read() };
    let moved = transfer_message(pager, &mut copy, Use::Fill, |copy| {
        let copy = std::ptr::from_mut(copy);
        next!(recvmsg(fd => c_int, copy => *mut msghdr, flags => c_int) -> ssize_t)
    });
    // SAFETY: as above.
    unsafe { message.write(copy) };
    moved
}

/// As sendmsg(2).
///
/// # Safety
/// As for sendmsg.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    let Some(pager) = helping() else {
        return next!(sendmsg(fd => c_int, message => *const msghdr, flags => c_int) -> ssize_t);
    };
    // SAFETY: the caller's promise.
    let mut copy = unsafe { message.read() };
    transfer_message(pager, &mut copy, Use::Drain, |copy| {
        let copy = std::ptr::from_ref(copy);
        next!(sendmsg(fd => c_int, copy => *const msghdr, flags => c_int) -> ssize_t)
    })
}

/// Repeats a call that is given small things, as long as it fails for pages that are away.
pub fn small(parts: &[(*const c_void, usize, bool)], mut call: impl FnMut() -> c_int) -> c_int {
    let Some(pager) = helping() else { return call() };
    for _ in 0..MAX_ATTEMPTS {
        {
            let _inside = thread::enter();
            for &(at, length, is_written) in parts {
                let _ = pager.ensure_present(at as usize, length, is_written);
            }
        }
        let status = call();
        let is_away = parts.iter().any(|&(at, length, _)| pager.overlaps(at as usize, length));
        if status != -1 || thread::errno() != libc::EFAULT || !is_away {
            return status;
        }
    }
    call()
}

/// As poll(2).
///
/// # Safety
/// As for poll.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poll(
    list: *mut libc::pollfd,
    count: libc::nfds_t,
    timeout: c_int,
) -> c_int {
    let bytes = count as usize * size_of::<libc::pollfd>();
    small(
        &[(list.cast(), bytes, true)],
        || next!(poll(list => *mut libc::pollfd, count => libc::nfds_t, timeout => c_int) -> c_int),
    )
}

/// As epoll_wait(2).
///
/// # Safety
/// As for epoll_wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn epoll_wait(
    fd: c_int,
    events: *mut libc::epoll_event,
    count: c_int,
    timeout: c_int,
) -> c_int {
    let bytes = count.max(0) as usize * size_of::<libc::epoll_event>();
    small(&[(events.cast(), bytes, true)], || {
        next!(epoll_wait(
            fd => c_int, events => *mut libc::epoll_event, count => c_int, timeout => c_int,
        ) -> c_int)
    })
}

/// As epoll_ctl(2).
///
/// # Safety
/// As for epoll_ctl.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn epoll_ctl(
    fd: c_int,
    operation: c_int,
    of: c_int,
    event: *mut libc::epoll_event,
) -> c_int {
    small(&[(event.cast(), size_of::<libc::epoll_event>(), false)], || {
        next!(epoll_ctl(
            fd => c_int, operation => c_int, of => c_int, event => *mut libc::epoll_event,
        ) -> c_int)
    })
}

/// As getrandom(2).
///
/// # Safety
/// As for getrandom.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getrandom(buffer: *mut c_void, length: size_t, flags: c_uint) -> ssize_t {
    let Some(pager) = helping().filter(|_| length > 0) else {
        return next!(getrandom(
            buffer => *mut c_void, length => size_t, flags => c_uint) -> ssize_t);
    };
    transfer(pager, &[iovec { iov_base: buffer, iov_len: length }], Use::Fill, |buffers, _| {
        let (buffer, length) = only(buffers);
        next!(getrandom(buffer => *mut c_void, length => size_t, flags => c_uint) -> ssize_t)
    })
}
