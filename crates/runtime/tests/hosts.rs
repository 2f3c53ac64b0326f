//! Racks over several hosts: who may be a node, and what becomes of connections that nobody has proved.

mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use rackmem::Status;
use rackmem::client::{Context, OpenOptions, QueuePair};
use rackmem::protocol::{Progress, Request, Response};
use rackmem::rack::{MAX_CONTEXTS, Rack};
use rackmem::rack_file::RackFile;
use rackmem::status::{LinkState, LinkStatus};
use rackmem::transport::Channel;
use rackmem_fabric::Seal;
use rackmem_fabric::greeting::{Caller, Hello, Purpose, Welcome};
use support::raw::Raw;
use support::{BOUND, Stopped, TestRack, Wire, eventually};

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
    restart_by(rack, &text.replace(from, to));
}

/// Starts node 1 again by a file of this text.
fn restart_by(rack: &mut TestRack, text: &str) {
    std::fs::write(rack.rack.dir().join("other.toml"), text).unwrap();
    rack.kill_daemon(1);
    rack.start_daemon_by(1, "other.toml");
}

/// The rack's file, and the key of a node in it.
fn text_and_key(rack: &TestRack, nid: u16) -> (String, String) {
    let path = rack.rack.dir().join("rack.toml");
    let key = RackFile::read(&path).unwrap().nodes[usize::from(nid)].key.unwrap();
    (std::fs::read_to_string(path).unwrap(), key.to_string())
}

/// The rack's own file is good again.
fn assert_mends(rack: &mut TestRack) {
    rack.kill_daemon(1);
    rack.start_daemon(1);
    rack.wait_linked();
}

#[test]
fn links_say_how_they_are() {
    for wire in [Wire::Sealed, Wire::Keys, Wire::Clear] {
        let rack = TestRack::start_on(wire, &format!("shown-{wire:?}"), 2);
        for (nid, peer) in [(0, 1), (1, 0)] {
            let link = link(&rack, nid, peer).unwrap();
            assert_eq!(link.state, LinkState::Up);
            assert_eq!(link.sealed, wire != Wire::Clear);
            assert_eq!(link.address, address(&rack, peer).to_string());
            assert_eq!(link.version, env!("CARGO_PKG_VERSION"));
            assert!(link.why.is_empty(), "{link:?}");
        }
    }
}

#[test]
fn a_node_with_another_secret_is_refused() {
    let mut rack = TestRack::start_on(Wire::Sealed, "other-secret", 2);
    support::hosts::write_secret(&rack.rack, "other-secret", "a secret of somebody else");
    restart_by_other_file(&mut rack, "\"secret\"", "\"other-secret\"");
    wait_refused(&rack, 1, 0, "another secret");
    assert_mends(&mut rack);
}

#[test]
fn a_node_with_a_strange_key_is_refused() {
    let mut rack = TestRack::start_on(Wire::Keys, "strange-key", 2);
    let own = support::hosts::new_key(&rack.rack, "other-1.key").to_string();
    let (text, key) = text_and_key(&rack, 1);
    let head = "key_file = \"other-{node}.key\"\n[[node]]";
    restart_by(&mut rack, &text.replace(&key, &own).replacen("[[node]]", head, 1));
    wait_refused(&rack, 1, 0, "the key of this node is not in its rack file");
    wait_refused(&rack, 0, 1, "it does not have a key of the rack file here");
    // Nor does it take another daemon for node 0.
    let other = support::hosts::new_key(&rack.rack, "other-0.key").to_string();
    let (text, key) = text_and_key(&rack, 0);
    restart_by(&mut rack, &text.replace(&key, &other));
    wait_refused(&rack, 1, 0, "it has another key than the rack file here");
    wait_refused(&rack, 0, 1, "it expects another key of this node");
    assert_mends(&mut rack);
}

#[test]
fn a_node_with_the_key_of_another_is_refused() {
    let mut rack = TestRack::start_on(Wire::Keys, "another-key", 3);
    let (text, first) = text_and_key(&rack, 1);
    let (_, second) = text_and_key(&rack, 2);
    // Node 1 by its number and address, node 2 by its key.
    let text = text.replace(&first, "x").replace(&second, &first).replace('x', &second);
    let head = "key_file = \"another-key-2.key\"\n[[node]]";
    restart_by(&mut rack, &text.replacen("[[node]]", head, 1));
    wait_refused(&rack, 1, 0, "is that of node 2, not of node 1");
    assert_mends(&mut rack);
}

