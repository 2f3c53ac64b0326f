//! Send and receive of connected queue pairs, in every way of progress and over every wire.

mod support;

use std::process::Child;
use std::time::{Duration, Instant};

use rackmem::client::{Address, Completion, Context, Descriptor, Kind, MessageStatus, QueuePair};
use rackmem::protocol::Progress;
use support::{BOUND, TestRack, Wire, eventually};

const SEGMENT_BYTES: u64 = 4 << 20;

/// Places of an SQ and an RQ.
const DEPTH: u64 = 64;

/// The memory behind the connection, at both nodes.
const MEMORY: u64 = 1 << 20;

/// The longest message that travels in the queue.
const INLINE_BYTES: u64 = 224;

#[test]
fn child() {
    let Some((role, args)) = support::role() else { return };
    match role.as_str() {
        "daemon" => support::be_daemon(&args),
        "peer" => be_silent_peer(&args),
        other => panic!("no role {other}"),
    }
}

/// Connects as node 1, posts a receive, and then does nothing for ever.
fn be_silent_peer(args: &[String]) {
    let progress = *Progress::ALL.iter().find(|progress| progress.name() == args[0]).unwrap();
    let options = rackmem::client::OpenOptions::from_env().unwrap().node(1).progress(progress);
    let context = Context::open(&options.segment_bytes(SEGMENT_BYTES)).unwrap();
    let mut qp = context.queue_pair(8).unwrap();
    qp.connect(&context, 0, Address::new(0, 0), BOUND).unwrap();
    assert!(qp.post_receive(piece(0, 8, 0)).unwrap());
    qp.send(b"here", BOUND).unwrap();
    loop {
        std::thread::sleep(BOUND);
    }
}

/// Runs a test once per wire and way of progress, on a rack of two nodes.
fn each_way(name: &str, test: impl Fn(&TestRack, &[Context])) {
    for wire in Wire::all() {
        let rack = TestRack::start_on(wire, &format!("{name}-{wire:?}"), 2);
        for (ctx_id, progress) in (0..).zip(Progress::ALL) {
            rack.rack.create_context(ctx_id, 0o600).unwrap();
            let contexts = rack.open_all(ctx_id, SEGMENT_BYTES, progress);
            eprintln!("{name}: {wire:?}, {}", progress.name());
            test(&rack, &contexts);
        }
    }
}

/// The same, with a connected queue pair of each node.
fn each_connection(name: &str, test: impl Fn(&[Context], [QueuePair; 2])) {
    each_way(name, |_, contexts| test(contexts, connected(contexts)));
}

fn connect(contexts: &[Context], qp: &mut QueuePair, nid: u16) {
    let context = &contexts[usize::from(nid)];
    qp.connect(context, 0, Address::new(1 - nid, 0), BOUND).unwrap();
}

fn connected(contexts: &[Context]) -> [QueuePair; 2] {
    let mut pairs = [0, 1].map(|nid: usize| contexts[nid].queue_pair(8).unwrap());
    let [a, b] = &mut pairs;
    std::thread::scope(|threads| {
        threads.spawn(|| connect(contexts, a, 0));
        connect(contexts, b, 1);
    });
    pairs
}

fn piece(at: u64, size_bytes: u64, id: u64) -> Descriptor {
    Descriptor { offset: MEMORY + at, size_bytes, id }
}

fn next(qp: &mut QueuePair) -> Completion {
    qp.wait(BOUND).unwrap().expect("a completion")
}

#[track_caller]
fn assert_end(of: Completion, kind: Kind, id: u64, length_bytes: u64, status: MessageStatus) {
    assert_eq!(of, Completion { kind, id, length_bytes, status });
}

/// The n-th message of a node: lengths around all limits, and bytes that tell it from others.
fn message(nid: u16, number: u64) -> Vec<u8> {
    const SIZES: [u64; 9] = [0, 1, 56, 57, 64, INLINE_BYTES, INLINE_BYTES + 1, 1000, 70_000];
    let seed = number * 2 + u64::from(nid);
    (0..SIZES[number as usize % SIZES.len()]).map(|i| (i * 7 + seed * 31) as u8).collect()
}

