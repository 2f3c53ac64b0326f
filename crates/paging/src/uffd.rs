//! userfaultfd(2): the part of it that a pager needs.
//!
//! Layouts and numbers are those of `linux/userfaultfd.h` of Linux 6.8.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use super::options::PAGE_BYTES;
use rackmem_lease::descriptors::{beyond_limit, own};

const API_VERSION: u64 = 0xaa;
const PAGEFAULT: u8 = 0x12;
const FLAG_WRITE: u64 = 1;
/// Of userfaultfd(2): faults of the kernel in borrowed memory fail, instead of being handed over.
const USER_MODE_ONLY: c_int = 1;

/// Features that can be asked of a userfaultfd when it is made.
pub mod feature {
    /// Missing pages raise SIGBUS in the thread that touches them.
    pub const SIGBUS: u64 = 1 << 7;
    /// Messages name the faulting thread.
    pub const THREAD_ID: u64 = 1 << 8;
    /// Pages that are not there can be write-protected.
    pub const WP_UNPOPULATED: u64 = 1 << 13;
    /// Pages can be made to mean SIGBUS.
    pub const POISON: u64 = 1 << 14;
    /// The kernel itself ends write-protection at a page's first write, and notes it.
    pub const WP_ASYNC: u64 = 1 << 15;
    /// Pages can be moved.
    pub const MOVE: u64 = 1 << 16;
}

pub(super) const fn ioc(direction: u64, kind: u8, number: u64, size_bytes: usize) -> libc::Ioctl {
    (direction << 30 | (size_bytes as u64) << 16 | (kind as u64) << 8 | number) as libc::Ioctl
}
const READ: u64 = 2;
pub(super) const READ_WRITE: u64 = 3;

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Api {
    api: u64,
    features: u64,
    ioctls: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Range {
    start: u64,
    len: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Register {
    range: Range,
    mode: u64,
    ioctls: u64,
}

/// `uffdio_copy` and `uffdio_move`: the same five words.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Transfer {
    dst: u64,
    src: u64,
    len: u64,
    mode: u64,
    done: i64,
}

/// `uffdio_zeropage` and `uffdio_poison`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Fill {
    range: Range,
    mode: u64,
    done: i64,
}

const API: libc::Ioctl = ioc(READ_WRITE, 0xaa, 0x3f, size_of::<Api>());
const REGISTER: libc::Ioctl = ioc(READ_WRITE, 0xaa, 0x00, size_of::<Register>());
const UNREGISTER: libc::Ioctl = ioc(READ, 0xaa, 0x01, size_of::<Range>());
const WAKE: libc::Ioctl = ioc(READ, 0xaa, 0x02, size_of::<Range>());
const COPY: libc::Ioctl = ioc(READ_WRITE, 0xaa, 0x03, size_of::<Transfer>());
const ZEROPAGE: libc::Ioctl = ioc(READ_WRITE, 0xaa, 0x04, size_of::<Fill>());
const MOVE: libc::Ioctl = ioc(READ_WRITE, 0xaa, 0x05, size_of::<Transfer>());
const POISON: libc::Ioctl = ioc(READ_WRITE, 0xaa, 0x08, size_of::<Fill>());
/// Of /dev/userfaultfd.
const NEW: libc::Ioctl = ioc(0, 0xaa, 0x00, 0);

const REGISTER_MISSING: u64 = 1;
const REGISTER_WP: u64 = 2;
const COPY_WP: u64 = 2;

/// A message of the kernel.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Message {
    event: u8,
    reserved: [u8; 7],
    flags: u64,
    address: u64,
    thread: u64,
}

const _: () = assert!(size_of::<Message>() == 32, "struct uffd_msg");

/// A fault that a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Address of the page.
    pub page: usize,
    /// Whether the thread was about to write.
    pub is_write: bool,
    /// The thread.
    pub tid: i32,
}

impl Message {
    /// The fault that the message is about, if it is about one.
    pub fn fault(&self) -> Option<Fault> {
        (self.event == PAGEFAULT).then_some(Fault {
            page: self.address as usize & !(PAGE_BYTES - 1),
            is_write: self.flags & FLAG_WRITE != 0,
            tid: self.thread as u32 as i32,
        })
    }
}

/// A userfaultfd, with the features that it was made with.
#[derive(Debug)]
pub struct Uffd {
    fd: OwnedFd,
    /// Features that it was made with, as bits of [`feature`].
    pub features: u64,
    /// Whether faults of the kernel fail.
    pub is_user_mode_only: bool,
}

/// Reason why there is no userfaultfd.
#[derive(Debug)]
pub enum OpenError {
    /// No way to one is permitted.
    NotPermitted(io::Error),
    /// The kernel lacks features (a mask), or all of it.
    TooOld(u64),
}

/// Features that must be there: without moving pages, none can leave while a program runs.
pub const REQUIRED: u64 = feature::MOVE | feature::POISON | feature::THREAD_ID;

