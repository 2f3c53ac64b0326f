//! Descriptors of a library in a process whose program does not know of it.
//!
//! Programs close what they have not opened (`closefrom(3)` of daemons and of children), and take numbers as they like
//! (`dup2`). Where [`hide`] was called, descriptors that are [`own`] have high numbers and are known, so that the
//! functions by which programs close can leave them out. A program's limit on open files is not for them either: see
//! [`beyond_limit`].

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Numbers that can be known.
const NUMBERS: usize = 1 << 16;
/// So many of the highest numbers that a process may have are ours.
const OURS: usize = 256;
/// No more of a table of descriptors than this is used: the kernel copies it for each child.
const HIGHEST: usize = 4096;

static IS_HIDING: AtomicBool = AtomicBool::new(false);
static KNOWN: [AtomicU64; NUMBERS / 64] = [const { AtomicU64::new(0) }; NUMBERS / 64];

/// Hides what is [`own`] from now on.
pub fn hide() {
    IS_HIDING.store(true, Ordering::Release);
}

/// Hides a descriptor if this process does so; else, and where no high number is left, it is as it was.
pub fn own(fd: OwnedFd) -> OwnedFd {
    if !IS_HIDING.load(Ordering::Acquire) {
        return fd;
    }
    // SAFETY: duplicates a descriptor that is open.
    let high = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, lowest()) };
    let fd = match high {
        ..0 => fd,
        // SAFETY: it was just made, and is no one else's.
        _ => unsafe { OwnedFd::from_raw_fd(high) },
    };
    if let Some((word, bit)) = place(fd.as_raw_fd()) {
        word.fetch_or(bit, Ordering::AcqRel);
    }
    fd
}

/// A duplicate that is [`own`], too.
///
/// # Errors
/// That of the kernel.
pub fn again(fd: &OwnedFd) -> io::Result<OwnedFd> {
    beyond_limit(|| fd.try_clone()).map(own)
}

/// Makes descriptors of the library's. If the program is at its limit on open files, the limit is higher meanwhile, as
/// far as this process may raise it: what a program may open says nothing of the memory that it has borrowed. `open`
/// does not wait.
///
/// # Errors
/// That of `open`.
pub fn beyond_limit<T, E: Into<io::Error>>(open: impl Fn() -> Result<T, E>) -> io::Result<T> {
    let error = match open().map_err(E::into) {
        Err(error) if error.raw_os_error() == Some(libc::EMFILE) => error,
        opened => return opened,
    };
    if !IS_HIDING.load(Ordering::Acquire) {
        return Err(error);
    }
    let _raising = Raising::begin();
    let before = getrlimit(Resource::Nofile);
    // The lowest free number may be far above a limit that was lowered.
    let current = before.current.map(|current| current.saturating_add(NUMBERS as u64));
    let maximum = before.maximum.zip(current).map(|(maximum, current)| maximum.max(current));
    let is_raised = setrlimit(Resource::Nofile, Rlimit { current, maximum })
        .or_else(|_| setrlimit(Resource::Nofile, Rlimit { current: before.maximum, ..before }));
    let opened = if is_raised.is_ok() { open().map_err(E::into) } else { Err(error) };
    let _ = setrlimit(Resource::Nofile, before);
    opened
}

/// Process whose thread raises the limit; 0: none. A child of fork does not wait for a thread of its parent.
static RAISING: AtomicU32 = AtomicU32::new(0);

/// Held by the thread that raises the limit, so that no other takes the raised one for the program's.
struct Raising;

impl Raising {
    fn begin() -> Raising {
        let own = std::process::id();
        let is_free = |holder: u32| (holder != own).then_some(own);
        while RAISING.fetch_update(Ordering::AcqRel, Ordering::Acquire, is_free).is_err() {
            std::thread::yield_now();
        }
        Raising
    }
}

impl Drop for Raising {
    fn drop(&mut self) {
        RAISING.store(0, Ordering::Release);
    }
}

/// Whether a descriptor is hidden.
pub fn is_own(fd: RawFd) -> bool {
    place(fd).is_some_and(|(word, bit)| word.load(Ordering::Acquire) & bit != 0)
}

/// The owner closes a descriptor.
pub fn close(fd: RawFd) {
    if let Some((word, bit)) = place(fd) {
        word.fetch_and(!bit, Ordering::AcqRel);
    }
}

/// The first hidden descriptor from a number on.
pub fn first_from(number: u32) -> Option<u32> {
    let first = number as usize;
    (first / 64..NUMBERS / 64).find_map(|at| {
        let after = if at == first / 64 { u64::MAX << (first % 64) } else { u64::MAX };
        let known = KNOWN[at].load(Ordering::Acquire) & after;
        (known != 0).then(|| at as u32 * 64 + known.trailing_zeros())
    })
}

fn place(fd: RawFd) -> Option<(&'static AtomicU64, u64)> {
    let number = usize::try_from(fd).ok()?;
    Some((KNOWN.get(number / 64)?, 1 << (number % 64)))
}

/// The lowest number that is ours.
fn lowest() -> i32 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: fills in the structure.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    let numbers = usize::try_from(limit.rlim_cur).unwrap_or(HIGHEST).min(HIGHEST);
    numbers.saturating_sub(OURS).max(numbers / 2) as i32
}

#[cfg(test)]
mod tests {
    use rustix::fs::{Mode, OFlags};

    use super::*;

    #[test]
    fn what_is_own_has_a_high_number_and_is_known_until_it_is_closed() {
        let open = || OwnedFd::from(std::fs::File::open("/dev/null").expect("a device"));
        let visible = own(open());
        assert!(!is_own(visible.as_raw_fd()));
        hide();
        let hidden = own(open());
        let number = hidden.as_raw_fd();
        assert!(number >= lowest() && is_own(number) && !is_own(visible.as_raw_fd()));
        assert!(first_from(3).is_some_and(|first| first <= number as u32));
        assert_eq!(first_from(number as u32), Some(number as u32));
        let other = again(&hidden).expect("a duplicate");
        assert!(is_own(other.as_raw_fd()));
        close(number);
        assert!(!is_own(number) && !is_own(-1) && !is_own(i32::MAX));
        beyond_a_limit();
    }

    /// In the same test, as the limit is the process's.
    fn beyond_a_limit() {
        let before = getrlimit(Resource::Nofile);
        let open = || rustix::fs::open("/dev/null", OFlags::CLOEXEC, Mode::empty());
        let low = Rlimit { current: Some(64), ..before };
        setrlimit(Resource::Nofile, low).expect("it may be lower");
        let files: Vec<OwnedFd> = std::iter::from_fn(|| open().ok()).collect();
        assert_eq!(open().err(), Some(rustix::io::Errno::MFILE));
        let beyond = beyond_limit(open).expect("the limit may be as before");
        assert!(beyond.as_raw_fd() >= 64);
        assert_eq!(getrlimit(Resource::Nofile).current, Some(64));
        drop(files);
        setrlimit(Resource::Nofile, before).expect("it was so");
    }
}
