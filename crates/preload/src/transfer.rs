//! read, write and their kin: they move as many bytes as without borrowing.
//!
//! A call is made once, on local memory ([`crate::standin`]). Only where the kernel itself moves large requests bit by
//! bit, and goes on until all is moved, is one made in pieces, as local memory is scarce: of files and block devices,
//! and into pipes and streams. One call reads from a pipe or a socket, and one call moves a message or appends to a
//! file.

use std::ffi::{c_int, c_uint, c_void};

use libc::{iovec, off64_t, size_t, ssize_t};

use crate::local::{Pointer, helping};
use crate::next::next;
use crate::standin::{StandIn, Use};
use crate::{kernel, thread};

const PIECE_BYTES: usize = 256 << 10;

/// Most bytes that the kernel moves by a call.
const MAX_BYTES: usize = i32::MAX as usize & !4095;

/// Division of a large request into calls of the kernel.
#[derive(Clone, Copy, Debug)]
pub struct Division {
    /// Bytes of a piece.
    piece: usize,
    /// An error that ends the request after some pieces is reported once only, so it goes to the program at once.
    is_error_final: bool,
}

impl Division {
    /// Into pieces.
    pub const PIECES: Division = Division { piece: PIECE_BYTES, is_error_final: false };
    /// Not at all.
    pub const NONE: Division = Division { piece: MAX_BYTES, is_error_final: false };

    /// The right division of a request of `total` bytes to an open file.
    pub fn of(fd: c_int, usage: Use, total: usize) -> Division {
        if total <= PIECE_BYTES {
            return Division::NONE;
        }
        let is_drain = usage == Use::Drain;
        match kernel::file_type(fd) {
            libc::S_IFREG if is_drain && kernel::file_flags(fd) & libc::O_APPEND != 0 => {
                Division::NONE
            }
            libc::S_IFREG | libc::S_IFBLK => Division::PIECES,
            libc::S_IFIFO if is_drain => Division::PIECES,
            libc::S_IFSOCK if is_drain && kernel::socket_type(fd) == libc::SOCK_STREAM => {
                Division { is_error_final: true, ..Division::PIECES }
            }
            _ => Division::NONE,
        }
    }

    /// Return value of a request of which `done` bytes were moved before a call that failed.
    fn after_error(self, done: usize) -> ssize_t {
        let is_passing = matches!(thread::errno(), libc::EAGAIN | libc::EINTR);
        if done == 0 || self.is_error_final && !is_passing { -1 } else { done as ssize_t }
    }
}

/// Bytes of a list of buffers.
pub fn total(buffers: &[iovec]) -> usize {
    let bytes = buffers.iter().fold(0, |sum: usize, buffer| sum.saturating_add(buffer.iov_len));
    bytes.min(MAX_BYTES)
}

/// Whether one of the buffers has borrowed memory, and system calls on it need help.
pub fn needs_help(buffers: &[iovec]) -> bool {
    helping().is_some_and(|pager| {
        buffers.iter().any(|buffer| pager.overlaps(buffer.iov_base as usize, buffer.iov_len))
    })
}

/// Makes a request; `call` is given some of its bytes, and the number of those before them.
pub fn transfer(
    division: Division,
    buffers: &[iovec],
    usage: Use,
    mut call: impl FnMut(&[iovec], usize) -> ssize_t,
) -> ssize_t {
    let total = total(buffers);
    let (mut done, mut room) = (0, None);
    loop {
        let most = division.piece.min(total - done);
        let Some(stand_in) = StandIn::new(helping(), buffers, done, most, usage, &mut room) else {
            thread::set_errno(libc::ENOMEM);
            return division.after_error(done);
        };
        let moved = call(stand_in.list(), done);
        let Ok(moved) = usize::try_from(moved) else { return division.after_error(done) };
        if usage == Use::Fill {
            stand_in.give_back(moved);
        }
        done += moved;
        if moved < most || done >= total {
            return done as ssize_t;
        }
    }
}