pub(super) fn raw_ioctl<T>(fd: RawFd, request: libc::Ioctl, argument: &mut T) -> io::Result<c_int> {
    // SAFETY: every request of this file takes a pointer to the structure that its number was made
    // with, and writes nothing else.
    let result = unsafe { libc::ioctl(fd, request, std::ptr::from_mut(argument)) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Whether a page of private anonymous memory is there. May be called by handlers of signals.
///
/// A page that was swapped out is not, but a page that was touched just now was not swapped out.
pub fn is_populated(page: usize) -> bool {
    let mut residency = 0u8;
    // SAFETY: writes one byte for one page.
    let result = unsafe { libc::mincore(page as *mut _, PAGE_BYTES, &mut residency) };
    result == 0 && residency & 1 != 0
}

/// A userfaultfd by whichever way is permitted, before features are agreed upon.
fn open_any() -> io::Result<(OwnedFd, bool)> {
    // SAFETY: the system call takes flags only; the descriptor is new and no one else's.
    let create = |flags: c_int| unsafe {
        let fd = libc::syscall(libc::SYS_userfaultfd, flags);
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(fd as RawFd)) }
    };
    let by_call = create(libc::O_CLOEXEC | libc::O_NONBLOCK);
    let Err(error) = by_call else { return by_call.map(|fd| (fd, false)) };
    if let Ok(device) = std::fs::File::open("/dev/userfaultfd") {
        // SAFETY: the request takes flags and gives a new descriptor.
        unsafe {
            let fd = libc::ioctl(device.as_raw_fd(), NEW, libc::O_CLOEXEC | libc::O_NONBLOCK);
            if fd >= 0 {
                return Ok((OwnedFd::from_raw_fd(fd), false));
            }
        }
    }
    create(libc::O_CLOEXEC | libc::O_NONBLOCK | USER_MODE_ONLY)
        .map(|fd| (fd, true))
        .map_err(|_| error)
}

/// Features that the kernel has.
fn supported() -> Result<u64, OpenError> {
    let (fd, _) = beyond_limit(open_any).map_err(OpenError::NotPermitted)?;
    let mut api = Api { api: API_VERSION, ..Api::default() };
    raw_ioctl(fd.as_raw_fd(), API, &mut api).map_err(|_| OpenError::TooOld(REQUIRED))?;
    Ok(api.features)
}

