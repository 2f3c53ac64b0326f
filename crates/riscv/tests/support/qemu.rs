//! Programs run by QEMU and by us.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use rackmem_riscv::functional::{Options, Output, RunError, Why, run};

/// Observable results of a run.
#[derive(Debug, PartialEq, Eq)]
pub struct Shown {
    pub status: i32,
    pub stdout: Vec<u8>,
}

/// Whether all `tools` are there. If not, says so: the test has nothing to do then. With
/// `RACKMEM_REQUIRE_QEMU=1` that is a failure.
pub fn have(tools: &[&str]) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |tool: &&&str| std::env::split_paths(&path).any(|dir| dir.join(tool).is_file());
    let missing: Vec<_> = tools.iter().filter(|tool| !is_there(tool)).collect();
    if missing.is_empty() {
        return true;
    }
    let required = std::env::var("RACKMEM_REQUIRE_QEMU").is_ok_and(|value| value == "1");
    assert!(!required, "RACKMEM_REQUIRE_QEMU=1, but these are missing: {missing:?}");
    eprintln!("skipped: needs {missing:?}");
    false
}

pub const QEMU: &str = "qemu-riscv64";

/// The libraries of Debian's cross compiler.
pub const LIBRARIES: &str = "/usr/riscv64-linux-gnu";

/// Runs a program file in QEMU.
pub fn by_qemu(program: &Path, args: &[&str]) -> Shown {
    let mut command = Command::new(QEMU);
    command.args(["-L", LIBRARIES]).arg(program);
    shown(command, args)
}

/// Runs a program file of the host.
pub fn by_linux(program: &Path, args: &[&str]) -> Shown {
    shown(Command::new(program), args)
}

fn shown(mut command: Command, args: &[&str]) -> Shown {
    let folder = TempDir::new().expect("there is room for temporary files");
    let output = command.current_dir(folder.path()).args(args).output();
    let output = output.expect("the program starts");
    let status = output.status;
    let killed = status.signal().map(|signal| 128 + signal);
    Shown { status: status.code().or(killed).unwrap_or(-1), stdout: output.stdout }
}

/// Runs a program file here.
pub fn by_us(program: &Path, args: &[&str]) -> Shown {
    let folder = TempDir::new().expect("there is room for temporary files");
    by_us_in(folder.path(), program, args)
}

/// The same in a folder, which has the files that it writes then. A crash is the status 139.
pub fn by_us_in(folder: &Path, program: &Path, args: &[&str]) -> Shown {
    let file = fs::read(program).expect("the program is there");
    let name = program.display().to_string();
    let words: Vec<String> = [name.as_str()].iter().chain(args).map(|a| a.to_string()).collect();
    let options = Options {
        output: Output::Capture,
        folder: Some(folder.to_owned()),
        libraries: Some(LIBRARIES.into()).filter(|path: &PathBuf| path.is_dir()),
        max_instructions: Some(200_000_000),
        ..Options::default()
    };
    match run(&file, &words, &[], &options) {
        Ok(outcome) => Shown { status: outcome.end.status(), stdout: outcome.stdout },
        Err(RunError::Failure(failure)) if args == ["crash"] => {
            assert!(matches!(failure.why, Why::Fault(_)), "{failure}");
            Shown { status: 139, stdout: Vec::new() }
        }
        Err(error) => panic!("{}: {error}", program.display()),
    }
}

/// FNV-1a of what a run wrote: stands for it where QEMU is missing.
pub fn fingerprint(shown: &Shown) -> u64 {
    shown.stdout.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Writes a program into `folder`.
pub fn write(folder: &Path, name: &str, elf: &[u8]) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, elf).expect("the folder can be written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
    path
}
