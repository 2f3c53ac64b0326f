//! Single steps, and what a hostile or broken peer says.

use rackmem_rmc::link::{Ack, Kind, MAX_WINDOW, Port, Receiver, Sender, Verdict};

fn ack(expected: u32, limit: u32) -> Ack {
    Ack { expected, limit, again: false }
}

/// A sender with four frames, all sent.
fn sent() -> Sender {
    let mut sender = Sender::new(4, 0);
    sender.acknowledge(ack(0, 8));
    for sequence in 0..4 {
        assert_eq!(sender.push(), Some(sequence));
        assert_eq!(sender.take(), Some(sequence));
    }
    sender
}

#[test]
fn a_sender_keeps_to_its_window_and_to_the_peers_room() {
    let mut sender = Sender::new(4, 0);
    assert!((0..4).all(|_| sender.push().is_some()));
    assert_eq!(sender.push(), None);
    assert_eq!(sender.take(), None, "no room is known");
    sender.acknowledge(ack(0, 1));
    assert_eq!((sender.take(), sender.take()), (Some(0), None));
    assert_eq!(sender.acknowledge(ack(1, 3)), 1);
    assert_eq!((sender.take(), sender.take(), sender.take()), (Some(1), Some(2), None));
    assert_eq!(sender.push(), Some(4));
}

#[test]
fn a_sender_goes_back_when_asked_and_when_nothing_is_heard() {
    let mut sender = sent();
    sender.acknowledge(Ack { again: true, ..ack(1, 9) });
    assert_eq!((sender.take(), sender.take()), (Some(1), Some(2)));
    sender.timeout();
    assert_eq!(sender.take(), Some(1));
    sender.acknowledge(ack(4, 9));
    assert_eq!((sender.take(), sender.in_flight()), (None, 0), "what arrived is not sent again");
    assert!(!sender.is_waiting());
}

#[test]
fn acknowledgements_that_cannot_be_change_nothing() {
    let before = sent();
    let impossible = [ack(5, 9), ack(u32::MAX, 3), ack(2, 2 + MAX_WINDOW + 1), ack(2, 1)];
    for ack in impossible {
        let mut sender = before;
        assert_eq!(sender.acknowledge(ack), 0);
        assert_eq!(sender, before, "{ack:?}");
    }
    let mut sender = before;
    sender.acknowledge(ack(4, 12));
    let after = sender;
    sender.acknowledge(ack(3, 11));
    assert_eq!(sender, after, "an old one");
}

#[test]
fn a_receiver_takes_frames_in_order_and_asks_once() {
    let mut receiver = Receiver::new(2, 7);
    assert_eq!(receiver.take_ack(), ack(7, 9));
    assert!(!receiver.owes());
    assert_eq!(receiver.receive(8), Verdict::Gap);
    assert_eq!(receiver.receive(9), Verdict::Gap);
    assert_eq!(receiver.take_ack(), Ack { again: true, ..ack(7, 9) });
    receiver.damaged();
    assert!(!receiver.owes(), "it has asked already");
    assert_eq!(receiver.receive(7), Verdict::Accept);
    assert_eq!(receiver.receive(7), Verdict::Duplicate);
    assert_eq!(receiver.receive(8), Verdict::Accept);
    assert_eq!(receiver.receive(9), Verdict::NoRoom);
    assert_eq!((receiver.room(), receiver.expected()), (0, 9));
    receiver.consume();
    assert_eq!(receiver.take_ack(), ack(9, 10));
    assert_eq!(receiver.receive(9), Verdict::Accept);
}

#[test]
fn data_carry_acknowledgements_and_a_timer_asks_for_them() {
    let (mut here, mut there) = (Port::new(2, 2), Port::new(2, 2));
    let hello = there.poll().expect("its room is news");
    assert_eq!((hello.kind, hello.ack), (Kind::Ack, ack(0, 2)));
    assert_eq!(here.receive(&hello), None);
    here.push();
    let data = here.poll().expect("a frame");
    assert_eq!((data.kind, data.ack), (Kind::Data, ack(0, 2)));
    assert_eq!(here.poll(), None, "nothing is owed any more");
    assert_eq!(there.receive(&data), Some(Verdict::Accept));
    here.receive(&there.poll().expect("an acknowledgement"));
    assert!(!here.sender.is_waiting());

    let mut poor = Port::new(2, 2);
    poor.push();
    assert!(poor.sender.is_waiting());
    poor.poll();
    poor.timeout();
    let probe = poor.poll().expect("a question");
    assert_eq!((probe.kind, poor.poll()), (Kind::Probe, None));
    assert_eq!(there.receive(&probe), None);
    assert_eq!(there.poll().map(|header| header.kind), Some(Kind::Ack));
}

#[test]
#[should_panic(expected = "power of two")]
fn a_window_is_a_power_of_two() {
    Sender::new(3, 0);
}

#[test]
#[should_panic(expected = "room for 1 to 65536")]
fn a_receiver_without_room_is_none() {
    Receiver::new(0, 0);
}
