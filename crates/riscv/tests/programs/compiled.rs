//! Programs in C, compiled for RISC-V: they print here what they print in QEMU.
//!
//! With Debian's cross compiler they are linked with glibc, once dynamically. If `RACKMEM_ZIG` names a
//! command that runs Zig (`zig`, or `python -m ziglang`), also with musl, once as position-independent
//! programs.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::support::qemu::{QEMU, Shown, by_linux, by_qemu, by_us, by_us_in, have};

pub const GCC: &str = "riscv64-linux-gnu-gcc";

/// Compiles with `command`, split at spaces, and `flags`.
pub fn compile(folder: &Path, command: &str, flags: &[&str], name: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/c").join(name);
    let program = folder.join(name).with_extension(flags.concat().len().to_string());
    let mut words = command.split(' ');
    let output = Command::new(words.next().expect("a command has a word"))
        .args(words)
        .args(flags)
        .arg(source.with_extension("c"))
        .arg("-o")
        .arg(&program)
        .args(["-lm", "-lpthread"])
        .output()
        .expect("the compiler starts");
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command} {name}: {message}");
    program
}

/// Every compiler that is here, with its flags.
fn compilers() -> Vec<(String, Vec<&'static str>)> {
    let mut compilers = Vec::new();
    if have(&[GCC, QEMU]) {
        compilers.push((GCC.to_owned(), vec!["-O2", "-static"]));
        compilers.push((GCC.to_owned(), vec!["-O0", "-static", "-march=rv64g"]));
        compilers.push((GCC.to_owned(), vec!["-O1", "-pie"]));
    }
    if let Ok(zig) = std::env::var("RACKMEM_ZIG")
        && have(&[QEMU])
    {
        let zig = format!("{zig} cc -target riscv64-linux-musl");
        compilers.push((zig.clone(), vec!["-static", "-O2"]));
        compilers.push((zig, vec!["-static-pie", "-fPIE", "-O1", "-s"]));
    }
    compilers
}

fn prints_the_same(name: &str, args: &[&str]) {
    let folder = TempDir::new().expect("there is room for temporary files");
    for (command, flags) in compilers() {
        let program = compile(folder.path(), &command, &flags, name);
        let theirs = by_qemu(&program, args);
        assert!(!theirs.stdout.is_empty());
        let ours = by_us(&program, args);
        let text = |shown: &Shown| String::from_utf8_lossy(&shown.stdout).into_owned();
        assert_eq!(text(&theirs), text(&ours), "{command} {flags:?}");
        assert_eq!(theirs, ours, "{command} {flags:?}");
    }
}

/// What Linux has and QEMU has not: a program prints what it does on a host.
fn prints(name: &str, args: &[&str], expected: &str) {
    let folder = TempDir::new().expect("there is room for temporary files");
    for (command, flags) in compilers() {
        let program = compile(folder.path(), &command, &flags, name);
        let ours = by_us(&program, args);
        assert_eq!(String::from_utf8_lossy(&ours.stdout), expected, "{command} {flags:?}");
    }
}

/// The same beside the host, of calls in which QEMU differs from Linux.
fn prints_the_same_as_linux(name: &str) {
    if !have(&["cc"]) {
        return;
    }
    let folder = TempDir::new().expect("there is room for temporary files");
    let program = compile(folder.path(), "cc", &["-O1"], name);
    let theirs = by_linux(&program, &[]);
    assert_eq!(theirs.status, 0, "{theirs:?}");
    prints(name, &[], &String::from_utf8_lossy(&theirs.stdout));
}

#[test]
fn hello() {
    prints_the_same("hello", &["world"]);
}

#[test]
fn threads() {
    prints_the_same("threads", &[]);
}

#[test]
fn kernels() {
    prints_the_same("kernels", &[]);
}

#[test]
fn signals() {
    prints_the_same("signals", &[]);
}

#[test]
fn memory() {
    prints_the_same("memory", &[]);
}

#[test]
fn polling() {
    prints_the_same("polling", &[]);
}

