//! Numbers of system calls (`asm-generic/unistd.h`).

macro_rules! calls {
    ($($name:ident = $number:literal, $text:literal;)*) => {
        $(pub(super) const $name: u64 = $number;)*

        /// The name of a system call, if it is one that this crate has heard of.
        pub fn name(number: u64) -> Option<&'static str> {
            Some(match number {
                $($number => $text,)*
                _ => return None,
            })
        }
    };
}

calls! {
    FCNTL = 25, "fcntl";
    IOCTL = 29, "ioctl";
    OPENAT = 56, "openat";
    CLOSE = 57, "close";
    LSEEK = 62, "lseek";
    READ = 63, "read";
    WRITE = 64, "write";
    READV = 65, "readv";
    WRITEV = 66, "writev";
    READLINKAT = 78, "readlinkat";
    NEWFSTATAT = 79, "newfstatat";
    FSTAT = 80, "fstat";
    EXIT = 93, "exit";
    EXIT_GROUP = 94, "exit_group";
    SET_TID_ADDRESS = 96, "set_tid_address";
    FUTEX = 98, "futex";
    SET_ROBUST_LIST = 99, "set_robust_list";
    NANOSLEEP = 101, "nanosleep";
    CLOCK_GETTIME = 113, "clock_gettime";
    CLOCK_GETRES = 114, "clock_getres";
    CLOCK_NANOSLEEP = 115, "clock_nanosleep";
    SCHED_SETAFFINITY = 122, "sched_setaffinity";
    SCHED_GETAFFINITY = 123, "sched_getaffinity";
    SCHED_YIELD = 124, "sched_yield";
    KILL = 129, "kill";
    TKILL = 130, "tkill";
    TGKILL = 131, "tgkill";
    SIGALTSTACK = 132, "sigaltstack";
    RT_SIGACTION = 134, "rt_sigaction";
    RT_SIGPROCMASK = 135, "rt_sigprocmask";
    UNAME = 160, "uname";
    GETCPU = 168, "getcpu";
    GETTIMEOFDAY = 169, "gettimeofday";
    GETPID = 172, "getpid";
    GETPPID = 173, "getppid";
    GETUID = 174, "getuid";
    GETEUID = 175, "geteuid";
    GETGID = 176, "getgid";
    GETEGID = 177, "getegid";
    GETTID = 178, "gettid";
    SYSINFO = 179, "sysinfo";
    BRK = 214, "brk";
    MUNMAP = 215, "munmap";
    MREMAP = 216, "mremap";
    CLONE = 220, "clone";
    MMAP = 222, "mmap";
    MPROTECT = 226, "mprotect";
    MADVISE = 233, "madvise";
    RISCV_HWPROBE = 258, "riscv_hwprobe";
    PRLIMIT64 = 261, "prlimit64";
    GETRANDOM = 278, "getrandom";
    MEMBARRIER = 283, "membarrier";
    STATX = 291, "statx";
    RSEQ = 293, "rseq";
    CLONE3 = 435, "clone3";
}

/// Linux has no calls from here on. Those that drivers add are; programs find out by them whether
/// there is such a driver.
const FIRST_FOREIGN: u64 = 1 << 16;

/// Whether programs try it and are content without: no reason for a warning.
pub(super) fn is_optional(number: u64) -> bool {
    number >= FIRST_FOREIGN
        || matches!(number, CLONE3 | RSEQ | RISCV_HWPROBE | MREMAP | STATX | MEMBARRIER)
}