/// A list of buffers as a program gives it. `None`: it is none, as the kernel will say.
///
/// # Safety
/// As for readv, if system calls need help.
unsafe fn list<'a>(buffers: *const iovec, count: c_int) -> Option<&'a [iovec]> {
    const MOST: c_int = 1024;
    helping()?;
    // SAFETY: the caller's promise.
    (0 < count && count <= MOST && !buffers.is_null())
        .then(|| unsafe { std::slice::from_raw_parts(buffers, count as usize) })
}

/// Defines functions of one buffer by those of several: the latter's arguments after the list follow `=>`.
macro_rules! of_buffer {
    ($($usage:ident $name:ident($fd:ident, $buffer:ident, $length:ident $(, $more:ident: $type:ty)*)
       => $vector:ident(|$done:ident| $($passed:expr => $passed_type:ty),*);)*) => {$(
        #[doc = concat!("As ", stringify!($name), " of the C library.")]
        ///
        /// # Safety
        /// As for that function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            $fd: c_int, $buffer: Pointer, $length: size_t $(, $more: $type)*
        ) -> ssize_t {
            let buffers = [iovec { iov_base: $buffer, iov_len: $length }];
            if !needs_help(&buffers) {
                return next!($name($fd => c_int, $buffer => Pointer, $length => size_t
                    $(, $more => $type)*) -> ssize_t);
            }
            let division = Division::of($fd, Use::$usage, $length);
            transfer(division, &buffers, Use::$usage, |list, $done| {
                let _ = $done;
                let (first, count) = (list.as_ptr(), list.len() as c_int);
                next!($vector($fd => c_int, first => *const iovec, count => c_int
                    $(, $passed => $passed_type)*) -> ssize_t)
            })
        }
    )*};
}

of_buffer! {
    Fill read(fd, buffer, length) => readv(|done|);
    Drain write(fd, buffer, length) => writev(|done|);
    Fill pread(fd, buffer, length, offset: off64_t)
        => preadv64(|done| offset.wrapping_add(done as i64) => off64_t);
    Fill pread64(fd, buffer, length, offset: off64_t)
        => preadv64(|done| offset.wrapping_add(done as i64) => off64_t);
    Drain pwrite(fd, buffer, length, offset: off64_t)
        => pwritev64(|done| offset.wrapping_add(done as i64) => off64_t);
    Drain pwrite64(fd, buffer, length, offset: off64_t)
        => pwritev64(|done| offset.wrapping_add(done as i64) => off64_t);
}

/// Defines functions of several buffers.
macro_rules! of_buffers {
    ($($usage:ident $name:ident(|$done:ident| $($more:ident: $type:ty = $passed:expr),*);)*) => {$(
        #[doc = concat!("As ", stringify!($name), " of the C library.")]
        ///
        /// # Safety
        /// As for that function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            fd: c_int, buffers: *const iovec, count: c_int $(, $more: $type)*
        ) -> ssize_t {
            let call = |buffers: &[iovec], $done: usize| {
                let _ = $done;
                let (first, count) = (buffers.as_ptr(), buffers.len() as c_int);
                next!($name(fd => c_int, first => *const iovec, count => c_int
                    $(, $passed => $type)*) -> ssize_t)
            };
            // SAFETY: the caller's promise.
            match unsafe { list(buffers, count) } {
                Some(buffers) => {
                    let division = Division::of(fd, Use::$usage, total(buffers));
                    transfer(division, buffers, Use::$usage, call)
                }
                None => next!($name(fd => c_int, buffers => *const iovec, count => c_int
                    $(, $more => $type)*) -> ssize_t),
            }
        }
    )*};
}

/// The offset of a piece; -1 is the file's own, which moves by itself.
fn moved_on(offset: off64_t, done: usize) -> off64_t {
    if offset == -1 { offset } else { offset.wrapping_add(done as off64_t) }
}

of_buffers! {
    Fill readv(|done|);
    Drain writev(|done|);
    Fill preadv(|done| offset: off64_t = offset.wrapping_add(done as i64));
    Fill preadv64(|done| offset: off64_t = offset.wrapping_add(done as i64));
    Drain pwritev(|done| offset: off64_t = offset.wrapping_add(done as i64));
    Drain pwritev64(|done| offset: off64_t = offset.wrapping_add(done as i64));
    Fill preadv2(|done| offset: off64_t = moved_on(offset, done), flags: c_int = flags);
    Fill preadv64v2(|done| offset: off64_t = moved_on(offset, done), flags: c_int = flags);
    Drain pwritev2(|done| offset: off64_t = moved_on(offset, done), flags: c_int = flags);
    Drain pwritev64v2(|done| offset: off64_t = moved_on(offset, done), flags: c_int = flags);
}

