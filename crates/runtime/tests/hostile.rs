//! Hostile clients: whatever they send or write, the daemon lives, the other clients' operations
//! stay right, and no memory outside the hostile client's own contexts is read or changed.

mod support;

use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::process::Child;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use rackmem::Status;
use rackmem::client::Context;
use rackmem::protocol::{PROTOCOL_VERSION, PeerState, Progress, Request, Response};
use rackmem::rack::Rack;
use rackmem::shm::bell::Bell;
use rackmem::shm::line_lock::{BLOCK_BYTES, LOCK_COUNT};
use rackmem::shm::mapping::{Access, Mapping};
use rackmem::shm::queue::QueueMemory;
use rackmem::shm::ring::{Consumer, Producer, Ring};
use rackmem::shm::segment::Segment;
use rackmem_abi::{
    CqEntry, Header, Op, PACKET_BYTES, Packet, Reply, Request as PacketRequest, WqEntry, phase_of,
};
use rustix::fs::{MemfdFlags, SealFlags};
use support::raw::{self, Raw};
use support::{BOUND, TestRack, eventually};

#[test]
fn child() {
    let Some((role, args)) = support::role() else { return };
    match role.as_str() {
        "daemon" => support::be_daemon(&args),
        "poor-daemon" => be_poor_daemon(&args),
        "poster" => be_poster(&args),
        "locker" => be_locker(&args),
        "other-user" => be_other_user(&args),
        _ => panic!("no role {role}"),
    }
}

/// Starts this binary in a role, on a rack.
fn start(rack: &TestRack, role: &str, args: &str) -> Child {
    std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture"])
        .env("RACKMEM_TEST_ROLE", role)
        .env("RACKMEM_TEST_ARGS", args)
        .env("RACKMEM_RACK", rack.rack.name())
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap()
}

/// Waits for a child to end, in bounded time.
fn wait(mut child: Child) -> std::process::ExitStatus {
    let deadline = Instant::now() + 3 * BOUND;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            let _ = child.wait();
            panic!("a child hangs");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A small generator, for children that get a seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 8) % n
    }
}

// Well-behaved clients that share the daemons with hostile ones -----------------------------------

const CANARY: u8 = 0xc5;
const CANARY_BYTES: u64 = 5000;

/// Members of a context that nobody else has a descriptor of.
struct Bystander {
    contexts: Vec<Context>,
}

impl Bystander {
    fn new(rack: &TestRack, ctx_id: u16, progress: Progress) -> Bystander {
        rack.rack.create_context(ctx_id, 0o600).unwrap();
        let contexts = rack.open_all(ctx_id, CANARY_BYTES, progress);
        for context in &contexts {
            context.write_own(0, &[CANARY; CANARY_BYTES as usize]).unwrap();
        }
        Bystander { contexts }
    }

    fn is_untouched(&self) -> bool {
        self.contexts.iter().all(|context| {
            let mut bytes = [0; CANARY_BYTES as usize];
            context.read_own(0, &mut bytes).unwrap();
            bytes.iter().all(|byte| *byte == CANARY)
        })
    }

    /// Reads and writes between all nodes until told to stop; returns how many rounds.
    fn work(&self, stop: &AtomicBool) -> u64 {
        let mut qps: Vec<_> = self.contexts.iter().map(|c| c.queue_pair(8).unwrap()).collect();
        let nodes = qps.len() as u16;
        for round in 0.. {
            if stop.load(Ordering::Relaxed) {
                return round;
            }
            for (nid, qp) in (0..).zip(&mut qps) {
                let to = (nid + 1) % nodes;
                let offset = 64 * u64::from(nid);
                let bytes = [round as u8; 100];
                let mut back = [0; 100];
                qp.write(to, offset, &bytes).unwrap();
                qp.read(to, offset, &mut back).unwrap();
                assert_eq!(bytes, back);
                qp.fetch_add(to, 1024, 1).unwrap();
                qp.write(to, offset, &[CANARY; 100]).unwrap();
                let word = u64::from_ne_bytes([CANARY; 8]);
                qp.fetch_add(to, 1024, u64::MAX).unwrap();
                assert_eq!(qp.compare_swap(to, 1024, word, word).unwrap(), word);
            }
        }
        unreachable!()
    }
}

/// Stops the workers of a scope even if it ends by a panic.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A segment whose last page holds more than the segment, filled with a pattern there.
struct Edge(Context);

impl Edge {
    const BYTES: u64 = 1000;

    fn new(rack: &TestRack, nid: u16, ctx_id: u16) -> Edge {
        let options = rack.options(nid, ctx_id).segment_bytes(Self::BYTES);
        let edge = Edge(Context::open(&options).unwrap());
        assert_eq!(edge.0.segment_bytes(), Self::BYTES);
        // SAFETY: the mapping ends at a page boundary.
        unsafe { edge.beyond().write_bytes(CANARY, Self::LEN) };
        edge
    }

    const LEN: usize = 4096 - Self::BYTES as usize;

    fn beyond(&self) -> *mut u8 {
        self.0.segment_data().wrapping_add(Self::BYTES as usize)
    }

