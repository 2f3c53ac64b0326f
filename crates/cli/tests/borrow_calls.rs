//! `rackmem borrow`: system calls on memory that is away, in all modes, as root and as an ordinary user.

mod common;
mod lender;

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{Done, Host};
use lender::{Lender, borrow, is_possible, program};
use tempfile::TempDir;

/// Each of the program's two buffers is a quarter of it.
const SIZE: &str = "256M";
const ARGS: [&str; 6] = [SIZE, "--cache", "4M", "--threshold", "0", "--json"];

/// Text of the notice where the kernel cannot wait for pages.
const NOTICE: &str = "io_uring is refused";

/// Checks what tests/c/calls.c did on borrowed memory.
fn check(done: &Done, is_helped: bool) {
    assert_eq!(done.status, Some(0), "{done:?}");
    assert!(done.out.ends_with("ok\n"), "{done:?}");
    let reports = done.err.lines().filter_map(|line| serde_json::from_str(line).ok());
    let fetched = reports.map(|report: serde_json::Value| {
        report["fetched"].as_u64().unwrap() + report["prefetched"].as_u64().unwrap()
    });
    assert!(fetched.sum::<u64>() > 10_000, "{done:?}");
    // Once, although the program starts a shell.
    let notices = done.err.lines().filter(|line| line.contains(NOTICE)).count();
    assert_eq!(notices, usize::from(is_helped), "{done:?}");
    if is_helped {
        assert!(done.out.contains("without io_uring"), "{done:?}");
    }
}

fn calls(mode: &str, is_helped: bool) {
    let host = Host::new();
    let _lender = Lender::start(&host, "512M");
    if !is_possible(&host) {
        return;
    }
    if !is_helped && !is_root() {
        eprintln!("not tested: this user's faults of the kernel may not be handled");
        return;
    }
    let program = program("calls");
    let args = [&ARGS[..], &["--mode", mode]].concat();
    let done = borrow(&host, &args, &[program.to_str().unwrap()]).output().unwrap();
    check(&Done::from(done), is_helped);
}

fn is_root() -> bool {
    // SAFETY: takes nothing.
    unsafe { libc::geteuid() == 0 }
}

#[test]
fn calls_mean_the_same_with_a_thread() {
    calls("thread", false);
}

#[test]
fn calls_mean_the_same_inline() {
    calls("inline", true);
}

/// An ordinary user with the programs in a directory of its own.
struct Ordinary {
    dir: TempDir,
}

/// "nobody".
const ID: u32 = 65534;

impl Ordinary {
    /// `None`: this process may not become another user; says so.
    fn new() -> Option<Ordinary> {
        if !is_root() {
            eprintln!("not tested: only root can become another user");
            return None;
        }
        let dir = tempfile::Builder::new().prefix("rk").tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let ordinary = Ordinary { dir };
        let command = Path::new(env!("CARGO_BIN_EXE_rackmem"));
        let library = command.parent().unwrap().join("deps/librackmem_preload.so");
        for file in [command, &library, &program("calls")] {
            fs::copy(file, ordinary.path(file.file_name().unwrap().to_str().unwrap())).unwrap();
        }
        let racks = ordinary.path("racks");
        fs::create_dir(&racks).unwrap();
        chown(&racks, Some(ID), Some(ID)).unwrap();
        fs::set_permissions(&racks, fs::Permissions::from_mode(0o700)).unwrap();
        let is_there = ordinary.command(&["--version"]).status();
        if !is_there.is_ok_and(|status| status.success()) {
            eprintln!("not tested: setpriv does not run programs as another user here");
            return None;
        }
        Some(ordinary)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("setpriv");
        command.args([&format!("--reuid={ID}"), &format!("--regid={ID}"), "--clear-groups", "--"]);
        command.arg(self.path("rackmem")).args(args).current_dir("/").stdin(Stdio::null());
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("RACKMEM_") {
                command.env_remove(name);
            }
        }
        command.env("RACKMEM_DIR", self.path("racks"));
        command
    }

    fn calls(&self, mode: &str) {
        let program = self.path(program("calls").file_name().unwrap().to_str().unwrap());
        let args = [&["borrow"], &ARGS[..], &["--mode", mode, "--"]].concat();
        let mut command = self.command(&[&args[..], &[program.to_str().unwrap()]].concat());
        let done = Done::from(command.output().unwrap());
        if done.err.contains("userfaultfd is not permitted") {
            eprintln!("not tested: {}", done.err);
            return;
        }
        check(&done, true);
    }
}

#[test]
fn calls_mean_the_same_to_an_ordinary_user() {
    let Some(ordinary) = Ordinary::new() else { return };
    let _lender = Lender::by(&mut ordinary.command(&["lend", "--overcommit", "512M"]));
    ordinary.calls("thread");
    ordinary.calls("inline");
}
