//! Three network namespaces and the command in them.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

pub use crate::common::until;

/// Longest wait for a line of the command, or for a register.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub const LENDER: &str = "10.77.0.2";
pub const BORROWED: &str = "10.88.0.1";
pub const PEER: &str = "10.88.0.9";

/// Proof of all hosts.
pub const SECRET: &str = "nobody guesses this";

/// R (10.77.0.1) - fabric - (10.77.0.2) D, whose nic0 leads to E (10.88.0.9).
pub struct Rack {
    prefix: String,
    dir: TempDir,
}

impl Rack {
    /// A rack of its own; `None`, with a remark, where this host does not permit it.
    pub fn new() -> Option<Rack> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("rk{}x{number}", std::process::id());
        let rack = Rack { prefix, dir: TempDir::new().unwrap() };
        rack.write_secret("secret", SECRET);
        let made = Command::new("ip").args(["netns", "add", &rack.name("R")]).output();
        if !made.is_ok_and(|made| made.status.success()) {
            eprintln!("skipped: `ip netns add` does not work here (root and iproute2 are needed)");
            std::mem::forget(rack);
            return None;
        }
        for host in ["D", "E"] {
            ip(&["netns", "add", &rack.name(host)]);
        }
        rack.join("R", "fab", "D", "fab");
        rack.join("D", "nic0", "E", "e0");
        rack.ip("R", "addr add 10.77.0.1/24 dev fab");
        rack.ip("D", &format!("addr add {LENDER}/24 dev fab"));
        rack.ip("E", &format!("addr add {PEER}/24 dev e0"));
        Some(rack)
    }

    /// A file with a secret that only its user reads.
    pub fn write_secret(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        path
    }

    fn name(&self, host: &str) -> String {
        format!("{}{host}", self.prefix)
    }

    fn join(&self, a: &str, a_name: &str, b: &str, b_name: &str) {
        let (a_space, b_space) = (self.name(a), self.name(b));
        ip(&[
            "link", "add", a_name, "netns", &a_space, "type", "veth", "peer", "name", b_name,
            "netns", &b_space,
        ]);
        self.ip(a, &format!("link set {a_name} up"));
        self.ip(b, &format!("link set {b_name} up"));
        self.ip(a, "link set lo up");
    }

    /// `ip` in a host; its output.
    pub fn ip(&self, host: &str, arguments: &str) -> String {
        let name = self.name(host);
        let mut all = vec!["-n", &name];
        all.extend(arguments.split_whitespace());
        ip(&all)
    }

    /// Output of `ip` for an interface; `None` if it is not there.
    pub fn link(&self, host: &str, interface: &str) -> Option<String> {
        let name = self.name(host);
        let arguments = ["-n", &name, "-d", "link", "show", "dev", interface];
        let done = Command::new("ip").args(arguments).output().unwrap();
        done.status.success().then(|| String::from_utf8(done.stdout).unwrap())
    }

    /// Does something in a host.
    pub fn within<T: Send + 'static>(
        &self,
        host: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> thread::JoinHandle<T> {
        let space = self.space(host);
        thread::spawn(move || {
            enter(&space);
            work()
        })
    }

    fn space(&self, host: &str) -> File {
        File::open(format!("/run/netns/{}", self.name(host))).unwrap()
    }

    /// `rackmem nic` in a host, with the secret of all hosts.
    pub fn nic(&self, host: &str, arguments: &str) -> Nic {
        self.nic_as(host, arguments, |_| {})
    }

    /// The same, with another environment.
    pub fn nic_as(&self, host: &str, arguments: &str, change: impl FnOnce(&mut Command)) -> Nic {
        let space = self.space(host);
        let mut command = Command::new(env!("CARGO_BIN_EXE_rackmem"));
        command.arg("nic").args(arguments.split_whitespace());
        command.env("RACKMEM_SECRET", self.dir.path().join("secret"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // SAFETY: one system call.
        unsafe { command.pre_exec(move || join_space(&space)) };
        change(&mut command);
        let mut child = command.spawn().unwrap();
        let (send, lines) = channel();
        let out = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || {
            out.lines().map_while(Result::ok).all(|line| send.send(line).is_ok())
        });
        Nic { child, lines }
    }

    /// D lends nic0.
    pub fn lend(&self) -> Nic {
        let lender = self.nic("D", &format!("lend nic0 --listen {LENDER}"));
        lender.line("nic0 is free");
        lender
    }

    /// R borrows it as lent0.
    pub fn attach(&self, how: &str) -> Nic {
        let borrower =
            self.nic("R", &format!("attach lent0 --from {LENDER} --ip {BORROWED}/24 {how}"));
        borrower.line("lent0 is nic0");
        borrower.line("the link is up");
        borrower
    }

    /// Nothing of a loan is left in any host.
    pub fn assert_given_back(&self) {
        until("lent0 is gone", || self.link("R", "lent0").is_none());
        until("tunnels are gone", || !self.ip("D", "link").contains("rmnic"));
        until("nic0 takes its own packets only", || {
            self.link("D", "nic0").unwrap().contains("promiscuity 0")
        });
    }
}

impl Drop for Rack {
    fn drop(&mut self) {
        for host in ["R", "D", "E"] {
            let _ = Command::new("ip").args(["netns", "del", &self.name(host)]).output();
        }
    }
}

/// The command at work. It is killed if it is dropped.
pub struct Nic {
    child: Child,
    lines: Receiver<String>,
}

impl Nic {
    /// Waits for a line that begins so; others before it are passed over.
    pub fn line(&self, start: &str) -> String {
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) if line.starts_with(start) => return line,
                Ok(_) => {}
                Err(error) => panic!("no line '{start}..' came: {error}"),
            }
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: &str) {
        crate::common::kill(self.pid(), signal);
    }

    /// Waits for its end. Returns the exit status (none if a signal ended it) and its complaints.
    pub fn end(mut self) -> (Option<i32>, String) {
        until("the command ends", || !crate::common::is_alive(self.child.id()));
        let status = self.child.wait().unwrap();
        let mut complaint = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut complaint).unwrap();
        (status.code(), complaint)
    }

    /// Asks it to end, and expects that it does without complaint.
    pub fn stop(self) {
        self.signal("INT");
        assert_eq!(self.end(), (Some(0), String::new()));
    }

    pub fn kill(self) {
        self.signal("KILL");
        assert_eq!(self.end().0, None);
    }
}

impl Drop for Nic {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ip(arguments: &[&str]) -> String {
    let done = Command::new("ip").args(arguments).output().unwrap();
    let complaint = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "ip {}: {complaint}", arguments.join(" "));
    String::from_utf8(done.stdout).unwrap()
}

fn join_space(space: &File) -> std::io::Result<()> {
    // SAFETY: no pointers.
    match unsafe { libc::setns(space.as_raw_fd(), libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

fn enter(space: &File) {
    join_space(space).unwrap();
}
