//! Two ends of a link by UCX, in one thread.

use std::time::{Duration, Instant};

use rackmem_abi::{Op, Status};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::inbox::Inbox;
use super::sys::Ucp;
use super::{Address, Engine, MAX_MESSAGE_BYTES, UcxLink, UcxStream, Worker};
use crate::tcp::{PacketLink, UNIT_BYTES};
use crate::test_packets::{fill, header, payload, pump};
use crate::{Lane, Link};

/// Bound on everything that must not hang.
const BOUND: Duration = Duration::from_secs(20);

/// Two ends; `None`, with a message: UCX is not there.
fn pair() -> Option<(UcxLink, UcxLink)> {
    let engine = match Engine::load() {
        Ok(engine) => engine,
        Err(error) => {
            eprintln!("not tested: {error}");
            return None;
        }
    };
    let worker = || Worker::new(&engine).unwrap();
    let (one, other) = (worker(), worker());
    let addresses = [one.address().clone(), other.address().clone()];
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let sockets = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
    let link = |worker, address: &Address, socket| {
        PacketLink::new(UcxStream::new(worker, address, socket).unwrap())
    };
    Some((link(one, &addresses[1], sockets.0), link(other, &addresses[0], sockets.1)))
}

/// Waits as a daemon does; the turn of the other end is in between.
fn sleep(link: &UcxLink, deadline: Instant) {
    assert!(Instant::now() < deadline, "nothing comes: {:?}", link.lost());
    if link.has_work() {
        return;
    }
    let short = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
    let _ = poll(&mut [PollFd::new(&link.carrier().efd(), PollFlags::IN)], Some(&short));
}

/// Short messages and long ones, which UCX sends in different ways.
#[test]
fn packets_of_all_lengths_come_whole_and_in_order() {
    let Some((mut here, mut there)) = pair() else { return };
    let length = |number: u32| (number as usize * 7919 % (UNIT_BYTES + 1)) as u16;
    let deadline = Instant::now() + BOUND;
    let (mut sent, mut got, mut answered) = (0_u32, 0_u32, 0_u32);
    while answered < 2000 {
        while sent < 2000 && here.can_send_request(0, 0) {
            let header = header(Op::Write, length(sent), sent);
            here.send(&header, None, fill(sent as u8)).unwrap().unwrap();
            sent += 1;
        }
        pump(&mut here);
        pump(&mut there);
        while let Some(header) = there.request() {
            assert_eq!((header.tid, header.length), (got, length(got)));
            assert_eq!(payload(&there, Lane::Request), vec![got as u8; length(got).into()]);
            there.take(Lane::Request);
            there.send(&header, Some(Status::Ok), fill(0)).unwrap().unwrap();
            got += 1;
        }
        while let Some((header, _)) = here.reply() {
            assert_eq!(header.tid, answered);
            here.take(Lane::Reply);
            answered += 1;
        }
        sleep(&here, deadline);
    }
    assert_eq!((here.lost(), there.lost()), (None, None));
}

#[test]
fn an_end_that_is_gone_ends_the_other() {
    let Some((mut here, mut there)) = pair() else { return };
    let deadline = Instant::now() + BOUND;
    here.send(&header(Op::Nop, 0, 1), None, fill(0)).unwrap().unwrap();
    while there.request().is_none() {
        pump(&mut here);
        pump(&mut there);
        sleep(&there, deadline);
    }
    drop(there);
    while here.lost().is_none() {
        let _ = here.send(&header(Op::Write, 4096, 2), None, fill(0));
        pump(&mut here);
        assert!(Instant::now() < deadline, "the end is not noticed");
    }
    // Packets for a link that has ended vanish.
    assert!(!here.transmit() && !here.receive() && !here.has_work());
}

#[test]
fn messages_that_overtake_others_wait_within_bounds() {
    let Ok(ucp) = Ucp::load() else { return eprintln!("not tested: there is no UCX") };
    let mut inbox = Inbox::new(ucp, std::ptr::null_mut());
    inbox.deliver(2, b"c");
    inbox.deliver(1, b"b");
    assert_eq!(inbox.input, b"");
    assert!(!inbox.may_come(1, 1), "it has come");
    assert!(!inbox.may_come(3, MAX_MESSAGE_BYTES + 1), "too long");
    inbox.deliver(0, b"a");
    inbox.deliver(3, b"d");
    assert_eq!(inbox.input, b"abcd");
    assert!(!inbox.may_come(3, 1) && inbox.may_come(4, 1));
    for number in 5..9 {
        assert!(inbox.may_come(number, MAX_MESSAGE_BYTES));
        inbox.deliver(number, &vec![0; MAX_MESSAGE_BYTES]);
    }
    assert!(!inbox.may_come(9, 1), "too much waits");
}

#[test]
fn addresses_are_read_as_they_were_written() {
    let address = Address((0..=255).collect());
    let text = String::from(address.clone());
    assert_eq!(Address::try_from(text.clone()), Ok(address));
    for wrong in ["0", "0x", "zz", "+1"] {
        assert!(Address::try_from(wrong.to_owned()).is_err(), "{wrong}");
    }
    assert!(Address::try_from(text.repeat(6)).is_err(), "too long");
}
