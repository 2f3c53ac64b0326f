//! Processes that have a link of their own to a daemon of another host: it is there while it may be, and gives no more
//! than was vouched for.

mod support;

use std::os::fd::AsFd;
use std::time::Instant;

use rackmem::Status;
use rackmem::client::Context;
use rackmem::protocol::{Progress, Request, Response};
use rackmem_abi::{Header, Op};
use rackmem_fabric::guest::{self, Invitation};
use rackmem_fabric::tcp::TcpLink;
use rackmem_fabric::{Lane, Link};
use rackmem_rmc::Sink;
use support::raw::Raw;
use support::{BOUND, TestRack, Wire, eventually};

const CTX: u16 = 3;
const BYTES: u64 = 1 << 16;

#[test]
fn child() {
    if let Some((role, args)) = support::role() {
        assert_eq!(role, "daemon");
        support::be_daemon(&args);
    }
}

fn rack(name: &str) -> TestRack {
    let rack = TestRack::start_on(Wire::Sealed, name, 2);
    rack.rack.create_context(CTX, 0o600).unwrap();
    rack
}

/// Links that processes of node 0 have to the daemon of node 1.
fn guests(rack: &TestRack) -> usize {
    let status = rackmem::control::status(&rack.rack, 1).unwrap();
    status.links.iter().map(|link| link.guests).sum()
}

#[test]
fn a_link_is_there_as_long_as_its_queue_pair_and_the_segment() {
    let rack = rack("guests-live");
    let mut contexts = rack.open_all(CTX, BYTES, Progress::Inline);
    let mut bytes = [0; 8];
    let mut pairs: Vec<_> = (0..3).map(|_| contexts[0].queue_pair(8).unwrap()).collect();
    for (at, qp) in pairs.iter_mut().enumerate() {
        qp.write(1, 64 * at as u64, &[at as u8; 8]).unwrap();
        qp.read(1, 64 * at as u64, &mut bytes).unwrap();
        assert_eq!(bytes, [at as u8; 8]);
    }
    assert_eq!(guests(&rack), 3, "one for each queue pair");
    pairs.pop();
    eventually("the link of a dropped queue pair ends", || guests(&rack) == 2);
    let target: Context = contexts.pop().unwrap();
    drop(target);
    assert_eq!(pairs[0].read(1, 0, &mut bytes), Err(Status::NoContext));
    let options = rack.options(1, CTX).segment_bytes(4096).progress(Progress::Inline);
    let _smaller = Context::open(&options).unwrap();
    eventually("another segment, no old links", || guests(&rack) == 0);
    eventually("the new one is known", || pairs[0].read(1, 0, &mut bytes).is_ok());
    assert_eq!(pairs[0].write(1, 0, &[1; 5000]), Err(Status::OutOfSegment));
    assert_eq!(pairs[0].read(1, 0, &mut bytes), Ok(()));
    assert_eq!(bytes, [0; 8], "nothing of it was written");
}

#[test]
fn a_lost_link_fails_its_operations_and_another_follows() {
    let mut rack = rack("guests-lost");
    let mut contexts = rack.open_all(CTX, BYTES, Progress::Inline);
    let mut qp = contexts[0].queue_pair(8).unwrap();
    qp.write(1, 0, &[7; 8]).unwrap();
    assert_eq!(guests(&rack), 1);
    rack.kill_daemon(1);
    assert_eq!(qp.write(1, 0, &[8; 8]), Err(Status::NodeLost));
    contexts.pop();
    rack.start_daemon(1);
    rack.wait_linked();
    let options = rack.options(1, CTX).segment_bytes(BYTES).progress(Progress::Inline);
    let _again = Context::open(&options).unwrap();
    eventually("the node is there again", || qp.write(1, 0, &[9; 8]).is_ok());
    eventually("by a link of its own", || qp.write(1, 0, &[9; 8]).is_ok() && guests(&rack) == 1);
}

