//! The folder `/`, and files below `/proc`, `/sys` and `/dev`: those of the program's machine, and never the host's.

mod folders;

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::memory::Memory;
use super::{Entry, Host};
use crate::names::bytes_of;
use crate::space::PAGE;
use crate::stack::STACK_TOP;
pub(super) use folders::{FIRST_INODE, inode};
use folders::{first_name, folder};

/// What a process knows of its program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Its arguments, its name first.
    pub args: Vec<String>,
    /// Its environment.
    pub env: Vec<String>,
    /// Bytes of its first thread's stack.
    pub stack_bytes: u64,
}

/// The process, for the files that tell of it.
pub(super) struct Process<'a> {
    pub program: &'a Program,
    pub memory: &'a Memory,
    /// That of the first thread.
    pub name: String,
    pub threads: usize,
}

/// The process on its machine.
pub(super) struct Facts<'a> {
    program: &'a Program,
    name: String,
    /// Ranges of the address space that are in use, and their names.
    maps: Vec<(u64, u64, &'a str)>,
    threads: usize,
    /// Descriptors that are in use.
    descriptors: &'a [u64],
    /// The current folder.
    current: &'a str,
    now_ns: u64,
    harts: usize,
    memory_bytes: u64,
}

impl<'a> Facts<'a> {
    pub(super) fn new(
        process: &Process<'a>,
        (descriptors, current): (&'a [u64], &'a str),
        host: &mut dyn Host,
    ) -> Facts<'a> {
        Facts {
            descriptors,
            current,
            program: process.program,
            name: process.name.clone(),
            maps: process.memory.maps(),
            threads: process.threads,
            now_ns: host.now_ns(),
            harts: host.harts(),
            memory_bytes: host.memory_bytes(),
        }
    }
}

/// A file that the kernel makes up.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Made {
    Text(Vec<u8>),
    Folder(Vec<Entry>),
    /// A link with this text.
    Link(String),
    Null,
    Zero,
    /// Like `/dev/zero`, and always full.
    Full,
    Random,
    /// Another name of this descriptor.
    Descriptor(u64),
}

/// Whether names there are the kernel's: so is the folder that all others are in.
pub(super) fn is_ours(path: &str) -> bool {
    let name = normal(path);
    let top = name.split('/').nth(1);
    matches!(top, Some("proc" | "sys" | "dev" | ""))
}

/// A name without `.`, `..` and doubled slashes.
pub(super) fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

/// Whether C libraries and language runtimes look there by themselves: no reason for a warning.
pub(super) fn is_probed(name: &str) -> bool {
    const PROBED: [&str; 4] =
        ["/sys/fs/cgroup", "/sys/kernel/mm/transparent_hugepage", "/proc/sys/crypto", "/dev/tty"];
    PROBED.iter().any(|probed| name.starts_with(probed))
}

/// The file of a normal name, if there is one.
pub(super) fn open(path: &str, facts: &Facts<'_>) -> Option<Made> {
    let text = |text: String| Some(Made::Text(text.into_bytes()));
    let path = &first_name(path)[..];
    if let Some(name) = path.strip_prefix("/proc/self/fd/") {
        // Each has one name, without a sign or zeros before it.
        let mut descriptors = facts.descriptors.iter();
        return descriptors.find(|it| it.to_string() == name).map(|&it| Made::Descriptor(it));
    }
    match path {
        "/dev/null" => Some(Made::Null),
        "/dev/zero" => Some(Made::Zero),
        "/dev/full" => Some(Made::Full),
        "/dev/random" | "/dev/urandom" => Some(Made::Random),
        "/dev/stdin" => Some(Made::Descriptor(0)),
        "/dev/stdout" => Some(Made::Descriptor(1)),
        "/dev/stderr" => Some(Made::Descriptor(2)),
        "/proc/cpuinfo" => text(cpuinfo(facts)),
        "/proc/meminfo" => text(meminfo(facts)),
        "/proc/stat" => text(stat(facts)),
        "/proc/uptime" => {
            let seconds = facts.now_ns as f64 / 1e9;
            text(format!("{seconds:.2} 0.00\n"))
        }
        "/proc/loadavg" => text(format!("0.00 0.00 0.00 1/{} 1000\n", facts.threads)),
        "/proc/version" => text("Linux version 6.1.0 (rackmem) #1\n".to_owned()),
        "/proc/filesystems" | "/proc/mounts" => text(String::new()),
        "/proc/sys/kernel/osrelease" => text("6.1.0\n".to_owned()),
        "/proc/sys/kernel/ostype" => text("Linux\n".to_owned()),
        "/proc/sys/kernel/hostname" => text("rackmem\n".to_owned()),
        "/proc/sys/kernel/pid_max" => text("32768\n".to_owned()),
        "/proc/sys/vm/overcommit_memory" => text("0\n".to_owned()),
        "/proc/sys/vm/max_map_count" => text("65530\n".to_owned()),
        "/proc/sys/net/core/somaxconn" => text("4096\n".to_owned()),
        "/sys/devices/system/cpu/online"
        | "/sys/devices/system/cpu/possible"
        | "/sys/devices/system/cpu/present" => text(format!("{}\n", range(facts.harts))),
        "/sys/devices/system/cpu/kernel_max" => text(format!("{}\n", facts.harts - 1)),
        "/sys/devices/system/node/online" | "/sys/devices/system/node/possible" => {
            text("0\n".to_owned())
        }
        "/sys/kernel/mm/transparent_hugepage/enabled" => {
            text("always madvise [never]\n".to_owned())
        }
        _ => {
            let own = path.strip_prefix("/proc/self/").and_then(|name| own(name, facts));
            own.or_else(|| folder(path, facts).map(Made::Folder))
        }
    }
}

