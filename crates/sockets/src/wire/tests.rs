//! Frames of honest peers come out as they went in; those of hostile ones do no harm.

use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use rackmem_fabric::Inlet;
use rackmem_fabric::socket::wait;
use rustix::event::PollFlags;

use super::frame::{Frame, HEADER_BYTES, Kind, PART_BYTES};
use super::outbox::Outbox;
use super::reader::{Over, Reader, Sink};
use super::{Wire, connect};
use crate::board::DEPTH;
use crate::carrier::Carrier;
use crate::{Access, Descriptor, Link, Listener, QPair, Status, Terms};
use rackmem_fabric::address::Address;

const KINDS: [Kind; 9] = [
    Kind::Alive,
    Kind::Open,
    Kind::Close,
    Kind::Receive,
    Kind::Want,
    Kind::Part,
    Kind::Message,
    Kind::TooLong,
    Kind::Delivered,
];

/// Frames as they may be, with numbers that mean something often.
fn frames() -> impl Strategy<Value = Frame> {
    let small = prop_oneof![0..3_u64, 0..DEPTH as u64 * 2, any::<u64>()];
    let length = prop_oneof![0..3_u32, 230..250_u32, 0..6000_u32];
    let place = prop_oneof![Just(0), 0..5000_u64, any::<u64>()];
    (prop::sample::select(&KINDS[..]), any::<bool>(), 0..3_u32, 0..3_u32, length, small, place)
        .prop_map(|(kind, confirm, connection, life, length, number, value)| {
            let has_bytes = matches!(kind, Kind::Part | Kind::Message);
            let confirm = confirm && matches!(kind, Kind::Message | Kind::TooLong);
            let length = if has_bytes { length } else { 0 };
            Frame { kind, confirm, connection, life, length, number, value }
        })
}

fn body(frame: &Frame, salt: usize) -> Vec<u8> {
    (0..frame.length as usize).map(|at| (at * 7 + salt * 31) as u8).collect()
}

/// Keeps the frames that it gets.
#[derive(Default)]
struct Kept {
    frames: Vec<(Frame, Vec<u8>)>,
    place: Vec<u8>,
}

impl Sink for Kept {
    fn place(&mut self, frame: &Frame) -> Result<*mut u8, Over> {
        self.place = vec![0; frame.length as usize];
        Ok(self.place.as_mut_ptr())
    }

    fn take(&mut self, frame: &Frame, inline: &[u8]) -> Result<(), Over> {
        let placed = std::mem::take(&mut self.place);
        self.frames.push((*frame, if inline.is_empty() { placed } else { inline.to_vec() }));
        Ok(())
    }
}

/// Takes no message.
struct Nowhere;

impl Sink for Nowhere {
    fn place(&mut self, _: &Frame) -> Result<*mut u8, Over> {
        Err(Over::Nonsense)
    }

    fn take(&mut self, _: &Frame, _: &[u8]) -> Result<(), Over> {
        Ok(())
    }
}

