//! The attach protocol.

use crate::support::raw::{self, Raw};
use crate::support::{self, TestRack, eventually};
use proptest::prelude::*;
use rackmem::client::Context;
use rackmem::protocol::{PROTOCOL_VERSION, Progress, Request, Response};
use rackmem::rack::Rack;
use rustix::fs::{MemfdFlags, SealFlags};
use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::AtomicBool;

use crate::bystander::{Bystander, StopAtEnd};
use crate::start;

/// Descriptors that a hostile client can lay hands on.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Pipe,
    Null,
    Unsealed,
    Small,
    Socket,
    Directory,
    /// The file of context 0, opened for that.
    Write,
    Path,
    Read,
    ReadWrite,
    /// The file of context 1, to which it has no right.
    ForeignPath,
}

pub(crate) fn memfd(len: u64, seals: SealFlags) -> OwnedFd {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let fd = rustix::fs::memfd_create("hostile", flags).unwrap();
    rustix::fs::ftruncate(&fd, len).unwrap();
    rustix::fs::fcntl_add_seals(&fd, seals).unwrap();
    fd
}

fn descriptor(kind: Kind, rack: &Rack) -> OwnedFd {
    let context = |ctx_id, options: &mut OpenOptions| {
        OwnedFd::from(options.open(rack.context_path(ctx_id)).unwrap())
    };
    let path = || {
        let mut options = File::options();
        options.read(true).custom_flags(libc::O_PATH);
        options
    };
    match kind {
        Kind::Pipe => std::io::pipe().unwrap().0.into(),
        Kind::Null => File::options().read(true).write(true).open("/dev/null").unwrap().into(),
        Kind::Unsealed => memfd(1 << 20, SealFlags::empty()),
        Kind::Small => memfd(1, SealFlags::SHRINK),
        Kind::Socket => std::os::unix::net::UnixDatagram::unbound().unwrap().into(),
        Kind::Directory => File::open(rack.dir()).unwrap().into(),
        Kind::Write => context(0, File::options().write(true)),
        Kind::Path => context(0, &mut path()),
        Kind::Read => context(0, File::options().read(true)),
        Kind::ReadWrite => context(0, File::options().read(true).write(true)),
        Kind::ForeignPath => context(1, &mut path()),
    }
}

fn kinds() -> impl Strategy<Value = Vec<Kind>> {
    let kind = prop::sample::select(
        &[
            Kind::Pipe,
            Kind::Null,
            Kind::Unsealed,
            Kind::Small,
            Kind::Socket,
            Kind::Directory,
            Kind::Write,
            Kind::Path,
            Kind::Read,
            Kind::ReadWrite,
            Kind::ReadWrite,
            Kind::ForeignPath,
        ][..],
    );
    prop_oneof![
        3 => Just(Vec::new()),
        3 => Just(vec![Kind::ReadWrite]),
        2 => prop::collection::vec(kind, 0..raw::MANY_FDS),
    ]
}

fn requests() -> impl Strategy<Value = Request> {
    let small = || prop_oneof![4 => 0u32..4, 1 => any::<u32>()];
    let nid = || prop_oneof![4 => 0u16..4, 1 => any::<u16>()];
    let version = || prop_oneof![9 => Just(PROTOCOL_VERSION), 1 => any::<u32>()];
    const SIZES: [u64; 8] = [0, 1, 4096, 70_000, 1 << 40, (1 << 40) + 1, 1 << 62, u64::MAX];
    let size = || prop::sample::select(&SIZES[..]);
    let address = || prop_oneof![Just(0), Just(4096), Just(u64::MAX), any::<u64>()];
    let progress = prop::sample::select(&Progress::ALL[..]);
    let entries = prop_oneof![4 => (0u32..9).prop_map(|log| 1 << log), 1 => any::<u32>()];
    prop_oneof![
        6 => version().prop_map(|version| Request::Hello { version }),
        6 => (nid(), size())
            .prop_map(|(ctx_id, segment_bytes)| Request::Open { ctx_id, segment_bytes, shared: true }),
        4 => (entries, progress)
            .prop_map(|(entries, progress)| Request::CreateQp { entries, progress }),
        2 => small().prop_map(|qp| Request::DestroyQp { qp }),
        2 => size().prop_map(|size_bytes| Request::CreateBuffer { size_bytes }),
        1 => small().prop_map(|buffer| Request::DropBuffer { buffer }),
        2 => (small(), address())
            .prop_map(|(buffer, address)| Request::PlaceBuffer { buffer, address }),
        2 => (small(), address()).prop_map(|(qp, address)| Request::PlaceQp { qp, address }),
        1 => address().prop_map(|address| Request::PlaceSegment { address }),
        2 => nid().prop_map(|nid| Request::Peer { nid }),
        1 => Just(Request::Close),
        1 => Just(Request::Status),
        1 => (version(), nid()).prop_map(|(version, nid)| Request::Link { version, nid }),
        1 => (nid(), any::<u64>())
            .prop_map(|(ctx_id, incarnation)| Request::ContextUp {
                ctx_id,
                incarnation,
                size_bytes: incarnation
            }),
        1 => (nid(), any::<bool>())
            .prop_map(|(ctx_id, lost)| Request::ContextDown { ctx_id, lost }),
    ]
}

