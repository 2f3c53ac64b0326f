//! mmap, munmap, mremap, madvise, mprotect and mlock, as programs call them.
//!
//! Private anonymous memory is the pager's, from the smallest size on; all the rest is the kernel's: files, shared
//! memory, stacks and code. Memory that is reserved without the right to touch it is the pager's once it may be written
//! ([`crate::reserved`]).

use std::ffi::{c_int, c_void};
use std::io;
use std::ops::Range;

use libc::{off64_t, size_t};
use rackmem_lease::Error;
use rackmem_paging::{PAGE_BYTES, Pager};

use crate::kernel::{self, MAP_FAILED};
use crate::process::{self, Stays};
use crate::reserved;
use crate::thread::{self, set_errno};

/// Flags of mappings that are not borrowed: stacks must be there when a fault is served; the others
/// ask for a kind of memory that borrowed memory is not.
const PLAIN_FLAGS: c_int =
    libc::MAP_STACK | libc::MAP_GROWSDOWN | libc::MAP_HUGETLB | libc::MAP_LOCKED;

/// Advice of Linux 5.18.
const MADV_DONTNEED_LOCKED: c_int = 24;

/// Kind of a mapping, by whether it may be borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// It may be borrowed.
    Borrowed,
    /// It may be borrowed once it may be written.
    Reserved,
    /// It stays local though it is private memory.
    Local,
    /// It is shared, and may be written.
    Shared,
    /// It is a file of which the process has its own copy, or is only read.
    Other,
}

fn kind(length: size_t, protection: c_int, flags: c_int) -> Kind {
    let is_shared = matches!(flags & libc::MAP_TYPE, libc::MAP_SHARED | libc::MAP_SHARED_VALIDATE);
    if is_shared && protection & libc::PROT_WRITE != 0 {
        return Kind::Shared;
    }
    if flags & libc::MAP_TYPE != libc::MAP_PRIVATE
        || flags & libc::MAP_ANONYMOUS == 0
        || length >= usize::MAX - PAGE_BYTES
    {
        return Kind::Other;
    }
    if flags & PLAIN_FLAGS != 0 || protection & libc::PROT_EXEC != 0 {
        return Kind::Local;
    }
    match protection {
        libc::PROT_NONE => Kind::Reserved,
        _ if protection & libc::PROT_WRITE != 0 => Kind::Borrowed,
        _ => Kind::Local,
    }
}

/// The pager, if a range has borrowed memory in it and the caller is the program, not the library.
fn pager_of(address: usize, length: usize) -> Option<&'static Pager> {
    if thread::is_inside() {
        return None;
    }
    process::pager().filter(|pager| length > 0 && pager.overlaps(address, length))
}

fn pages(length: usize) -> usize {
    length.checked_next_multiple_of(PAGE_BYTES).unwrap_or(length)
}

/// Does something inside of the library; an error becomes `failed` and `errno`.
fn within<R>(failed: R, work: impl FnOnce() -> Result<R, Error>) -> R {
    let inside = thread::enter();
    let result = work();
    drop(inside);
    result.unwrap_or_else(|error| {
        set_errno(error.errno());
        failed
    })
}

/// As mmap(2).
///
/// # Safety
/// As for mmap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap(
    at: *mut c_void,
    length: size_t,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: off64_t,
) -> *mut c_void {
    let at = at as usize;
    if !thread::is_inside()
        && let Some(address) = map_borrowed(at, length, protection, flags)
    {
        return address as *mut c_void;
    }
    let is_fixed = flags & libc::MAP_FIXED != 0;
    // SAFETY: the caller's promise.
    let map = || unsafe { kernel::mmap(at, length, protection, flags, fd, offset) };
    let address = replacing(at, if is_fixed { length } else { 0 }, map);
    if address != MAP_FAILED && !thread::is_inside() && process::may_borrow() {
        // The range that it replaces is reserved no more.
        reserved::remove(address, pages(length));
        match kind(length, protection, flags) {
            Kind::Reserved => reserved::add(address, pages(length)),
            Kind::Local => process::count(Stays::Special, length),
            Kind::Shared => process::count(Stays::Shared, length),
            Kind::Borrowed | Kind::Other => {}
        }
    }
    address as *mut c_void
}

/// Makes a mapping that is not borrowed, in the place of what is there in a range (empty: nothing). Returns its
/// address, or `MAP_FAILED`.
fn replacing(at: usize, length: usize, map: impl FnOnce() -> usize) -> usize {
    let Some(pager) = pager_of(at, length) else { return map() };
    let map = || match map() {
        MAP_FAILED => Err(Error::io("cannot map memory", io::Error::last_os_error())),
        address => Ok(address),
    };
    within(MAP_FAILED, || pager.replace(at, pages(length), map))
}