proptest! {
    #[test]
    fn headers_round_trip(frame in frames(), noise in any::<[u8; HEADER_BYTES]>()) {
        prop_assert_eq!(Frame::decode(&frame.encode()), Ok(frame));
        if let Ok(frame) = Frame::decode(&noise) {
            prop_assert_eq!(frame.encode(), noise);
            prop_assert!(frame.length as usize <= PART_BYTES);
        }
    }

    #[test]
    fn frames_come_out_as_they_went_in_however_they_are_cut(
        sent in prop::collection::vec(frames(), 0..20),
        cuts in prop::collection::vec(1_usize..4000, 1..20),
    ) {
        let sent: Vec<_> =
            sent.iter().enumerate().map(|(salt, frame)| (*frame, body(frame, salt))).collect();
        let mut bytes = Vec::new();
        for (frame, body) in &sent {
            bytes.extend_from_slice(&frame.encode());
            bytes.extend_from_slice(body);
        }
        let (mut near, far) = UnixStream::pair().unwrap();
        // Some came before the first read.
        let before = bytes.split_off(bytes.len().min(cuts[0]));
        let (mut reader, mut bytes) = (reader_of(&bytes), before);
        let mut kept = Kept::default();
        let mut cuts = cuts.into_iter().cycle();
        reader.drain(far.as_fd(), &mut kept).unwrap();
        while !bytes.is_empty() {
            let rest = bytes.split_off(cuts.next().unwrap().min(bytes.len()));
            near.write_all(&bytes).unwrap();
            bytes = rest;
            reader.drain(far.as_fd(), &mut kept).unwrap();
        }
        prop_assert!(kept.frames == sent);
        drop(near);
        let is_gone = matches!(reader.drain(far.as_fd(), &mut kept), Err(Over::Gone(_)));
        prop_assert!(is_gone);
    }

    #[test]
    fn noise_is_an_error_or_nothing(noise in prop::collection::vec(any::<u8>(), 0..500)) {
        let (mut near, far) = UnixStream::pair().unwrap();
        near.write_all(&noise).unwrap();
        let _ = reader_of(&[]).drain(far.as_fd(), &mut Nowhere);
        let _ = reader_of(&noise).drain(far.as_fd(), &mut Nowhere);
    }
}

/// A reader that begins with these bytes.
fn reader_of(bytes: &[u8]) -> Reader {
    let mut input = Inlet::default();
    input.extend(bytes);
    Reader::new(input)
}

const REGISTERED_BYTES: usize = 8192;
const TERMS: Terms = Terms { connections: 2, registered_bytes: REGISTERED_BYTES };

/// A link whose peer sends anything: the wire's other end, without a thread that reads it.
fn victim() -> (Arc<Link>, Wire) {
    linked(TERMS)
}

fn linked(terms: Terms) -> (Arc<Link>, Wire) {
    let anywhere = Address::Tcp("127.0.0.1:0".to_owned());
    let listener = Listener::bind(&anywhere, Access::insecure()).unwrap();
    let address = listener.address().clone();
    let hostile = std::thread::spawn(move || connect(&address, None, terms).unwrap());
    let link = listener.accept().unwrap();
    (link, hostile.join().unwrap())
}

fn say(wire: &Wire, frame: Frame, bytes: &[u8]) {
    wire.send(frame, bytes);
    wire.flush();
}

fn accepted(link: &Arc<Link>, wire: &Wire, number: u32) -> QPair {
    say(wire, Frame::new(Kind::Open, number, 1), &[]);
    link.accept().unwrap()
}

/// Reason for the end of the link.
fn end(link: &Arc<Link>) -> String {
    link.accept().unwrap_err().to_string()
}

#[test]
fn what_nobody_asked_for_ends_the_link() {
    let large = vec![1; 4096];
    let message = |life, number, value, length: usize| {
        let frame = Frame::new(Kind::Message, 0, life);
        (Frame { number, value, length: length as u32, ..frame }, &large[..length])
    };
    // One receive of 1000 bytes is posted, as number 0 of life 1.
    let wrong = [
        message(1, 1, 0, 8),
        message(2, 0, 0, 8),
        message(1, 0, 0, 1001),
        message(1, 0, 1000, 1),
        message(1, 0, u64::MAX, 8),
        message(1, 0, u64::MAX, 1000),
        (Frame { connection: 2, ..message(1, 0, 0, 8).0 }, &large[..8]),
        (Frame { connection: 2, ..message(1, 0, 0, 1000).0 }, &large[..1000]),
        (Frame::new(Kind::Open, 0, 2), &[]),
        (Frame::new(Kind::Open, 2, 1), &[]),
        (Frame::new(Kind::Open, 1, 0), &[]),
        (Frame { number: 7, ..Frame::new(Kind::TooLong, 0, 1) }, &[]),
    ];
    for (frame, bytes) in wrong {
        let (link, wire) = victim();
        let mut pair = accepted(&link, &wire, 0);
        pair.post_receive(Descriptor { offset: 4096, size_bytes: 1000, id: 5 }).unwrap();
        say(&wire, frame, bytes);
        let done = pair.wait(Duration::from_secs(60)).unwrap();
        assert_eq!((done.id, done.status), (5, Status::Lost), "{frame:?}");
        let why = end(&link);
        assert!(why.contains("does not keep to the protocol"), "{frame:?}: {why}");
        let mut bytes = vec![1; REGISTERED_BYTES];
        pair.load(0, &mut bytes).unwrap();
        assert!(bytes == vec![0; REGISTERED_BYTES], "{frame:?}");
    }
}

