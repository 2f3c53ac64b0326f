//! Two ends in one process: the decisions in the module's table, and the limits of sizes and counts.

use rackmem_fabric::Address;
use rackmem_fabric::error::Error;
use rackmem_sockets::{
    Completion, DEPTH, Descriptor, INLINE_BYTES, Kind, Link, MAX_CONNECTIONS, QPair, Status, Terms,
};

use crate::carriers::{Carrier, LONG, open, over_all};

over_all!(
    messages_of_any_size_arrive_whole,
    without_a_receive_sends_wait_and_then_are_refused,
    completions_that_nobody_takes_keep_their_places,
    a_message_that_does_not_fit_is_an_error_on_both_sides,
    registered_memory_is_all_there_is,
    connections_leave_each_others_memory_alone,
    closing_completes_what_waits_after_what_has_come,
    a_number_is_used_again_only_when_both_ends_are_closed,
    there_may_be_64_k_connections,
    who_waits_for_a_receive_does_not_stop_the_others,
);

fn at(offset: u64, size_bytes: u64, id: u64) -> Descriptor {
    Descriptor { offset, size_bytes, id }
}

fn completion(kind: Kind, id: u64, length_bytes: u64, status: Status) -> Option<Completion> {
    Some(Completion { kind, id, length_bytes, status })
}

fn messages_of_any_size_arrive_whole(carrier: Carrier) {
    let (mut near, mut far) = carrier.pairs(2 << 20);
    for (round, size) in
        [0, 1, 7, 8, INLINE_BYTES, INLINE_BYTES + 1, 4096, 1 << 20].into_iter().enumerate()
    {
        let bytes: Vec<u8> = (0..size).map(|i| (i * 31 + round) as u8).collect();
        let (size, id) = (size as u64, round as u64);
        near.store(4096, &bytes).unwrap();
        assert!(far.post_receive(at(8192 + id, size, id)).unwrap());
        assert!(near.post_send(at(4096, size, id + 100)).unwrap());
        assert_eq!(near.wait(LONG), completion(Kind::Send, id + 100, size, Status::Done));
        let received = far.wait(LONG).unwrap();
        assert_eq!(Some(received), completion(Kind::Receive, id, size, Status::Done));
        assert!(far.received(at(8192 + id, size, id), &received).unwrap() == bytes);
    }
}

fn without_a_receive_sends_wait_and_then_are_refused(carrier: Carrier) {
    let (mut near, mut far) = carrier.pairs(1 << 16);
    for id in 0..DEPTH as u64 {
        near.store(id * 8, &id.to_le_bytes()).unwrap();
        assert!(near.post_send(at(id * 8, 8, id)).unwrap());
    }
    assert!(!near.post_send(at(0, 8, 99)).unwrap(), "the SQ is full");
    assert_eq!(near.poll(), None);
    for id in 0..DEPTH as u64 {
        assert!(far.post_receive(at(id * 16, 16, id)).unwrap());
        // Nobody but the sender moves what waits.
        assert_eq!(near.wait(LONG), completion(Kind::Send, id, 8, Status::Done));
    }
    for id in 0..DEPTH as u64 {
        assert_eq!(far.wait(LONG), completion(Kind::Receive, id, 8, Status::Done));
        let mut bytes = [0; 8];
        far.load(id * 16, &mut bytes).unwrap();
        assert_eq!(u64::from_le_bytes(bytes), id);
    }
}

fn completions_that_nobody_takes_keep_their_places(carrier: Carrier) {
    let (mut near, mut far) = carrier.pairs(1 << 16);
    for id in 0..DEPTH as u64 {
        assert!(far.post_receive(at(0, 8, id)).unwrap());
        assert!(near.post_send(at(0, 8, id)).unwrap());
    }
    far.progress();
    assert!(!near.post_send(at(0, 8, 0)).unwrap());
    assert!(!far.post_receive(at(0, 8, 0)).unwrap());
    assert!(near.wait(LONG).is_some() && far.wait(LONG).is_some());
    assert!(near.post_send(at(0, 8, 0)).unwrap());
    assert!(far.post_receive(at(0, 8, 0)).unwrap());
}