#[test]
fn messages_of_any_length_arrive_once_and_in_order_both_ways() {
    const COUNT: u64 = 400;
    const PLACES: u64 = 8;
    const PLACE: u64 = 128 << 10;
    let work = |context: &Context, qp: &mut QueuePair| {
        let (nid, mut sent, mut received, mut out) = (context.nid(), 0, 0, 0);
        for place in 0..PLACES {
            assert!(qp.post_receive(piece(place * PLACE, PLACE, place)).unwrap());
        }
        let mut got = vec![0; PLACE as usize];
        while received < COUNT || out < COUNT {
            while sent < COUNT && sent - out < PLACES {
                let bytes = message(nid, sent);
                let at = (PLACES + sent % PLACES) * PLACE;
                context.write_own(MEMORY + at, &bytes).unwrap();
                assert!(qp.post_send(piece(at, bytes.len() as u64, sent)).unwrap());
                sent += 1;
            }
            let done = next(qp);
            assert_eq!(done.status, MessageStatus::Done);
            if done.kind == Kind::Send {
                assert_eq!((done.id, done.length_bytes), (out, message(nid, out).len() as u64));
                out += 1;
                continue;
            }
            let expected = message(1 - nid, received);
            let (at, length) = (done.id * PLACE, expected.len());
            assert_eq!((done.id, done.length_bytes), (received % PLACES, length as u64));
            context.read_own(MEMORY + at, &mut got[..length]).unwrap();
            assert_eq!(got[..length], expected, "message {received} of node {}", 1 - nid);
            received += 1;
            assert!(qp.post_receive(piece(at, PLACE, done.id)).unwrap());
        }
    };
    each_connection("both-ways", |contexts, [mut a, mut b]| {
        std::thread::scope(|threads| {
            threads.spawn(|| work(&contexts[0], &mut a));
            work(&contexts[1], &mut b);
        });
    });
}

#[test]
fn sends_wait_for_receives_and_a_full_queue_refuses() {
    each_connection("back-pressure", |contexts, [mut a, mut b]| {
        for id in 0..DEPTH {
            contexts[0].write_own(MEMORY + id * 8, &id.to_ne_bytes()).unwrap();
            assert!(a.post_send(piece(id * 8, 8, id)).unwrap());
        }
        assert!(!a.post_send(piece(0, 8, DEPTH)).unwrap());
        assert_eq!(a.poll().unwrap(), None);
        let error = a.send(b"behind all of them", Duration::from_millis(1)).unwrap_err();
        assert_eq!(error.errno(), libc::ETIMEDOUT, "{error}");
        for id in 0..DEPTH {
            assert!(b.post_receive(piece(id * 8, 8, id)).unwrap());
        }
        assert!(!b.post_receive(piece(0, 8, DEPTH)).unwrap());
        for id in 0..DEPTH {
            assert_end(next(&mut a), Kind::Send, id, 8, MessageStatus::Done);
            assert_end(next(&mut b), Kind::Receive, id, 8, MessageStatus::Done);
            let mut word = [0; 8];
            contexts[1].read_own(MEMORY + id * 8, &mut word).unwrap();
            assert_eq!(u64::from_ne_bytes(word), id);
        }
    });
}

/// A sleeper is woken by the message, and a sleeping sender by the receive.
#[test]
fn sleepers_are_woken() {
    each_connection("sleepers", |_, [mut a, mut b]| {
        std::thread::scope(|threads| {
            threads.spawn(|| {
                assert!(a.post_receive(piece(0, 64, 1)).unwrap());
                assert_end(next(&mut a), Kind::Receive, 1, 4, MessageStatus::Done);
                a.send(b"pong", BOUND).unwrap();
            });
            std::thread::sleep(Duration::from_millis(20));
            b.send(b"ping", BOUND).unwrap();
            std::thread::sleep(Duration::from_millis(20));
            assert!(b.post_receive(piece(0, 64, 2)).unwrap());
            assert_end(next(&mut b), Kind::Receive, 2, 4, MessageStatus::Done);
        });
    });
}