/// Defines the functions that programs call which were compiled with checks of the buffer's size, `limit`.
macro_rules! with_checks {
    ($($name:ident => $plain:ident($length:ident, $($more:ident: $type:ty),*);)*) => {$(
        #[doc = concat!("As ", stringify!($plain), ", with the size of the buffer.")]
        ///
        /// # Safety
        /// As for that function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            fd: c_int, buffer: Pointer, $length: size_t, $($more: $type),*
        ) -> ssize_t {
            crate::transfer::with_checks!(@call $name $plain fd buffer $length $($more: $type),*)
        }
    )*};
    (@call $name:ident $plain:ident $fd:ident $buffer:ident $length:ident
     $limit:ident: $limit_type:ty $(, $more:ident: $type:ty)*) => {{
        if $length <= $limit {
            // SAFETY: the caller's promise.
            return unsafe { $plain($fd, $buffer, $length $(, $more)*) };
        }
        next!($name($fd => c_int, $buffer => Pointer, $length => size_t, $limit => $limit_type
            $(, $more => $type)*) -> ssize_t)
    }};
}

pub(crate) use with_checks;

with_checks! {
    __read_chk => read(length, limit: size_t);
}

/// As pread(2), with the size of the buffer.
///
/// # Safety
/// As for pread.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __pread64_chk(
    fd: c_int,
    buffer: Pointer,
    length: size_t,
    offset: off64_t,
    limit: size_t,
) -> ssize_t {
    if length <= limit {
        // SAFETY: the caller's promise.
        return unsafe { pread64(fd, buffer, length, offset) };
    }
    next!(__pread64_chk(fd => c_int, buffer => Pointer, length => size_t, offset => off64_t,
        limit => size_t) -> ssize_t)
}

/// As pread(2), with the size of the buffer.
///
/// # Safety
/// As for pread.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __pread_chk(
    fd: c_int,
    buffer: Pointer,
    length: size_t,
    offset: off64_t,
    limit: size_t,
) -> ssize_t {
    // SAFETY: the caller's promise.
    unsafe { __pread64_chk(fd, buffer, length, offset, limit) }
}

/// As getrandom(2).
///
/// # Safety
/// As for getrandom.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn getrandom(
    buffer: Pointer,
    length: size_t,
    flags: c_uint,
) -> ssize_t {
    let one = |buffer: Pointer, length: usize| {
        next!(
        getrandom(buffer => Pointer, length => size_t, flags => c_uint) -> ssize_t)
    };
    let buffers = [iovec { iov_base: buffer, iov_len: length }];
    if !needs_help(&buffers) {
        return one(buffer, length);
    }
    transfer(Division::PIECES, &buffers, Use::Fill, |list, _| {
        let mut done = 0;
        for buffer in list {
            match one(buffer.iov_base, buffer.iov_len) {
                -1 if done == 0 => return -1,
                got => done += got.max(0),
            }
            if (done as usize) < buffer.iov_len {
                break;
            }
        }
        done
    })
}

/// As arc4random_buf(3).
///
/// # Safety
/// As for arc4random_buf.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn arc4random_buf(buffer: Pointer, length: size_t) {
    let mut done = 0;
    while needs_help(&[iovec { iov_base: buffer, iov_len: length }]) && done < length {
        // SAFETY: the caller's promise.
        match unsafe { getrandom(buffer.byte_add(done), length - done, 0) } {
            got if got > 0 => done += got as usize,
            _ if thread::errno() == libc::EINTR => {}
            _ => break,
        }
    }
    if done < length {
        // SAFETY: as above.
        let rest = unsafe { buffer.byte_add(done) };
        next!(arc4random_buf(rest => *mut c_void, length - done => size_t) -> ());
    }
}
