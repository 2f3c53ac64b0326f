//! Racks of real processes for tests: this test binary starts itself again in other roles.

#![allow(dead_code)]

pub mod c;
pub mod hosts;
pub mod raw;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rackmem::client::{Context, OpenOptions};
use rackmem::daemon;
use rackmem::protocol::Progress;
use rackmem::rack::Rack;

pub use hosts::Wire;

/// Bound on everything that must not hang.
pub const BOUND: Duration = Duration::from_secs(20);

/// Lets this process have as many files open as it may: every queue pair and buffer is one.
pub fn allow_many_descriptors() {
    let limits = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let all = rustix::process::Rlimit { current: limits.maximum, ..limits };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, all).unwrap();
}

/// Starts this binary again as `role`; the test function `child` dispatches on it.
pub fn spawn(role: &str, args: &[&str]) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture", "--test-threads=1", "--include-ignored"])
        .env("RACKMEM_TEST_ROLE", role)
        .env("RACKMEM_TEST_ARGS", args.join(" "))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// The role and arguments of this process, if it was started by [`spawn`].
pub fn role() -> Option<(String, Vec<String>)> {
    let role = std::env::var("RACKMEM_TEST_ROLE").ok()?;
    let args = std::env::var("RACKMEM_TEST_ARGS").unwrap_or_default();
    Some((role, args.split_whitespace().map(str::to_owned).collect()))
}

/// The role `daemon <node>`.
pub fn be_daemon(args: &[String]) {
    let config = daemon::Config {
        rack: Rack::named(None).unwrap(),
        nids: args.iter().map(|nid| nid.parse().unwrap()).collect(),
        pin_core: None,
        spin: Duration::from_micros(20),
        share_core: false,
        rack_file: hosts::file_of_child(),
        faults: hosts::faults_of_child(),
    };
    daemon::run(config).unwrap();
}

/// A rack of daemons in processes of their own, in a directory of its own.
pub struct TestRack {
    pub rack: Rack,
    pub daemons: Vec<Option<Child>>,
    pub wire: Wire,
    /// Removed last.
    _dir: Option<tempfile::TempDir>,
}

/// Puts all racks of this test process into a directory of their own.
pub fn use_own_directory() {
    use std::sync::OnceLock;
    static DIR: OnceLock<std::path::PathBuf> = OnceLock::new();
    // Nothing drops a static.
    extern "C" fn remove() {
        let _ = DIR.get().map(std::fs::remove_dir_all);
    }
    let dir = DIR.get_or_init(|| {
        // SAFETY: the function may be called at the end of the process.
        unsafe { libc::atexit(remove) };
        tempfile::tempdir().unwrap().keep()
    });
    // SAFETY: every test calls this before it starts threads of its own, with the same value.
    unsafe { std::env::set_var("RACKMEM_DIR", dir) };
}

impl TestRack {
    /// Starts a rack and waits until its nodes are linked.
    pub fn start(name: &str, nodes: u16) -> TestRack {
        TestRack::start_on(Wire::from_env(), name, nodes)
    }

    /// The same, with all nodes on one host or each on a host of its own.
    pub fn start_on(wire: Wire, name: &str, nodes: u16) -> TestRack {
        use_own_directory();
        let rack = Rack::named(Some(name)).unwrap();
        rack.create(nodes).unwrap();
        wire.write_file(&rack, nodes);
        let daemons = (0..nodes).map(|_| None).collect();
        let mut this = TestRack { rack, daemons, wire, _dir: None };
        for nid in 0..nodes {
            this.start_daemon(nid);
        }
        this.wait_linked();
        this
    }

    pub fn start_daemon(&mut self, nid: u16) {
        self.start_daemon_by(nid, self.wire.file());
    }

    /// Starts a daemon with a file of the rack's directory that describes the rack.
    pub fn start_daemon_by(&mut self, nid: u16, file: &str) {
        let transports = std::env::var("UCX_TLS").unwrap_or("tcp".to_owned());
        self.start_daemon_with(nid, file, &transports);
    }