    fn is_untouched(&self) -> bool {
        // SAFETY: as in `new`.
        (0..Self::LEN).all(|at| unsafe { self.beyond().add(at).read_volatile() } == CANARY)
    }
}

// The attach protocol -----------------------------------------------------------------------------

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

fn memfd(len: u64, seals: SealFlags) -> OwnedFd {
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
            .prop_map(|(ctx_id, segment_bytes)| Request::Open { ctx_id, segment_bytes }),
        4 => (entries, progress)
            .prop_map(|(entries, progress)| Request::CreateQp { entries, progress }),
        2 => small().prop_map(|qp| Request::DestroyQp { qp }),
        2 => size().prop_map(|size_bytes| Request::CreateBuffer { size_bytes }),
        2 => (small(), address())
            .prop_map(|(buffer, address)| Request::PlaceBuffer { buffer, address }),
        2 => (small(), address()).prop_map(|(qp, address)| Request::PlaceQp { qp, address }),
        1 => address().prop_map(|address| Request::PlaceSegment { address }),
        2 => nid().prop_map(|nid| Request::Peer { nid }),
        1 => Just(Request::Close),
        1 => Just(Request::Status),
        1 => (version(), nid()).prop_map(|(version, nid)| Request::Link { version, nid }),
        1 => (nid(), any::<u64>())
            .prop_map(|(ctx_id, incarnation)| Request::ContextUp { ctx_id, incarnation }),
        1 => (nid(), any::<bool>())
            .prop_map(|(ctx_id, lost)| Request::ContextDown { ctx_id, lost }),
    ]
}

/// What is sent: the text of a request, or other bytes, or nothing: then the connection is renewed.
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
        let works = threads.spawn(|| bystander.work(&stop));
        std::thread::sleep(Duration::from_millis(50));
        stop.store(true, Ordering::Relaxed);
        assert!(works.join().unwrap() > 0);
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
fn be_poor_daemon(args: &[String]) {
    let few = rustix::process::Rlimit { current: Some(150), maximum: Some(150) };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, few).unwrap();
    support::be_daemon(args);
}

#[test]
fn silent_connections_keep_nobody_out() {
    let many = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let all = rustix::process::Rlimit { current: many.maximum, ..many };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, all).unwrap();
    for role in ["daemon", "poor-daemon"] {
        let mut rack = TestRack::start(&format!("silent-{role}"), 1);
        rack.kill_daemon(0);
        rack.daemons[0] = Some(start(&rack, role, "0"));
        eventually("the daemon is up", || rackmem::control::status(&rack.rack, 0).is_ok());
        rack.rack.create_context(0, 0o600).unwrap();
        let member = Context::open(&rack.options(0, 0).segment_bytes(4096)).unwrap();
        let silent: Vec<Raw> = (0..1000).map(|_| Raw::connect(&rack.rack, 0)).collect();
        raw::status(&rack.rack, 0);
        // Who has joined is not driven out, and others still can join.
        member.queue_pair(4).unwrap().write(0, 0, &[1]).unwrap();
        let late = Context::open(&rack.options(0, 0)).unwrap();
        late.queue_pair(4).unwrap().write(0, 0, &[1]).unwrap();
        drop(silent);
        raw::status(&rack.rack, 0);
    }
}

// Descriptors -------------------------------------------------------------------------------------

/// Whether the memory behind a descriptor can be mapped for writing.
fn is_writable(fd: &OwnedFd) -> bool {
    use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
    let prot = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address of the kernel's choice, which is not used.
    unsafe {
        match mmap(std::ptr::null_mut(), 4096, prot, MapFlags::SHARED, fd, 0) {
            Ok(base) => munmap(base, 4096).is_ok(),
            Err(_) => false,
        }
    }
}