impl Uffd {
    /// A userfaultfd with [`REQUIRED`], with as many of `wanted` as there are, and with SIGBUS or
    /// without.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(wanted: u64, sigbus: bool) -> Result<Uffd, OpenError> {
        let supported = supported()?;
        let required = REQUIRED | if sigbus { feature::SIGBUS } else { 0 };
        if supported & required != required {
            return Err(OpenError::TooOld(required & !supported));
        }
        let (fd, is_user_mode_only) = beyond_limit(open_any).map_err(OpenError::NotPermitted)?;
        let fd = own(fd);
        let features = required | wanted & supported & !feature::SIGBUS;
        let mut api = Api { api: API_VERSION, features, ioctls: 0 };
        raw_ioctl(fd.as_raw_fd(), API, &mut api).map_err(|_| OpenError::TooOld(features))?;
        Ok(Uffd { fd, features, is_user_mode_only: is_user_mode_only || sigbus })
    }

    /// The descriptor.
    pub fn raw(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Hands missing pages of a range to this userfaultfd; with `WP_ASYNC` their first writes are noted.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn register(&self, start: usize, len: usize) -> io::Result<()> {
        let wp = if self.features & feature::WP_ASYNC != 0 { REGISTER_WP } else { 0 };
        let range = Range { start: start as u64, len: len as u64 };
        let mut register = Register { range, mode: REGISTER_MISSING | wp, ioctls: 0 };
        raw_ioctl(self.raw(), REGISTER, &mut register).map(|_| ())
    }

    /// Gives missing pages of a range back to the kernel, and forgets the writes that were noted there.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn unregister(&self, start: usize, len: usize) -> io::Result<()> {
        let mut range = Range { start: start as u64, len: len as u64 };
        raw_ioctl(self.raw(), UNREGISTER, &mut range).map(|_| ())
    }

    fn transfer(&self, request: libc::Ioctl, mut transfer: Transfer) -> (usize, io::Result<()>) {
        let result = raw_ioctl(self.raw(), request, &mut transfer).map(|_| ());
        (transfer.done.max(0) as usize, result)
    }

    /// Copies `len` bytes at `src` to `dst`, where nothing is, and wakes threads that wait there; with `protect` a
    /// first write will be noted. Also returns the number of bytes that got there before an error.
    pub fn copy(
        &self,
        dst: usize,
        src: *const u8,
        len: usize,
        protect: bool,
    ) -> (usize, io::Result<()>) {
        let mode = if protect { COPY_WP } else { 0 };
        let transfer =
            Transfer { dst: dst as u64, src: src as u64, len: len as u64, mode, done: 0 };
        self.transfer(COPY, transfer)
    }

    /// Moves pages from `src` to `dst`, where nothing is, and wakes threads that wait there. Also returns the number of
    /// bytes that got there before an error.
    ///
    /// The caller guarantees that nothing is at `dst`, so a page that is there afterwards has moved. An error does not
    /// tell: Linux 6.18, rarely, moves pages and then fails with `EEXIST` because they are there, or counts fewer than
    /// it moved. So the pages that moved are looked up.
    pub fn move_pages(&self, dst: usize, src: usize, len: usize) -> (usize, io::Result<()>) {
        let transfer =
            Transfer { dst: dst as u64, src: src as u64, len: len as u64, ..Transfer::default() };
        let (mut done, mut result) = self.transfer(MOVE, transfer);
        if result.is_err() {
            while done < len && !is_populated(src + done) && is_populated(dst + done) {
                self.wake(dst + done);
                done += PAGE_BYTES;
            }
            if done == len {
                result = Ok(());
            }
        }
        (done, result)
    }

    fn fill(&self, request: libc::Ioctl, page: usize) -> io::Result<()> {
        let range = Range { start: page as u64, len: PAGE_BYTES as u64 };
        raw_ioctl(self.raw(), request, &mut Fill { range, mode: 0, done: 0 }).map(|_| ())
    }

    /// Puts the kernel's page of zeros where nothing is, and wakes threads that wait there.
    ///
    /// # Errors
    /// `EEXIST`: something is there. Otherwise the error of the kernel.
    pub fn zero(&self, page: usize) -> io::Result<()> {
        self.fill(ZEROPAGE, page)
    }

    /// Makes accesses to the page raise SIGBUS, and wakes threads that wait for it.
    ///
    /// # Errors
    /// As [`Uffd::zero`].
    pub fn poison(&self, page: usize) -> io::Result<()> {
        self.fill(POISON, page)
    }

    /// Wakes threads that wait for a page.
    pub fn wake(&self, page: usize) {
        let _ =
            raw_ioctl(self.raw(), WAKE, &mut Range { start: page as u64, len: PAGE_BYTES as u64 });
    }

    /// Makes [`Uffd::read`] wait, or not.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn set_nonblocking(&self, is_nonblocking: bool) -> io::Result<()> {
        let mode = if is_nonblocking { libc::O_NONBLOCK } else { 0 };
        // SAFETY: sets flags of a descriptor that is open.
        let result = unsafe { libc::fcntl(self.raw(), libc::F_SETFL, mode) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Messages that are there; waits for one if the descriptor does and `now` is not asked for. None is an
    /// empty slice.
    ///
    /// # Errors
    /// `EOPNOTSUPP`: `now` needs Linux 6.10 while the descriptor is one that waits.
    pub fn read<'m>(&self, messages: &'m mut [Message], now: bool) -> io::Result<&'m [Message]> {
        let into =
            libc::iovec { iov_base: messages.as_mut_ptr().cast(), iov_len: size_of_val(messages) };
        let flags = if now { libc::RWF_NOWAIT } else { 0 };
        // SAFETY: the vector is the slice's memory; whatever bytes the kernel puts there are messages.
        let count = unsafe {
            match now {
                true => libc::preadv2(self.raw(), &into, 1, -1, flags),
                false => libc::read(self.raw(), into.iov_base, into.iov_len),
            }
        };
        if count >= 0 {
            return Ok(&messages[..count as usize / size_of::<Message>()]);
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EINTR) => Ok(&[]),
            _ => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::mm::ProtFlags;

    use super::*;
    use rackmem_lease::sync::lazy::reserve;

    #[test]
    fn a_move_takes_pages_that_are_there_to_where_nothing_is() {
        let Ok(uffd) = Uffd::open(0, false) else {
            return eprintln!("not tested: userfaultfd is not permitted");
        };
        let new = || reserve(3 * PAGE_BYTES, ProtFlags::READ | ProtFlags::WRITE).unwrap();
        let (from, to) = (new().as_ptr(), new().as_ptr());
        // SAFETY: pages of this test.
        unsafe {
            from.write(1);
            to.write(2);
        }
        uffd.register(to as usize, 3 * PAGE_BYTES).unwrap();
        let error = |(done, result): (usize, io::Result<()>)| {
            (done, result.unwrap_err().raw_os_error().unwrap())
        };
        let occupied = uffd.move_pages(to as usize, from as usize, PAGE_BYTES);
        assert_eq!(error(occupied), (0, libc::EEXIST));
        // SAFETY: as above.
        assert_eq!(unsafe { (from.read(), to.read()) }, (1, 2), "both stay");
        let second = to as usize + PAGE_BYTES;
        assert!(!is_populated(second));
        let (done, result) = uffd.move_pages(second, from as usize, PAGE_BYTES);
        assert_eq!((done, result.is_ok()), (PAGE_BYTES, true));
        assert!(is_populated(second) && !is_populated(from as usize));
        let third = second + PAGE_BYTES;
        let gone = uffd.move_pages(third, from as usize, PAGE_BYTES);
        assert_eq!(error(gone), (0, libc::ENOENT));
        assert!(!is_populated(third));
    }
}