#[test]
fn a_message_that_is_too_long_changes_nothing_and_the_next_one_arrives() {
    each_connection("too-long", |contexts, [mut a, mut b]| {
        contexts[0].write_own(MEMORY, &[1; 600]).unwrap();
        contexts[1].write_own(MEMORY, &[9; 600]).unwrap();
        for (id, size) in [(0, 63), (1, 599), (2, 0), (3, 600)] {
            assert!(b.post_receive(piece(0, size, id)).unwrap());
        }
        for (id, length) in [(10, 64), (11, 600)] {
            assert!(a.post_send(piece(0, length, id)).unwrap());
            assert_end(next(&mut a), Kind::Send, id, length, MessageStatus::TooLong);
            assert_end(next(&mut b), Kind::Receive, id - 10, length, MessageStatus::TooLong);
        }
        let error = a.send(b"x", BOUND).unwrap_err();
        assert_eq!(error.errno(), libc::EMSGSIZE, "{error}");
        assert_end(next(&mut b), Kind::Receive, 2, 1, MessageStatus::TooLong);
        let mut got = [0; 600];
        contexts[1].read_own(MEMORY, &mut got).unwrap();
        assert_eq!(got, [9; 600]);
        a.send(&[5; 600], BOUND).unwrap();
        assert_end(next(&mut b), Kind::Receive, 3, 600, MessageStatus::Done);
        contexts[1].read_own(MEMORY, &mut got).unwrap();
        assert_eq!(got, [5; 600]);
    });
}

#[test]
fn one_queue_pair_has_both_sides() {
    each_connection("both-sides", |contexts, [mut a, mut b]| {
        for round in 0..100u64 {
            assert!(b.post_receive(piece(0, 8, round)).unwrap());
            a.write(1, MEMORY + 4096, &round.to_ne_bytes()).unwrap();
            a.send(b"look", BOUND).unwrap();
            assert_end(next(&mut b), Kind::Receive, round, 4, MessageStatus::Done);
            let mut word = [0; 8];
            contexts[1].read_own(MEMORY + 4096, &mut word).unwrap();
            assert_eq!(u64::from_ne_bytes(word), round);
            assert_eq!(b.fetch_add(0, MEMORY + 8192, 1), Ok(round));
            assert_eq!(a.poll().unwrap(), None);
        }
    });
}

#[test]
fn what_came_before_a_close_arrives_and_the_rest_completes_as_closed() {
    each_connection("close", |contexts, [mut a, mut b]| {
        for id in 0..3 {
            assert!(b.post_receive(piece(id * 8, 8, id)).unwrap());
        }
        for id in 0..2 {
            assert!(b.post_send(piece(0, 8, id)).unwrap());
        }
        a.send(b"one", BOUND).unwrap();
        a.send(b"two", BOUND).unwrap();
        a.disconnect();
        let error = a.send(b"three", BOUND).unwrap_err();
        assert_eq!(error.errno(), libc::ENOTCONN, "{error}");
        let mut ends: Vec<Completion> = (0..5).map(|_| next(&mut b)).collect();
        ends.sort_by_key(|end| (end.kind == Kind::Send, end.id));
        for (end, id) in ends[..2].iter().zip(0..) {
            assert_end(*end, Kind::Receive, id, 3, MessageStatus::Done);
        }
        assert_end(ends[2], Kind::Receive, 2, 0, MessageStatus::Closed);
        for (end, id) in ends[3..].iter().zip(0..) {
            assert_end(*end, Kind::Send, id, 0, MessageStatus::Closed);
        }
        assert_eq!(b.send(b"!", BOUND).unwrap_err().errno(), libc::EPIPE);
        // Posts to a connection that has ended complete at once.
        assert!(b.post_receive(piece(0, 8, 9)).unwrap());
        assert_end(next(&mut b), Kind::Receive, 9, 0, MessageStatus::Closed);
        // Both connect again, in the same places; what the former connection left there is nothing to them.
        for round in 0..5 {
            std::thread::scope(|threads| {
                threads.spawn(|| connect(contexts, &mut a, 0));
                connect(contexts, &mut b, 1);
            });
            let error = a.send(b"too early", Duration::from_millis(1)).unwrap_err();
            assert_eq!(
                error.errno(),
                libc::ETIMEDOUT,
                "a receive of the former connection is used: {error}"
            );
            assert!(b.post_receive(piece(0, 8, round)).unwrap());
            assert_eq!(b.poll().unwrap(), None);
            a.send(b"again", BOUND).unwrap();
            assert_end(next(&mut b), Kind::Receive, round, 5, MessageStatus::Done);
        }
    });
}