/// A program that does something else still gets what it has asked for, and others see what it has written.
#[test]
fn operations_go_on_while_the_program_does_something_else() {
    const LONG: usize = 2 << 20;
    let rack = rack("guests-pauses");
    let contexts = rack.open_all(CTX, LONG as u64, Progress::Inline);
    let mut qp = contexts[0].queue_pair(8).unwrap();
    qp.write(1, 0, &[1]).unwrap();
    let (ones, mut read) = (vec![1; LONG], vec![0; LONG]);
    let last = |byte: u8| {
        let mut at_target = [0];
        contexts[1].read_own(LONG as u64 - 1, &mut at_target).unwrap();
        at_target == [byte]
    };
    qp.scope(|scope| {
        scope.write(1, 0, &ones);
        eventually("the write arrives", || last(1));
    })
    .unwrap();
    qp.scope(|scope| {
        scope.read(1, 0, &mut read);
        // Longer than a host may be silent.
        std::thread::sleep(2 * rackmem_fabric::socket::SILENCE);
    })
    .unwrap();
    assert_eq!(read, ones);
}

/// An invitation of a member that may only read.
fn invited(rack: &TestRack) -> (Raw, Invitation) {
    let raw = Raw::connect(&rack.rack, 0);
    raw.hello();
    let file = rack.rack.open_context(CTX, true).unwrap();
    raw.open(CTX, 0, file.as_fd());
    match raw.call(&Request::Invite { nid: 1 }, &[]).unwrap().message {
        Response::Invited { invitation, size_bytes } => {
            assert_eq!(size_bytes, BYTES);
            (raw, *invitation)
        }
        other => panic!("{other:?}"),
    }
}

fn request(op: Op, ctx_id: u16, length: u16) -> Header {
    Header { dst_nid: 1, src_nid: 0, op, ctx_id, length, offset: 0, tid: 5 }
}

/// Sends a request; returns the status of the reply, or `None` if the link has ended.
fn ask(link: &mut TcpLink, header: &Header) -> Option<Status> {
    let fill = |out: Sink<'_>| {
        let ones = vec![1; out.len()];
        out.put(&ones);
        Ok::<(), ()>(())
    };
    link.send(header, None, fill).unwrap().unwrap();
    let deadline = Instant::now() + BOUND;
    while link.lost().is_none() {
        assert!(Instant::now() < deadline, "neither an answer nor an end");
        link.transmit();
        link.receive();
        if let Some((_, status)) = link.reply() {
            link.take(Lane::Reply);
            return Some(status);
        }
        std::thread::yield_now();
    }
    None
}

#[test]
fn a_guest_gets_what_its_daemon_vouched_for_and_once() {
    let rack = rack("guests-rights");
    let contexts = rack.open_all(CTX, BYTES, Progress::Inline);
    contexts[1].write_own(0, &[6; 64]).unwrap();
    for beyond in [request(Op::Write, CTX, 64), request(Op::Read, CTX + 1, 64)] {
        let (_raw, invitation) = invited(&rack);
        let mut link = guest::connect(&invitation).unwrap();
        assert_eq!(ask(&mut link, &request(Op::Read, CTX, 64)), Some(Status::Ok));
        assert_eq!(ask(&mut link, &beyond), None, "{beyond:?}");
        eventually("the link is forgotten", || guests(&rack) == 0);
        guest::connect(&invitation).unwrap_err();
        let mut forged = invited(&rack).1;
        forged.key[0] ^= 1;
        guest::connect(&forged).unwrap_err();
    }
    let mut bytes = [0; 64];
    contexts[1].read_own(0, &mut bytes).unwrap();
    assert_eq!(bytes, [6; 64], "nothing was written");
}

#[test]
fn only_members_are_invited_and_only_to_other_hosts() {
    let rack = rack("guests-whom");
    let contexts = rack.open_all(CTX, BYTES, Progress::Inline);
    let raw = Raw::connect(&rack.rack, 0);
    raw.hello();
    let invite = |raw: &Raw, nid| raw.call(&Request::Invite { nid }, &[]).unwrap().message;
    assert!(matches!(invite(&raw, 1), Response::Error { .. }), "no member");
    let (raw, _) = invited(&rack);
    for nid in [0, 2, u16::MAX] {
        assert!(matches!(invite(&raw, nid), Response::Error { .. }), "node {nid}");
    }
    drop(contexts);
}
