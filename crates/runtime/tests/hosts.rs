//! Racks over several hosts: who may be a node, and what becomes of connections that nobody has proved.

mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use rackmem::Status;
use rackmem::client::{Context, OpenOptions};
use rackmem::protocol::{Progress, Request, Response};
use rackmem::rack::Rack;
use rackmem::rack_file::RackFile;
use rackmem::status::{LinkState, LinkStatus};
use rackmem::transport::Channel;
use support::raw::Raw;
use support::{BOUND, TestRack, Wire, eventually};

#[test]
fn child() {
    if let Some((role, args)) = support::role() {
        assert_eq!(role, "daemon");
        support::be_daemon(&args);
    }
}

/// The link of a node to another, as the node reports it.
fn link(rack: &TestRack, nid: u16, peer: u16) -> Option<LinkStatus> {
    let status = rackmem::control::status(&rack.rack, nid).ok()?;
    status.links.into_iter().find(|link| link.nid == peer)
}

/// Waits until a node says that it has no link to another, for a reason with these words.
fn wait_refused(rack: &TestRack, nid: u16, peer: u16, why: &str) {
    let mut last = String::new();
    eventually(why, || {
        let Some(link) = link(rack, nid, peer) else { return false };
        let is_so = link.state == LinkState::Down && link.why.contains(why);
        if link.why != last {
            eprintln!("node {nid} of node {peer}: {}", link.why);
            last = link.why;
        }
        is_so
    });
}

fn address(rack: &TestRack, nid: u16) -> SocketAddr {
    let file = RackFile::read(&rack.rack.dir().join("rack.toml")).unwrap();
    file.nodes[usize::from(nid)].address
}

/// Starts node 1 again by another file, made of the rack's own by replacing a text; returns when the old one is gone.
fn restart_by_other_file(rack: &mut TestRack, from: &str, to: &str) {
    let dir = rack.rack.dir().to_owned();
    let text = std::fs::read_to_string(dir.join("rack.toml")).unwrap();
    assert!(text.contains(from), "{text}");
    std::fs::write(dir.join("other.toml"), text.replace(from, to)).unwrap();
    rack.kill_daemon(1);
    rack.start_daemon_by(1, "other.toml");
}

/// The rack's own file is good again.
fn assert_mends(rack: &mut TestRack) {
    rack.kill_daemon(1);
    rack.start_daemon(1);
    rack.wait_linked();
}

#[test]
fn links_say_how_they_are() {
    for wire in [Wire::Sealed, Wire::Clear] {
        let rack = TestRack::start_on(wire, &format!("shown-{wire:?}"), 2);
        for (nid, peer) in [(0, 1), (1, 0)] {
            let link = link(&rack, nid, peer).unwrap();
            assert_eq!(link.state, LinkState::Up);
            assert_eq!(link.sealed, wire == Wire::Sealed);
            assert_eq!(link.address, address(&rack, peer).to_string());
            assert_eq!(link.version, env!("CARGO_PKG_VERSION"));
            assert!(link.why.is_empty(), "{link:?}");
        }
    }
}