    /// The same; UCX gets these transports.
    pub fn start_daemon_with(&mut self, nid: u16, file: &str, ucx_transports: &str) {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture"])
            .env("RACKMEM_TEST_ROLE", "daemon")
            .env("RACKMEM_TEST_ARGS", nid.to_string())
            .env("RACKMEM_RACK", self.rack.name())
            .env("RACKMEM_TEST_FILE", file)
            .env("RACKMEM_TEST_FAULTS", self.wire.faults().to_string())
            .env("UCX_TLS", ucx_transports)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        self.daemons[usize::from(nid)] = Some(child);
    }

    /// Waits until every daemon that was started is linked to every other.
    pub fn wait_linked(&self) {
        let alive: Vec<u16> = (0..self.daemons.len() as u16)
            .filter(|nid| self.daemons[usize::from(*nid)].is_some())
            .collect();
        eventually("all nodes are linked", || {
            alive.iter().all(|nid| {
                rackmem::control::status(&self.rack, *nid)
                    .is_ok_and(|status| status.peers_up.len() + 1 == alive.len())
            })
        });
    }

    pub fn kill_daemon(&mut self, nid: u16) {
        let mut child = self.daemons[usize::from(nid)].take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    pub fn options(&self, nid: u16, ctx_id: u16) -> OpenOptions {
        OpenOptions::from_env().unwrap().rack(self.rack.clone()).node(nid).context(ctx_id)
    }

    /// Joins a context as every node, from this process.
    pub fn open_all(&self, ctx_id: u16, size_bytes: u64, progress: Progress) -> Vec<Context> {
        self.open_nodes(ctx_id, size_bytes, progress, false)
    }

    /// The same, so that other processes can be these nodes, too.
    pub fn open_all_shared(&self, ctx_id: u16, bytes: u64, progress: Progress) -> Vec<Context> {
        self.open_nodes(ctx_id, bytes, progress, true)
    }

    fn open_nodes(
        &self,
        ctx_id: u16,
        size_bytes: u64,
        progress: Progress,
        shared: bool,
    ) -> Vec<Context> {
        let open = |nid| {
            let options = self.options(nid, ctx_id).segment_bytes(size_bytes).progress(progress);
            Context::open(&options.shared(shared)).unwrap()
        };
        let contexts: Vec<Context> = (0..self.daemons.len() as u16).map(open).collect();
        for context in &contexts {
            for nid in 0..contexts.len() as u16 {
                context.wait_joined(nid, Some(Instant::now() + BOUND)).unwrap();
            }
        }
        contexts
    }
}

impl Drop for TestRack {
    fn drop(&mut self) {
        for child in self.daemons.iter_mut().flatten() {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = self.rack.remove();
    }
}

/// A stopped process, which goes on when this is dropped.
pub struct Stopped(libc::pid_t);

impl Stopped {
    pub fn new(child: &Child) -> Stopped {
        let pid = child.id() as libc::pid_t;
        // SAFETY: signals a child of this process.
        assert_eq!(unsafe { libc::kill(pid, libc::SIGSTOP) }, 0);
        eventually("the process is stopped", || {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
            stat.rsplit_once(')').unwrap().1.trim_start().starts_with('T')
        });
        Stopped(pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { libc::kill(self.0, libc::SIGCONT) };
    }
}

/// Waits for a condition that must come true.
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + BOUND;
    while !condition() {
        assert!(Instant::now() < deadline, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits for a child to end by itself.
pub fn wait(child: &mut Child) -> std::process::ExitStatus {
    let deadline = Instant::now() + BOUND;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        assert!(Instant::now() < deadline, "child {} hangs", child.id());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a directory holds nothing.
pub fn is_empty(dir: &Path) -> bool {
    std::fs::read_dir(dir).map_or(true, |mut entries| entries.next().is_none())
}