#[test]
fn memory_that_was_handed_over_keeps_its_size() {
    let rack = TestRack::start("seals", 2);
    rack.rack.create_context(0, 0o600).unwrap();
    let other = Context::open(&rack.options(1, 0).segment_bytes(8192)).unwrap();
    let (raw, segment) = Raw::member(&rack.rack, 0, 0, 8192);
    let (_, queue) = raw.queue_pair(8, Progress::Daemon);
    let got = raw.call(&Request::CreateBuffer { size_bytes: 8192 }, &[]).unwrap();
    let buffer = got.fds.into_iter().next().unwrap();
    let peer = || {
        let got = raw.call(&Request::Peer { nid: 1 }, &[]).unwrap();
        assert!(matches!(
            got.message,
            Response::Peer { state: PeerState::Present | PeerState::Absent | PeerState::Left }
        ));
        got.fds.into_iter().next()
    };
    eventually("node 1 has joined", || peer().is_some());
    let queue = queue.mapping().fd().try_clone_to_owned().unwrap();
    for (what, fd) in
        [("segment", segment), ("queue", queue), ("buffer", buffer), ("peer", peer().unwrap())]
    {
        let len = rustix::fs::fstat(&fd).unwrap().st_size as u64;
        for wrong in [0, 4096, len - 1, len + 4096] {
            assert!(rustix::fs::ftruncate(&fd, wrong).is_err(), "{what}: {wrong}");
        }
        for seals in [SealFlags::WRITE, SealFlags::FUTURE_WRITE, SealFlags::GROW] {
            assert!(rustix::fs::fcntl_add_seals(&fd, seals).is_err(), "{what}: {seals:?}");
        }
        let grow = rustix::fs::FallocateFlags::empty();
        assert!(rustix::fs::fallocate(&fd, grow, len, 4096).is_err(), "{what}");
        assert_eq!(rustix::fs::fstat(&fd).unwrap().st_size as u64, len);
        assert!(is_writable(&fd), "{what}: the test would see nothing");
    }
    drop(other);
    // The bell's flag is for looking only.
    let bell = Raw::connect(&rack.rack, 0).hello().fds.into_iter().next().unwrap();
    assert!(!is_writable(&bell));
    // So is a segment for those who opened the context for reading.
    let _other = Context::open(&rack.options(1, 0).segment_bytes(8192)).unwrap();
    let reader = Raw::connect(&rack.rack, 0);
    reader.hello();
    reader.open(0, 0, rack.rack.open_context(0, true).unwrap().as_fd());
    let mut segment = None;
    eventually("node 1 has joined again", || {
        let got = reader.call(&Request::Peer { nid: 1 }, &[]).unwrap();
        segment = got.fds.into_iter().next();
        segment.is_some()
    });
    let segment = segment.unwrap();
    assert!(!is_writable(&segment));
    assert!(rustix::fs::ftruncate(&segment, 0).is_err());
}

const NOBODY: u32 = 65534;

/// The role `other-user`: joins without rights of its own on the rack's directory.
fn be_other_user(_: &[String]) {
    let rack = Rack::named(None).unwrap();
    std::env::set_current_dir(rack.dir()).unwrap();
    // SAFETY: plain system calls, before any thread that would mind.
    unsafe {
        assert_eq!(libc::setgroups(0, std::ptr::null()), 0);
        assert_eq!(libc::setgid(NOBODY), 0);
        assert_eq!(libc::setuid(NOBODY), 0);
        // Otherwise procfs refuses everything, for another reason.
        assert_eq!(libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0), 0);
    }
    let reopen = |fd: &OwnedFd| {
        let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
        File::options().read(true).write(true).open(path)
    };
    let own = memfd(4096, SealFlags::empty());
    reopen(&own).expect("the way is open as such");

    // For reading: no way to write.
    let raw = Raw::connect_to("node-0.sock".as_ref());
    let bell = raw.hello().fds.into_iter().next().unwrap();
    reopen(&bell).expect_err("the bell's flag must stay as it is");
    File::options().read(true).write(true).open("contexts/0").expect_err("not allowed to write");
    raw.open(0, 0, File::open("contexts/0").unwrap().as_fd());
    let got = raw.call(&Request::Peer { nid: 1 }, &[]).unwrap();
    let segment = got.fds.into_iter().next().expect("node 1 has joined");
    assert!(!is_writable(&segment));
    reopen(&segment).expect_err("the segment must stay as it is");
    Segment::open(segment, Access::Read).expect("it can be read");

    // Not at all.
    File::open("contexts/1").expect_err("not allowed to read");
    let path = File::options().read(true).custom_flags(libc::O_PATH).open("contexts/1").unwrap();
    let raw = Raw::connect_to("node-0.sock".as_ref());
    raw.hello();
    let open = Request::Open { ctx_id: 1, segment_bytes: 0 };
    let got = raw.call(&open, &[path.as_fd()]).unwrap();
    assert!(matches!(got.message, Response::Error { errno: libc::EACCES, .. }));

    // For writing: operations work on shared buffers; the daemon, which may do more than this
    // user, reaches for no other memory.
    let raw = Raw::connect_to("node-0.sock".as_ref());
    raw.hello();
    let file = File::options().read(true).write(true).open("contexts/2").unwrap();
    raw.open(2, 4096, file.as_fd());
    let (qp, memory) = raw.queue_pair(4, Progress::Daemon);
    let address = memory.mapping().base() as u64;
    raw.call(&Request::PlaceQp { qp, address }, &[]).unwrap();
    let plain = [7u64; 1];
    let mut poster = Poster::new(memory, 4);
    for (buffer, expected) in [
        (plain.as_ptr() as u64, Status::BadLocalBuffer),
        (poster.memory.operands() as u64, Status::Ok),
    ] {
        let op_code = Op::Write as u8;
        let wake = raw.hello().fds.remove(1);
        poster.post(WqEntry { phase: true, op_code, dst_nid: 0, offset: 0, length: 8, buffer });
        rustix::io::write(&wake, &1u64.to_ne_bytes()).unwrap();
        let deadline = Instant::now() + BOUND;
        while poster.reaped != poster.posted {
            poster.reap();
            assert!(Instant::now() < deadline);
        }
        assert_eq!(poster.last, expected as u8);
    }
}