fn a_message_that_does_not_fit_is_an_error_on_both_sides(carrier: Carrier) {
    let (mut near, mut far) = carrier.pairs(1 << 16);
    near.store(0, &[7; 1000]).unwrap();
    far.post_receive(at(0, 999, 1)).unwrap();
    far.post_receive(at(0, 1000, 2)).unwrap();
    near.post_send(at(0, 1000, 3)).unwrap();
    assert_eq!(near.wait(LONG), completion(Kind::Send, 3, 1000, Status::TooLong));
    assert_eq!(far.wait(LONG), completion(Kind::Receive, 1, 1000, Status::TooLong));
    let mut bytes = [1; 1000];
    far.load(0, &mut bytes).unwrap();
    assert_eq!(bytes, [0; 1000], "nothing was stored");
    near.post_send(at(0, 1000, 4)).unwrap();
    assert_eq!(far.wait(LONG), completion(Kind::Receive, 2, 1000, Status::Done));
}

fn registered_memory_is_all_there_is(carrier: Carrier) {
    let (mut near, _far) = carrier.pairs(4096);
    assert!(matches!(near.post_send(at(4090, 7, 0)), Err(Error::Io { .. })));
    assert!(matches!(near.post_receive(at(u64::MAX, 1, 0)), Err(Error::Io { .. })));
    assert!(matches!(near.store(4096, &[0]), Err(Error::Io { .. })));
    assert!(matches!(near.load(4000, &mut [0; 97]), Err(Error::Io { .. })));
}

/// Three neighbours; only the one in the middle talks, from end to end of its registered memory.
fn connections_leave_each_others_memory_alone(carrier: Carrier) {
    let (near, far) = carrier.linked(Terms { connections: 3, registered_bytes: 8192 });
    let mut ends: Vec<_> = (0..3).map(|_| (near.open().unwrap(), far.accept().unwrap())).collect();
    for (near, far) in &mut ends {
        near.store(0, &[1; 8192]).unwrap();
        far.store(0, &[2; 8192]).unwrap();
    }
    for round in 0..3 * DEPTH as u64 {
        let (near, far) = &mut ends[1];
        for is_reply in [false, true] {
            let (from, to) =
                if is_reply { (&mut *far, &mut *near) } else { (&mut *near, &mut *far) };
            let size = if round % 2 == 0 { 8192 } else { 100 };
            to.post_receive(at(8192 - size, size, round)).unwrap();
            from.post_send(at(8192 - size, size, round)).unwrap();
            assert_eq!(from.wait(LONG).map(|done| done.status), Some(Status::Done));
            assert_eq!(to.wait(LONG).map(|done| done.status), Some(Status::Done));
        }
    }
    for number in [0, 2] {
        let (near, far) = &mut ends[number];
        for (end, byte) in [(near, 1), (far, 2)] {
            let mut bytes = vec![0; 8192];
            end.load(0, &mut bytes).unwrap();
            assert!(bytes == vec![byte; 8192]);
            assert_eq!(end.poll(), None);
        }
    }
}

fn closing_completes_what_waits_after_what_has_come(carrier: Carrier) {
    let (mut near, mut far) = carrier.pairs(1 << 16);
    for id in 0..3 {
        near.post_receive(at(0, 8, id)).unwrap();
    }
    near.post_send(at(0, 8, 9)).unwrap();
    far.post_send(at(0, 8, 7)).unwrap();
    assert_eq!(far.wait(LONG), completion(Kind::Send, 7, 8, Status::Done));
    drop(far);
    assert_eq!(near.wait(LONG), completion(Kind::Receive, 0, 8, Status::Done));
    assert_eq!(near.wait(LONG), completion(Kind::Send, 9, 0, Status::Closed));
    assert_eq!(near.wait(LONG), completion(Kind::Receive, 1, 0, Status::Closed));
    assert_eq!(near.wait(LONG), completion(Kind::Receive, 2, 0, Status::Closed));
    near.post_send(at(0, 8, 5)).unwrap();
    assert_eq!(near.wait(LONG), completion(Kind::Send, 5, 0, Status::Closed));
}