#[test]
fn sockets() {
    prints_the_same("sockets", &[]);
}

#[test]
fn datagrams() {
    prints_the_same("datagrams", &[]);
}

#[test]
fn connections() {
    prints_the_same("connections", &[]);
}

#[test]
fn sockets_move_parts_of_what_a_call_asks_for_as_in_qemu() {
    prints_the_same("streams", &[]);
}

#[test]
fn pipes_take_all_pieces_of_a_write_as_in_qemu() {
    prints_the_same("pieces", &[]);
}

#[test]
fn controls_of_descriptors_and_addresses_of_nobody_are_as_in_qemu() {
    prints_the_same("controls", &[]);
}

#[test]
fn what_epoll_watches_lasts_as_long_as_its_open_file() {
    prints_the_same("interests", &[]);
}

#[test]
fn events_that_cannot_be_written_are_there_for_the_next_call() {
    prints_the_same_as_linux("unwritten");
}

#[test]
fn pages_that_are_locked_are_those_of_linux() {
    prints("locked", &[], include_str!("expected/locked.txt"));
}

#[test]
fn sets_of_epoll_watch_each_other_as_in_qemu() {
    prints_the_same("nested", &[]);
}

#[test]
fn calls_that_wait_keep_to_their_files() {
    prints_the_same("replaced", &[]);
}

#[test]
fn timers() {
    prints_the_same("timers", &[]);
    prints_the_same("timers", &["end"]);
}

#[test]
fn timers_that_are_read() {
    prints_the_same("timerfd", &[]);
}

#[test]
fn copies() {
    prints_the_same("copies", &[]);
}

#[test]
fn nodes() {
    prints_the_same("nodes", &[]);
}

#[test]
fn properties_of_threads_and_processes_are_those_in_qemu() {
    prints_the_same("properties", &[]);
}

#[test]
fn pages_keep_their_permissions_and_faults_name_them() {
    prints_the_same("pages", &[]);
}

#[test]
fn wrong_arguments_have_the_errors_and_effects_that_they_have_in_qemu() {
    prints_the_same("arguments", &[]);
}

#[test]
fn mutexes_of_threads_that_end_are_released() {
    let expected = "waited 1\nunlocked 0\nnot waited 1\nunlocked 0\nnot recovered 1\nsize -1\n";
    prints("robust", &[], expected);
}

#[test]
fn advice_on_files_and_room_in_them_are_as_in_qemu() {
    prints_the_same("advice", &[]);
}

#[test]
fn files_without_names_and_names_below_proc_are_as_in_qemu() {
    prints_the_same("nameless", &[]);
}

#[test]
fn names_are_any_bytes_as_in_qemu() {
    prints_the_same("bytes", &[]);
}

#[test]
fn calls_on_pieces_of_memory_take_flags() {
    prints("advice", &["flags"], include_str!("expected/flags.txt"));
}

/// QEMU copies all that a call names first, so the text is that of Linux itself.
#[test]
fn pages_of_pipes_move_as_a_whole_or_stay() {
    prints("torn", &[], include_str!("expected/torn.txt"));
}

#[test]
fn mapped() {
    prints_the_same("mapped", &[]);
    // A mapping that the program leaves is in the file at its end, whichever end that is.
    for (command, flags) in compilers() {
        let folder = TempDir::new().expect("there is room for temporary files");
        let program = compile(folder.path(), &command, &flags, "mapped");
        for how in ["exit", "signal", "crash", "timer"] {
            let ours = by_us_in(folder.path(), &program, &[how]);
            assert_eq!(ours.status != 0, how != "exit", "{how}");
            let bytes = std::fs::read(folder.path().join("file")).expect("it has been written");
            assert_eq!(bytes.len(), 4 * 4096);
            assert_eq!(&bytes[3 * 4096..][..11], b"at the end\0", "{how}");
        }
    }
}

#[test]
fn corners() {
    prints_the_same("corners", &[]);
}