/// Maps borrowed memory. `None`: the kernel is to map this.
fn map_borrowed(at: usize, length: usize, protection: c_int, flags: c_int) -> Option<usize> {
    if kind(length, protection, flags) != Kind::Borrowed {
        return None;
    }
    let pager = process::pager_for(length, length)?;
    let mapped = {
        let _inside = thread::enter();
        pager.map_at(at, pages(length), protection, flags & !libc::MAP_POPULATE)
    };
    match mapped {
        Ok(address) => {
            process::count_borrowed(length);
            reserved::remove(address, pages(length));
            Some(address)
        }
        Err(error) if error.errno() == libc::ENOMEM => {
            process::count(Stays::NoRoom, length);
            None
        }
        Err(error) => {
            set_errno(error.errno());
            Some(MAP_FAILED)
        }
    }
}

/// As mmap(2).
///
/// # Safety
/// As for mmap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap64(
    at: *mut c_void,
    length: size_t,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: off64_t,
) -> *mut c_void {
    // SAFETY: the caller's promise; offsets have 64 bits in both.
    unsafe { mmap(at, length, protection, flags, fd, offset) }
}

/// As munmap(2).
///
/// # Safety
/// As for munmap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn munmap(address: *mut c_void, length: size_t) -> c_int {
    reserved::remove(address as usize, pages(length));
    match pager_of(address as usize, length) {
        Some(pager) => within(-1, || pager.unmap(address as usize, pages(length)).map(|()| 0)),
        // SAFETY: the caller's promise.
        None => unsafe { kernel::munmap(address as usize, length) },
    }
}

/// As mremap(2); the new address is looked at with `MREMAP_FIXED` only.
///
/// # Safety
/// As for mremap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mremap(
    address: *mut c_void,
    old_length: size_t,
    new_length: size_t,
    flags: c_int,
    new_address: *mut c_void,
) -> *mut c_void {
    let (from, to) = (address as usize, new_address as usize);
    let (old, new) = (pages(old_length), pages(new_length));
    reserved::remove(from, old);
    let moved = match pager_of(from, old_length.max(1)) {
        Some(pager) => within(MAP_FAILED, || pager.remap(from, old, new, flags, to)),
        None => {
            let is_fixed = flags & libc::MREMAP_FIXED != 0;
            // SAFETY: the caller's promise.
            let remap = || unsafe { kernel::mremap(from, old_length, new_length, flags, to) };
            replacing(to, if is_fixed { new_length } else { 0 }, remap)
        }
    };
    if moved != MAP_FAILED {
        reserved::remove(moved, new);
    }
    moved as *mut c_void
}

/// As mprotect(2).
///
/// # Safety
/// As for mprotect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mprotect(
    address: *mut c_void,
    length: size_t,
    protection: c_int,
) -> c_int {
    let address = address as usize;
    if protection != libc::PROT_NONE && address % PAGE_BYTES == 0 && !thread::is_inside() {
        give_access(address, pages(length), protection);
    }
    let Some(pager) = pager_of(address, length) else {
        // SAFETY: the caller's promise.
        return unsafe { kernel::mprotect(address, length, protection) };
    };
    let Some(range) = whole_pages(address, length) else {
        set_errno(libc::EINVAL);
        return -1;
    };
    by_owner(pager, range, |address, length, is_borrowed| match is_borrowed {
        true => within(-1, || pager.protect(address, length, protection).map(|()| 0)),
        // SAFETY: the caller's promise.
        false => unsafe { kernel::mprotect(address, length, protection) },
    })
}

/// As pkey_mprotect(2). Memory with a key stays local, and borrowed memory gets none.
///
/// # Safety
/// As for pkey_mprotect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pkey_mprotect(
    address: *mut c_void,
    length: size_t,
    protection: c_int,
    key: c_int,
) -> c_int {
    if key == -1 {
        // SAFETY: the caller's promise.
        return unsafe { mprotect(address, length, protection) };
    }
    if pager_of(address as usize, length).is_some() {
        set_errno(libc::EINVAL);
        return -1;
    }
    reserved::remove(address as usize, pages(length));
    crate::next::next!(pkey_mprotect(
        address => *mut c_void,
        length => size_t,
        protection => c_int,
        key => c_int
    ) -> c_int)
}

/// Maps borrowed memory in the place of reserved memory that was never touched and is about to be accessible. If that
/// cannot be, it stays local.
fn give_access(address: usize, length: usize, protection: c_int) {
    let end = address.saturating_add(length);
    let mut begin = address;
    while let Some((part, whole)) = reserved::take(begin..end) {
        begin = part.end;
        let bytes = part.len();
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        match kind(bytes, protection, flags) {
            Kind::Borrowed => {}
            _ => {
                process::count(Stays::Special, bytes);
                continue;
            }
        }
        // Ranges that are reserved together are used together, however small the parts are.
        let Some(pager) = process::pager_for(bytes, whole.len()) else { continue };
        let _inside = thread::enter();
        match pager.map_at(part.start, bytes, protection, flags) {
            Ok(_) => process::count_borrowed(bytes),
            Err(_) => process::count(Stays::NoRoom, bytes),
        }
    }
}

