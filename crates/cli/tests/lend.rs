//! `rackmem lend`, `leases` and `monitor`, with a borrower from the library.

mod common;

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use common::{Host, until};
use rackmem_fabric::Address;
use rackmem_lease::{Borrowed, Wanted, borrow};

/// Longest wait for a line.
const PATIENCE: Duration = Duration::from_secs(60);

/// A command in the foreground, and its lines.
struct Running {
    child: Child,
    lines: Receiver<String>,
}

impl Running {
    fn start(host: &Host, args: &[&str]) -> Running {
        let mut child = host.command(args).stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            out.lines().map_while(Result::ok).try_for_each(|l| sender.send(l))
        });
        Running { child, lines }
    }

    /// The next line that has this in it.
    fn line(&mut self, part: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(PATIENCE);
            let line = line.unwrap_or_else(|_| panic!("no line has '{part}'"));
            if line.contains(part) {
                return line;
            }
        }
    }

    /// Asks it to end, and expects that it does so in good order.
    fn end(mut self, signal: &str) {
        common::kill(self.child.id(), signal);
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

fn borrowed(host: &Host, size_bytes: u64) -> Borrowed {
    let socket = host.racks().join(".memory/default/monitor.sock");
    let name = Some("reader".to_owned());
    let monitor = Some(Address::Unix(socket));
    borrow(&Wanted { monitor, name, ..Wanted::new(size_bytes) }).unwrap()
}

#[test]
fn a_lender_says_who_has_what() {
    let host = Host::new();
    let mut lender = Running::start(&host, &["lend", "8M", "--name", "north", "--grace", "60"]);
    assert_eq!(lender.line("lends"), "lends 8 MiB in rack 'default'");
    // Too little for the borrower to move there.
    let mut other = Running::start(&host, &["lend", "2M", "--name", "south"]);
    other.line("lends");
    let store = borrowed(&host, 3 << 20);
    let told = lender.line("reader");
    assert!(told.starts_with("3 MiB to reader (process "), "{told}");

    let text = host.ok(&["leases"]);
    assert!(text.starts_with("2 lenders, 1 lease; monitor: north (process "), "{text}");
    let row = text.lines().find(|line| line.starts_with("north")).unwrap();
    assert!(row.contains("8 MiB") && row.contains("5 MiB") && row.contains("reader"), "{row}");
    let json: serde_json::Value = serde_json::from_str(&host.ok(&["leases", "--json"])).unwrap();
    let lease = &json["lenders"][0]["leases"][0];
    assert_eq!(lease["size_bytes"], 3 << 20);
    assert_eq!(lease["borrower"]["pid"], std::process::id());

    // The lender waits for its borrower, who is told.
    common::kill(lender.child.id(), "INT");
    lender.line("borrowers have 60 s to move their memory");
    until("the borrower is told", || {
        store.state().copies[0].leases[0].notice_ms.is_some_and(|ms| ms > 50_000)
    });
    assert!(host.ok(&["leases"]).contains("leaves"));
    store.release().unwrap();
    lender.line("3 MiB back from reader");
    assert_eq!(lender.child.wait().unwrap().code(), Some(0));

    // The other one has become the monitor.
    assert!(host.ok(&["leases"]).starts_with("1 lender, 0 leases; monitor: south"));
    drop(borrowed(&host, 2 << 20));
    other.end("TERM");
    host.assert_nothing_left();
}

#[test]
fn a_lender_that_drains_is_ended_by_ctrl_c_alone() {
    let host = Host::new();
    let mut lender = Running::start(&host, &["lend", "8M", "--grace", "600"]);
    lender.line("lends");
    let store = borrowed(&host, 3 << 20);
    lender.line("to reader");
    common::kill(lender.child.id(), "TERM");
    lender.line("borrowers have 600 s to move their memory");
    // `timeout` sends it twice.
    common::kill(lender.child.id(), "TERM");
    until("both were taken", || has_no_pending_signal(lender.child.id()));
    assert!(host.ok(&["leases"]).contains("leaves"));
    common::kill(lender.child.id(), "INT");
    let ended = lender.child.wait().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&ended), Some(libc::SIGINT));
    drop(store);
}

fn has_no_pending_signal(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    status.lines().any(|line| line == "ShdPnd:\t0000000000000000")
}

#[test]
fn a_killed_lender_is_followed_by_another() {
    let host = Host::new();
    let mut first = Running::start(&host, &["lend", "8M"]);
    first.line("lends");
    let mut second = Running::start(&host, &["lend", "4M", "--name", "second"]);
    second.line("lends");
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    second.line("the monitor is lost");
    second.line("is the monitor");
    assert!(host.ok(&["leases"]).starts_with("1 lender, 0 leases; monitor: second"));
    second.end("INT");
    host.assert_nothing_left();
}

