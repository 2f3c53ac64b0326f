//! Links: impostors, garbage, answers before their questions.

use crate::support::raw::{self, Raw};
use crate::support::{BOUND, TestRack, eventually};
use rackmem::Status;
use rackmem::client::Context;
use rackmem::protocol::{PROTOCOL_VERSION, Progress, Request, Response};
use rackmem::rack::Rack;
use rackmem::shm::bell::{AddedBell, Bells};
use rackmem::shm::mapping::Mapping;
use rackmem::shm::ring::{Consumer, Producer, Ring};
use rackmem::shm::segment::Segment;
use rackmem_abi::{Header, MAX_UNIT_BYTES, Op, WqEntry};
use rustix::fs::SealFlags;
use std::convert::Infallible;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::Random;
use crate::attach::memfd;
use crate::bystander::{CANARY, Edge};
use crate::queues::Poster;
use crate::seeds::seeds;

/// Node 1's end of a link to node 0, without a daemon behind it.
struct Impostor {
    raw: Raw,
    rings: Mapping,
    _bell: AddedBell,
    wake: OwnedFd,
}

const RINGS_BYTES: usize = 4 * size_of::<Ring>();

impl Impostor {
    /// Links to node 0 of a rack whose node 1 has no daemon.
    fn link(rack: &Rack) -> Impostor {
        let raw = Raw::connect(rack, 0);
        let rings = Mapping::create("impostor", RINGS_BYTES).unwrap();
        let bell = std::sync::Arc::new(Bells::create().unwrap()).add().unwrap();
        let [flag, event] = bell.fds().unwrap();
        let request = Request::Link { version: PROTOCOL_VERSION, nid: 1 };
        let got = raw.call(&request, &[rings.fd(), flag.as_fd(), event.as_fd()]).unwrap();
        assert_eq!(got.message, Response::Welcome { nid: 0, nodes: 2, over_hosts: false });
        let wake = got.fds.into_iter().nth(1).unwrap();
        Impostor { raw, rings, _bell: bell, wake }
    }

    /// Lanes 0 and 1 carry our requests and replies, 2 and 3 those of node 0.
    fn lane(&self, index: usize) -> &Ring {
        assert!(index < 4);
        // SAFETY: the memory holds four rings, which consist of atomics.
        unsafe { &*self.rings.base().cast::<Ring>().add(index) }
    }