#[test]
fn another_users_rights_end_where_its_files_do() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("not tested: only root can become another user");
        return;
    }
    let rack = TestRack::start("users", 2);
    rack.rack.create_context(0, 0o644).unwrap();
    rack.rack.create_context(1, 0o600).unwrap();
    rack.rack.create_context(2, 0o666).unwrap();
    let bystander = Context::open(&rack.options(1, 0).segment_bytes(4096)).unwrap();
    bystander.write_own(0, &[CANARY; 64]).unwrap();
    let options = rack.options(0, 0).read_only(true);
    Context::open(&options).unwrap().wait_joined(1, Some(Instant::now() + BOUND)).unwrap();
    let child = start(&rack, "other-user", "");
    assert!(wait(child).success());
    let mut bytes = [0; 64];
    bystander.read_own(0, &mut bytes).unwrap();
    assert_eq!(bytes, [CANARY; 64]);
}

// Queues ------------------------------------------------------------------------------------------

/// A queue pair driven by hand, with manners: a slot is used again after its completion.
struct Poster {
    memory: QueueMemory,
    size: u32,
    posted: u32,
    reaped: u32,
    busy: Vec<bool>,
    last: u8,
}

impl Poster {
    fn new(memory: QueueMemory, size: u32) -> Poster {
        Poster { memory, size, posted: 0, reaped: 0, busy: vec![false; size as usize], last: 0 }
    }

    /// Takes the completions that are there; each must be of a busy slot.
    fn reap(&mut self) {
        loop {
            let word = self.memory.cq_entry(self.reaped % self.size).load(Ordering::Acquire);
            let entry = CqEntry::decode(word);
            if entry.phase != phase_of(self.reaped, self.size) {
                return;
            }
            assert_ne!(self.reaped, self.posted, "a completion of nothing");
            let busy = &mut self.busy[usize::from(entry.slot)];
            assert!(std::mem::replace(busy, false), "slot {} completes twice", entry.slot);
            assert!(Status::from_code(entry.status_code).is_some());
            self.last = entry.status_code;
            self.reaped += 1;
        }
    }

    fn is_free(&self) -> bool {
        !self.busy[(self.posted % self.size) as usize]
    }

    fn post(&mut self, entry: WqEntry) {
        assert!(self.is_free());
        let slot = self.posted % self.size;
        let words = WqEntry { phase: phase_of(self.posted, self.size), ..entry }.encode();
        self.memory.wq_word(slot, 1).store(words[1], Ordering::Relaxed);
        self.memory.wq_word(slot, 0).store(words[0], Ordering::Release);
        self.busy[slot as usize] = true;
        self.posted += 1;
    }
}

/// An entry that means mischief more often than chance would.
fn entry(random: &mut Random, buffers: &[u64]) -> WqEntry {
    let offset = match random.below(6) {
        0 => random.below(1 << 40),
        1 => Edge::BYTES - random.below(80),
        2 => Edge::BYTES + random.below(4096),
        3 => rackmem_abi::MAX_OFFSET - random.below(100),
        _ => random.below(Edge::BYTES / 8) * 8,
    };
    let length = match random.below(8) {
        // Seldom: by packets it is a quarter of a million lines, each with an error of its own.
        0 if random.below(30) == 0 => random.below(1 << 24) as u32,
        0 => random.below(100_000) as u32,
        1 => 0,
        2 => random.below(3000) as u32,
        3 => Edge::BYTES as u32 + random.below(3) as u32 - 1,
        4..6 => 8,
        _ => random.below(200) as u32,
    };
    WqEntry {
        phase: random.below(2) == 0,
        op_code: random.below(8) as u8,
        dst_nid: if random.below(8) == 0 { random.below(4096) } else { random.below(3) } as u16,
        offset,
        length,
        buffer: buffers[random.below(buffers.len() as u64) as usize] + random.below(9000),
    }
}