#[test]
fn hosts_meet_at_a_monitor() {
    let host = Host::new();
    let secret = host.secret("secret", "nobody guesses this\n");
    let secret = secret.as_str();
    let listen = ["--listen", "127.0.0.1:0", "--secret", secret];
    let mut monitor = Running::start(&host, &[&["--rack", "a", "monitor"], &listen[..]].concat());
    let at = monitor.line("listens at").replace("listens at ", "");
    monitor.line("is the monitor");
    let name = ["--name", "far", "--monitor", &at];
    let args = [&["--rack", "b", "lend", "8M"], &name[..], &listen[..]].concat();
    let mut lender = Running::start(&host, &args);
    lender.line("lends");
    let leases = ["leases", "--monitor", &at];
    assert!(host.ok(&[&leases[..], &["--secret", secret]].concat()).contains("far (process"));
    let error = host.fails(1, &leases);
    assert!(error.contains("--secret FILE"), "{error}");
    lender.end("INT");
    monitor.end("INT");
    std::fs::remove_file(secret).unwrap();
    host.assert_nothing_left();
}

#[test]
fn errors_teach() {
    let host = Host::new();
    let error = host.fails(1, &["leases"]);
    assert!(error.contains("`rackmem lend 2G`"), "{error}");
    let error = host.fails(1, &["lend", "1000000G"]);
    assert!(error.contains("MemAvailable") && error.contains("--overcommit"), "{error}");
    for listen in ["0.0.0.0:0", "127.0.0.1:0"] {
        let error = host.fails(1, &["lend", "1M", "--listen", listen]);
        assert!(error.contains("--secret FILE") && error.contains("--insecure"), "{error}");
        let error = host.fails(1, &["monitor", "--listen", listen]);
        assert!(error.contains("--secret FILE") && error.contains("--insecure"), "{error}");
    }
    let error = host.fails(2, &["lend", "1M", "--name", "\u{1b}[2J"]);
    assert!(error.contains("U+001B") && !error.contains('\u{1b}'), "{error:?}");
    let error = host.fails(1, &["lend", "1M", "--monitor", "127.0.0.1:1"]);
    assert!(error.contains("127.0.0.1:1"), "{error}");
    host.fails(2, &["lend", "1M", "--monitor", "nowhere"]);
    host.fails(2, &["lend", "much"]);
    host.assert_nothing_left();
}

#[test]
fn a_secret_that_others_can_read_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let host = Host::new();
    let secret = host.secret("secret", "nobody guesses this\n");
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o644)).unwrap();
    let commands: [&[&str]; 5] = [
        &["lend", "1M", "--listen", "127.0.0.1:0"],
        &["leases"],
        &["borrow", "1M"],
        &["blk", "1M", "--socket", "/nonexistent/x"],
        &["sockets", "listen", "127.0.0.1:0", "--to", "127.0.0.1:1"],
    ];
    for command in commands {
        let program: &[&str] = if command[0] == "borrow" { &["--", "true"] } else { &[] };
        let error = host.fails(1, &[command, &["--secret", &secret], program].concat());
        assert!(error.contains(&format!("`chmod 600 {secret}`")), "{command:?}: {error}");
    }
    std::fs::remove_file(secret).unwrap();
    host.assert_nothing_left();
}

#[test]
fn who_listens_to_everybody_says_so() {
    let host = Host::new();
    let args = ["lend", "1M", "--listen", "127.0.0.1:0", "--insecure"];
    let mut child =
        host.command(&args).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut said).unwrap();
    assert!(said.contains("--insecure: whoever reaches 127.0.0.1:0 can lend, borrow"), "{said}");
    common::kill(child.id(), "TERM");
    assert_eq!(child.wait().unwrap().code(), Some(0));
    host.assert_nothing_left();
}

/// Nobody has to be the monitor anew for that: the next lender or whoever looks sweeps.
#[test]
fn sockets_of_killed_lenders_are_swept() {
    let host = Host::new();
    let mut first = Running::start(&host, &["lend", "1M"]);
    first.line("lends");
    let sockets = || {
        let entries = std::fs::read_dir(host.racks().join(".memory/default")).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("lender-")).count()
    };
    let killed = || {
        let mut second = Running::start(&host, &["lend", "1M"]);
        second.line("lends");
        second.child.kill().unwrap();
        second.child.wait().unwrap();
        assert_eq!(sockets(), 2);
    };
    killed();
    host.ok(&["leases"]);
    assert_eq!(sockets(), 1);
    killed();
    let mut third = Running::start(&host, &["lend", "1M"]);
    third.line("lends");
    assert_eq!(sockets(), 2);
    third.end("TERM");
    first.end("TERM");
    host.assert_nothing_left();
}