/// A message: the text of a request, or other bytes, or nothing: then the connection is renewed.
#[derive(Clone, Debug)]
struct Sent {
    request: Option<String>,
    bytes: Option<Vec<u8>>,
    kinds: Vec<Kind>,
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    use serde_json::{Value, json};
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(|b| json!(b)),
        any::<i64>().prop_map(|n| json!(n)),
        any::<f64>().prop_map(|n| json!(n)),
        "\\PC{0,20}".prop_map(|s| json!(s)),
    ];
    let key = prop_oneof![
        prop::sample::select(&["Hello", "Open", "CreateQp", "Status", "qp", "nid", "version"][..])
            .prop_map(str::to_owned),
        "[a-z]{0,8}",
    ];
    leaf.prop_recursive(6, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
            prop::collection::btree_map(key.clone(), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn sent() -> impl Strategy<Value = Sent> {
    let text = |request: &Request| serde_json::to_string(request).unwrap();
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
    let of_bytes = |bytes| (None, Some(bytes));
    let body = prop_oneof![
        8 => requests().prop_map(move |request| (Some(text(&request)), None)),
        2 => (requests(), changes, any::<prop::sample::Index>()).prop_map(
            move |(request, changes, end)| {
                let mut bytes = text(&request).into_bytes();
                for (at, byte) in changes {
                    let at = at.index(bytes.len());
                    bytes[at] = byte;
                }
                bytes.truncate(end.index(bytes.len() * 2).max(1));
                of_bytes(bytes)
            }
        ),
        1 => json().prop_map(move |value| of_bytes(serde_json::to_vec(&value).unwrap())),
        1 => prop::collection::vec(any::<u8>(), 0..300).prop_map(of_bytes),
        // Ends the connection.
        1 => Just((None, None)),
    ];
    (body, kinds()).prop_map(|((request, bytes), kinds)| Sent { request, bytes, kinds })
}

#[test]
fn no_message_upsets_a_daemon() {
    let rack = TestRack::start("messages", 2);
    rack.rack.create_context(0, 0o600).unwrap();
    let bystander = Bystander::new(&rack, 1, Progress::Packet);
    let pid = raw::status(&rack.rack, 0).pid;
    let config = ProptestConfig {
        cases: 150,
        failure_persistence: None,
        max_shrink_iters: 200,
        ..ProptestConfig::default()
    };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let sequence = prop::collection::vec(sent(), 1..12);
    let outcome = runner.run(&sequence, |sequence| {
        // Most of the sequences shall get beyond the greeting.
        let connect = || {
            let raw = Raw::connect(&rack.rack, 0);
            raw.hello();
            raw
        };
        let mut raw = connect();
        for Sent { request, bytes, kinds } in &sequence {
            let Some(text) = request.as_ref().map(|text| text.as_bytes()).or(bytes.as_deref())
            else {
                raw = connect();
                continue;
            };
            let fds: Vec<OwnedFd> =
                kinds.iter().map(|kind| descriptor(*kind, &rack.rack)).collect();
            let fds: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
            let answer = match raw.send(text, &fds) {
                Ok(()) => raw.answer(),
                Err(_) => None,
            };
            match answer.map(|got| got.message) {
                Some(Response::Opened { read_only, .. }) => {
                    let first = kinds.first();
                    let wanted = if read_only { Kind::Read } else { Kind::ReadWrite };
                    prop_assert_eq!(first, Some(&wanted));
                    let asked: Request = serde_json::from_slice(text).unwrap();
                    let is_own = matches!(asked, Request::Open { ctx_id: 0, .. });
                    prop_assert!(is_own, "{:?}", asked);
                }
                Some(_) => {}
                None => raw = connect(),
            }
        }
        drop(raw);
        let status = raw::status(&rack.rack, 0);
        prop_assert_eq!(status.pid, pid);
        prop_assert_eq!(&status.peers_up, &vec![1]);
        prop_assert!(bystander.is_untouched());
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
    eventually("all that was made is gone", || {
        let status = raw::status(&rack.rack, 0);
        status.contexts.len() == 1 && status.qps.is_empty()
    });
    let stop = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let _stop = StopAtEnd(&stop);
        threads.spawn(|| bystander.work(&stop));
        bystander.wait_at_work();
    });
}

#[test]
fn odd_sizes_and_bad_readers() {
    let rack = TestRack::start("sizes", 1);
    let status = |what: &str| {
        assert_eq!(raw::status(&rack.rack, 0).nid, 0, "after {what}");
    };
    let padded = |len: usize| {
        let mut bytes = serde_json::to_vec(&Request::Status).unwrap();
        bytes.resize(len, b' ');
        bytes
    };
    // The longest message, and one byte more.
    let raw = Raw::connect(&rack.rack, 0);
    raw.hello();
    raw.send(&padded(rackmem::transport::MAX_MESSAGE_BYTES), &[]).unwrap();
    assert!(matches!(raw.answer().unwrap().message, Response::Status(_)));
    raw.send(&padded(rackmem::transport::MAX_MESSAGE_BYTES + 1), &[]).unwrap();
    assert!(raw.answer().is_none());
    status("a message too long");
    // Nothing at all, and half a message.
    for bytes in [&b""[..], b"{", b"\"Stat", b"{\"Hello\":{\"version\":"] {
        let raw = Raw::connect(&rack.rack, 0);
        raw.send(bytes, &[]).unwrap();
        assert!(raw.answer().is_none());
        status("half a message");
    }
    // Nested as deep as a message can be.
    for bytes in [vec![b'['; 64 * 1024], b"{\"a\":".repeat(13_000)] {
        let raw = Raw::connect(&rack.rack, 0);
        raw.send(&bytes, &[]).unwrap();
        assert!(raw.answer().is_none());
        status("a deep message");
    }
    // Asks and asks and never listens: the connection ends.
    let raw = Raw::connect(&rack.rack, 0);
    let question = serde_json::to_vec(&Request::Status).unwrap();
    let ended = (0..100_000).any(|_| raw.send(&question, &[]).is_err());
    assert!(ended);
    status("a client that does not listen");
}

/// The role `poor-daemon <node>`: a daemon that may have few files open.
pub(crate) fn be_poor_daemon(args: &[String]) {
    let few = rustix::process::Rlimit { current: Some(160), maximum: Some(160) };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, few).unwrap();
    crate::support::be_daemon(args);
}

#[test]
fn silent_connections_keep_nobody_out() {
    support::allow_many_descriptors();
    for role in ["daemon", "poor-daemon"] {
        let mut rack = TestRack::start(&format!("silent-{role}"), 1);
        rack.kill_daemon(0);
        rack.daemons[0] = Some(start(&rack, role, "0"));
        eventually("the daemon is up", || rackmem::control::status(&rack.rack, 0).is_ok());
        rack.rack.create_context(0, 0o600).unwrap();
        let member = Context::open(&rack.options(0, 0).segment_bytes(4096)).unwrap();
        let silent: Vec<Raw> = (0..1000).map(|_| Raw::connect(&rack.rack, 0)).collect();
        raw::status(&rack.rack, 0);
        // A member is not driven out, and others can still join.
        member.queue_pair(4).unwrap().write(0, 0, &[1]).unwrap();
        let late = Context::open(&rack.options(0, 0)).unwrap();
        late.queue_pair(4).unwrap().write(0, 0, &[1]).unwrap();
        drop(silent);
        raw::status(&rack.rack, 0);
    }
}
