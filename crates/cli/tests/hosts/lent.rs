//! Lending and borrowing by the nodes of a rack file with keys, whose rights and quotas are kept.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use crate::common::Done;
use crate::rig::Rig;

/// A lender in the foreground, and the address that it has said.
struct Lender {
    child: Child,
    address: String,
}

impl Lender {
    fn start(mut command: Command) -> Lender {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut address = None;
        for line in lines {
            if let Some(at) = line.strip_prefix("listens at ") {
                address = Some(at.to_owned());
            }
            if line.starts_with("lends") {
                break;
            }
        }
        Lender { child, address: address.expect("it says where it listens") }
    }
}

impl Drop for Lender {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Three nodes: 0 lends, 1 borrows up to 64M, 2 has block devices and sockets.
fn rack() -> Rig {
    let rig = Rig::with_keys(3);
    let text = fs::read_to_string(rig.file()).unwrap();
    let mut parts: Vec<String> = text.split("[[node]]\n").map(str::to_owned).collect();
    parts[1] += "rights = [\"lend\", \"monitor\", \"context\"]\n";
    parts[2] += "rights = [\"borrow\"]\nmax_borrowed = \"64M\"\n";
    parts[3] += "rights = [\"blk\", \"context\"]\n";
    rig.write("rack.toml", &parts.join("[[node]]\n"), 0o644);
    rig
}

fn lender(rig: &Rig) -> Lender {
    Lender::start(rig.on(0, &["lend", "256M", "--listen", "127.0.0.1:0", "--node", "0"]))
}

#[test]
fn nodes_lend_and_borrow_by_their_keys() {
    let rig = rack();
    let lender = lender(&rig);
    let program =
        ["--threshold", "1M", "--", "sh", "-c", "head -c 24M /dev/zero | tail -c 9M | wc -c"];
    let borrow = |nid: &'static str, size: &'static str| {
        let node = ["borrow", size, "--node", nid, "--monitor", &lender.address, "--stats"];
        Done::from(rig.on(nid.parse().unwrap(), &[&node, &program[..]].concat()).output().unwrap())
    };
    let done = borrow("1", "48M");
    assert_eq!((done.status, done.out.trim()), (Some(0), "9437184"), "{done:?}");
    assert!(done.err.contains("borrowed"), "{done:?}");
    // A program's lease is more than its node may have: it says so, and goes on with local memory.
    let done = borrow("1", "65M");
    assert_eq!((done.status, done.out.trim()), (Some(0), "9437184"), "{done:?}");
    assert!(
        done.err.contains("node 1 may borrow 64M in all, has 0 and wants 65M more"),
        "{done:?}"
    );
    let done = borrow("2", "48M");
    assert!(done.err.contains("node 2 does not have the right 'borrow'"), "{done:?}");
    let mut elsewhere = rig.on(2, &["leases", "--node", "2"]);
    let shown = Done::from(elsewhere.env("RACKMEM_MONITOR", &lender.address).output().unwrap());
    assert!(shown.out.contains(", node 0"), "{shown:?}");
    let shown = rig.ok_on(0, &["leases", "--node", "0"]);
    assert!(shown.contains(", node 0"), "{shown}");
}

/// The program is told what the command was: both prove their keys, and nothing is encrypted.
#[test]
fn a_program_borrows_in_cleartext_as_its_command_says() {
    let rig = rack();
    let lend = ["lend", "64M", "--listen", "127.0.0.1:0", "--node", "0", "--cleartext"];
    let lender = Lender::start(rig.on(0, &lend));
    let borrow = ["borrow", "48M", "--node", "1", "--monitor", &lender.address, "--cleartext"];
    let program = [
        "--threshold",
        "1M",
        "--stats",
        "--",
        "sh",
        "-c",
        "head -c 24M /dev/zero | tail -c 9M | wc -c",
    ];
    let done = Done::from(rig.on(1, &[&borrow, &program[..]].concat()).output().unwrap());
    assert!(done.out.contains("9437184") && !done.err.contains("refuses"), "{done:?}");
}

#[test]
fn a_node_that_says_nothing_right_is_told_what_to_do() {
    let rig = rack();
    let lender = lender(&rig);
    let leases = |more: &[&str]| {
        let at = ["leases", "--monitor", &lender.address];
        rig.fails_on(1, &[&at, more].concat()).err
    };
    let several = leases(&[]);
    assert!(several.contains("the keys of nodes 0, 1, 2 of /"), "{several}");
    assert!(leases(&["--node", "3"]).contains("has 3 nodes, and no node 3"));
    let wrong = leases(&["--node", "1", "--key-file", &rig.path("lab-2.key")]);
    assert!(wrong.contains("has the private key of node 2 of /"), "{wrong}");
    // Without the rack file the listener says which one is wanted; with both, the command does.
    let plain = |args: &[&str]| Done::from(rig.host.command(args).output().unwrap());
    let at = ["leases", "--monitor", &lender.address];
    let done = plain(&at);
    assert!(
        done.err.contains("asks for keys: name the rack file that has them by --rack-file"),
        "{done:?}"
    );
    rig.write("other.secret", "a secret of others", 0o600);
    let done = plain(&[&at[..], &["--secret", &rig.path("other.secret")]].concat());
    assert!(done.err.contains("asks for keys"), "{done:?}");
}

#[test]
fn devices_and_sockets_need_rights_of_their_own() {
    let rig = rack();
    let lender = lender(&rig);
    let device = |nid: u16| {
        let (socket, node) = (rig.path("disk"), nid.to_string());
        let args =
            ["blk", "16M", "--socket", &socket, "--node", &node, "--monitor", &lender.address];
        rig.on(nid, &args)
    };
    let done = Done::from(device(1).output().unwrap());
    assert!(done.err.contains("node 1 does not have the right 'blk'"), "{done:?}");
    let mut child = device(2).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(line.contains("disk"), "{line}");

    let listen = ["sockets", "listen", "127.0.0.1:0", "--to", "127.0.0.1:9", "--node", "0"];
    let mut child =
        rig.on(0, &listen).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    line.clear();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let meet = line.split_whitespace().nth(3).unwrap().to_owned();
    let (at, node) = (rig.path("sock"), ["--node", "1"]);
    let connect = [&["sockets", "connect", &meet, "--listen", &at][..], &node].concat();
    let done = rig.fails_on(1, &connect);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(done.err.contains("node 1 does not have the right 'context'"), "{done:?}");
}
