//! Two ends of a link, in one thread.

use std::os::fd::AsFd;
use std::sync::Arc;

use rackmem_abi::{Header, Op, Status};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::{LEAVE_BYTES, MAX_REQUESTS, TcpLink, UNIT_BYTES};
use crate::Seal;
use crate::credentials::Credentials;
use crate::greeting::{Callee, Caller, Hello, Purpose, Welcome};
use crate::stream::Stream;
use crate::test_packets::{fill, header, payload, pump};
use crate::{Faults, Faulty, Lane, Link};

fn streams() -> (Stream, Stream) {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (one, other) =
        socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).expect("a pair");
    let stream = |socket| {
        let mut stream = Stream::new(socket);
        stream.read_more();
        stream
    };
    (stream(one), stream(other))
}

fn pair() -> (TcpLink, TcpLink) {
    let (one, other) = streams();
    (TcpLink::new(one), TcpLink::new(other))
}

/// Keys for both ends, by a handshake.
fn seals() -> (Seal, Seal) {
    let secret = Arc::new(Credentials::Secret([3; 32]));
    let hello = Hello {
        rack: "lab".to_owned(),
        nodes: 2,
        from: 1,
        address: "127.0.0.1:7400".parse().unwrap(),
        to: 0,
        incarnation: 1,
        purpose: Purpose::Data,
        sealed: true,
        version: String::new(),
        worker: None,
    };
    let (caller, first) = Caller::new(&secret, 0, &hello);
    let asked = Callee::new(&secret).hear::<Hello>(&first).unwrap().unwrap();
    let welcome = Welcome { incarnation: 2, version: String::new(), worker: None };
    let (second, unproved) = asked.answer(Ok(welcome));
    let met = caller.answered::<Welcome>(&second).unwrap().unwrap();
    (met.seal, unproved.prove(&met.confirm).unwrap().unwrap().0)
}

fn sealed_pair() -> (TcpLink, TcpLink) {
    let (mut one, mut other) = streams();
    let (seal, its) = seals();
    one.seal(seal);
    other.seal(its);
    (TcpLink::new(one), TcpLink::new(other))
}

#[test]
fn packets_of_all_lengths_come_whole_and_in_order() {
    all_lengths(pair());
    all_lengths(sealed_pair());
}

fn all_lengths((mut here, mut there): (TcpLink, TcpLink)) {
    let length = |number: u32| (number as usize * 7919 % (UNIT_BYTES + 1)) as u16;
    let (mut sent, mut got) = (0_u32, 0_u32);
    while got < 500 {
        while sent < 500 && here.can_send_request(length(sent).into(), 0) {
            here.send(&header(Op::Write, length(sent), sent), None, fill(sent as u8))
                .unwrap()
                .unwrap();
            sent += 1;
        }
        pump(&mut here);
        pump(&mut there);
        while let Some(header) = there.request() {
            assert_eq!((header.tid, header.length), (got, length(got)));
            assert_eq!(payload(&there, Lane::Request), vec![got as u8; length(got).into()]);
            there.take(Lane::Request);
            let answer = Header { dst_nid: 0, src_nid: 1, ..header };
            there.send(&answer, Some(Status::Ok), fill(0)).unwrap().unwrap();
            got += 1;
        }
        while here.reply().is_some() {
            here.take(Lane::Reply);
        }
    }
    assert_eq!((here.lost(), there.lost()), (None, None));
}

/// Both nodes ask for as much as they may and nobody takes anything in before that: everything is answered.
#[test]
fn full_links_do_not_deadlock() {
    fill_both(pair());
    fill_both(sealed_pair());
}

fn fill_both((mut one, mut other): (TcpLink, TcpLink)) {
    let mut answered = [0; 2];
    for round in 0.. {
        assert!(round < 10_000, "no progress: {answered:?}");
        for (link, answered) in [&mut one, &mut other].into_iter().zip(&mut answered) {
            while link.can_send_request(0, UNIT_BYTES) {
                link.send(&header(Op::Read, UNIT_BYTES as u16, 7), None, fill(0)).unwrap().unwrap();
            }
            pump(link);
            while let Some(header) = link.request() {
                link.send(&header, Some(Status::Ok), fill(9)).unwrap().unwrap();
                link.take(Lane::Request);
            }
            while link.reply().is_some() {
                assert_eq!(payload(link, Lane::Reply), vec![9; UNIT_BYTES]);
                link.take(Lane::Reply);
                *answered += 1;
            }
        }
        if answered.iter().all(|&count| count > 5000) {
            break;
        }
    }
}

/// Links with faults lose nothing, keep the order of each lane, and end at the drawn time only.
#[test]
fn faults_change_neither_packets_nor_their_order() {
    for seed in 0..50 {
        let faults = Faults { seed, rate_permille: 100, longest_turns: 10, ends_within: None };
        assert_eq!(run_faulty(faults, 200), 200, "seed {seed}");
        let ended = Faults { ends_within: Some(50), ..faults };
        let answered = run_faulty(ended, 200);
        assert!(answered < 50, "seed {seed}: {answered}");
        assert_eq!(run_faulty(ended, 200), answered, "the same seed, the same end");
    }
}

