//! System calls about files: their names and attributes.

use std::ffi::c_int;

use libc::{gid_t, mode_t, off64_t, size_t, ssize_t, uid_t};

use crate::local::{Pointer, system_calls};
use crate::next::next;

const STAT: usize = size_of::<libc::stat64>();
const STATX: usize = size_of::<libc::statx>();
const STATFS: usize = size_of::<libc::statfs64>();
const STATVFS: usize = size_of::<libc::statvfs64>();

/// Most bytes of structures of unknown size of fcntl and ioctl.
const SOME: usize = 4096;

/// Bytes of an argument of ioctl: newer requests say it.
fn ioctl_bytes(request: u64) -> usize {
    match (request >> 16) as usize & 0x3fff {
        0 => 256,
        bytes => bytes,
    }
}

system_calls! {
    open(path: Pointer = text(), flags: c_int, mode: mode_t) -> c_int;
    open64(path: Pointer = text(), flags: c_int, mode: mode_t) -> c_int;
    openat(dir: c_int, path: Pointer = text(), flags: c_int, mode: mode_t) -> c_int;
    openat64(dir: c_int, path: Pointer = text(), flags: c_int, mode: mode_t) -> c_int;
    __open_2(path: Pointer = text(), flags: c_int) -> c_int;
    __open64_2(path: Pointer = text(), flags: c_int) -> c_int;
    __openat_2(dir: c_int, path: Pointer = text(), flags: c_int) -> c_int;
    __openat64_2(dir: c_int, path: Pointer = text(), flags: c_int) -> c_int;
    creat(path: Pointer = text(), mode: mode_t) -> c_int;
    creat64(path: Pointer = text(), mode: mode_t) -> c_int;
    fopen(path: Pointer = text(), mode: Pointer) -> Pointer;
    fopen64(path: Pointer = text(), mode: Pointer) -> Pointer;
    freopen(path: Pointer = text(), mode: Pointer, file: Pointer) -> Pointer;
    freopen64(path: Pointer = text(), mode: Pointer, file: Pointer) -> Pointer;
    opendir(path: Pointer = text()) -> Pointer;
    scandir(path: Pointer = text(), list: Pointer, filter: Pointer, order: Pointer) -> c_int;
    scandir64(path: Pointer = text(), list: Pointer, filter: Pointer, order: Pointer) -> c_int;
    mkstemp(path: Pointer = template()) -> c_int;
    mkstemp64(path: Pointer = template()) -> c_int;
    mkostemp(path: Pointer = template(), flags: c_int) -> c_int;
    mkostemp64(path: Pointer = template(), flags: c_int) -> c_int;
    memfd_create(name: Pointer = text(), flags: u32) -> c_int;

    access(path: Pointer = text(), mode: c_int) -> c_int;
    faccessat(dir: c_int, path: Pointer = text(), mode: c_int, flags: c_int) -> c_int;
    eaccess(path: Pointer = text(), mode: c_int) -> c_int;
    euidaccess(path: Pointer = text(), mode: c_int) -> c_int;
    chdir(path: Pointer = text()) -> c_int;
    chroot(path: Pointer = text()) -> c_int;
    mkdir(path: Pointer = text(), mode: mode_t) -> c_int;
    mkdirat(dir: c_int, path: Pointer = text(), mode: mode_t) -> c_int;
    mkfifo(path: Pointer = text(), mode: mode_t) -> c_int;
    mkfifoat(dir: c_int, path: Pointer = text(), mode: mode_t) -> c_int;
    mknod(path: Pointer = text(), mode: mode_t, device: u64) -> c_int;
    mknodat(dir: c_int, path: Pointer = text(), mode: mode_t, device: u64) -> c_int;
    rmdir(path: Pointer = text()) -> c_int;
    unlink(path: Pointer = text()) -> c_int;
    unlinkat(dir: c_int, path: Pointer = text(), flags: c_int) -> c_int;
    remove(path: Pointer = text()) -> c_int;
    link(old: Pointer = text(), new: Pointer = text()) -> c_int;
    linkat(from: c_int, old: Pointer = text(), to: c_int, new: Pointer = text(), flags: c_int)
        -> c_int;
    symlink(old: Pointer = text(), new: Pointer = text()) -> c_int;
    symlinkat(old: Pointer = text(), dir: c_int, new: Pointer = text()) -> c_int;
    rename(old: Pointer = text(), new: Pointer = text()) -> c_int;
    renameat(from: c_int, old: Pointer = text(), to: c_int, new: Pointer = text()) -> c_int;
    renameat2(from: c_int, old: Pointer = text(), to: c_int, new: Pointer = text(), flags: u32)
        -> c_int;
    readlink(path: Pointer = text(), buffer: Pointer = fill(size, 1), size: size_t) -> ssize_t;
    readlinkat(dir: c_int, path: Pointer = text(), buffer: Pointer = fill(size, 1), size: size_t)
        -> ssize_t;
    __readlink_chk(path: Pointer = text(), buffer: Pointer = fill(size, 1), size: size_t,
        limit: size_t) -> ssize_t;
    __readlinkat_chk(dir: c_int, path: Pointer = text(), buffer: Pointer = fill(size, 1),
        size: size_t, limit: size_t) -> ssize_t;
    getdents64(fd: c_int, buffer: Pointer = fill(size, 1), size: size_t) -> ssize_t;

    stat(path: Pointer = text(), file: Pointer = both(STAT)) -> c_int;
    stat64(path: Pointer = text(), file: Pointer = both(STAT)) -> c_int;
    lstat(path: Pointer = text(), file: Pointer = both(STAT)) -> c_int;
    lstat64(path: Pointer = text(), file: Pointer = both(STAT)) -> c_int;
    fstat(fd: c_int, file: Pointer = both(STAT)) -> c_int;
    fstat64(fd: c_int, file: Pointer = both(STAT)) -> c_int;
    fstatat(dir: c_int, path: Pointer = text(), file: Pointer = both(STAT), flags: c_int) -> c_int;
    fstatat64(dir: c_int, path: Pointer = text(), file: Pointer = both(STAT), flags: c_int)
        -> c_int;
    statx(dir: c_int, path: Pointer = text(), flags: c_int, mask: u32,
        file: Pointer = both(STATX)) -> c_int;
    statfs(path: Pointer = text(), system: Pointer = both(STATFS)) -> c_int;
    statfs64(path: Pointer = text(), system: Pointer = both(STATFS)) -> c_int;
    fstatfs(fd: c_int, system: Pointer = both(STATFS)) -> c_int;
    fstatfs64(fd: c_int, system: Pointer = both(STATFS)) -> c_int;
    statvfs(path: Pointer = text(), system: Pointer = both(STATVFS)) -> c_int;
    statvfs64(path: Pointer = text(), system: Pointer = both(STATVFS)) -> c_int;

    chmod(path: Pointer = text(), mode: mode_t) -> c_int;
    fchmodat(dir: c_int, path: Pointer = text(), mode: mode_t, flags: c_int) -> c_int;
    chown(path: Pointer = text(), user: uid_t, group: gid_t) -> c_int;
    lchown(path: Pointer = text(), user: uid_t, group: gid_t) -> c_int;
    fchownat(dir: c_int, path: Pointer = text(), user: uid_t, group: gid_t, flags: c_int) -> c_int;
    truncate(path: Pointer = text(), length: off64_t) -> c_int;
    truncate64(path: Pointer = text(), length: off64_t) -> c_int;
    utime(path: Pointer = text(), times: Pointer = input(16)) -> c_int;
    utimes(path: Pointer = text(), times: Pointer = input(32)) -> c_int;
    lutimes(path: Pointer = text(), times: Pointer = input(32)) -> c_int;
    futimens(fd: c_int, times: Pointer = input(32)) -> c_int;
    utimensat(dir: c_int, path: Pointer = text(), times: Pointer = input(32), flags: c_int)
        -> c_int;
    getxattr(path: Pointer = text(), name: Pointer = text(), value: Pointer = fill(size, 1),
        size: size_t) -> ssize_t;
    lgetxattr(path: Pointer = text(), name: Pointer = text(), value: Pointer = fill(size, 1),
        size: size_t) -> ssize_t;
    fgetxattr(fd: c_int, name: Pointer = text(), value: Pointer = fill(size, 1), size: size_t)
        -> ssize_t;
    setxattr(path: Pointer = text(), name: Pointer = text(), value: Pointer = input(size),
        size: size_t, flags: c_int) -> c_int;
    lsetxattr(path: Pointer = text(), name: Pointer = text(), value: Pointer = input(size),
        size: size_t, flags: c_int) -> c_int;
    fsetxattr(fd: c_int, name: Pointer = text(), value: Pointer = input(size), size: size_t,
        flags: c_int) -> c_int;
    listxattr(path: Pointer = text(), list: Pointer = fill(size, 1), size: size_t) -> ssize_t;
    llistxattr(path: Pointer = text(), list: Pointer = fill(size, 1), size: size_t) -> ssize_t;
    flistxattr(fd: c_int, list: Pointer = fill(size, 1), size: size_t) -> ssize_t;
    removexattr(path: Pointer = text(), name: Pointer = text()) -> c_int;
    lremovexattr(path: Pointer = text(), name: Pointer = text()) -> c_int;
    fremovexattr(fd: c_int, name: Pointer = text()) -> c_int;
    mount(source: Pointer = text(), target: Pointer = text(), kind: Pointer = text(), flags: usize,
        data: Pointer) -> c_int;
    umount(target: Pointer = text()) -> c_int;
    umount2(target: Pointer = text(), flags: c_int) -> c_int;
    inotify_add_watch(fd: c_int, path: Pointer = text(), mask: u32) -> c_int;

    fcntl(fd: c_int, command: c_int, argument: Pointer = some(SOME)) -> c_int;
    fcntl64(fd: c_int, command: c_int, argument: Pointer = some(SOME)) -> c_int;
    ioctl(fd: c_int, request: u64, argument: Pointer = some(ioctl_bytes(request))) -> c_int;
    pipe(ends: Pointer = both(8)) -> c_int;
    pipe2(ends: Pointer = both(8), flags: c_int) -> c_int;
    eventfd_read(fd: c_int, value: Pointer = both(8)) -> c_int;
    sendfile(to: c_int, from: c_int, offset: Pointer = both(8), count: size_t) -> ssize_t;
    sendfile64(to: c_int, from: c_int, offset: Pointer = both(8), count: size_t) -> ssize_t;
    splice(from: c_int, offset: Pointer = both(8), to: c_int, other: Pointer = both(8),
        count: size_t, flags: u32) -> ssize_t;
    copy_file_range(from: c_int, offset: Pointer = both(8), to: c_int, other: Pointer = both(8),
        count: size_t, flags: u32) -> ssize_t;
    system(command: Pointer = text()) -> c_int;
    popen(command: Pointer = text(), mode: Pointer) -> Pointer;
}