/// Keys here and a secret there, or keys and a secret here.
#[test]
fn proofs_of_two_kinds_do_not_meet() {
    let mut rack = TestRack::start_on(Wire::Keys, "mixed-proofs", 2);
    support::hosts::write_secret(&rack.rack, "secret", "a secret beside the keys");
    let (text, _) = text_and_key(&rack, 1);
    let both = text.replacen("[[node]]", "secret_file = \"secret\"\n[[node]]", 1);
    let lines = both.lines().filter(|line| !line.starts_with("key = "));
    let secret: String = lines.flat_map(|line| [line, "\n"]).collect();
    for (text, kind) in [(secret, "a secret"), (both, "keys and a secret")] {
        restart_by(&mut rack, &text);
        wait_refused(&rack, 1, 0, &format!("it asks for keys, this node for {kind}: give all"));
        wait_refused(&rack, 0, 1, &format!("it asks for {kind}, this node for keys: give all"));
    }
    assert_mends(&mut rack);
}

#[test]
fn keys_and_a_secret_are_both_asked_for() {
    let mut rack = TestRack::start_on(Wire::Keys, "both-proofs", 2);
    support::hosts::write_secret(&rack.rack, "secret", "a secret beside the keys");
    support::hosts::write_secret(&rack.rack, "other-secret", "a secret of somebody else");
    let (text, _) = text_and_key(&rack, 1);
    let text = text.replacen("[[node]]", "secret_file = \"secret\"\n[[node]]", 1);
    std::fs::write(rack.rack.dir().join("rack.toml"), &text).unwrap();
    rack.kill_daemon(0);
    rack.start_daemon(0);
    assert_mends(&mut rack);
    restart_by(&mut rack, &text.replace("\"secret\"", "\"other-secret\""));
    wait_refused(&rack, 1, 0, "another secret");
    wait_refused(&rack, 0, 1, "another secret");
    assert_mends(&mut rack);
}

/// Without the right to contexts a node gets no link, whichever of the two has the higher number; the others go on.
#[test]
fn a_node_without_the_right_gets_no_link() {
    for barred in [0, 2] {
        let mut rack = TestRack::start_on(Wire::Keys, &format!("right-{barred}"), 3);
        rack.rack.create_context(0, 0o600).unwrap();
        let (text, key) = text_and_key(&rack, barred);
        let key = format!("key = \"{key}\"\n");
        let text = text.replace(&key, &(key.clone() + "rights = [\"lend\", \"borrow\"]\n"));
        std::fs::write(rack.rack.dir().join("rack.toml"), text).unwrap();
        for nid in 0..3 {
            rack.kill_daemon(nid);
            rack.start_daemon(nid);
        }
        let others = [1, 2 - barred];
        let why = format!("node {barred} does not have the right 'context'");
        for nid in others {
            wait_refused(&rack, nid, barred, &why);
            wait_refused(&rack, barred, nid, &why);
        }
        eventually("the others are linked", || {
            link(&rack, 1, 2 - barred).is_some_and(|link| link.state == LinkState::Up)
        });
        let open = |nid| Context::open(&rack.options(nid, 0).segment_bytes(4096)).unwrap();
        let contexts: Vec<Context> = (0..3).map(open).collect();
        contexts[1].wait_joined(2 - barred, Some(Instant::now() + BOUND)).unwrap();
        let mut qp = contexts[1].queue_pair(4).unwrap();
        qp.write(2 - barred, 0, b"works").unwrap();
        assert_eq!(qp.write(barred, 0, b"fails"), Err(Status::NodeLost));
        let error = contexts[1].wait_joined(barred, Some(Instant::now() + BOUND)).unwrap_err();
        assert!(error.to_string().contains(&why), "{error}");
        let mut qp = contexts[usize::from(barred)].queue_pair(4).unwrap();
        for nid in others {
            assert_eq!(qp.write(nid, 0, b"fails"), Err(Status::NodeLost));
        }
    }
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
    // Its own address is another one.
    let text = std::fs::read_to_string(rack.rack.dir().join("rack.toml")).unwrap();
    let other = support::hosts::free_address(2).to_string();
    let text = text.replace(&address(&rack, 1).to_string(), &other);
    let since = link(&rack, 0, 1).unwrap().since_ms;
    let second = Elsewhere::start(&rack, 1, &text);
    second.wait_refused("another daemon is node 1 already");
    let now = link(&rack, 0, 1).unwrap();
    assert!(now.state == LinkState::Up && now.since_ms >= since, "{now:?}");
}

