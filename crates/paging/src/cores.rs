//! Cores of threads: where they run, and binding them.

/// Cores that the calling thread may use.
pub(super) fn allowed() -> libc::cpu_set_t {
    // SAFETY: a set of cores is plain data; the call fills it in.
    unsafe {
        let mut cores: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut cores);
        cores
    }
}

/// The core on which a thread of this process ran last. Does not allocate.
pub(super) fn of(tid: i32) -> Option<usize> {
    use std::io::Write;
    let mut path = [0u8; 64];
    write!(&mut path[..], "/proc/self/task/{tid}/stat\0").ok()?;
    let mut text = [0u8; 1024];
    // SAFETY: the path ends with a zero, and the buffer has its length.
    let length = unsafe {
        let fd = libc::open(path.as_ptr().cast(), libc::O_RDONLY | libc::O_CLOEXEC);
        if fd < 0 {
            return None;
        }
        let length = libc::read(fd, text.as_mut_ptr().cast(), text.len());
        libc::close(fd);
        length
    };
    let text = std::str::from_utf8(text.get(..usize::try_from(length).ok()?)?).ok()?;
    // The name, in parentheses, may contain anything; the core is the 37th field after it.
    text.rsplit_once(')')?.1.split_ascii_whitespace().nth(36)?.parse().ok()
}

/// The core that the calling thread runs on.
pub(super) fn own() -> Option<usize> {
    // SAFETY: takes nothing.
    usize::try_from(unsafe { libc::sched_getcpu() }).ok()
}

/// Binds a thread of this process (0: the caller) to these cores. Returns whether the kernel accepted it.
pub(super) fn bind(tid: i32, cores: &libc::cpu_set_t) -> bool {
    // SAFETY: the set is there for the call.
    unsafe { libc::sched_setaffinity(tid, size_of::<libc::cpu_set_t>(), cores) == 0 }
}

/// This one of the allowed cores, if it is one.
pub(super) fn only(number: usize, allowed: &libc::cpu_set_t) -> Option<libc::cpu_set_t> {
    // SAFETY: sets of cores are plain data, of which zero is the empty one.
    unsafe {
        if !libc::CPU_ISSET(number, allowed) {
            return None;
        }
        let mut cores: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(number, &mut cores);
        Some(cores)
    }
}