/// The role `poster <progress> <polite|wild> <seed>`: a member of context 0 at node 0.
fn be_poster(args: &[String]) {
    let progress = Progress::from_name(&args[0]).unwrap();
    let polite = args[1] == "polite";
    let mut random = Random(args[2].parse::<u64>().unwrap() * 2 + 1);
    let rack = Rack::named(None).unwrap();
    let (raw, _segment) = Raw::member(&rack, 0, 0, Edge::BYTES);
    let wake = raw.hello().fds.remove(1);
    let ring = || rustix::io::write(&wake, &1u64.to_ne_bytes()).map(|_| ()).unwrap_or(());
    // Where nothing is mapped in this process, so that only it would come to harm.
    let nowhere = 0x2345_0000_0000u64;
    let claims = [nowhere, nowhere + 4096, 0, u64::MAX - 5000, (1 << 48) - 100, 1 << 47];
    for address in claims {
        let made = raw.call(&Request::CreateBuffer { size_bytes: 16384 }, &[]).unwrap();
        let Response::Buffer { buffer } = made.message else { panic!("{:?}", made.message) };
        raw.call(&Request::PlaceBuffer { buffer, address }, &[]).unwrap();
    }
    raw.call(&Request::PlaceSegment { address: nowhere + 5000 }, &[]).unwrap();
    let buffers =
        [nowhere, nowhere + 4096, 0, (1 << 48) - 10_000, 1 << 47, 0x2345_6700_0000, 1 << 45];
    let mut queues: Vec<Poster> = [2, 16, 128]
        .map(|size| {
            let (qp, memory) = raw.queue_pair(size, progress);
            let address = nowhere + u64::from(size) * 100;
            raw.call(&Request::PlaceQp { qp, address }, &[]).unwrap();
            Poster::new(memory, size)
        })
        .into();
    let deadline = Instant::now() + BOUND;
    if polite {
        while queues.iter().any(|queue| queue.posted < 600) {
            for queue in &mut queues {
                queue.reap();
                if queue.posted < 2000 && queue.is_free() {
                    queue.post(entry(&mut random, &buffers));
                }
            }
            ring();
            assert!(Instant::now() < deadline, "an entry never completes");
        }
        while queues.iter().any(|queue| queue.reaped != queue.posted) {
            ring();
            queues.iter_mut().for_each(Poster::reap);
            assert!(Instant::now() < deadline, "an entry never completes");
        }
        std::thread::sleep(Duration::from_millis(20));
        queues.iter_mut().for_each(Poster::reap);
    } else {
        for round in 0..60_000u32 {
            let queue = &queues[random.below(3) as usize];
            let slot = random.below(128) as u32;
            let words = if random.below(10) == 0 {
                [random.next(), random.next()]
            } else {
                entry(&mut random, &buffers).encode()
            };
            queue.memory.wq_word(slot, 1).store(words[1], Ordering::Relaxed);
            queue.memory.wq_word(slot, 0).store(words[0], Ordering::Release);
            if random.below(20) == 0 {
                // Counters, bed, completions: all of it is the client's to write.
                let at = random.below(queue.memory.mapping().len() as u64 / 8) as usize * 8;
                let word = if random.below(2) == 0 { u64::MAX } else { random.next() };
                // SAFETY: within the mapping, a multiple of 8.
                let place = unsafe { &*queue.memory.mapping().base().add(at).cast::<AtomicU64>() };
                place.store(word, Ordering::Relaxed);
            }
            if round % 16 == 0 {
                ring();
            }
        }
    }
    // Gone in the middle of it, without a word.
    std::process::exit(0);
}

