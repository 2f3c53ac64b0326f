//! System calls for people: names, and the arguments that matter.

use rackmem_riscv::kernel::{UserMemory, call_name};

use crate::cpu::Call;
use crate::exec::borrow;
use crate::exec::device::Device;

/// How an argument is written.
#[derive(Clone, Copy)]
enum Style {
    /// A number with a sign.
    Number,
    Address,
    /// A string at an address.
    Text,
    /// A `struct timespec` at an address.
    Time,
    /// An operation of `futex`.
    Futex,
}

use Style::{Address, Futex, Number, Text, Time};

/// Position, name and style of an argument.
type Argument = (usize, &'static str, Style);

/// Bytes of a string that are shown.
const LONGEST: usize = 64;

/// Operations of `futex`, by number.
const FUTEX_NAMES: [&str; 11] = [
    "wait",
    "wake",
    "fd",
    "requeue",
    "cmp_requeue",
    "wake_op",
    "lock_pi",
    "unlock_pi",
    "trylock_pi",
    "wait_bitset",
    "wake_bitset",
];

/// A call with these arguments.
pub fn describe(number: u64, args: [u64; 6], memory: &mut dyn UserMemory) -> Call {
    let name = name(number);
    let shown = shown(&name).iter();
    let args = shown.map(|&(at, label, style)| (label, text(args[at], style, memory))).collect();
    Call { number, name, args, result: None }
}

fn name(number: u64) -> String {
    let own = || Some(format!("rackmem {}", Device::call_name(number)?));
    let window = || Some(format!("window {}", borrow::call_name(number)?));
    let known = call_name(number).map(str::to_owned).or_else(own).or_else(window);
    known.unwrap_or_else(|| format!("call {number}"))
}

/// The arguments of a call that matter.
fn shown(name: &str) -> &'static [Argument] {
    match name {
        "read" | "write" | "pread64" | "pwrite64" | "getdents64" => {
            &[(0, "fd", Number), (2, "bytes", Number)]
        }
        "readv" | "writev" | "preadv" | "pwritev" => &[(0, "fd", Number), (2, "buffers", Number)],
        "close" | "fstat" | "fstatfs" | "fsync" | "fdatasync" | "dup" | "dup3" | "flock"
        | "fchdir" | "timerfd_settime" | "timerfd_gettime" => &[(0, "fd", Number)],
        "sendfile" => &[(0, "to", Number), (1, "from", Number), (3, "bytes", Number)],
        "splice" | "copy_file_range" => {
            &[(0, "from", Number), (2, "to", Number), (4, "bytes", Number)]
        }
        "tee" => &[(0, "from", Number), (1, "to", Number), (2, "bytes", Number)],
        "lseek" | "ftruncate" => &[(0, "fd", Number), (1, "offset", Number)],
        "fcntl" | "ioctl" => &[(0, "fd", Number), (1, "command", Number)],
        "openat" | "newfstatat" | "faccessat" | "readlinkat" | "mkdirat" | "mknodat"
        | "unlinkat" | "statx" => &[(1, "path", Text)],
        "chdir" | "statfs" => &[(0, "path", Text)],
        "memfd_create" => &[(0, "name", Text)],
        "futex" => &[(1, "operation", Futex), (0, "address", Address), (2, "value", Number)],
        "nanosleep" => &[(0, "time", Time)],
        "clock_nanosleep" => &[(2, "time", Time)],
        "clock_gettime" => &[(0, "clock", Number)],
        "ppoll" | "pselect6" => &[(1, "files", Number)],
        "epoll_pwait" | "epoll_pwait2" => &[(0, "epoll", Number), (2, "events", Number)],
        "epoll_ctl" => &[(0, "epoll", Number), (1, "operation", Number), (2, "fd", Number)],
        "brk" => &[(0, "end", Address)],
        "mmap" | "munmap" | "mprotect" | "madvise" | "mremap" | "mlock" | "msync" => {
            &[(0, "address", Address), (1, "bytes", Number)]
        }
        "clone" => &[(0, "flags", Address), (1, "stack", Address)],
        "exit" | "exit_group" => &[(0, "status", Number)],
        "kill" => &[(0, "process", Number), (1, "signal", Number)],
        "tkill" => &[(0, "thread", Number), (1, "signal", Number)],
        "tgkill" => &[(1, "thread", Number), (2, "signal", Number)],
        "rt_sigaction" => &[(0, "signal", Number)],
        "getrandom" => &[(1, "bytes", Number)],
        "rackmem open" => &[(0, "context", Number), (1, "bytes", Number)],
        "rackmem close" | "rackmem notified" => &[(0, "context", Number)],
        "rackmem joined" => &[(0, "context", Number), (1, "node", Number)],
        "rackmem qp_create" => &[(0, "context", Number), (1, "entries", Number)],
        "rackmem wait" => {
            &[(0, "address", Address), (1, "value", Number), (2, "timeout_ns", Number)]
        }
        _ => &[],
    }
}

fn text(value: u64, style: Style, memory: &mut dyn UserMemory) -> String {
    match style {
        Number => (value as i64).to_string(),
        Address => format!("{value:#x}"),
        Text => string(value, memory),
        Time => {
            let mut bytes = [0; 16];
            match memory.read(value, &mut bytes) {
                Err(_) => format!("{value:#x}"),
                Ok(()) => {
                    let [seconds, nanoseconds] = [&bytes[..8], &bytes[8..]].map(|word| {
                        i64::from_le_bytes(word.try_into().expect("a word has eight bytes"))
                    });
                    format!("{seconds}.{nanoseconds:09} s")
                }
            }
        }
        Futex => {
            // Without FUTEX_PRIVATE_FLAG and FUTEX_CLOCK_REALTIME.
            let operation = value & 0x7f;
            let name = FUTEX_NAMES.get(operation as usize);
            name.map_or_else(|| operation.to_string(), |name| (*name).to_owned())
        }
    }
}

/// The begin of a string that ends with a zero.
fn string(address: u64, memory: &mut dyn UserMemory) -> String {
    let mut bytes = Vec::new();
    let mut byte = [0];
    while bytes.len() < LONGEST
        && memory.read(address.wrapping_add(bytes.len() as u64), &mut byte).is_ok()
        && byte != [0]
    {
        bytes.push(byte[0]);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