#[test]
fn nobody_connects_alone_or_outside_its_segment() {
    each_way("refused-connections", |_, contexts| {
        let mut qp = contexts[0].queue_pair(8).unwrap();
        let end = SEGMENT_BYTES - QueuePair::CONNECTION_BYTES;
        let short = Duration::from_millis(1);
        let mut errno = |own, nid, at| {
            qp.connect(&contexts[0], own, Address::new(nid, at), short).unwrap_err().errno()
        };
        assert_eq!(errno(8, 1, 0), libc::EINVAL);
        assert_eq!(errno(end + 64, 1, 0), libc::ERANGE);
        assert_eq!(errno(u64::MAX - 63, 1, 0), libc::ERANGE);
        assert_eq!(errno(0, 0, 64), libc::EINVAL);
        assert_eq!(errno(0, 2, 0), libc::ENXIO);
        assert_eq!(errno(0, 1, SEGMENT_BYTES), libc::ERANGE);
        assert_eq!(errno(end, 1, end), libc::ETIMEDOUT);
        assert_eq!(qp.poll().unwrap_err().errno(), libc::ENOTCONN);
        // One that gave up is not taken for one that is there.
        let mut late = contexts[1].queue_pair(8).unwrap();
        let error = late.connect(&contexts[1], end, Address::new(0, end), short).unwrap_err();
        assert_eq!(error.errno(), libc::ETIMEDOUT, "{error}");
        let [mut a, _b] = connected(contexts);
        let beyond = Descriptor { offset: SEGMENT_BYTES - 7, size_bytes: 8, id: 0 };
        assert_eq!(a.post_send(beyond).unwrap_err().errno(), libc::ERANGE);
        assert_eq!(a.post_receive(beyond).unwrap_err().errno(), libc::ERANGE);
    });
}

/// Writes by a third queue pair what a hostile peer would write into the area of node 0.
fn forge(contexts: &[Context], at: u64, words: &[u64]) {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    contexts[1].queue_pair(8).unwrap().write(0, at, &bytes).unwrap();
}

/// A word that the peer has written into the area of node 0.
fn word(contexts: &[Context], at: u64) -> u64 {
    let mut word = [0; 8];
    contexts[0].read_own(at, &mut word).unwrap();
    u64::from_ne_bytes(word)
}

const RECEIVES_AT: u64 = 64;
const ARRIVALS_AT: u64 = RECEIVES_AT + DEPTH * 16;