/// A receive that waits for company leaves when it is wanted, whether it was posted before or after that was said. It
/// would leave with the next sign of life, too; those are fewer than the receives here.
#[test]
fn what_is_wanted_does_not_wait_for_company() {
    let (link, wire) = victim();
    let (mut reader, mut kept) = (reader_of(&[]), Kept::default());
    let mut signs_of_life = 0;
    let mut hear = |kind: Kind, number: u64| loop {
        // A thread that looked again and again might leave no core to the one that answers.
        wait(wire.socket.as_fd(), PollFlags::IN, Duration::from_secs(60)).unwrap();
        reader.drain(wire.socket.as_fd(), &mut kept).unwrap();
        let heard: Vec<Frame> = kept.frames.drain(..).map(|(frame, _)| frame).collect();
        signs_of_life += heard.iter().filter(|frame| frame.kind == Kind::Alive).count();
        if heard.iter().any(|frame| (frame.kind, frame.number) == (kind, number)) {
            return signs_of_life;
        }
    };
    let about = |kind, number| Frame { number, ..Frame::new(kind, 0, 1) };
    let mut pair = accepted(&link, &wire, 0);
    let mut post = || assert!(pair.post_receive(Descriptor::default()).unwrap());
    post();
    hear(Kind::Receive, 0);
    let rounds = 20;
    for round in 0..rounds {
        let next = 1 + 2 * round;
        post();
        say(&wire, about(Kind::Want, next), &[]);
        hear(Kind::Receive, next);
        say(&wire, about(Kind::Want, next + 1), &[]);
        // When it has answered to this, it has heard that.
        say(&wire, Frame { confirm: true, ..about(Kind::Message, round) }, &[]);
        hear(Kind::Delivered, round);
        post();
        let signs_of_life = hear(Kind::Receive, next + 1);
        assert!(signs_of_life < rounds as usize / 2, "receives come with signs of life only");
    }
}

/// While the peer does not read, one message stays where it is and another connection's waits behind it; once it
/// reads, both arrive whole.
#[test]
fn a_network_that_takes_no_more_holds_messages_back_and_loses_none() {
    const LONG: Duration = Duration::from_secs(60);
    let bytes: Vec<u8> = (0..48 << 20).map(|at: usize| (at / 4096 + at) as u8).collect();
    let (link, wire) = linked(Terms { connections: 2, registered_bytes: bytes.len() });
    let mut pairs = [0, 1].map(|number| accepted(&link, &wire, number));
    for number in 0..2 {
        let value = bytes.len() as u64;
        say(&wire, Frame { value, ..Frame::new(Kind::Receive, number, 1) }, &[]);
    }
    let size_bytes = bytes.len() as u64;
    pairs[0].store(0, &bytes).unwrap();
    // So much takes its time on a busy host.
    say(&wire, Frame::new(Kind::Alive, 0, 0), &[]);
    pairs[0].post_send(Descriptor { offset: 0, size_bytes, id: 7 }).unwrap();
    let Carrier::Network(ours) = link.core().carrier() else { unreachable!("it is a wire") };
    while !ours.is_blocked.load(std::sync::atomic::Ordering::Acquire) {
        pairs[0].progress();
    }
    say(&wire, Frame::new(Kind::Alive, 0, 0), &[]);
    pairs[1].post_send(Descriptor { offset: 0, size_bytes: 5, id: 8 }).unwrap();
    assert!(pairs.iter_mut().all(|pair| pair.poll().is_none()));
    let waits = pairs.map(|mut pair| std::thread::spawn(move || pair.wait(LONG).unwrap()));

    let (mut reader, mut kept) = (reader_of(&[]), Kept::default());
    let (mut large, mut small) = (Vec::new(), None);
    while large.len() < bytes.len() || small.is_none() {
        reader.drain(wire.socket.as_fd(), &mut kept).unwrap();
        for (frame, body) in kept.frames.drain(..) {
            match (frame.kind, frame.connection) {
                (Kind::Part | Kind::Message, 0) => {
                    assert_eq!(frame.value, large.len() as u64, "parts come in order");
                    large.extend_from_slice(&body);
                    say(&wire, Frame::new(Kind::Alive, 0, 0), &[]);
                }
                (Kind::Message, 1) => small = Some(body),
                _ => {}
            }
        }
    }
    assert!(large == bytes && small == Some(vec![0; 5]));
    for number in 0..2 {
        say(&wire, Frame::new(Kind::Delivered, number, 1), &[]);
    }
    for (wait, id) in waits.into_iter().zip([7, 8]) {
        let done = wait.join().unwrap();
        assert_eq!((done.id, done.status), (id, Status::Done));
    }
}