/// A daemon of a rack with a directory of its own, as on another host.
struct Elsewhere {
    dir: tempfile::TempDir,
    nid: u16,
    rack: String,
    child: std::process::Child,
}

impl Elsewhere {
    /// Starts a node by a rack file of this text.
    fn start(rack: &TestRack, nid: u16, text: &str) -> Elsewhere {
        let (dir, name) = (tempfile::tempdir().unwrap(), rack.rack.name().to_owned());
        let copy = dir.path().join(&name);
        std::fs::create_dir_all(copy.join("contexts")).unwrap();
        let files = std::fs::read_dir(rack.rack.dir()).unwrap().map(|file| file.unwrap());
        for file in files.filter(|file| file.file_type().unwrap().is_file()) {
            let name = file.file_name().into_string().unwrap();
            if name == "rack.json" || name == "secret" || name.ends_with(".key") {
                std::fs::copy(file.path(), copy.join(name)).unwrap();
            }
        }
        std::fs::write(copy.join("rack.toml"), text).unwrap();
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture"])
            .env("RACKMEM_DIR", dir.path())
            .env("RACKMEM_TEST_ROLE", "daemon")
            .env("RACKMEM_TEST_ARGS", nid.to_string())
            .env("RACKMEM_TEST_FILE", "rack.toml")
            .env("RACKMEM_RACK", &name)
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        Elsewhere { dir, nid, rack: name, child }
    }