#[test]
fn locks() {
    prints_the_same("locks", &[]);
    // A call of QEMU that waits for a lock does not begin again.
    for (command, flags) in compilers() {
        let folder = TempDir::new().expect("there is room for temporary files");
        let program = compile(folder.path(), &command, &flags, "locks");
        let ours = by_us(&program, &["again"]);
        assert_eq!(ours.stdout, b"begun again 0 0\ninterrupts 1\n", "{command}");
    }
}

#[test]
fn modes() {
    prints_the_same("modes", &[]);
}

/// Random calls, each sequence from its seed, of the numbers from 0 on: a program prints what each gives. `theirs` runs
/// it as it should be.
fn random_calls_are_the_same(name: &str, seeds: u32, theirs: impl Fn(&str) -> Shown) {
    let folder = TempDir::new().expect("there is room for temporary files");
    for (command, flags) in compilers().into_iter().take(1) {
        let program = compile(folder.path(), &command, &flags, name);
        for seed in 0..seeds {
            let seed = seed.to_string();
            let (theirs, ours) = (theirs(&seed), by_us(&program, &[&seed]));
            let [theirs, ours] = [theirs, ours].map(|shown| {
                let text = String::from_utf8_lossy(&shown.stdout).into_owned();
                text.lines().map(str::to_owned).collect::<Vec<_>>()
            });
            assert!(theirs.len() > 100, "{theirs:?}");
            let first = theirs.iter().zip(&ours).position(|(theirs, ours)| theirs != ours);
            if let Some(at) = first {
                panic!("seed {seed}: {:#?} and not {}", &theirs[..=at], ours[at]);
            }
            assert_eq!(theirs.len(), ours.len());
        }
    }
}

/// The same, beside QEMU.
fn calls_are_those_of_qemu(name: &str, seeds: u32) {
    let folder = TempDir::new().expect("there is room for temporary files");
    for (command, flags) in compilers().into_iter().take(1) {
        let program = compile(folder.path(), &command, &flags, name);
        random_calls_are_the_same(name, seeds, |seed| by_qemu(&program, &[seed]));
    }
}

#[test]
fn random_files() {
    calls_are_those_of_qemu("random_files", 60);
}

#[test]
fn random_calls_on_what_programs_wait_for_are_the_same() {
    calls_are_those_of_qemu("random_waits", 40);
}

/// QEMU differs from Linux in some of these calls, so the program runs on the host, too. That has to be Linux 5.14 or
/// later, for `MADV_POPULATE_READ` and `MADV_POPULATE_WRITE`.
#[test]
fn random_calls_on_mapped_files_are_the_same() {
    if !have(&["cc"]) {
        return;
    }
    let folder = TempDir::new().expect("there is room for temporary files");
    let program = compile(folder.path(), "cc", &["-O1"], "random_maps");
    if by_linux(&program, &[]).status != 0 {
        eprintln!("skipped: the host has no MADV_POPULATE_READ");
        return;
    }
    random_calls_are_the_same("random_maps", 40, |seed| by_linux(&program, &[seed]));
}

#[test]
fn again() {
    prints_the_same("again", &[]);
}

#[test]
fn calls_on_descriptors_without_content() {
    prints_the_same("descriptors", &[]);
}

#[test]
fn files_without_content_keep_to_their_file() {
    prints_the_same("renamed", &[]);
}

#[test]
fn files_in_memory_are_opened_again() {
    prints_the_same("memfd", &[]);
}

#[test]
fn links() {
    prints_the_same("links", &[]);
}

/// QEMU leaves names as they are: it is the host that answers.
#[test]
fn last_parts() {
    prints_the_same("last_parts", &[]);
}

#[test]
fn alone() {
    prints_the_same("alone", &[]);
}

#[test]
fn folders() {
    prints_the_same("folders", &[]);
}

#[test]
fn files() {
    let folder = TempDir::new().expect("there is room for temporary files");
    let path = folder.path().join("text");
    std::fs::write(&path, "one\ntwo, and a longer line\n\nlast\n").expect("the file is ours");
    prints_the_same("files", &[&path.display().to_string()]);
}