#[test]
fn a_node_with_another_secret_is_refused() {
    let mut rack = TestRack::start_on(Wire::Sealed, "other-secret", 2);
    let secret = rack.rack.dir().join("other-secret");
    std::fs::write(&secret, "a secret of somebody else").unwrap();
    std::fs::set_permissions(&secret, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    restart_by_other_file(&mut rack, "\"secret\"", "\"other-secret\"");
    wait_refused(&rack, 1, 0, "another secret");
    assert_mends(&mut rack);
}

#[test]
fn a_node_of_another_rack_is_refused() {
    let mut rack = TestRack::start_on(Wire::Sealed, "own-rack", 2);
    restart_by_other_file(&mut rack, "\"own-rack\"", "\"strange-rack\"");
    wait_refused(&rack, 1, 0, "rack 'own-rack' of 2 nodes, not 'strange-rack' of 2");
    assert_mends(&mut rack);
}

#[test]
fn both_ends_agree_on_encryption() {
    let mut rack = TestRack::start_on(Wire::Sealed, "agreed", 2);
    restart_by_other_file(&mut rack, "[[node]]", "[[node]]\n");
    rack.wait_linked();
    restart_by_other_file(&mut rack, "secret_file", "cleartext = true\nsecret_file");
    wait_refused(&rack, 1, 0, "`cleartext` differs");
    assert_mends(&mut rack);
}

/// A second daemon of a number is refused for as long as the first one has its link, which goes on.
#[test]
fn a_node_is_there_once() {
    let rack = TestRack::start_on(Wire::Sealed, "once", 2);
    // The second has a directory of its own, as on another host; its own address is another one.
    let elsewhere = tempfile::tempdir().unwrap();
    let copy = elsewhere.path().join("once");
    std::fs::create_dir_all(copy.join("contexts")).unwrap();
    for name in ["rack.json", "secret"] {
        std::fs::copy(rack.rack.dir().join(name), copy.join(name)).unwrap();
    }
    let text = std::fs::read_to_string(rack.rack.dir().join("rack.toml")).unwrap();
    let other = support::hosts::free_address(2).to_string();
    let text = text.replace(&address(&rack, 1).to_string(), &other);
    std::fs::write(copy.join("rack.toml"), text).unwrap();
    let mut second = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture"])
        .env("RACKMEM_DIR", elsewhere.path())
        .env("RACKMEM_TEST_ROLE", "daemon")
        .env("RACKMEM_TEST_ARGS", "1")
        .env("RACKMEM_TEST_FILE", "rack.toml")
        .env("RACKMEM_RACK", "once")
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let since = link(&rack, 0, 1).unwrap().since_ms;
    let path = copy.join("node-1.sock");
    eventually("the second daemon is up", || Channel::connect(&path).is_ok());
    eventually("it is refused", || {
        let raw = Raw::connect_to(&path);
        raw.hello();
        let got = raw.call(&Request::Status, &[]).unwrap().message;
        let Response::Status(status) = got else { panic!("{got:?}") };
        status.links[0].why.contains("another daemon is node 1 already")
    });
    let now = link(&rack, 0, 1).unwrap();
    assert!(now.state == LinkState::Up && now.since_ms >= since, "{now:?}");
    second.kill().unwrap();
    second.wait().unwrap();
}

/// Connections that say nothing, or something else, get at most a refusal, and end; nodes link meanwhile.
#[test]
fn strangers_get_nothing_and_keep_nobody_out() {
    let mut rack = TestRack::start_on(Wire::Sealed, "strangers-far", 2);
    let to = address(&rack, 0);
    let open = || {
        let stream = TcpStream::connect(to).unwrap();
        stream.set_read_timeout(Some(BOUND)).unwrap();
        stream
    };
    let mut silent: Vec<TcpStream> = (0..300).map(|_| open()).collect();
    let http = b"GET / HTTP/1.1\r\n\r\n".to_vec();
    let long = [b"rmem\x01\0\0\0\xff\xff".to_vec(), vec![0; 70_000]].concat();
    let wrong = [b"rmem\x01\0\0\0\x40\0".to_vec(), vec![0; 64]].concat();
    for bytes in [http, long, wrong] {
        let mut stream = open();
        let _ = stream.write_all(&bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.len() <= 10, "{answer:?}");
    }
    rack.kill_daemon(1);
    rack.start_daemon(1);
    rack.wait_linked();
    for stream in &mut silent {
        // Ended by the daemon, with or without a reset.
        let ended = stream.read(&mut [0; 64]);
        assert!(!matches!(ended, Ok(n) if n > 0), "{ended:?}");
    }
}

/// The way between two nodes works again after its connection has been torn, and what was under way has failed.
#[test]
fn a_restarted_node_is_another_and_is_found() {
    let mut rack = TestRack::start_on(Wire::Sealed, "restarts", 3);
    for round in 0..5 {
        rack.rack.create_context(round, 0o600).unwrap();
        let contexts = rack.open_all(round, 1 << 16, Progress::Inline);
        let mut qp = contexts[0].queue_pair(8).unwrap();
        qp.write(1, 0, &[round as u8; 100]).unwrap();
        rack.kill_daemon(1);
        let mut byte = [0];
        eventually("the loss is seen", || qp.read(1, 0, &mut byte).is_err());
        qp.write(2, 0, &[1]).unwrap();
        drop((qp, contexts));
        rack.start_daemon(1);
        rack.wait_linked();
    }
}

/// Contexts of one number that were made apart are not the same, on whichever host they are.
#[test]
fn contexts_that_only_have_the_same_number_do_not_meet() {
    for wire in Wire::ALL {
        let rack = TestRack::start_on(wire, &format!("namesakes-{wire:?}"), 2);
        rack.rack.create_context(3, 0o600).unwrap();
        let open = |nid, progress| {
            let options: OpenOptions = rack.options(nid, 3).segment_bytes(4096).progress(progress);
            Context::open(&options).unwrap()
        };
        let old = open(1, Progress::Packet);
        remake(&rack.rack, 3);
        let new = open(0, Progress::Packet);
        let mut qp = new.queue_pair(4).unwrap();
        eventually("the namesake is known", || qp.write(1, 0, b"mine") == Err(Status::NoContext));
        let mut bytes = [9; 4];
        old.read_own(0, &mut bytes).unwrap();
        assert_eq!(bytes, [0; 4], "{wire:?}");
        // And the other way: the member that stayed does not reach the new context.
        let mut qp = old.queue_pair(4).unwrap();
        eventually("the new one is known", || qp.write(0, 0, b"ours") == Err(Status::NoContext));
        new.read_own(0, &mut bytes).unwrap();
        assert_eq!(bytes, [0; 4], "{wire:?}");
    }
}

/// Removes a context and makes another of its number.
fn remake(rack: &Rack, ctx_id: u16) {
    rack.remove_context(ctx_id).unwrap();
    rack.create_context(ctx_id, 0o600).unwrap();
}