#[test]
fn a_hostile_peer_garbles_its_own_messages_only() {
    each_way("hostile", |_, contexts| {
        let low = (1 << 40) - 1;
        let is_untouched = |context: &Context| {
            let mut all = vec![0; (SEGMENT_BYTES - MEMORY) as usize];
            context.read_own(MEMORY, &mut all).unwrap();
            all.iter().all(|byte| *byte == 0)
        };
        // Buffers outside its segment, of which no message comes out: far away, at the end, and beyond any number.
        for (offset, size) in [(1 << 39, 1 << 20), (SEGMENT_BYTES - 8, 4096), (low, low)] {
            let [mut a, mut b] = connected(contexts);
            assert!(b.post_receive(piece(0, 4096, 0)).unwrap());
            let stamp = word(contexts, RECEIVES_AT) & !low;
            forge(contexts, RECEIVES_AT, &[stamp | offset, stamp | size]);
            assert!(a.post_receive(piece(0, 4096, 1)).unwrap());
            let error = a.send(&[1; 1000], BOUND).unwrap_err();
            assert_eq!(error.errno(), libc::EHOSTDOWN, "{error}");
            assert_end(next(&mut a), Kind::Receive, 1, 0, MessageStatus::Lost);
            assert!(contexts.iter().all(is_untouched));
        }
        // A message longer than the buffer, in the queue and beside it; and any bytes everywhere.
        for length in [100, 1000, low >> 1] {
            let [mut a, mut b] = connected(contexts);
            assert!(b.post_receive(piece(0, 4096, 0)).unwrap());
            let stamp = word(contexts, RECEIVES_AT) & !low;
            assert!(a.post_receive(piece(0, 8, 1)).unwrap());
            let line = [stamp | length, 1, 2, 3, 4, 5, 6, 7];
            forge(contexts, ARRIVALS_AT, &[line; 4].concat());
            assert_end(next(&mut a), Kind::Receive, 1, 0, MessageStatus::Lost);
            assert!(contexts.iter().all(is_untouched));
        }
        let [mut a, mut b] = connected(contexts);
        assert!(b.post_receive(piece(0, 4096, 0)).unwrap());
        assert!(a.post_receive(piece(0, 64, 1)).unwrap());
        let rest = QueuePair::CONNECTION_BYTES - RECEIVES_AT;
        let mut number = 1u64;
        let garbage = (0..rest / 8).map(|_| {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            number
        });
        forge(contexts, RECEIVES_AT, &garbage.collect::<Vec<_>>());
        assert_eq!(a.poll().unwrap(), None);
        assert_eq!(a.send(b"?", Duration::from_millis(1)).unwrap_err().errno(), libc::ETIMEDOUT);
        assert!(contexts.iter().all(is_untouched));
    });
}

struct Peer(Child);

impl Peer {
    fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// All that was posted ends when the peer is killed, for those that sleep, and for those that poll.
#[test]
fn the_death_of_the_peer_ends_everything() {
    for (wire, progress) in Wire::all().into_iter().flat_map(|w| Progress::ALL.map(|p| (w, p))) {
        let rack = TestRack::start_on(wire, &format!("death-{wire:?}-{}", progress.name()), 2);
        rack.rack.create_context(0, 0o600).unwrap();
        let options = rack.options(0, 0).progress(progress).segment_bytes(SEGMENT_BYTES);
        let context = Context::open(&options).unwrap();
        let mut qp = context.queue_pair(8).unwrap();
        for sleeps in [true, false] {
            let mut peer = Peer(spawn_peer(&rack, progress));
            // Not at once, if a former one has died.
            eventually("the peer connects", || {
                qp.connect(&context, 0, Address::new(1, 0), BOUND).is_ok()
            });
            assert!(qp.post_receive(piece(0, 64, 0)).unwrap());
            assert_end(next(&mut qp), Kind::Receive, 0, 4, MessageStatus::Done);
            qp.send(b"received", BOUND).unwrap();
            // Neither has a partner: the peer posts and sends nothing any more.
            assert!(qp.post_receive(piece(0, 64, 1)).unwrap());
            assert!(qp.post_send(piece(0, 64, 2)).unwrap());
            peer.kill();
            let mut end = || {
                let deadline = Instant::now() + BOUND;
                loop {
                    let done = if sleeps { qp.wait(BOUND).unwrap() } else { qp.poll().unwrap() };
                    match done {
                        Some(done) => return done,
                        None => assert!(Instant::now() < deadline, "nothing completes"),
                    }
                }
            };
            assert_end(end(), Kind::Send, 2, 0, MessageStatus::Lost);
            assert_end(end(), Kind::Receive, 1, 0, MessageStatus::Lost);
            let error = qp.send(b"!", BOUND).unwrap_err();
            assert_eq!(error.errno(), libc::EHOSTDOWN, "{error}");
        }
    }
}

fn spawn_peer(rack: &TestRack, progress: Progress) -> Child {
    std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture"])
        .env("RACKMEM_TEST_ROLE", "peer")
        .env("RACKMEM_TEST_ARGS", progress.name())
        .env("RACKMEM_RACK", rack.rack.name())
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap()
}