fn a_number_is_used_again_only_when_both_ends_are_closed(carrier: Carrier) {
    let (near, far) = carrier.linked(Terms { connections: 2, registered_bytes: 4096 });
    for round in 0..50_u64 {
        let (mut one, mut two) = (open(&near), open(&near));
        assert!(near.open().is_err_and(|error| error.to_string().contains("all 2 connections")));
        let (mut far_one, mut far_two) = (far.accept().unwrap(), far.accept().unwrap());
        for (id, (from, to)) in
            [(&mut one, &mut far_one), (&mut far_two, &mut two)].into_iter().enumerate()
        {
            from.store(0, &(round + id as u64).to_le_bytes()).unwrap();
            to.post_receive(at(64, 8, round)).unwrap();
            from.post_send(at(0, 8, round)).unwrap();
            assert_eq!(from.wait(LONG), completion(Kind::Send, round, 8, Status::Done));
            let received = to.wait(LONG).unwrap();
            let bytes = to.received(at(64, 8, round), &received).unwrap();
            assert_eq!(bytes, (round + id as u64).to_le_bytes());
        }
        drop((one, two));
        assert!(near.open().is_err());
        drop((far_one, far_two));
    }
    assert!(far.open().is_err(), "who accepts does not begin");
}

fn there_may_be_64_k_connections(carrier: Carrier) {
    let (near, far) =
        carrier.linked(Terms { connections: MAX_CONNECTIONS, registered_bytes: 4096 });
    let accepting = std::thread::spawn(move || {
        let pairs: Vec<QPair> = (0..MAX_CONNECTIONS).map(|_| far.accept().unwrap()).collect();
        (far, pairs)
    });
    let mut near_pairs: Vec<QPair> = (0..MAX_CONNECTIONS).map(|_| near.open().unwrap()).collect();
    let (_far, mut far_pairs) = accepting.join().unwrap();
    for number in [0, 1, 777, MAX_CONNECTIONS as usize - 1] {
        let id = number as u64;
        let (from, to) = (&mut near_pairs[number], &mut far_pairs[number]);
        assert_eq!(from.number(), to.number());
        from.store(0, &id.to_le_bytes()).unwrap();
        to.post_receive(at(8, 8, id)).unwrap();
        from.post_send(at(0, 8, id)).unwrap();
        assert_eq!(from.wait(LONG), completion(Kind::Send, id, 8, Status::Done));
        let received = to.wait(LONG).unwrap();
        assert_eq!(to.received(at(8, 8, id), &received).unwrap(), id.to_le_bytes());
    }
}

#[test]
fn terms_that_are_too_large_are_refused() {
    let nowhere = Address::Unix("/nonexistent".into());
    for (connections, registered_bytes) in
        [(0, 4096), (MAX_CONNECTIONS + 1, 4096), (1, 0), (1, usize::MAX)]
    {
        let refused = Link::connect(&nowhere, None, Terms { connections, registered_bytes });
        assert!(matches!(refused, Err(Error::Refused(_))));
    }
}

/// One connection's receiver posts nothing, its SQ is full; another one's goes on, with messages too long to leave at
/// once.
fn who_waits_for_a_receive_does_not_stop_the_others(carrier: Carrier) {
    let (near, far) = carrier.linked(Terms { connections: 2, registered_bytes: 4 << 20 });
    let [mut full, mut free] = [(); 2].map(|()| near.open().unwrap());
    let [mut idle, mut busy] = [(); 2].map(|()| far.accept().unwrap());
    for id in 0..DEPTH as u64 {
        assert!(full.post_send(at(0, 4 << 20, id)).unwrap());
    }
    assert!(!full.post_send(at(0, 1, 99)).unwrap(), "the SQ is full");
    for round in 0..20 {
        free.store(0, &vec![round as u8 + 1; 3 << 20]).unwrap();
        assert!(busy.post_receive(at(1 << 20, 3 << 20, round)).unwrap());
        assert!(free.post_send(at(0, 3 << 20, round)).unwrap());
        assert_eq!(free.wait(LONG), completion(Kind::Send, round, 3 << 20, Status::Done));
        assert_eq!(busy.wait(LONG), completion(Kind::Receive, round, 3 << 20, Status::Done));
        let mut bytes = vec![0; 3 << 20];
        busy.load(1 << 20, &mut bytes).unwrap();
        assert!(bytes == vec![round as u8 + 1; 3 << 20]);
    }
    assert_eq!(full.poll(), None);
    assert!(idle.post_receive(at(0, 4 << 20, 0)).unwrap());
    assert_eq!(full.wait(LONG), completion(Kind::Send, 0, 4 << 20, Status::Done));
}