    /// Says that node 1 has joined a context; returns its segment.
    fn announce(&self, rack: &Rack, ctx_id: u16, size_bytes: u64) -> Segment {
        let segment = Segment::create(1, ctx_id, size_bytes).unwrap();
        let inode = std::fs::metadata(rack.context_path(ctx_id)).unwrap().ino();
        let incarnation = rack.incarnation(inode);
        let request = Request::ContextUp { ctx_id, incarnation, size_bytes };
        let fds = [segment.mapping().fd()];
        self.raw.send(&serde_json::to_vec(&request).unwrap(), &fds).unwrap();
        segment
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
    // A message that only linked daemons may send.
    let raw = Raw::connect(&rack.rack, 0);
    let got = raw
        .call(&Request::ContextUp { ctx_id: 0, incarnation: 0, size_bytes: 0 }, &[rings().as_fd()])
        .unwrap();
    assert!(matches!(got.message, Response::Error { errno: libc::EPROTO, .. }));
    // A daemon of the right kind gets its link, and loses it by a segment that is none.
    for fd in [Some(memfd(1 << 20, SealFlags::empty())), Some(memfd(64, SealFlags::SHRINK)), None] {
        let impostor = Impostor::link(&rack.rack);
        assert_eq!(raw::status(&rack.rack, 0).peers_up, [1]);
        let fds: Vec<BorrowedFd<'_>> = fd.iter().map(AsFd::as_fd).collect();
        assert!(
            impostor
                .raw
                .call(&Request::ContextUp { ctx_id: 0, incarnation: 0, size_bytes: 0 }, &fds)
                .is_none()
        );
        assert!(raw::status(&rack.rack, 0).peers_up.is_empty());
    }
    rack.start_daemon(1);
    rack.wait_linked();
}

/// Header of a packet that parses, with fields that fit nothing, and the length of its payload.
fn any_packet(random: &mut Random) -> ([u64; 2], usize) {
    let op = Op::ALL[random.below(6) as usize];
    let length = match op {
        Op::Nop | Op::Notify => 0,
        Op::FetchAdd | Op::CompareSwap => 8,
        _ if random.below(4) == 0 => random.below(16 << 10) as u16,
        _ => random.below(65) as u16,
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
        offset: if length == 8 { offset & !7 } else { offset & !0x3fff },
        tid: if random.below(4) == 0 {
            random.next() as u32 & 0xff_ffff
        } else {
            random.below(64) as u32
        },
    };
    if random.below(2) == 0 {
        return (header.emit(None), header.request_bytes());
    }
    let status = Status::ALL[random.below(9) as usize];
    (header.emit(Some(status)), header.reply_bytes(status))
}

/// Payload of zeros.
fn zeros(bytes: usize) -> impl FnOnce(*mut u8) -> Result<(), Infallible> {
    move |at| {
        // SAFETY: the ring has room for the payload that it is asked to take.
        unsafe { at.write_bytes(0, bytes) };
        Ok(())
    }
}

#[test]
fn garbage_on_a_link_stays_within_segments_and_buffers() {
    let mut rack = TestRack::start("garbage", 2);
    rack.kill_daemon(1);
    rack.rack.create_context(0, 0o600).unwrap();
    let edge = Edge::new(&rack, 0, 0);
    let client = Context::open(&rack.options(0, 0).progress(Progress::Packet)).unwrap();
    let pid = raw::status(&rack.rack, 0).pid;
    for seed in seeds(0..12) {
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
                let (mut header, exact) = any_packet(&mut random);
                if random.below(5) == 0 {
                    header[random.below(2) as usize] ^= 0xff << (8 * random.below(8));
                }
                let any = random.below(33_000) as usize;
                let bytes = [0, 8, 16, 64, any, exact, exact, exact][random.below(8) as usize];
                lanes[lane].send(impostor.lane(lane), header, bytes, zeros(bytes));
                if round % 50 == 0 {
                    impostor.wake();
                }
                if seed % 2 == 1 && random.below(10) == 0 {
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
    let impostor = Impostor::link(&rack.rack);
    let (raw, _segment) = Raw::member(&rack.rack, 0, 0, 4096);
    let segment = impostor.announce(&rack.rack, 0, 1 << 20);
    let made = raw.call(&Request::CreateBuffer { size_bytes: 1 << 20 }, &[]).unwrap();
    assert_eq!(made.message, Response::Buffer { buffer: 0 });
    let address = 1 << 40;
    raw.call(&Request::PlaceBuffer { buffer: 0, address }, &[]).unwrap();
    let (qp, memory) = raw.queue_pair(2, Progress::Packet);
    // More lines than the lane has credits for.
    let length = 1 << 20;
    let op_code = Op::Write as u8;
    let mut poster = Poster::new(memory, 2);
    poster.post(WqEntry { phase: true, op_code, dst_nid: 1, offset: 0, length, buffer: address });
    impostor.wake();
    let (mut requests, mut replies) = (Consumer::default(), Producer::default());
    let mut first = None;
    eventually("a request comes", || {
        impostor.wake();
        let packet = requests.peek(impostor.lane(2));
        packet.inspect(|packet| requests.take(impostor.lane(2), packet));
        first = packet;
        first.is_some()
    });
    let (header, status) = Header::parse(first.unwrap().header, MAX_UNIT_BYTES).unwrap();
    assert_eq!((header.op, status), (Op::Write, None));
    let header = Header { dst_nid: 0, src_nid: 1, ..header }.emit(Some(Status::Ok));
    let mut answer = |count: u32| {
        for _ in 0..count {
            eventually("a reply is taken", || {
                impostor.wake();
                replies.send(impostor.lane(1), header, 0, zeros(0)).is_some()
            });
        }
    };
    answer(2000);
    raw.call(&Request::DestroyQp { qp }, &[]).expect("the daemon is there");
    drop(raw);
    let status = raw::status(&rack.rack, 0);
    assert_eq!((status.pid, status.qps.len()), (pid, 0));
    drop((impostor, segment));
    eventually("the link is down", || raw::status(&rack.rack, 0).peers_up.is_empty());
    // The controller still works.
    let context = Context::open(&rack.options(0, 0).segment_bytes(4096).progress(Progress::Packet));
    context.unwrap().queue_pair(4).unwrap().write(0, 0, &[1]).unwrap();
}