/// Sends writes by a link with faults and has them answered; returns how many were before its end.
fn run_faulty(faults: Faults, count: u32) -> u32 {
    let (here, mut there) = pair();
    let mut here = Faulty::new(here, faults);
    let (mut sent, mut got, mut answered) = (0, 0, 0);
    for turn in 0.. {
        assert!(turn < 1_000_000, "nobody goes on: {sent} {got} {answered}");
        if answered == count || here.lost().is_some() {
            break;
        }
        while sent < count
            && let Some(done) = here.send(&header(Op::Write, 100, sent), None, fill(sent as u8))
        {
            done.unwrap();
            sent += 1;
        }
        here.transmit();
        here.receive();
        pump(&mut there);
        while let Some(header) = there.request() {
            assert_eq!((header.tid, payload(&there, Lane::Request)), (got, vec![got as u8; 100]));
            there.take(Lane::Request);
            there.send(&header, Some(Status::Ok), fill(0)).unwrap().unwrap();
            got += 1;
        }
        while let Some((header, _)) = here.reply() {
            assert_eq!(header.tid, answered);
            here.take(Lane::Reply);
            answered += 1;
            if here.lost().is_some() {
                // Its reply has come, and counts no more.
                return answered - 1;
            }
        }
    }
    answered
}

/// Of requests and replies that wait, either may come first.
#[test]
fn faults_let_each_lane_overtake_the_other() {
    let mut firsts = [0; 2];
    for seed in 0..100 {
        let (here, mut there) = pair();
        let faults = Faults { seed, rate_permille: 500, longest_turns: 10, ends_within: None };
        let mut here = Faulty::new(here, faults);
        there.send(&header(Op::Nop, 0, 1), None, fill(0)).unwrap().unwrap();
        there.send(&header(Op::Nop, 0, 2), Some(Status::Ok), fill(0)).unwrap().unwrap();
        there.transmit();
        loop {
            here.receive();
            match (here.request(), here.reply()) {
                (Some(_), None) => break firsts[0] += 1,
                (None, Some(_)) => break firsts[1] += 1,
                (Some(_), Some(_)) => break,
                (None, None) => {}
            }
        }
    }
    assert!(firsts.iter().all(|count| *count > 10), "{firsts:?}");
}

#[test]
fn requests_are_bounded_until_replies_come() {
    let (mut here, _there) = pair();
    let mut sent = 0;
    while here.can_send_request(0, 8) {
        here.send(&header(Op::FetchAdd, 8, 0), None, fill(1)).unwrap().unwrap();
        pump(&mut here);
        sent += 1;
    }
    assert_eq!(sent, MAX_REQUESTS);
    assert!(here.send(&header(Op::FetchAdd, 8, 0), None, fill(1)).is_none());
}

/// What is staged leaves before the end of the turn once it is much, of requests as of replies.
#[test]
fn much_leaves_in_the_midst_of_a_turn() {
    for (status, lane) in [(None, Lane::Request), (Some(Status::Ok), Lane::Reply)] {
        let op = if status.is_none() { Op::Write } else { Op::Read };
        let (mut here, mut there) = pair();
        here.send(&header(op, UNIT_BYTES as u16, 0), status, fill(1)).unwrap().unwrap();
        assert!(!there.receive(), "little waits for the end of the turn");
        for number in 1..LEAVE_BYTES / UNIT_BYTES {
            let header = header(op, UNIT_BYTES as u16, number as u32);
            here.send(&header, status, fill(1)).unwrap().unwrap();
        }
        while there.front(lane).is_none() {
            assert!(there.receive(), "nothing has left");
        }
    }
}

#[test]
fn a_payload_that_cannot_be_loaded_sends_nothing() {
    let (mut here, mut there) = pair();
    let failed = here.send(&header(Op::Write, 64, 1), None, |_| Err(Status::BadLocalBuffer));
    assert_eq!(failed, Some(Err(Status::BadLocalBuffer)));
    here.send(&header(Op::Nop, 0, 2), None, fill(0)).unwrap().unwrap();
    pump(&mut here);
    pump(&mut there);
    assert_eq!(there.request().map(|header| header.tid), Some(2));
}

#[test]
fn noise_ends_the_link_and_the_other_end_learns_of_it() {
    let (here, mut there) = pair();
    rustix::net::send(here.as_fd(), &[0xff; 64], rustix::net::SendFlags::empty()).unwrap();
    pump(&mut there);
    assert!(there.lost().unwrap().contains("no packet"), "{:?}", there.lost());
    let mut here = here;
    pump(&mut here);
    assert!(here.lost().is_some());
    // Packets for a link that has ended vanish.
    here.send(&header(Op::Nop, 0, 2), None, fill(0)).unwrap().unwrap();
    assert!(!here.transmit() && !here.receive());
}

#[test]
fn a_changed_byte_ends_a_sealed_link() {
    let (mut one, mut other) = streams();
    let (mut seal, its) = seals();
    other.seal(its);
    let mut records = Vec::new();
    seal.seal(&[0; 100], &mut records).unwrap();
    *records.last_mut().unwrap() ^= 1;
    one.out().extend_from_slice(&records);
    one.transmit();
    let mut there = TcpLink::new(other);
    there.receive();
    assert!(there.lost().unwrap().contains("not authentic"), "{:?}", there.lost());
    assert!(there.request().is_none());
}
