//! `rackmem borrow` with programs that know nothing of it: their output is the same as without.

mod common;
mod lender;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use common::Host;
use lender::{Lender, borrow, is_possible, program};

/// Longest wait for Redis to begin or end something.
const PATIENCE: Duration = Duration::from_secs(60);

/// The path of a program that is installed; otherwise says that something is not tested.
fn installed(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&path).map(|dir| dir.join(name)).find(|path| path.is_file());
    if found.is_none() {
        eprintln!("not tested: {name} is not installed");
    }
    found
}

const PYTHON: &str = "
import hashlib, os, random, threading
random.seed(5)
words = {number: ('value %d' % number) * random.randrange(1, 20) for number in range(60000)}
lists = [[str(number)] * 10 for number in range(30000)]

def digest():
    sum = hashlib.sha1()
    for number in sorted(words): sum.update(words[number].encode())
    for list in lists: sum.update(''.join(list).encode())
    return sum.hexdigest()

def churn():
    blocks = [bytes([number % 256]) * (number % 5000) for number in range(3000)]
    assert all(block == bytes([number % 256]) * (number % 5000) for number, block in enumerate(blocks))

threads = [threading.Thread(target=churn) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(digest(), flush=True)
readable, writable = os.pipe()
child = os.fork()
if child == 0:
    before = digest()
    words.update((number, 'of the child') for number in range(1000))
    os.write(writable, (before + ' ' + digest()).encode())
    os._exit(0)
words.update((number, 'of the parent') for number in range(1000))
assert os.waitpid(child, 0)[1] == 0
print(os.read(readable, 1000).decode(), digest())
";

#[test]
fn python_computes_the_same() {
    let Some(python) = installed("python3") else { return };
    let host = Host::new();
    let _lender = Lender::start(&host, "600M");
    if !is_possible(&host) {
        return;
    }
    let plain = Command::new(&python).args(["-c", PYTHON]).output().unwrap();
    assert!(plain.status.success(), "{plain:?}");
    for mode in ["thread", "inline"] {
        let args = ["256M", "--cache", "8M", "--threshold", "16M", "--mode", mode];
        let borrowed = borrow(&host, &args, &["python3", "-c", PYTHON]).output().unwrap();
        assert_eq!(text(&borrowed), text(&plain), "{mode}: {borrowed:?}");
    }
}

#[test]
fn small_programs_around_a_large_one_lease_nothing() {
    if installed("python3").is_none() {
        return;
    }
    let host = Host::new();
    // Enough for one of them only.
    let _lender = Lender::start(&host, "256M");
    if !is_possible(&host) {
        return;
    }
    let large =
        "block = bytearray(160 << 20); block[::4096] = b'x' * (40 << 10); print(block.count(b'x'))";
    let script = format!("true; python3 -c 'print(1)'; python3 -c \"{large}\"; echo done");
    let args = ["200M", "--cache", "8M", "--json"];
    let done = borrow(&host, &args, &["sh", "-c", &script]).output().unwrap();
    assert_eq!(text(&done), "1\n40960\ndone\n", "{done:?}");
    let said = std::str::from_utf8(&done.stderr).unwrap();
    let reports: Vec<serde_json::Value> =
        said.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    assert_eq!(reports.len(), 1, "{said}");
    assert!(reports[0]["evicted"].as_u64().unwrap() > 30_000, "{said}");
}

/// What a shell starts again and again is said once: what programs have to do without, and which of them do not borrow.
#[test]
fn warnings_around_a_shell_are_said_once() {
    let host = Host::new();
    let _lender = Lender::start(&host, "256M");
    if !is_possible(&host) {
        return;
    }
    let borrows = program("borrowed");
    let dir = tempfile::tempdir().unwrap();
    let (source, alone) = (dir.path().join("alone.c"), dir.path().join("alone"));
    std::fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    let built = Command::new("cc").arg("-static").args([&source, Path::new("-o"), &alone]).status();
    let is_built = built.unwrap().success();
    if !is_built {
        eprintln!("not tested: programs that are linked statically cannot be built");
        std::fs::copy("/bin/true", &alone).unwrap();
    }
    let (borrows, alone) = (borrows.display(), alone.display());
    let script =
        format!("for i in 1 2 3; do {borrows} echo && {alone} || exit; done; {borrows} echo");
    let args = ["32M", "--threshold", "0", "--mode", "inline"];
    let done = borrow(&host, &args, &["sh", "-c", &script]).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    let said = std::str::from_utf8(&done.stderr).unwrap();
    assert_eq!(said.matches("serves faults inline").count(), 1, "{said}");
    let statics = said.matches("runs without borrowed memory: it is linked statically").count();
    assert_eq!(statics, usize::from(is_built), "{said}");
}

fn text(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

/// A Redis server, on borrowed memory or not; killed when dropped.
struct Redis {
    child: Child,
    socket: PathBuf,
}

impl Redis {
    fn start(mut command: Command, dir: &Path) -> Redis {
        let socket = dir.join("redis.sock");
        let child = command.stdout(Stdio::null()).spawn().unwrap();
        let redis = Redis { child, socket };
        redis.until("it answers", |redis| redis.cli(&["ping"]) == "PONG");
        redis
    }

    fn arguments(dir: &Path) -> Vec<String> {
        let (dir, socket) = (dir.to_str().unwrap(), dir.join("redis.sock"));
        let socket = socket.to_str().unwrap();
        ["redis-server", "--port", "0", "--unixsocket", socket, "--dir", dir, "--save", ""]
            .into_iter()
            .chain(["--enable-debug-command", "yes", "--appendonly", "no"])
            .map(str::to_owned)
            .collect()
    }

    fn local(dir: &Path) -> Redis {
        let arguments = Redis::arguments(dir);
        let mut command = Command::new(&arguments[0]);
        command.args(&arguments[1..]);
        Redis::start(command, dir)
    }

    fn borrowed(host: &Host, dir: &Path, args: &[&str]) -> Redis {
        let arguments = Redis::arguments(dir);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        Redis::start(borrow(host, args, &arguments), dir)
    }

    fn cli(&self, words: &[&str]) -> String {
        let output =
            Command::new("redis-cli").arg("-s").arg(&self.socket).args(words).output().unwrap();
        text(&output).trim().to_owned()
    }

    fn until(&self, what: &str, holds: impl Fn(&Redis) -> bool) {
        let begin = Instant::now();
        while !holds(self) {
            assert!(begin.elapsed() < PATIENCE, "{what}: {}", self.cli(&["info", "persistence"]));
            sleep(Duration::from_millis(20));
        }
    }

    /// Puts 24 MB there: values of 1 KB and others.
    fn fill(&self) {
        assert_eq!(self.cli(&["debug", "populate", "20000", "key", "1024"]), "OK");
        let script = "for i = 1, 3000 do redis.call('hset', 'h' .. i % 50, 'f' .. i, \
                      string.rep(tostring(i), 100)) redis.call('rpush', 'list', i) end return 1";
        assert_eq!(self.cli(&["eval", script, "0"]), "1");
    }

    fn digest(&self) -> String {
        self.cli(&["debug", "digest"])
    }

    fn save_beside_changes(&self) {
        assert!(self.cli(&["bgsave"]).contains("started"));
        assert_eq!(self.cli(&["eval", CHANGES, "0"]), "1");
        self.until("the child has saved", |redis| {
            redis.cli(&["info", "persistence"]).contains("rdb_bgsave_in_progress:0")
        });
        assert!(self.cli(&["info", "persistence"]).contains("rdb_last_bgsave_status:ok"));
    }
}

/// Writes to every fourth key.
const CHANGES: &str =
    "for i = 0, 19999, 4 do redis.call('set', 'key:' .. i, string.rep('new', 300)) end return 1";

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn redis_keeps_and_saves_the_same() {
    if installed("redis-server").is_none() || installed("redis-cli").is_none() {
        return;
    }
    let host = Host::new();
    let _lender = Lender::start(&host, "600M");
    if !is_possible(&host) {
        return;
    }
    let dirs = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let local = Redis::local(dirs[0].path());
    local.fill();
    let (before, _) = (local.digest(), local.cli(&["eval", CHANGES, "0"]));
    let after = local.digest();
    assert_ne!(before, after);

    let args = ["256M", "--cache", "6M", "--threshold", "0"];
    let borrowed = Redis::borrowed(&host, dirs[1].path(), &args);
    borrowed.fill();
    assert_eq!(borrowed.digest(), before);
    // The child saves what there was when it began, whatever its parent does meanwhile.
    borrowed.save_beside_changes();
    assert_eq!(borrowed.digest(), after);

    std::fs::copy(dirs[1].path().join("dump.rdb"), dirs[2].path().join("dump.rdb")).unwrap();
    let loaded = Redis::local(dirs[2].path());
    assert_eq!(loaded.digest(), before, "what the child saved");
}

#[test]
fn redis_with_two_lenders_survives_one() {
    if installed("redis-server").is_none() || installed("redis-cli").is_none() {
        return;
    }
    let host = Host::new();
    let _survivor = Lender::start(&host, "300M");
    let dying = Lender::start(&host, "300M");
    if !is_possible(&host) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let args = ["128M", "--cache", "6M", "--threshold", "0", "--mirror", "2"];
    let redis = Redis::borrowed(&host, dir.path(), &args);
    redis.fill();
    let before = redis.digest();
    drop(dying);
    assert_eq!(redis.digest(), before);
    redis.save_beside_changes();
}