/// Defines functions that return one of their arguments, or null.
macro_rules! in_place {
    ($($name:ident($at:ident = $kind:ident($($detail:expr),*) $(, $more:ident: $type:ty)*);)*) => {$(
        #[doc = concat!("As ", stringify!($name), " of the C library.")]
        ///
        /// # Safety
        /// As for that function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($at: Pointer $(, $more: $type)*) -> Pointer {
            let mut locals = crate::local::Locals::new();
            let local = locals.$kind($at $(, $detail)*);
            let result = next!($name(local => Pointer $(, $more => $type)*) -> Pointer);
            locals.finish(if result == local { $at } else { result })
        }
    )*};
}

in_place! {
    getcwd(buffer = both(size), size: size_t);
    __getcwd_chk(buffer = both(size), size: size_t, limit: size_t);
    mkdtemp(path = template());
}

/// Defines functions for programs that were built with a C library before 2.33, where stat was no function.
macro_rules! versioned {
    ($($name:ident => $plain:ident($($argument:ident: $type:ty),*);)*) => {$(
        #[doc = concat!("As ", stringify!($plain), "; there is one version of the structure.")]
        ///
        /// # Safety
        /// As for that function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(_version: c_int, $($argument: $type),*) -> c_int {
            // SAFETY: the caller's promise.
            unsafe { $plain($($argument),*) }
        }
    )*};
}

versioned! {
    __xstat => stat(path: Pointer, file: Pointer);
    __xstat64 => stat(path: Pointer, file: Pointer);
    __lxstat => lstat(path: Pointer, file: Pointer);
    __lxstat64 => lstat(path: Pointer, file: Pointer);
    __fxstat => fstat(fd: c_int, file: Pointer);
    __fxstat64 => fstat(fd: c_int, file: Pointer);
    __fxstatat => fstatat(dir: c_int, path: Pointer, file: Pointer, flags: c_int);
    __fxstatat64 => fstatat(dir: c_int, path: Pointer, file: Pointer, flags: c_int);
}