/// As madvise(2). For borrowed memory, advice that the contents are not needed discards them, a demand to populate the
/// range brings them, and advice on dumps goes to the kernel. Advice that may be ignored has no effect, and the rest is
/// refused, as a kernel does that does not know it.
///
/// # Safety
/// As for madvise.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn madvise(address: *mut c_void, length: size_t, advice: c_int) -> c_int {
    let address = address as usize;
    let Some(pager) = pager_of(address, length) else {
        // SAFETY: the caller's promise.
        return unsafe { kernel::madvise(address, length, advice) };
    };
    let Some(range) = whole_pages(address, length) else {
        set_errno(libc::EINVAL);
        return -1;
    };
    let mut has_hole = false;
    let status = by_owner(pager, range, |address, length, is_borrowed| match is_borrowed {
        true => within(-1, || advise(pager, address, length, advice).map(|()| 0)),
        // SAFETY: the caller's promise.
        false => match unsafe { kernel::madvise(address, length, advice) } {
            // Where nothing is mapped: the rest is advised, too.
            -1 if io::Error::last_os_error().raw_os_error() == Some(libc::ENOMEM) => {
                has_hole = true;
                0
            }
            status => status,
        },
    });
    if status != 0 || !has_hole {
        return status;
    }
    set_errno(libc::ENOMEM);
    -1
}

fn advise(pager: &Pager, address: usize, length: usize, advice: c_int) -> Result<(), Error> {
    match advice {
        libc::MADV_DONTNEED | MADV_DONTNEED_LOCKED | libc::MADV_FREE => pager.discard(address, length),
        libc::MADV_POPULATE_READ | libc::MADV_POPULATE_WRITE => {
            let for_write = advice == libc::MADV_POPULATE_WRITE;
            pager.ensure_present(address, length, for_write).map(|_| ())
        }
        libc::MADV_NORMAL
        | libc::MADV_RANDOM
        | libc::MADV_SEQUENTIAL
        | libc::MADV_WILLNEED
        | libc::MADV_COLD
        | libc::MADV_PAGEOUT
        | libc::MADV_HUGEPAGE
        | libc::MADV_NOHUGEPAGE
        | libc::MADV_MERGEABLE
        | libc::MADV_UNMERGEABLE
        // A child has the memory all the same.
        | libc::MADV_DONTFORK
        | libc::MADV_DOFORK
        | libc::MADV_KEEPONFORK => Ok(()),
        // SAFETY: it says what becomes of the memory in dumps, not in here.
        libc::MADV_DONTDUMP | libc::MADV_DODUMP => match unsafe { kernel::madvise(address, length, advice) } {
            0 => Ok(()),
            _ => Err(Error::io("madvise", io::Error::last_os_error())),
        },
        _ => Err(Error::io("advice", io::Error::from_raw_os_error(libc::EINVAL))),
    }
}

/// As mlock(2). Borrowed memory cannot be locked: it leaves.
///
/// # Safety
/// As for mlock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlock(address: *const c_void, length: size_t) -> c_int {
    if pager_of(address as usize, length).is_some() {
        set_errno(libc::ENOMEM);
        return -1;
    }
    crate::next::next!(mlock(address => *const c_void, length => size_t) -> c_int)
}

/// As mlockall(2), which programs that borrow are refused.
#[unsafe(no_mangle)]
pub extern "C" fn mlockall(flags: c_int) -> c_int {
    if process::may_borrow() {
        set_errno(libc::ENOMEM);
        return -1;
    }
    crate::next::next!(mlockall(flags => c_int) -> c_int)
}

/// The pages of a range, as mprotect and madvise count them. `None`: it begins within a page, or is beyond the end of
/// all addresses.
fn whole_pages(address: usize, length: usize) -> Option<Range<usize>> {
    let end = length.checked_next_multiple_of(PAGE_BYTES)?.checked_add(address)?;
    (address % PAGE_BYTES == 0).then_some(address..end)
}

/// Does `work` with each part of a range that is all borrowed or not at all, until it fails.
fn by_owner(
    pager: &Pager,
    range: Range<usize>,
    mut work: impl FnMut(usize, usize, bool) -> c_int,
) -> c_int {
    let (mut begin, mut status) = (range.start, 0);
    let mut go_on = |part: Range<usize>, is_borrowed| {
        if status == 0 && !part.is_empty() {
            status = work(part.start, part.len(), is_borrowed);
        }
    };
    pager.borrowed_runs(range.clone(), |run| {
        go_on(begin..run.start, false);
        begin = run.end;
        go_on(run, true);
    });
    go_on(begin..range.end, false);
    status
}