/// Files of the process itself.
fn own(name: &str, facts: &Facts<'_>) -> Option<Made> {
    let Program { args, env, .. } = facts.program;
    let text = |text: String| Some(Made::Text(text.into_bytes()));
    let zero_ended = |strings: &[String]| {
        let bytes = strings.iter().flat_map(|string| string.bytes().chain([0]));
        Some(Made::Text(bytes.collect()))
    };
    let pages = facts.maps.iter().map(|(start, end, _)| (end - start) / PAGE).sum::<u64>();
    match name {
        "exe" => Some(Made::Link(exe(facts.program))),
        "cwd" => Some(Made::Link(facts.current.to_owned())),
        "cmdline" => zero_ended(args),
        "environ" => zero_ended(env),
        "comm" => text(format!("{}\n", facts.name)),
        "maps" => Some(Made::Text(bytes_of(&maps(facts)))),
        "stat" => {
            let zeros = " 0".repeat(8);
            text(format!(
                "1000 ({}) R 1 1000 1000 0 -1 4194304{zeros} 20 0 {} 0 0 {} {pages}\n",
                facts.name,
                facts.threads,
                pages * PAGE
            ))
        }
        "statm" => text(format!("{pages} {pages} 0 0 0 {pages} 0\n")),
        "status" => text(format!(
            "Name:\t{}\nState:\tR (running)\nTgid:\t1000\nPid:\t1000\nPPid:\t1\n\
             Uid:\t1000\t1000\t1000\t1000\nGid:\t1000\t1000\t1000\t1000\n\
             VmSize:\t{kib} kB\nVmRSS:\t{kib} kB\nThreads:\t{}\nCpus_allowed_list:\t{}\n",
            facts.name,
            facts.threads,
            range(facts.harts),
            kib = pages * PAGE / 1024,
        )),
        "oom_score_adj" => text("0\n".to_owned()),
        "cgroup" => text("0::/\n".to_owned()),
        "mountinfo" | "mounts" | "smaps" => text(String::new()),
        _ => None,
    }
}

/// The program's name as `/proc/self/exe` shows it.
pub(super) fn exe(program: &Program) -> String {
    let name = program.args.first().map_or("program", String::as_str);
    if name.starts_with('/') {
        return name.to_owned();
    }
    let said = format!("{}/{name}", crate::host::FOLDER);
    let normal = normal(&said);
    // A program outside of the run's folder has no shorter name.
    if normal.starts_with(crate::host::FOLDER) { normal } else { said }
}

/// The last part of the program's name, at most 15 bytes.
pub(super) fn comm(program: &Program) -> String {
    let name = program.args.first().map_or("program", String::as_str);
    let last = name.rsplit('/').next().unwrap_or(name);
    last.chars().take(15).collect()
}

/// Harts as lists of CPUs have them: `0-3`.
fn range(harts: usize) -> String {
    if harts == 1 { "0".to_owned() } else { format!("0-{}", harts - 1) }
}

fn cpuinfo(facts: &Facts<'_>) -> String {
    let hart = |hart| {
        format!("processor\t: {hart}\nhart\t\t: {hart}\nisa\t\t: rv64imafdc\nmmu\t\t: sv48\n")
    };
    (0..facts.harts).map(hart).collect::<Vec<_>>().join("\n") + "\n"
}

fn meminfo(facts: &Facts<'_>) -> String {
    let used: u64 = facts.maps.iter().map(|(start, end, _)| end - start).sum();
    let (total, free) = (facts.memory_bytes, facts.memory_bytes.saturating_sub(used));
    let lines = [
        ("MemTotal", total),
        ("MemFree", free),
        ("MemAvailable", free),
        ("Buffers", 0),
        ("Cached", 0),
        ("SwapTotal", 0),
        ("SwapFree", 0),
    ];
    let mut text = String::new();
    for (name, bytes) in lines {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{:<15} {:>8} kB", format!("{name}:"), bytes / 1024);
    }
    text
}

fn stat(facts: &Facts<'_>) -> String {
    let ticks = facts.now_ns / 10_000_000;
    let mut text = format!("cpu  {} 0 0 0 0 0 0 0 0 0\n", ticks * facts.harts as u64);
    for hart in 0..facts.harts {
        let _ = writeln!(text, "cpu{hart} {ticks} 0 0 0 0 0 0 0 0 0");
    }
    let boot = super::misc::EPOCH_NS / 1_000_000_000;
    let _ = writeln!(text, "ctxt 0\nbtime {boot}\nprocesses 1\nprocs_running 1\nprocs_blocked 0");
    text
}

fn maps(facts: &Facts<'_>) -> String {
    let stack = (STACK_TOP - facts.program.stack_bytes.min(STACK_TOP), STACK_TOP, "[stack]");
    let mut text = String::new();
    for (start, end, name) in facts.maps.iter().chain([&stack]) {
        let line = format!("{start:08x}-{end:08x} rw-p 00000000 00:00 0 ");
        let _ = match name.is_empty() {
            true => writeln!(text, "{line}"),
            false => writeln!(text, "{line:<73}{name}"),
        };
    }
    text
}
