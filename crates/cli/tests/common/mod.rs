//! The command, in a directory for racks of its own; at the end nothing may be left in it.

#![allow(dead_code, reason = "every test file uses its own part")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tempfile::TempDir;

/// Longest wait for something that happens sooner or later.
const PATIENCE: Duration = Duration::from_secs(60);

/// Longest that a command takes to its end.
const LONGEST: Duration = Duration::from_secs(600);

pub struct Host {
    dir: TempDir,
}

/// Result of a command.
#[derive(Debug)]
pub struct Done {
    pub status: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Host {
    pub fn new() -> Host {
        Host { dir: tempfile::Builder::new().prefix("rk").tempdir().unwrap() }
    }

    /// The directory of all racks.
    pub fn racks(&self) -> &Path {
        self.dir.path()
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rackmem"));
        command.args(args).stdin(Stdio::null());
        self.environment(&mut command);
        command
    }

    pub fn environment(&self, command: &mut Command) {
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("RACKMEM_") {
                command.env_remove(name);
            }
        }
        command.env("RACKMEM_DIR", self.racks());
    }

    /// A file with a secret that only its user reads.
    pub fn secret(&self, name: &str, text: &str) -> String {
        use std::os::unix::fs::OpenOptionsExt;
        let path = self.racks().join(name);
        let mut options = fs::OpenOptions::new();
        let mut file = options.create_new(true).write(true).mode(0o600).open(&path).unwrap();
        std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Runs the command to its end; one that hangs is killed, and has no status.
    pub fn run(&self, args: &[&str]) -> Done {
        let mut command = self.command(args);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let pid = child.id();
        let (ended, has_ended) = mpsc::channel::<()>();
        let guard = thread::spawn(move || {
            if has_ended.recv_timeout(LONGEST) == Err(RecvTimeoutError::Timeout) {
                kill(pid, "KILL");
            }
        });
        let output = child.wait_with_output().unwrap();
        drop(ended);
        guard.join().unwrap();
        Done::from(output)
    }

    /// Runs it and expects success; returns its output.
    pub fn ok(&self, args: &[&str]) -> String {
        let done = self.run(args);
        assert_eq!(done.status, Some(0), "{args:?}: {done:?}");
        done.out
    }

    /// Runs it and expects this status; returns its complaint.
    pub fn fails(&self, status: i32, args: &[&str]) -> String {
        let done = self.run(args);
        assert_eq!(done.status, Some(status), "{args:?}: {done:?}");
        done.err
    }

    /// Process of the daemon of a node of the default rack.
    pub fn daemon(&self, nid: u16) -> u32 {
        let lock = self.racks().join("default").join(format!("node-{nid}.lock"));
        fs::read_to_string(lock).unwrap().trim().parse().unwrap()
    }

    /// Living processes that belong to this host, by their environment.
    pub fn processes(&self) -> Vec<u32> {
        let wanted = format!("RACKMEM_DIR={}", self.racks().display());
        let belongs = |dir: PathBuf| -> Option<u32> {
            let pid = dir.file_name()?.to_str()?.parse().ok()?;
            let environment = fs::read(dir.join("environ")).ok()?;
            let mut variables = environment.split(|&byte| byte == 0);
            variables.any(|variable| variable == wanted.as_bytes()).then_some(pid)
        };
        let processes = fs::read_dir("/proc").unwrap().flatten();
        processes.filter_map(|entry| belongs(entry.path())).filter(|&pid| is_alive(pid)).collect()
    }

    /// Directories of racks.
    pub fn rack_names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.racks()).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    pub fn assert_no_process(&self) {
        until("no process is left", || self.processes().is_empty());
    }

    pub fn assert_nothing_left(&self) {
        self.assert_no_process();
        assert_eq!(self.rack_names(), Vec::<String>::new());
    }
}

impl Drop for Host {
    /// A failed test must not leave processes behind; a successful one has none.
    fn drop(&mut self) {
        for pid in self.processes() {
            kill(pid, "KILL");
        }
    }
}

impl From<Output> for Done {
    fn from(output: Output) -> Done {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Done { status: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }
}

/// Whether there is such a process that has not ended; one that nobody has waited for has. It has not
/// as long as one of its threads may still have files open.
pub fn is_alive(pid: u32) -> bool {
    let pid = Pid::from_raw(pid as i32).unwrap();
    let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&now)) == Ok(0)
}

/// Sends a signal by its name. After STOP, waits until every thread stands: until then a process answers.
pub fn kill(pid: u32, signal: &str) {
    let status = Command::new("kill").args([&format!("-{signal}"), &pid.to_string()]).status();
    assert!(status.is_ok());
    if signal == "STOP" {
        until("the process is stopped", || every_thread_is_stopped(pid));
    }
}

fn every_thread_is_stopped(pid: u32) -> bool {
    let mut threads = fs::read_dir(format!("/proc/{pid}/task")).expect("the process is there");
    threads.all(|thread| {
        let stat = fs::read_to_string(thread.unwrap().path().join("stat"));
        stat.is_ok_and(|stat| stat.rsplit_once(')').unwrap().1.trim_start().starts_with('T'))
    })
}

/// Waits for something that has to happen.
pub fn until(what: &str, happened: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !happened() {
        assert!(Instant::now() < deadline, "{what}: not within {PATIENCE:?}");
        thread::sleep(Duration::from_millis(5));
    }
}
