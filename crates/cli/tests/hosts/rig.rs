//! A rack file whose nodes have addresses of this host that no other test uses, and a directory of racks for each node:
//! the launcher puts a command into that of its node, as if it ran on another host.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::common::{Done, Host, is_alive, kill, until};

pub struct Rig {
    pub host: Host,
    folder: tempfile::TempDir,
    nodes: u16,
}

impl Rig {
    /// A rack file of up to four nodes, each with an IP of its own.
    pub fn new(nodes: u16) -> Rig {
        static RIGS: AtomicU32 = AtomicU32::new(0);
        let folder = tempfile::Builder::new().prefix("rk").tempdir().unwrap();
        let rig = Rig { host: Host::new(), folder, nodes };
        let [.., third, second] = std::process::id().to_be_bytes();
        let first = 1 + 4 * RIGS.fetch_add(1, Ordering::Relaxed);
        let address = |nid: u16| format!("127.{third}.{second}.{}:7400", first + u32::from(nid));
        let addresses: Vec<String> = (0..nodes).map(address).collect();
        rig.write("lab.secret", "0123456789abcdef\n", 0o600);
        rig.write_nodes(&addresses.iter().map(String::as_str).collect::<Vec<_>>());
        rig
    }

    /// The same, whose nodes know each other by keys, beside the rack file.
    pub fn with_keys(nodes: u16) -> Rig {
        let rig = Rig::new(nodes);
        let text = fs::read_to_string(rig.file()).unwrap();
        let mut text = text.replace("secret_file = \"lab.secret\"\n", "");
        for nid in (0..nodes).rev() {
            let key = rig.host.ok(&["key", "new", &rig.path(&format!("lab-{nid}.key"))]);
            let at =
                text.match_indices("[[node]]\n").nth(nid.into()).unwrap().0 + "[[node]]\n".len();
            text.insert_str(at, &format!("key = \"{}\"\n", key.trim()));
        }
        rig.write("rack.toml", &text, 0o644);
        rig
    }

    pub fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    pub fn file(&self) -> String {
        self.path("rack.toml")
    }

    pub fn write(&self, name: &str, text: &str, mode: u32) {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    pub fn write_nodes(&self, addresses: &[&str]) {
        let node = |address: &&str| format!("[[node]]\naddress = \"{address}\"\n");
        let nodes: String = addresses.iter().map(node).collect();
        let text = format!("name = \"lab\"\nsecret_file = \"lab.secret\"\n{nodes}");
        self.write("rack.toml", &text, 0o644);
    }

    /// The directory of racks of a node's host.
    pub fn racks(&self, nid: u16) -> PathBuf {
        self.folder.path().join(format!("h{nid}"))
    }

    pub fn launcher(&self) -> String {
        format!("env RACKMEM_DIR={}", self.path("h{node}"))
    }

    /// The command on no host of the rack.
    pub fn ok(&self, args: &[&str]) -> String {
        self.host.ok(&self.with_file(args))
    }

    pub fn run(&self, args: &[&str]) -> Done {
        self.host.run(&self.with_file(args))
    }

    pub fn fails(&self, status: i32, args: &[&str]) -> String {
        self.host.fails(status, &self.with_file(args))
    }

    /// The command with its rack file behind the command's name.
    fn with_file<'a>(&'a self, args: &[&'a str]) -> Vec<&'a str> {
        let file = Box::leak(format!("--rack-file={}", self.file()).into_boxed_str());
        [&args[..1], &[file], &args[1..]].concat()
    }

    /// The command on the host of a node.
    pub fn on(&self, nid: u16, args: &[&str]) -> Command {
        let mut command = self.host.command(&self.with_file(args));
        command.env("RACKMEM_DIR", self.racks(nid));
        command
    }

    pub fn ok_on(&self, nid: u16, args: &[&str]) -> String {
        let done = Done::from(self.on(nid, args).output().unwrap());
        assert_eq!(done.status, Some(0), "{args:?}: {done:?}");
        done.out
    }

    pub fn fails_on(&self, nid: u16, args: &[&str]) -> Done {
        let done = Done::from(self.on(nid, args).output().unwrap());
        assert_eq!(done.status, Some(1), "{args:?}: {done:?}");
        done
    }

    /// Starts every node on its host.
    pub fn up(&self) {
        self.ok(&["up", "--hosts", "--launcher", &self.launcher()]);
    }

    pub fn down(&self) {
        self.ok(&["down", "--hosts", "--launcher", &self.launcher()]);
    }

    /// Living processes of all hosts.
    pub fn processes(&self) -> Vec<u32> {
        let wanted = format!("RACKMEM_DIR={}", self.path("h"));
        let belongs = |dir: PathBuf| -> Option<u32> {
            let pid = dir.file_name()?.to_str()?.parse().ok()?;
            let environment = fs::read(dir.join("environ")).ok()?;
            let mut variables = environment.split(|&byte| byte == 0);
            variables.any(|variable| variable.starts_with(wanted.as_bytes())).then_some(pid)
        };
        let processes = fs::read_dir("/proc").unwrap().flatten();
        processes.filter_map(|entry| belongs(entry.path())).filter(|&pid| is_alive(pid)).collect()
    }

    /// Names of contexts on the host of a node, and of what stands beside them.
    pub fn contexts(&self, nid: u16) -> Vec<String> {
        let dir = self.racks(nid).join("lab/contexts");
        let entries = fs::read_dir(dir).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    /// No process but the daemons is there, and no context.
    pub fn assert_only_daemons(&self) {
        until("only daemons are left", || self.processes().len() == usize::from(self.nodes));
        for nid in 0..self.nodes {
            assert_eq!(self.contexts(nid), Vec::<String>::new(), "node {nid}");
        }
    }

    pub fn assert_nothing_left(&self) {
        until("no process is left", || self.processes().is_empty());
        for nid in 0..self.nodes {
            let racks = fs::read_dir(self.racks(nid)).map_or(0, Iterator::count);
            assert_eq!(racks, 0, "node {nid}");
        }
        self.host.assert_nothing_left();
    }
}

impl Drop for Rig {
    /// A failed test must not leave processes behind.
    fn drop(&mut self) {
        self.processes().into_iter().for_each(|pid| kill(pid, "KILL"));
    }
}
