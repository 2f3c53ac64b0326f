//! A lender, and programs that borrow of it.

#![allow(dead_code, reason = "every test file uses its own part")]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

use crate::common::{Done, Host, kill};

/// A process that lends; killed when dropped.
pub struct Lender(pub Child);

impl Lender {
    pub fn start(host: &Host, size: &str) -> Lender {
        Lender::start_with(host, &[size])
    }

    /// One that is reached over the network, too.
    pub fn start_on_network(host: &Host, size: &str) -> Lender {
        Lender::start_with(host, &[size, "--listen", "127.0.0.1:0", "--insecure"])
    }

    /// One that is reached by those who know the secret, too.
    pub fn start_guarded(host: &Host, size: &str, secret: &str) -> Lender {
        Lender::start_with(host, &[size, "--listen", "127.0.0.1:0", "--secret", secret])
    }

    fn start_with(host: &Host, args: &[&str]) -> Lender {
        Lender::by(&mut host.command(&[&["lend", "--overcommit"], args].concat()))
    }

    /// One that is started by this command.
    pub fn by(command: &mut Command) -> Lender {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let lends = lines.by_ref().map(Result::unwrap).any(|line| line.contains("lends"));
        assert!(lends, "the lender did not start");
        // Its further output must not fill the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Lender(child)
    }
}

impl Lender {
    /// Stops the process: it says and does nothing more, and its connections stay.
    pub fn stop(&self) {
        kill(self.0.id(), "STOP");
    }
}

impl Drop for Lender {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `rackmem borrow ARGS -- COMMAND`.
pub fn borrow(host: &Host, args: &[&str], command: &[&str]) -> Command {
    borrow_with(host, &[args, &["--"]].concat(), command)
}

/// As `borrow`; the arguments end with `--`.
pub fn borrow_with(host: &Host, args: &[&str], command: &[&str]) -> Command {
    host.command(&[&["borrow"], args, command].concat())
}

/// Whether this host lets programs borrow; says so if it does not.
pub fn is_possible(host: &Host) -> bool {
    let program = program("borrowed");
    let args = ["16M", "--threshold", "0"];
    let done =
        Done::from(borrow(host, &args, &[program.to_str().unwrap(), "echo"]).output().unwrap());
    assert_eq!(done.status, Some(0), "{done:?}");
    let is_possible = !done.err.contains("this process goes on with local memory");
    if !is_possible {
        eprintln!("not tested: {}", done.err);
    }
    is_possible
}

/// A program of tests/c, compiled once: what an earlier process of this number has left may be older.
pub fn program(name: &str) -> PathBuf {
    static COMPILED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut compiled = COMPILED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c").join(name);
    let built =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    if !compiled.contains(name) {
        let status = Command::new("cc")
            .args(["-O1", "-Wall", "-Werror", "-pthread", "-o"])
            .arg(&built)
            .arg(source.with_extension("c"))
            .status()
            .expect("there is a C compiler");
        assert!(status.success(), "{name}.c compiles");
        compiled.insert(name.to_owned());
    }
    built
}