#[test]
fn no_entry_reaches_beyond_its_context() {
    let rack = TestRack::start("entries", 2);
    rack.rack.create_context(0, 0o600).unwrap();
    let bystanders =
        [Bystander::new(&rack, 1, Progress::Packet), Bystander::new(&rack, 2, Progress::Daemon)];
    let edges = [Edge::new(&rack, 0, 0), Edge::new(&rack, 1, 0)];
    let pids = [0, 1].map(|nid| raw::status(&rack.rack, nid).pid);
    let stop = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let _stop = StopAtEnd(&stop);
        let works: Vec<_> = bystanders.iter().map(|b| threads.spawn(|| b.work(&stop))).collect();
        for progress in [Progress::Daemon, Progress::Packet] {
            for manners in ["polite", "wild"] {
                for seed in 1..3 {
                    let args = format!("{} {manners} {seed}", progress.name());
                    let status = wait(start(&rack, "poster", &args));
                    assert!(manners == "wild" || status.success(), "{args}: {status}");
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
        for worker in works {
            assert!(worker.join().unwrap() > 0);
        }
    });
    assert!(bystanders.iter().all(Bystander::is_untouched));
    assert!(edges.iter().all(Edge::is_untouched));
    assert_eq!(pids, [0, 1].map(|nid| raw::status(&rack.rack, nid).pid));
}

// Links -------------------------------------------------------------------------------------------

/// Node 1's end of a link to node 0, without a daemon behind it.
struct Impostor {
    raw: Raw,
    rings: Mapping,
    _bell: Bell,
    wake: OwnedFd,
}

const RINGS_BYTES: usize = 4 * size_of::<Ring>();

impl Impostor {
    /// Links to node 0 of a rack whose node 1 has no daemon.
    fn link(rack: &Rack) -> Impostor {
        let raw = Raw::connect(rack, 0);
        let rings = Mapping::create("impostor", RINGS_BYTES).unwrap();
        let bell = Bell::create().unwrap();
        let flag = bell.flag_fd().unwrap();
        let request = Request::Link { version: PROTOCOL_VERSION, nid: 1 };
        let got = raw.call(&request, &[rings.fd(), flag.as_fd(), bell.event_fd()]).unwrap();
        assert_eq!(got.message, Response::Welcome { nid: 0, nodes: 2 });
        let wake = got.fds.into_iter().nth(1).unwrap();
        Impostor { raw, rings, _bell: bell, wake }
    }

    /// Lanes 0 and 1 carry our requests and replies, 2 and 3 those of node 0.
    fn lane(&self, index: usize) -> &Ring {
        assert!(index < 4);
        // SAFETY: the memory holds four rings, which consist of atomics.
        unsafe { &*self.rings.base().cast::<Ring>().add(index) }
    }

    fn wake(&self) {
        rustix::io::write(&self.wake, &1u64.to_ne_bytes()).unwrap();
    }
}

#[test]
fn impostors_without_the_right_parts_are_refused() {
    let mut rack = TestRack::start("refused-links", 2);
    rack.kill_daemon(1);
    eventually("the link is down", || raw::status(&rack.rack, 0).peers_up.is_empty());
    let rings = || memfd(RINGS_BYTES as u64, SealFlags::SHRINK);
    let flag = || memfd(4096, SealFlags::SHRINK);
    let event = || OwnedFd::from(File::open("/dev/null").unwrap());
    let version = PROTOCOL_VERSION;
    let good = |nid| Request::Link { version, nid };
    let bad_fds: [Vec<OwnedFd>; 8] = [
        vec![],
        vec![rings()],
        vec![rings(), flag()],
        vec![memfd(RINGS_BYTES as u64 - 1, SealFlags::SHRINK), flag(), event()],
        vec![memfd(RINGS_BYTES as u64, SealFlags::empty()), flag(), event()],
        vec![memfd(RINGS_BYTES as u64, SealFlags::SHRINK | SealFlags::WRITE), flag(), event()],
        vec![rings(), memfd(0, SealFlags::SHRINK), event()],
        vec![event(), flag(), rings()],
    ];
    let refused = |raw: Raw, request: &Request, fds: &[OwnedFd], what: &str| {
        let fds: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
        assert!(raw.call(request, &fds).is_none(), "{what}");
        let status = raw::status(&rack.rack, 0);
        assert!(status.peers_up.is_empty(), "{what}");
    };
    for (index, fds) in bad_fds.iter().enumerate() {
        refused(Raw::connect(&rack.rack, 0), &good(1), fds, &format!("descriptors {index}"));
    }
    let parts = [rings(), flag(), event()];
    for nid in [0, 2, 3, u16::MAX] {
        refused(Raw::connect(&rack.rack, 0), &good(nid), &parts, &format!("node {nid}"));
    }
    let old = Request::Link { version: version + 1, nid: 1 };
    refused(Raw::connect(&rack.rack, 0), &old, &parts, "another version");
    // A client does not turn into a daemon.
    rack.rack.create_context(0, 0o600).unwrap();
    refused(Raw::member(&rack.rack, 0, 0, 4096).0, &good(1), &parts, "a member");
    let greeted = Raw::connect(&rack.rack, 0);
    greeted.hello();
    refused(greeted, &good(1), &parts, "a client");
    eventually("the member is gone", || raw::status(&rack.rack, 0).contexts.is_empty());
    // What only linked daemons say.
    let raw = Raw::connect(&rack.rack, 0);
    let got =
        raw.call(&Request::ContextUp { ctx_id: 0, incarnation: 0 }, &[rings().as_fd()]).unwrap();
    assert!(matches!(got.message, Response::Error { errno: libc::EPROTO, .. }));
    // A daemon of the right kind gets its link, and loses it by a segment that is none.
    for fd in [Some(memfd(1 << 20, SealFlags::empty())), Some(memfd(64, SealFlags::SHRINK)), None] {
        let impostor = Impostor::link(&rack.rack);
        assert_eq!(raw::status(&rack.rack, 0).peers_up, [1]);
        let fds: Vec<BorrowedFd<'_>> = fd.iter().map(AsFd::as_fd).collect();
        assert!(
            impostor.raw.call(&Request::ContextUp { ctx_id: 0, incarnation: 0 }, &fds).is_none()
        );
        assert!(raw::status(&rack.rack, 0).peers_up.is_empty());
    }
    rack.start_daemon(1);
    rack.wait_linked();
}

/// A packet that parses, with fields that fit nothing.
fn any_packet(random: &mut Random) -> [u8; PACKET_BYTES] {
    let op = Op::ALL[random.below(6) as usize];
    let length = match op {
        Op::Nop | Op::Notify => 0,
        Op::FetchAdd | Op::CompareSwap => 8,
        _ => random.below(65) as u8,
    };
    let offset = match random.below(3) {
        0 => random.below(1 << 40),
        1 => Edge::BYTES.saturating_sub(random.below(100)),
        _ => random.below(8192),
    };
    let header = Header {
        dst_nid: if random.below(10) == 0 { random.below(4096) as u16 } else { 0 },
        src_nid: if random.below(10) == 0 { random.below(4096) as u16 } else { 1 },
        op,
        ctx_id: if random.below(4) == 0 { random.next() as u16 } else { 0 },
        length,
        offset: if length == 8 { offset & !7 } else { offset & !63 },
        tid: if random.below(4) == 0 {
            random.next() as u32 & 0xff_ffff
        } else {
            random.below(64) as u32
        },
    };
    let payload = std::array::from_fn(|_| random.next() as u8);
    let packet = if random.below(2) == 0 {
        Packet::Request(PacketRequest { header, payload })
    } else {
        let status = Status::ALL[random.below(9) as usize];
        Packet::Reply(Reply { header, status, payload })
    };
    let mut bytes = [0; PACKET_BYTES];
    packet.emit(&mut bytes);
    bytes
}

#[test]
fn garbage_on_a_link_stays_within_segments_and_buffers() {
    let mut rack = TestRack::start("garbage", 2);
    rack.kill_daemon(1);
    rack.rack.create_context(0, 0o600).unwrap();
    let edge = Edge::new(&rack, 0, 0);
    let client = Context::open(&rack.options(0, 0).progress(Progress::Packet)).unwrap();
    let pid = raw::status(&rack.rack, 0).pid;
    for seed in 0..12u64 {
        let mut random = Random(seed * 77 + 5);
        let impostor = Impostor::link(&rack.rack);
        let mut buffer = client.buffer(3 * 4096).unwrap();
        buffer.fill(CANARY);
        std::thread::scope(|threads| {
            // Reads of a node that answers nonsense, into the middle of a buffer.
            let reads = threads.spawn(|| {
                let mut qp = client.queue_pair(32).unwrap();
                let middle = &mut buffer[4096..8192];
                qp.scope(|scope| {
                    for piece in middle.chunks_mut(200) {
                        scope.read(1, 0, piece);
                    }
                })
            });
            let mut lanes = [Producer::default(), Producer::default()];
            for round in 0..4000 {
                let lane = random.below(2) as usize;
                let mut packet = any_packet(&mut random);
                if random.below(5) == 0 {
                    packet[random.below(16) as usize] = random.next() as u8;
                }
                let len = if random.below(8) == 0 { 81 } else { 17 } + random.below(64);
                let exact = [16, 24, 32, 80, len][random.below(5) as usize] as usize;
                lanes[lane].send(impostor.lane(lane), &packet, exact.min(PACKET_BYTES));
                if round % 50 == 0 {
                    impostor.wake();
                }
                if seed >= 6 && random.below(10) == 0 {
                    // Rings, stamps and credits: all of it.
                    let at = random.below(RINGS_BYTES as u64 / 8) as usize * 8;
                    // SAFETY: within the mapping, a multiple of 8.
                    let word = unsafe { &*impostor.rings.base().add(at).cast::<AtomicU64>() };
                    word.store(random.next() >> random.below(64), Ordering::Relaxed);
                }
            }
            assert_eq!(raw::status(&rack.rack, 0).pid, pid);
            drop(impostor);
            // All that waited for the node ends with the link, if nonsense did not end it before.
            let _ = reads.join().unwrap();
        });
        assert!(buffer[..4096].iter().chain(&buffer[8192..]).all(|byte| *byte == CANARY));
        assert!(edge.is_untouched());
    }
    rack.start_daemon(1);
    rack.wait_linked();
    let there = Context::open(&rack.options(1, 0).segment_bytes(4096)).unwrap();
    client.wait_joined(1, Some(Instant::now() + BOUND)).unwrap();
    client.queue_pair(4).unwrap().write(1, 0, b"well again").unwrap();
    let mut bytes = [0; 10];
    there.read_own(0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"well again");
}

/// A peer answers lines that were not asked for yet; then the client leaves.
#[test]
fn answers_before_their_questions_do_no_harm() {
    let mut rack = TestRack::start("too-early", 2);
    rack.kill_daemon(1);
    rack.rack.create_context(0, 0o600).unwrap();
    let pid = raw::status(&rack.rack, 0).pid;
    for leaves_by_error in [false, true] {
        let impostor = Impostor::link(&rack.rack);
        let (raw, _segment) = Raw::member(&rack.rack, 0, 0, 4096);
        let made = raw.call(&Request::CreateBuffer { size_bytes: 1 << 20 }, &[]).unwrap();
        assert_eq!(made.message, Response::Buffer { buffer: 0 });
        let address = 1 << 40;
        raw.call(&Request::PlaceBuffer { buffer: 0, address }, &[]).unwrap();
        let (qp, memory) = raw.queue_pair(2, Progress::Packet);
        // More lines than the lane has credits for; in one case the last of them have no buffer.
        let length = if leaves_by_error { (1 << 20) + 4096 } else { 1 << 20 };
        let op_code = Op::Write as u8;
        let mut poster = Poster::new(memory, 2);
        poster.post(WqEntry {
            phase: true,
            op_code,
            dst_nid: 1,
            offset: 0,
            length,
            buffer: address,
        });
        impostor.wake();
        let (mut requests, mut replies) = (Consumer::default(), Producer::default());
        let mut packet = [0; PACKET_BYTES];
        let receive = |requests: &mut Consumer, packet: &mut _| {
            let mut got = None;
            eventually("a request comes", || {
                impostor.wake();
                got = requests.receive(impostor.lane(2), packet);
                got.is_some()
            });
            got.unwrap()
        };
        let len = receive(&mut requests, &mut packet);
        let Ok(Packet::Request(first)) = Packet::parse(&packet[..len]) else { panic!() };
        let header = Header { dst_nid: 0, src_nid: 1, ..first.header };
        let mut reply = [0; PACKET_BYTES];
        let len =
            Packet::Reply(Reply { header, status: Status::Ok, payload: [0; 64] }).emit(&mut reply);
        let mut answer = |count: u32| {
            for _ in 0..count {
                eventually("a reply is taken", || {
                    impostor.wake();
                    replies.send(impostor.lane(1), &reply, len)
                });
            }
        };
        answer(2000);
        if leaves_by_error {
            // The rest is sent, up to what cannot be loaded.
            while requests.receive(impostor.lane(2), &mut packet).is_some() {}
            for _ in 0..100 {
                impostor.wake();
                while requests.receive(impostor.lane(2), &mut packet).is_some() {}
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        raw.call(&Request::DestroyQp { qp }, &[]).expect("the daemon is there");
        drop(raw);
        let status = raw::status(&rack.rack, 0);
        assert_eq!((status.pid, status.qps.len()), (pid, 0));
        drop(impostor);
        eventually("the link is down", || raw::status(&rack.rack, 0).peers_up.is_empty());
    }
    // The controller still works.
    let context = Context::open(&rack.options(0, 0).segment_bytes(4096).progress(Progress::Packet));
    context.unwrap().queue_pair(4).unwrap().write(0, 0, &[1]).unwrap();
}

// Line locks --------------------------------------------------------------------------------------

/// The role `locker`: takes every line lock of node 1's segment and keeps it.
fn be_locker(_: &[String]) {
    /// Where a segment has its locks, and how many.
    const LOCKS_AT: usize = 4096;
    let rack = Rack::named(None).unwrap();
    let raw = Raw::connect(&rack, 0);
    raw.hello();
    let file = rack.open_context(0, false).unwrap();
    let open = Request::Open { ctx_id: 0, segment_bytes: 0 };
    let Some(got) = raw.call(&open, &[file.as_fd()]) else { panic!("no answer") };
    let Response::Opened { owner, .. } = got.message else { panic!("{:?}", got.message) };
    let got = raw.call(&Request::Peer { nid: 1 }, &[]).unwrap();
    let fd = got.fds.into_iter().next().expect("node 1 has joined");
    let segment = Segment::open(fd, Access::ReadWrite).unwrap();
    let base = segment.mapping().base();
    for index in 0..LOCK_COUNT {
        // SAFETY: the lock lies in the mapping, before the data.
        let lock = unsafe { &*base.add(LOCKS_AT + 8 * index).cast::<AtomicU64>() };
        lock.store(u64::from(owner) << 40 | 1, Ordering::SeqCst);
    }
    // SAFETY: the first word of the segment.
    unsafe { &*segment.data().cast::<AtomicU64>() }.store(1, Ordering::SeqCst);
    // SAFETY: stops this process.
    unsafe { libc::raise(libc::SIGSTOP) };
}

/// Starts a locker; returns when it has all locks and is stopped.
fn start_locker(rack: &TestRack, target: &Context) -> Child {
    target.word(0).unwrap().store(0, Ordering::SeqCst);
    let locker = start(rack, "locker", "");
    eventually("the locks are taken", || target.word(0).unwrap().load(Ordering::SeqCst) == 1);
    locker
}

#[test]
fn a_lock_that_is_never_given_back_delays_but_does_not_block() {
    let rack = TestRack::start("locker", 2);
    rack.rack.create_context(0, 0o600).unwrap();
    rack.rack.create_context(1, 0o600).unwrap();
    const BYTES: u64 = 64 * BLOCK_BYTES;
    let contexts = rack.open_all(0, BYTES, Progress::Inline);
    for progress in Progress::ALL {
        let options = rack.options(0, 0).progress(progress);
        let client = Context::open(&options).unwrap();
        let mut qp = client.queue_pair(4).unwrap();
        qp.write(1, 0, &[0]).unwrap();
        let mut locker = start_locker(&rack, &contexts[1]);
        for (what, block) in [("a write", 10u64), ("a read", 20), ("an atomic", 30)] {
            let start = Instant::now();
            match what {
                "a write" => qp.write(1, block * BLOCK_BYTES, &[1]).unwrap(),
                "a read" => qp.read(1, block * BLOCK_BYTES, &mut [0]).unwrap(),
                _ => _ = qp.fetch_add(1, block * BLOCK_BYTES, 1).unwrap(),
            }
            eprintln!("{what} past a stopped owner, {}: {:?}", progress.name(), start.elapsed());
            assert!(start.elapsed() < BOUND);
        }
        // Once the owner is dead, all its locks are free: 60 blocks do not take 60 times as long.
        let start = Instant::now();
        locker.kill().unwrap();
        locker.wait().unwrap();
        eventually("the locker is gone", || {
            raw::status(&rack.rack, 0).contexts.iter().any(|c| c.ctx_id == 0 && c.clients == 2)
        });
        qp.write(1, 0, &[1; BYTES as usize]).unwrap();
        eprintln!("everything past a dead owner, {}: {:?}", progress.name(), start.elapsed());
        assert!(start.elapsed() < BOUND);
    }
}