    /// Waits until its only link is down for a reason with these words.
    fn wait_refused(&self, why: &str) {
        let path = self.dir.path().join(&self.rack).join(format!("node-{}.sock", self.nid));
        eventually(why, || {
            if Channel::connect(&path).is_err() {
                return false;
            }
            let raw = Raw::connect_to(&path);
            raw.hello();
            let got = raw.call(&Request::Status, &[]).unwrap().message;
            let Response::Status(status) = got else { panic!("{got:?}") };
            status.links[0].state == LinkState::Down && status.links[0].why.contains(why)
        });
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// By files that list the nodes in another order each host has the lower number, and neither would call.
#[test]
fn nodes_in_another_order_are_named_at_both_ends() {
    for wire in [Wire::Sealed, Wire::Keys] {
        let mut rack = TestRack::start_on(wire, &format!("order-{wire:?}"), 2);
        let (here, there) = (address(&rack, 0), address(&rack, 1));
        let text = std::fs::read_to_string(rack.rack.dir().join("rack.toml")).unwrap();
        let [head, first, second] = text.split("[[node]]").collect::<Vec<_>>()[..] else {
            panic!("{text}")
        };
        let key_file = format!("key_file = \"{}-1.key\"\n", rack.rack.name());
        let head = head.to_owned() + if wire == Wire::Keys { &key_file } else { "" };
        let turned = format!("{head}[[node]]{second}[[node]]{first}");
        rack.kill_daemon(0);
        rack.kill_daemon(1);
        let other = Elsewhere::start(&rack, 0, &turned);
        rack.start_daemon(0);
        let says = "are nodes 0 and 1 in the rack file of the first, 1 and 0 in that of the second: give all";
        wait_refused(&rack, 0, 1, says);
        other.wait_refused(says);
        wait_refused(&rack, 0, 1, &here.to_string());
        other.wait_refused(&there.to_string());
        // One file for both, and they are linked.
        drop(other);
        rack.start_daemon(1);
        rack.wait_linked();
        assert_eq!(link(&rack, 0, 1).unwrap().why, "");
    }
}

/// A node that is called at a wrong address learns that from the one that calls.
#[test]
fn a_node_that_is_looked_for_elsewhere_says_where() {
    let mut rack = TestRack::start_on(Wire::Sealed, "moved", 2);
    let (here, wrong) = (address(&rack, 0), support::hosts::free_address(2));
    rack.kill_daemon(0);
    restart_by_other_file(&mut rack, &here.to_string(), &wrong.to_string());
    rack.start_daemon(0);
    wait_refused(&rack, 0, 1, &format!("it calls {wrong} in vain: "));
    assert_mends(&mut rack);
}

/// Connections that say nothing, or something else, get at most a refusal, and end; nodes link meanwhile.
#[test]
fn strangers_get_nothing_and_keep_nobody_out() {
    for (kind, wire) in [Wire::Sealed, Wire::Keys].into_iter().enumerate() {
        strangers_get_nothing(wire, kind as u8);
    }
}

fn strangers_get_nothing(wire: Wire, kind: u8) {
    let mut rack = TestRack::start_on(wire, &format!("strangers-{wire:?}"), 2);
    let to = address(&rack, 0);
    let open = || {
        let stream = TcpStream::connect(to).unwrap();
        stream.set_read_timeout(Some(BOUND)).unwrap();
        stream
    };
    let mut silent: Vec<TcpStream> = (0..300).map(|_| open()).collect();
    let http = b"GET / HTTP/1.1\r\n\r\n".to_vec();
    let version = rackmem_fabric::greeting::VERSION as u8;
    let head = |length: u16| {
        let [low, high] = length.to_le_bytes();
        [b'r', b'm', b'e', b'm', version, 0, 0, kind, low, high].to_vec()
    };
    let long = [head(u16::MAX), vec![0; 70_000]].concat();
    let wrong = [head(64), vec![0; 64]].concat();
    let low_order = [head(256), vec![0; 256]].concat();
    for bytes in [http, long, wrong, low_order] {
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

/// Queue pairs that wait for a node whose daemon is stopped leave room for those that ask another one.
#[test]
fn a_stopped_node_does_not_stall_operations_to_others() {
    const WRITERS: usize = 16;
    let rack = TestRack::start_on(Wire::Keys, "stopped-far", 3);
    rack.rack.create_context(0, 0o600).unwrap();
    let contexts = rack.open_all(0, 1 << 16, Progress::Packet);
    let pair = |_| contexts[0].queue_pair(STALLED_ENTRIES).unwrap();
    let mut pairs: Vec<QueuePair> = (0..WRITERS).map(pair).collect();
    let mut other = contexts[0].queue_pair(4).unwrap();
    // Again, if the link to the stopped node was lost too soon.
    eventually("operations to node 2 go on while others wait for node 1", || {
        rack.wait_linked();
        eventually("node 1 is there", || other.write(1, 0, b"is there").is_ok());
        goes_on_beside_stalled(&rack, &mut pairs, &mut other)
    });
}

const STALLED_ENTRIES: u32 = 128;

/// Writes to node 2 while other queue pairs have as many operations in flight to node 1, which is stopped, as they may
/// have. Returns whether the link to node 1 was up meanwhile.
fn goes_on_beside_stalled(rack: &TestRack, pairs: &mut [QueuePair], other: &mut QueuePair) -> bool {
    let is_up = || link(rack, 0, 1).unwrap().state == LinkState::Up;
    let outstanding = || -> u32 {
        let status = rackmem::control::status(&rack.rack, 0).unwrap();
        status.qps.iter().map(|qp| qp.outstanding).sum()
    };
    std::thread::scope(|scope| {
        let stopped = Stopped::new(rack.daemons[1].as_ref().unwrap());
        let write = |pair: &mut QueuePair| {
            pair.scope(|all| {
                (0..u64::from(STALLED_ENTRIES)).for_each(|at| all.write(1, at * 8, &[7; 8]));
            })
        };
        let writers: Vec<_> =
            pairs.iter_mut().map(|pair| scope.spawn(move || write(pair))).collect();
        eventually("they have what they may have", || outstanding() >= 500 || !is_up());
        let (sender, done) = std::sync::mpsc::channel();
        scope.spawn(move || {
            for _ in 0..1000 {
                other.write(2, 0, b"goes on").unwrap();
            }
            let _ = sender.send(());
        });
        done.recv_timeout(BOUND).expect("operations to node 2 wait for node 1");
        let was_up = is_up();
        drop(stopped);
        for writer in writers {
            let ended = writer.join().unwrap();
            assert!(matches!(ended, Ok(()) | Err(Status::NodeLost)), "{ended:?}");
        }
        was_up
    })
}

/// The daemon of node 1, as far as node 0 can tell: it announces contexts without end.
struct Flooder {
    control: TcpStream,
    seal: Seal,
    _data: TcpStream,
}

impl Flooder {
    fn meet(rack: &TestRack) -> Flooder {
        let file = RackFile::read(&rack.rack.dir().join("rack.toml")).unwrap();
        let (credentials, to) = (file.credentials(1).unwrap(), file.nodes[0].address);
        let call = |purpose| {
            let hello = Hello {
                rack: file.name.clone(),
                nodes: file.node_count(),
                from: 1,
                address: file.nodes[1].address,
                to: 0,
                incarnation: 77,
                purpose,
                sealed: true,
                version: "flood".to_owned(),
                worker: None,
            };
            let mut stream = TcpStream::connect(to).unwrap();
            stream.set_read_timeout(Some(BOUND)).unwrap();
            let (mut caller, bytes) = Caller::new(&credentials, 0, &hello);
            stream.write_all(&bytes).unwrap();
            let mut input = Vec::new();
            loop {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                input.push(byte[0]);
                match caller.answered::<Welcome>(&input).unwrap() {
                    Ok(met) => {
                        stream.write_all(&met.confirm).unwrap();
                        return (stream, met.seal);
                    }
                    Err(same) => caller = same,
                }
            }
        };
        let (control, seal) = call(Purpose::Control);
        Flooder { control, seal, _data: call(Purpose::Data).0 }
    }

    /// Announces contexts; `false`: the link has ended.
    fn announce(&mut self, contexts: impl Iterator<Item = u16>) -> bool {
        let mut plain = Vec::new();
        for ctx_id in contexts {
            let request = Request::ContextUp { ctx_id, incarnation: 1, size_bytes: 1 };
            let bytes = serde_json::to_vec(&request).unwrap();
            plain.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
            plain.extend_from_slice(&bytes);
        }
        let mut wire = Vec::new();
        self.seal.seal(&plain, &mut wire).unwrap();
        self.control.write_all(&wire).is_ok()
    }
}

/// A node that says more than its peer can take in keeps nobody else from its daemon, and cannot announce more contexts
/// than a rack has.
#[test]
fn a_node_that_never_stops_talking_is_not_alone() {
    let mut rack = TestRack::start_on(Wire::Keys, "flood", 2);
    rack.rack.create_context(0, 0o600).unwrap();
    rack.kill_daemon(1);
    eventually("node 0 has noticed", || link(&rack, 0, 1).unwrap().state == LinkState::Down);
    let mut flooder = Flooder::meet(&rack);
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (ends, all) = (&ends, MAX_CONTEXTS as u16);
        let flood = scope.spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                assert!(flooder.announce(0..all), "as many contexts as there may be");
            }
            flooder
        });
        let end = OnDrop(|| ends.store(true, Ordering::Relaxed));
        for _ in 0..10 {
            let asked = rackmem::control::status(&rack.rack, 0).expect("node 0 answers");
            assert_eq!(asked.nid, 0);
        }
        let context = Context::open(&rack.options(0, 0).segment_bytes(4096)).unwrap();
        assert_eq!(context.nid(), 0);
        let is_up = || link(&rack, 0, 1).unwrap().version == "flood";
        assert!(is_up(), "it was not cut off");
        drop(end);
        let mut flooder = flood.join().unwrap();
        flooder.announce(std::iter::once(all));
        eventually("one more ends the link", || {
            link(&rack, 0, 1).unwrap().state == LinkState::Down
        });
    });
    rack.start_daemon(1);
    rack.wait_linked();
}

struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Contexts of one number that were made apart are not the same, on whichever host they are.
#[test]
fn contexts_that_only_have_the_same_number_do_not_meet() {
    for wire in Wire::all() {
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