/// It sends and does not read: answers to it may wait, but not without end.
#[test]
fn what_waits_for_a_peer_that_does_not_read_is_bounded() {
    let (near, _far) = UnixStream::pair().unwrap();
    near.set_nonblocking(true).unwrap();
    let mut out = Outbox::default();
    let mut pushed_bytes = 0;
    while !out.is_overrun {
        out.push(&Frame::new(Kind::Alive, 0, 0));
        out.flush(near.as_fd());
        pushed_bytes += HEADER_BYTES;
        assert!(pushed_bytes < 16 << 20, "the socket and the limit are smaller");
        assert!(out.is_overrun || pushed_bytes < 1 << 20 || out.is_blocked);
    }
    // Nobody waits for room that never comes.
    out.flush(near.as_fd());
    assert!(!out.is_blocked);
}

#[test]
fn a_message_comes_once() {
    let (link, wire) = victim();
    let mut pair = accepted(&link, &wire, 0);
    pair.post_receive(Descriptor { offset: 0, size_bytes: 8, id: 0 }).unwrap();
    for _ in 0..2 {
        say(&wire, Frame { length: 8, ..Frame::new(Kind::Message, 0, 1) }, &[1; 8]);
    }
    let why = end(&link);
    assert!(why.contains("does not keep to the protocol"), "{why}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Under arbitrary frames only buffers that were posted are written, and all ends stop.
    #[test]
    fn a_hostile_peer_garbles_its_own_messages_only(
        sent in prop::collection::vec(frames(), 0..30),
    ) {
        let (link, wire) = victim();
        let mut pairs = [0, 1].map(|number| accepted(&link, &wire, number));
        for pair in &mut pairs {
            pair.store(0, &[0xEE; REGISTERED_BYTES]).unwrap();
            for id in 0..4 {
                let buffer = Descriptor { offset: 1024 + id * 1024, size_bytes: 512, id };
                pair.post_receive(buffer).unwrap();
            }
            pair.post_send(Descriptor { offset: 0, size_bytes: 1024, id: 9 }).unwrap();
        }
        for frame in &sent {
            say(&wire, *frame, &body(frame, 1));
        }
        drop(wire);
        for mut pair in pairs {
            let mut completions = 0;
            while completions < 5 {
                let done = pair.wait(Duration::from_secs(60)).expect("nobody waits for ever");
                prop_assert!(done.length_bytes <= 1024 || done.status == Status::TooLong);
                completions += 1;
            }
            let mut bytes = vec![0; REGISTERED_BYTES];
            pair.load(0, &mut bytes).unwrap();
            for (at, byte) in bytes.iter().enumerate() {
                let is_posted = (1024..5120).contains(&at) && at % 1024 < 512;
                prop_assert!(is_posted || *byte == 0xEE, "byte {at} is {byte:#x}");
            }
        }
    }
}
